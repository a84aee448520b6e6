//! What machine this is: gathered once, best effort, and what could not be found is named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench_schema::HostRecord;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::config::Gpus;
use crate::gpu;
use crate::kernel::{cgroup_directory, cgroup_figures, text};

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
    facts(&surroundings.environment, &mut host.facts);
    container(Path::new("/"), &surroundings.environment, &mut host.facts);
    if let Some(directory) = &surroundings.directory {
        match head(directory) {
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
            unknown.insert(name.to_owned(), "the system does not report it".to_owned());
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
    match cgroup_directory(Path::new("/proc"), "self") {
        Ok(group) => {
            let limits = cgroup_figures(&group).filter(|(name, _)| *name != "memory_bytes");
            let facts = limits.map(|(name, limit)| (format!("cgroup.{name}"), limit.to_string()));
            host.facts.extend(facts);
        }
        Err(why) => {
            host.unknown.insert("cgroup".to_owned(), why);
        }
    }
}

// Facts that a container platform or a scheduler puts into the environment.

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

fn facts(environment: &BTreeMap<String, String>, into: &mut BTreeMap<String, String>) {
    for (variable, name) in VARIABLES {
        if let Some(value) = environment.get(*variable).filter(|value| !value.is_empty()) {
            into.insert((*name).to_owned(), value.chars().take(LONGEST).collect());
        }
    }
}

/// Which kind of container this is, if it is one.
fn container(
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

// The commit of a working directory, read from `.git` itself: `git` may not be installed where benchmarks run.

/// What `HEAD` points at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    commit: String,
    /// Absent where no branch is checked out.
    branch: Option<String>,
}

/// The commit that is checked out in `directory` or above it; `None` where that is no working tree.
///
/// # Errors
/// Why a repository that is there cannot be read: no commit yet, a format that this does not know (reftable).
fn head(directory: &Path) -> Result<Option<Head>, String> {
    let Some(git) = directory.ancestors().find_map(git_directory) else {
        return Ok(None);
    };
    let head = text(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return Ok(Some(Head {
            commit: commit(&head)?,
            branch: None,
        }));
    };
    // In a further work tree, references are kept in the common directory.
    let common = match text(&git.join("commondir")) {
        Ok(path) => git.join(path),
        Err(_) => git,
    };
    let loose = text(&common.join(reference));
    let hash = match loose {
        Ok(hash) => hash,
        Err(_) => packed(&common, reference)?,
    };
    Ok(Some(Head {
        commit: commit(&hash)?,
        branch: reference.strip_prefix("refs/heads/").map(str::to_owned),
    }))
}

/// `.git` is a directory, or a file that names one (work trees, submodules).
fn git_directory(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let named = text(&git).ok()?;
    Some(directory.join(named.strip_prefix("gitdir: ")?))
}

fn packed(git: &Path, reference: &str) -> Result<String, String> {
    let refs = text(&git.join("packed-refs"))
        .map_err(|_| format!("{reference} has no readable commit"))?;
    refs.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, name)| *name == reference)
        .map(|(hash, _)| hash.to_owned())
        .ok_or_else(|| format!("{reference} has no readable commit"))
}

fn commit(hash: &str) -> Result<String, String> {
    let hexadecimal = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal && matches!(hash.len(), 40 | 64) {
        Ok(hash.to_owned())
    } else {
        Err("HEAD does not point to a commit".to_owned())
    }
}

#[cfg(test)]
#[path = "../tests/unit/record.rs"]
mod tests;
