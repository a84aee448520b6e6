//! Facts that a container platform or a scheduler puts into the environment.

use std::collections::BTreeMap;
use std::path::Path;

/// Variable, and the fact's name. Only these are stored: an environment is full of secrets.
const VARIABLES: &[(&str, &str)] = &[
    ("KUBERNETES_SERVICE_HOST", "kubernetes.service_host"),
    ("POD_NAME", "kubernetes.pod"),
    ("POD_NAMESPACE", "kubernetes.namespace"),
    ("NODE_NAME", "kubernetes.node"),
    ("SLURM_JOB_ID", "slurm.job_id"),
    ("SLURM_JOB_NAME", "slurm.job_name"),
    ("SLURM_JOB_PARTITION", "slurm.partition"),
    ("SLURM_JOB_NODELIST", "slurm.nodes"),
    ("SLURM_NNODES", "slurm.node_count"),
    ("SLURM_CPUS_ON_NODE", "slurm.cpus_on_node"),
    ("SLURM_JOB_GPUS", "slurm.gpus"),
    ("PBS_JOBID", "pbs.job_id"),
    ("LSB_JOBID", "lsf.job_id"),
    ("CUDA_VISIBLE_DEVICES", "gpu.visible"),
    ("NVIDIA_VISIBLE_DEVICES", "gpu.container_visible"),
    ("CUDA_VERSION", "cuda.image_version"),
    ("GITHUB_RUN_ID", "ci.github_run"),
    ("GITHUB_SHA", "ci.github_commit"),
    ("CI_PIPELINE_ID", "ci.gitlab_pipeline"),
];

/// Longest fact that is stored, in characters: a node list of a large job is longer than anybody reads.
const LONGEST: usize = 256;

pub(super) fn facts(environment: &BTreeMap<String, String>, into: &mut BTreeMap<String, String>) {
    for (variable, name) in VARIABLES {
        if let Some(value) = environment.get(*variable).filter(|value| !value.is_empty()) {
            into.insert((*name).to_owned(), value.chars().take(LONGEST).collect());
        }
    }
}

/// Which kind of container this is, if it is one.
pub(super) fn container(
    root: &Path,
    environment: &BTreeMap<String, String>,
    into: &mut BTreeMap<String, String>,
) {
    let marked = |file: &str| root.join(file).exists();
    let kind = if environment.contains_key("KUBERNETES_SERVICE_HOST") {
        "kubernetes"
    } else if environment.contains_key("APPTAINER_CONTAINER") || marked("singularity") {
        "apptainer"
    } else if marked("run/.containerenv") {
        "podman"
    } else if marked(".dockerenv") {
        "docker"
    } else {
        return;
    };
    into.insert("container".to_owned(), kind.to_owned());
    // The service account's namespace is there even where the pod does not put its own into the environment.
    let account = "var/run/secrets/kubernetes.io/serviceaccount/namespace";
    if let Ok(namespace) = std::fs::read_to_string(root.join(account)) {
        let name = "kubernetes.namespace".to_owned();
        into.entry(name).or_insert(namespace.trim().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_variables_are_stored_and_never_too_long() {
        let environment = [
            ("SLURM_JOB_ID", "42"),
            ("OPENAI_API_KEY", "sk-secret"),
            ("SLURM_JOB_NODELIST", &"n,".repeat(1000)),
            ("POD_NAME", ""),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let mut found = BTreeMap::new();
        facts(&environment.into(), &mut found);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            ["slurm.job_id", "slurm.nodes"]
        );
        assert_eq!(found["slurm.nodes"].len(), LONGEST);
    }

    #[test]
    fn containers_are_known_by_what_they_leave_behind() {
        let root = tempfile::tempdir().unwrap();
        let kind = |environment: &BTreeMap<String, String>| {
            let mut found = BTreeMap::new();
            container(root.path(), environment, &mut found);
            found.remove("container")
        };
        assert_eq!(kind(&BTreeMap::new()), None);
        std::fs::write(root.path().join(".dockerenv"), "").unwrap();
        assert_eq!(kind(&BTreeMap::new()).as_deref(), Some("docker"));
        let pod = [("KUBERNETES_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned())].into();
        assert_eq!(kind(&pod).as_deref(), Some("kubernetes"));
    }
}
