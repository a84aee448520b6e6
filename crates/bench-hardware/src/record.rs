//! What machine this is: gathered once, best effort, and what could not be found is named.

mod environment;
mod git;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench_schema::HostRecord;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::config::Gpus;
use crate::gpu;
use crate::kernel::{cgroup, text};

/// What [`host_record`] looks at. The environment is handed in, because configuration enters a program in one place; take it from
/// `vars_os`, because `vars` panics over names that are not Unicode.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Environment variables: those of container platforms and schedulers are looked for by name, no other is stored.
    pub environment: BTreeMap<String, String>,
    /// The working directory, whose git commit is recorded.
    pub directory: Option<PathBuf>,
    /// This host's GPUs.
    pub gpus: Gpus,
}

/// The facts about this host: system, CPU, memory, GPUs, limits, container, scheduler, git commit.
///
/// Cost: some milliseconds, and up to a second where NVML has to be initialised. What is simply not there (no container, no
/// scheduler) is absent; what should be there and cannot be read is in `unknown`.
pub fn host_record(surroundings: &Surroundings) -> HostRecord {
    let mut host = HostRecord::default();
    system(&mut host);
    limits(&mut host);
    environment::facts(&surroundings.environment, &mut host.facts);
    environment::container(Path::new("/"), &surroundings.environment, &mut host.facts);
    if let Some(directory) = &surroundings.directory {
        match git::head(directory) {
            Ok(Some(head)) => {
                host.facts.insert("git.commit".to_owned(), head.commit);
                if let Some(branch) = head.branch {
                    host.facts.insert("git.branch".to_owned(), branch);
                }
            }
            Ok(None) => {}
            Err(why) => {
                host.unknown.insert("git.commit".to_owned(), why);
            }
        }
    }
    let (facts, unknown) = gpu::inventory(&surroundings.gpus);
    host.facts.extend(facts);
    host.unknown.extend(unknown);
    host
}

fn system(host: &mut HostRecord) {
    let mut unknown = BTreeMap::new();
    let mut known = |name: &str, read: Result<String, sysinfo::Error>| match read {
        Ok(fact) if !fact.trim().is_empty() => Some(fact.trim().to_owned()),
        Ok(_) => {
            unknown.insert(name.to_owned(), "the system says nothing".to_owned());
            None
        }
        Err(why) => {
            unknown.insert(name.to_owned(), format!("sysinfo: {why:?}"));
            None
        }
    };
    host.name = known("name", System::host_name());
    host.os = known("os", System::long_os_version());
    host.kernel = known("kernel", System::kernel_version());
    host.facts
        .insert("cpu.architecture".to_owned(), System::cpu_arch());
    match std::thread::available_parallelism() {
        Ok(cpus) => host.cpus = u32::try_from(cpus.get()).ok(),
        Err(why) => {
            unknown.insert("cpus".to_owned(), why.to_string());
        }
    }
    let wanted = RefreshKind::nothing()
        .with_memory(MemoryRefreshKind::nothing().with_ram())
        .with_cpu(CpuRefreshKind::nothing().with_frequency());
    match System::new_with_specifics(wanted) {
        Ok(system) => {
            host.memory_bytes = Some(system.total_memory()).filter(|&bytes| bytes > 0);
            let model = system
                .cpus()
                .first()
                .map(|cpu| cpu.brand().trim().to_owned());
            host.cpu_model = model.filter(|model| !model.is_empty());
            let logical = system.cpus().len();
            host.facts
                .insert("cpu.logical".to_owned(), logical.to_string());
        }
        Err(why) => {
            unknown.insert("cpu_model".to_owned(), format!("sysinfo: {why:?}"));
        }
    }
    match System::physical_core_count() {
        Ok(cores) => {
            host.facts.insert("cpu.cores".to_owned(), cores.to_string());
        }
        Err(why) => {
            unknown.insert("cpu.cores".to_owned(), format!("sysinfo: {why:?}"));
        }
    }
    host.unknown.extend(unknown);
}

/// What the kernel lets this process use, and how it sets clocks.
fn limits(host: &mut HostRecord) {
    let sys = Path::new("/sys/devices/system/cpu");
    for (name, file) in [
        ("cpu.governor", sys.join("cpu0/cpufreq/scaling_governor")),
        ("cpu.smt", sys.join("smt/active")),
        (
            "clock.source",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
        ),
        ("hypervisor", "/sys/hypervisor/type".into()),
        ("machine", "/sys/class/dmi/id/product_name".into()),
    ] {
        // Virtual machines lack most of these, and that is no fault.
        if let Some(fact) = text(&file).ok().filter(|fact| !fact.is_empty()) {
            host.facts.insert(name.to_owned(), fact);
        }
    }
    match cgroup::directory(Path::new("/proc"), "self") {
        Ok(group) => {
            let read = |name: &str| text(&group.join(name)).ok();
            let limits = [
                (
                    "cgroup.cpu_limit_cores",
                    read("cpu.max").and_then(|t| cgroup::cpu_limit(&t)),
                ),
                (
                    "cgroup.memory_limit_bytes",
                    read("memory.max").and_then(|t| cgroup::bytes(&t)),
                ),
            ];
            for (name, limit) in limits {
                if let Some(limit) = limit {
                    host.facts.insert(name.to_owned(), limit.to_string());
                }
            }
        }
        Err(why) => {
            host.unknown.insert("cgroup".to_owned(), why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_described_and_what_is_missing_has_a_reason() {
        let host = host_record(&Surroundings {
            gpus: Gpus::through("/nonexistent/libnvidia-ml.so.1"),
            ..Surroundings::default()
        });
        assert!(host.name.is_some() || host.unknown.contains_key("name"));
        assert!(host.cpus.unwrap() >= 1 && host.memory_bytes.unwrap() > 1 << 20);
        assert!(
            host.unknown["gpu"].contains("no NVML library"),
            "{:?}",
            host.unknown
        );
        assert!(host.unknown.values().all(|why| !why.is_empty()));
        assert!(
            !host.facts.contains_key("git.commit"),
            "no directory was named"
        );
    }
}
