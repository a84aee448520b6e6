//! The manifests of kubernetes/ against the schema of Kubernetes: every key is one that the API has, at its place and of its kind. No cluster runs them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::batch::v1::{Job, JobTemplateSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The documents of a file.
fn documents(name: &str) -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kubernetes");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

/// Everything that was written has to come back: a key that the schema does not know would be left out.
fn holds(schema: &Value, written: &Value, place: &str) {
    match written {
        Value::Object(all) => {
            for (key, value) in all {
                let place = format!("{place}.{key}");
                let known = schema.get(key);
                holds(
                    known.unwrap_or_else(|| panic!("{place}: there is no such key")),
                    value,
                    &place,
                );
            }
        }
        Value::Array(all) => {
            for (index, value) in all.iter().enumerate() {
                holds(&schema[index], value, &format!("{place}[{index}]"));
            }
        }
        value => assert_eq!(schema, value, "{place}"),
    }
}

fn typed<T: DeserializeOwned + serde::Serialize>(written: &Value, place: &str) -> T {
    let typed: T =
        serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
    let mut back = serde_json::to_value(&typed).unwrap();
    if let Some(kind) = written.get("kind").filter(|_| back.get("kind").is_none()) {
        back["kind"] = kind.clone();
    }
    holds(&back, written, place);
    typed
}

/// A document by its kind, and the containers of its pods.
fn checked(written: &Value, place: &str) -> Vec<Container> {
    let kind = written["kind"].as_str().unwrap();
    let place = format!("{place} {kind}");
    match kind {
        "ServiceAccount" => drop(typed::<ServiceAccount>(written, &place)),
        "Secret" => drop(typed::<Secret>(written, &place)),
        "ConfigMap" => drop(typed::<ConfigMap>(written, &place)),
        "Service" => drop(typed::<Service>(written, &place)),
        "PersistentVolumeClaim" => drop(typed::<PersistentVolumeClaim>(written, &place)),
        "Job" => {
            let job: Job = typed(written, &place);
            return job.spec.unwrap().template.spec.unwrap().containers;
        }
        // no part of Kubernetes itself: what it makes Jobs of is looked at
        "JobSet" => {
            assert_eq!(written["apiVersion"], "jobset.x-k8s.io/v1alpha2");
            let jobs = written["spec"]["replicatedJobs"].as_array().unwrap();
            let template = |job: &Value| typed::<JobTemplateSpec>(&job["template"], &place);
            let specs = jobs.iter().map(|job| template(job).spec.unwrap());
            return specs
                .flat_map(|job| job.template.spec.unwrap().containers)
                .collect();
        }
        other => panic!("{place}: {other} is not looked at"),
    }
    Vec::new()
}

#[test]
fn every_manifest_is_what_kubernetes_takes() {
    for (name, kinds, shards) in [
        ("shards.yaml", 6, 1),
        ("merge.yaml", 1, 0),
        ("jobset.yaml", 5, 1),
    ] {
        let documents = documents(name);
        assert_eq!(documents.len(), kinds, "{name}");
        let containers: Vec<_> = documents
            .iter()
            .flat_map(|document| checked(document, name))
            .collect();
        let of_shards = containers.iter().filter(|container| {
            let env = container.env.iter().flatten();
            env.filter(|variable| variable.name == "BENCH_SHARDS")
                .count()
                == 1
        });
        assert_eq!(of_shards.count(), shards, "{name}");
    }
}

/// As many shards are told of as there are, and shard 0 is called by the name that its pod has.
#[test]
fn the_numbers_of_shards_agree() {
    let manifest = documents("shards.yaml");
    let job = manifest
        .iter()
        .find(|document| document["kind"] == "Job")
        .unwrap();
    let (name, spec) = (&job["metadata"]["name"], &job["spec"]);
    assert_eq!(spec["completions"], spec["parallelism"]);
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        container["env"][0]["value"],
        spec["completions"].to_string()
    );
    let meet = format!(
        "{}-0.{}:7077",
        name.as_str().unwrap(),
        pod["subdomain"].as_str().unwrap()
    );
    let args = container["args"].as_array().unwrap();
    assert!(args.contains(&Value::from(meet)), "{args:?}");

    let manifest = documents("jobset.yaml");
    let set = manifest
        .iter()
        .find(|document| document["kind"] == "JobSet")
        .unwrap();
    let job = set["spec"]["replicatedJobs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["name"] == "bench")
        .unwrap();
    let spec = &job["template"]["spec"];
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(
        container["env"][0]["value"],
        spec["completions"].to_string()
    );
    // SET-JOB-REPLICA-INDEX.SUBDOMAIN, as JobSet names pods
    let meet = format!(
        "{}-bench-0-0.{}:7077",
        set["metadata"]["name"].as_str().unwrap(),
        set["spec"]["network"]["subdomain"].as_str().unwrap()
    );
    let args = container["args"].as_array().unwrap();
    assert!(args.contains(&Value::from(meet)), "{args:?}");
}
