//! What GPUs there are: facts that do not change while a run lasts.

use std::collections::BTreeMap;

use super::{open, reason};
use crate::config::Gpus;

/// Facts by name (`gpu.driver`, `gpu.0.model`, …), and what is not known, with why.
pub(crate) fn inventory(gpus: &Gpus) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut facts, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    let nvml = match open(gpus) {
        Ok(nvml) => nvml,
        Err(why) => {
            unknown.insert("gpu".to_owned(), why);
            return (facts, unknown);
        }
    };
    let mut say = |name: String, fact: Result<String, nvml_wrapper::error::NvmlError>| match fact {
        Ok(fact) => {
            facts.insert(name, fact);
        }
        Err(error) => {
            unknown.insert(name, reason(&error));
        }
    };
    say("gpu.driver".to_owned(), nvml.sys_driver_version());
    say("gpu.nvml".to_owned(), nvml.sys_nvml_version());
    let cuda = nvml.sys_cuda_driver_version().map(|version| {
        let major = nvml_wrapper::cuda_driver_version_major(version);
        let minor = nvml_wrapper::cuda_driver_version_minor(version);
        format!("{major}.{minor}")
    });
    say("gpu.cuda".to_owned(), cuda);
    let count = nvml.device_count();
    let gpus = count.as_ref().copied().unwrap_or(0);
    say("gpu.count".to_owned(), count.map(|n| n.to_string()));
    for index in 0..gpus {
        let named = |what: &str| format!("gpu.{index}.{what}");
        let gpu = match nvml.device_by_index(index) {
            Ok(gpu) => gpu,
            Err(error) => {
                say(named("model"), Err(error));
                continue;
            }
        };
        say(named("model"), gpu.name());
        say(named("uuid"), gpu.uuid());
        let memory = gpu.memory_info().map(|memory| memory.total.to_string());
        say(named("memory_bytes"), memory);
        let capability = gpu.cuda_compute_capability();
        say(
            named("compute_capability"),
            capability.map(|c| format!("{}.{}", c.major, c.minor)),
        );
        let limit = gpu.enforced_power_limit();
        say(
            named("power_limit_w"),
            limit.map(|mw| (f64::from(mw) / 1e3).to_string()),
        );
        if let Ok(mode) = gpu.mig_mode() {
            let mig = if mode.current == 1 { "on" } else { "off" };
            say(named("mig"), Ok(mig.to_owned()));
        }
    }
    (facts, unknown)
}
