//! What the runner makes of a configuration: the client's own types, looked at before anything starts.

use std::path::Path;
use std::sync::Arc;

use bench_client::{ClientError, Endpoint, Protocol, Proxy};
use bench_hardware::{Gpus, PrometheusQueries};
use bench_schema::{Benchmark, GenerationRequest, Prompt, Sampling};
use bench_workload::DatasetSpec;
use serde_json::Value;

use bench_config::Given;
pub(crate) use bench_config::flags;
pub use bench_config::{
    Address, Amount, BadLines, ClientSettings, Concurrency, Connections, Flags, Lengths,
    LimitSettings, Live, LoadSettings, MachineSettings, ObjectiveSettings, OutputSettings, Place,
    Problem, Reset, Settings, Stdout, Surroundings, TargetSettings, Values, WorkloadSettings,
    carries_its_rate, command,
};

#[doc(hidden)]
pub use crate::entry::settings_for_tests as for_tests;

/// The settings that flags and file say, with what only the client knows to be wrong.
///
/// # Errors
/// Every problem there is, at once.
pub(crate) fn settings(
    benchmark: Benchmark,
    flags: Flags,
    file: Option<(&Path, &str)>,
    around: &dyn Surroundings,
) -> Result<Settings, Vec<Problem>> {
    let mut given = Given::read(benchmark, flags, file, around)?;
    check_addresses(&mut given);
    check_dataset(&mut given);
    match bench_client::protocol_by_name(&given.settings.target.api) {
        Ok(protocol) => check_body(&mut given, &*protocol),
        Err(error) => given.complain("api", error.to_string(), None),
    }
    given.finish()
}

/// What is merged into a body must leave the prompt there: a server that is asked something else is not the one that the results are about.
fn check_body(given: &mut Given, protocol: &dyn Protocol) {
    const PROMPT: &str = "the-prompt-of-the-benchmark";
    let Some(merged) = given.settings.workload.extra_body.clone() else {
        return;
    };
    let keeps_the_prompt = |(key, value): &(&String, &Value)| {
        let one = [((*key).clone(), (*value).clone())].into_iter().collect();
        let request = GenerationRequest {
            prompt: Prompt::Text(PROMPT.into()),
            max_tokens: None,
            min_tokens: None,
            ignore_eos: false,
            sampling: Sampling::default(),
            stream: false,
            extra_body: Some(Arc::new(one)),
        };
        String::from_utf8_lossy(&protocol.body(&request, "")).contains(PROMPT)
    };
    for (key, _) in merged.iter().filter(|pair| !keeps_the_prompt(pair)) {
        let wrong = format!("`{key}` would replace the prompts of the benchmark");
        let help = format!("remove `{key}`; --dataset jsonl:FILE sends your own prompts");
        given.complain("extra_body", wrong, Some(&help));
    }
}

/// A file of prompts has to be there before a server is started, or asked anything, for it.
fn check_dataset(given: &mut Given) {
    let Some(DatasetSpec::File { path, .. }) = &given.settings.workload.dataset else {
        return;
    };
    if let Err(error) = path.metadata() {
        let wrong = format!("cannot read {}: {error}", path.display());
        given.complain("dataset", wrong, None);
    }
}

/// Every address has to be one that the client can use.
fn check_addresses(given: &mut Given) {
    let settings = given.settings.clone();
    let (target, machines) = (&settings.target, &settings.machines);
    for url in &target.url {
        check(given, "url", url, Endpoint::parse);
    }
    let pages = machines.server_metrics.iter();
    for url in pages.filter(|url| url.expose() != "none") {
        check(given, "server_metrics", url, Endpoint::parse_page);
    }
    for url in &machines.dcgm {
        check(given, "dcgm", url, Endpoint::parse_page);
    }
    if let Some(url) = &machines.prometheus {
        check(given, "prometheus", url, Endpoint::parse_page);
    }
    if let Some(url) = &settings.output.otlp {
        check(given, "otlp", url, Endpoint::parse_page);
    }
    if target.proxy {
        check_proxy(given, &settings);
    }
}

/// Complain about an address, without what is secret in it.
fn check<T>(
    given: &mut Given,
    key: &str,
    url: &Address,
    parse: impl Fn(&str) -> Result<T, ClientError>,
) {
    match parse(url.expose()) {
        Ok(_) => {}
        Err(ClientError::Url { problem, .. }) => {
            given.complain(key, format!("`{url}` is not a usable URL: {problem}"), None);
        }
        Err(other) => given.complain(key, other.to_string(), None),
    }
}

/// There is one proxy for all URLs.
fn check_proxy(given: &mut Given, settings: &Settings) {
    let urls = settings.target.urls();
    let found: Result<Vec<_>, _> = urls.iter().map(|url| proxy_to(settings, url)).collect();
    let found = match found {
        Ok(found) => found,
        Err(ClientError::Url { problem, .. }) => {
            let wrong = format!("the environment's proxy is not a usable URL: {problem}");
            return given.complain("proxy", wrong, None);
        }
        Err(other) => return given.complain("proxy", other.to_string(), None),
    };
    let name = |proxy: &Option<Proxy>| proxy.as_ref().map(|proxy| proxy.endpoint().to_string());
    let first = found.first().and_then(name);
    if found.iter().any(|other| name(other) != first) {
        let wrong = "the environment has different proxies for these URLs";
        let help = "measure the URLs one by one, or change http_proxy, https_proxy or no_proxy";
        given.complain("proxy", wrong, Some(help));
    } else if first.is_none() {
        let wrong = "the environment has no proxy for the server";
        let help = "set http_proxy or https_proxy, check no_proxy, or remove `proxy`";
        given.complain("proxy", wrong, Some(help));
    }
}

/// The environment's proxy to this server, where one is to be used.
pub(crate) fn proxy_to(settings: &Settings, url: &str) -> Result<Option<Proxy>, ClientError> {
    let told = &settings.credentials.proxies;
    let variable = |name: &str| Some(told.get(name)?.expose().to_owned());
    Proxy::from_variables(variable, &Endpoint::parse(url)?)
}

/// This host's GPUs, wherever the server is.
pub(crate) fn gpus(machines: &MachineSettings) -> Gpus {
    if machines.hardware {
        let library = machines.nvml.clone();
        Gpus::Read { library }
    } else {
        Gpus::LeftOut("hardware sampling is disabled".to_owned())
    }
}

/// The Prometheus server and what it is asked for: the GPUs, which nobody else may know, unless it is asked for something by name.
pub(crate) fn prometheus(machines: &MachineSettings) -> Option<PrometheusQueries> {
    let url = machines.prometheus.as_ref()?.expose().to_owned();
    let queries = machines.prometheus_query.clone();
    let gpus = machines.prometheus_gpus.clone();
    let gpus = gpus.or_else(|| queries.is_empty().then(String::new));
    Some(PrometheusQueries { url, gpus, queries })
}

#[cfg(test)]
#[path = "../tests/unit/config.rs"]
mod tests;
