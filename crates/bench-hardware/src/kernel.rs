//! The Linux kernel's own counters. Parsers are pure; elsewhere than on Linux the files are absent, and that is said.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A file of `/proc` or `/sys` that is read again and again: opened once, its buffer kept.
pub(crate) struct ProcFile {
    path: PathBuf,
    file: Option<File>,
    text: String,
}

impl ProcFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            file: None,
            text: String::new(),
        }
    }

    /// Its text now, or why it cannot be read.
    pub(crate) fn read(&mut self) -> Result<&str, String> {
        match self.read_again() {
            Ok(()) => Ok(&self.text),
            Err(error) => {
                self.file = None;
                Err(reason(&self.path, &error))
            }
        }
    }

    fn read_again(&mut self) -> std::io::Result<()> {
        self.text.clear();
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut self.text)?;
        } else {
            let mut file = File::open(&self.path)?;
            file.read_to_string(&mut self.text)?;
            self.file = Some(file);
        }
        Ok(())
    }
}

/// The text of a small file, trimmed, or why there is none.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(reason(path, &error)),
    }
}

fn reason(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// What a file should have held.
pub(crate) fn malformed(what: &str) -> String {
    format!("{what} is not written as expected on this kernel")
}

// `/proc/stat`: CPU time by kind, of the machine and of each core.

/// CPU time since boot, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTimes {
    /// `user + nice`; guests are within.
    pub(crate) user: f64,
    /// `system + irq + softirq`.
    pub(crate) system: f64,
    pub(crate) idle: f64,
    pub(crate) iowait: f64,
    /// Time that the hypervisor gave to others while this machine had work.
    pub(crate) steal: f64,
}

impl CpuTimes {
    /// Time that was worked.
    pub(crate) fn busy(&self) -> f64 {
        self.user + self.system
    }
}

/// Times of the whole machine and, in order, of each core; `per_s` is the kernel's ticks in a second.
pub(crate) fn cpu_times(text: &str, per_s: f64) -> Option<(CpuTimes, Vec<(u32, CpuTimes)>)> {
    let mut lines = text.lines();
    let whole = times(lines.next()?.strip_prefix("cpu ")?, per_s)?;
    let cores = lines
        .map_while(|line| {
            let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, times(rest, per_s)?))
        })
        .collect();
    Some((whole, cores))
}

fn times(fields: &str, per_s: f64) -> Option<CpuTimes> {
    let mut ticks = fields
        .split_ascii_whitespace()
        .map(|field| field.parse::<u64>().ok().map(|t| t as f64 / per_s));
    let mut next = || ticks.next().flatten();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    // Kernels before 2.6.11 lack the later ones; nothing that old is measured, but zero there is the truth.
    let (iowait, irq, softirq) = (next()?, next()?, next()?);
    Some(CpuTimes {
        user: user + nice,
        system: system + irq + softirq,
        idle,
        iowait,
        steal: next()?,
    })
}

// `/proc/diskstats`: what the whole disks did. Partitions, loop devices, RAM disks and mapped devices would count twice.

/// Since boot, over all disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskTotals {
    pub(crate) read: f64,
    pub(crate) written: f64,
    /// Seconds in which a disk was busy, summed over disks.
    pub(crate) busy: f64,
}

/// The kernel counts sectors of 512 bytes whatever the disk's own are.
const SECTOR: f64 = 512.0;

/// Parse `/proc/diskstats`; `is_whole` says whether a name is a disk and not a part of one.
pub(crate) fn disk_totals(text: &str, is_whole: impl Fn(&str) -> bool) -> Option<DiskTotals> {
    let mut totals = DiskTotals::default();
    let mut seen = false;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let numbers: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [_, _, read, _, _, _, written, _, _, busy_ms, ..] = numbers[..] else {
            return None;
        };
        if is_virtual(name) || !is_whole(name) {
            continue;
        }
        seen = true;
        totals.read += read as f64 * SECTOR;
        totals.written += written as f64 * SECTOR;
        totals.busy += busy_ms as f64 / 1e3;
    }
    seen.then_some(totals)
}

fn is_virtual(name: &str) -> bool {
    ["loop", "ram", "zram", "dm-", "md", "nbd"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

// `/proc/net/dev`: bytes and trouble of the network interfaces.

/// Bytes since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Received by all interfaces but the loopback.
    pub(crate) received: f64,
    pub(crate) sent: f64,
    /// Received over the loopback, which is what was sent over it.
    pub(crate) loopback: f64,
    /// Errors and drops, both ways, of all interfaces.
    pub(crate) trouble: f64,
}

/// Parse `/proc/net/dev`. Bridges and their members are both counted, as the kernel shows them.
pub(crate) fn traffic(text: &str) -> Option<Traffic> {
    let mut traffic = Traffic::default();
    let mut seen = false;
    for line in text.lines().skip(2) {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<f64> = rest
            .split_ascii_whitespace()
            .map_while(|field| field.parse::<u64>().ok().map(|n| n as f64))
            .collect();
        let [
            received,
            _,
            rx_errors,
            rx_dropped,
            _,
            _,
            _,
            _,
            sent,
            _,
            tx_errors,
            tx_dropped,
            ..,
        ] = fields[..]
        else {
            return None;
        };
        seen = true;
        traffic.trouble += rx_errors + rx_dropped + tx_errors + tx_dropped;
        if name.trim() == "lo" {
            traffic.loopback += received;
        } else {
            traffic.received += received;
            traffic.sent += sent;
        }
    }
    seen.then_some(traffic)
}

// `/proc/pressure/*`: time in which something waited for a resource (PSI).

/// Seconds since boot in which some task waited, and in which all did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) some: f64,
    /// Absent for the CPU on older kernels.
    pub(crate) full: Option<f64>,
}

/// Parse one file of `/proc/pressure`, or a cgroup's `cpu.pressure`.
pub(crate) fn pressure(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let us: u64 = line
            .split_ascii_whitespace()
            .find_map(|field| field.strip_prefix("total="))?
            .parse()
            .ok()?;
        Some(us as f64 / 1e6)
    };
    Some(Pressure {
        some: total("some ")?,
        full: total("full "),
    })
}

// `/proc/<pid>/stat`, `/proc/<pid>/task/*/schedstat`.

/// One process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessStat {
    /// CPU seconds in user mode, ended threads included.
    pub(crate) user: f64,
    /// CPU seconds in the kernel.
    pub(crate) system: f64,
    pub(crate) threads: f64,
    /// Resident memory in bytes.
    pub(crate) resident: f64,
    /// When it started, in ticks since boot: tells it from a later process with the same id.
    pub(crate) started: u64,
}

/// What the kernel counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelUnits {
    pub(crate) ticks_per_s: f64,
    pub(crate) page_bytes: f64,
}

impl KernelUnits {
    pub(crate) fn of_this_machine() -> Self {
        Self {
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
            page_bytes: rustix::param::page_size() as f64,
        }
    }
}

/// The fields of `/proc/<pid>/stat` from `state` on, field 3 of proc(5). A process may be called `) R 1 (`, so they are counted from the last parenthesis.
fn stat_fields(text: &str) -> Option<impl Iterator<Item = &str>> {
    Some(text.rsplit_once(')')?.1.split_ascii_whitespace())
}

/// Parse `/proc/<pid>/stat`.
pub(crate) fn process_stat(text: &str, units: KernelUnits) -> Option<ProcessStat> {
    let fields: Vec<&str> = stat_fields(text)?.collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        user: field(14)? as f64 / units.ticks_per_s,
        system: field(15)? as f64 / units.ticks_per_s,
        threads: field(20)? as f64,
        started: field(22)?,
        resident: field(24)? as f64 * units.page_bytes,
    })
}

/// The process that started this one, or adopted it.
pub(crate) fn parent(proc: &Path, pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    stat_fields(&text)?.nth(1)?.parse().ok()
}

/// Seconds that the process's living threads were runnable but waited for a CPU. Threads that have ended take theirs with them.
pub(crate) fn run_queue_wait(proc: &Path, pid: u32) -> Result<f64, String> {
    let tasks = proc.join(pid.to_string()).join("task");
    let listed = std::fs::read_dir(&tasks).map_err(|e| format!("the list of its threads: {e}"))?;
    let mut waited = 0.0;
    for task in listed.flatten() {
        // A thread that ends between the list and the read has no file, and no wait that could be known.
        if let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) {
            waited += schedstat_wait(&text).ok_or_else(|| malformed("schedstat"))?;
        }
    }
    Ok(waited)
}

fn schedstat_wait(text: &str) -> Option<f64> {
    let ns: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

// Who listens on a port: `/proc/net/tcp`, `/proc/net/tcp6`, `/proc/<pid>/fd`.

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The lowest process id that has a socket listening on `port`: the parent, where several share it.
///
/// # Errors
/// Why nobody was found: nobody listens there, or the process belongs to somebody else.
pub(crate) fn listener(proc: &Path, port: u16) -> Result<u32, String> {
    let mut inodes = BTreeSet::new();
    for table in ["net/tcp", "net/tcp6"] {
        // The kernel takes milliseconds for each, however few sockets there are; the second is for servers that have none in the first.
        if inodes.is_empty() {
            // Hosts without IPv6 have no tcp6.
            let text = std::fs::read_to_string(proc.join(table)).unwrap_or_default();
            inodes.extend(listening(&text, port));
        }
    }
    if inodes.is_empty() {
        return Err(format!("no process listens on port {port} of this host"));
    }
    let wanted: BTreeSet<String> = inodes.iter().map(|i| format!("socket:[{i}]")).collect();
    processes(proc)
        .find(|&pid| has_descriptor(&proc.join(pid.to_string()).join("fd"), &wanted))
        .ok_or_else(|| {
            format!("the process that listens on port {port} is not visible; run as the same user or set --server-pid")
        })
}

fn listening(table: &str, port: u16) -> impl Iterator<Item = u64> + '_ {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, hex) = local.rsplit_once(':')?;
        let wanted = state == LISTEN && u16::from_str_radix(hex, 16) == Ok(port);
        if wanted {
            fields.nth(5)?.parse().ok()
        } else {
            None
        }
    })
}

/// The ids of all processes, in order.
pub(crate) fn processes(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    let mut pids: Vec<u32> = std::fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter()
}

fn has_descriptor(directory: &Path, wanted: &BTreeSet<String>) -> bool {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|link| link.to_str().is_some_and(|link| wanted.contains(link)))
}

// Control groups, version 2: what a group used, was refused, and may use.

/// Usage of a group's CPU, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CgroupCpu {
    pub(crate) used: f64,
    /// Time in which the group was held back by its quota; absent where it has none.
    pub(crate) throttled: Option<f64>,
}

/// Where the group of a process is, or why that cannot be told.
pub(crate) fn cgroup_directory(proc: &Path, pid: &str) -> Result<PathBuf, String> {
    let groups = text(&proc.join(pid).join("cgroup"))?;
    let path = unified_path(&groups).ok_or_else(|| "cgroup version 2 is not in use".to_owned())?;
    let mounts = text(&proc.join("self").join("mounts"))?;
    let mount =
        mount_point(&mounts).ok_or_else(|| "no cgroup2 file system is mounted".to_owned())?;
    let full = Path::new(&mount).join(path.trim_start_matches('/'));
    // Within a container the path may be that of the host, and the group is the mount's root.
    Ok(if full.is_dir() { full } else { mount.into() })
}

fn unified_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

fn mount_point(mounts: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| at.to_owned())
    })
}

/// What a group may use, and its memory, by name; what has no limit is left out, and so is what the root group has no file for.
pub(crate) fn cgroup_figures(group: &Path) -> impl Iterator<Item = (&'static str, f64)> {
    let read = |name: &str| text(&group.join(name)).ok();
    let cores = read("cpu.max").and_then(|text| cpu_limit(&text));
    let bytes = |name: &str| read(name).and_then(|text| cgroup_bytes(&text));
    let figures = [
        ("cpu_limit_cores", cores),
        ("memory_limit_bytes", bytes("memory.max")),
        ("memory_bytes", bytes("memory.current")),
    ];
    figures
        .into_iter()
        .filter_map(|(name, figure)| Some((name, figure?)))
}

/// Parse `cpu.stat`.
pub(crate) fn cgroup_cpu(text: &str) -> Option<CgroupCpu> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse::<u64>().ok().map(|us| us as f64 / 1e6))?
        })
    };
    Some(CgroupCpu {
        used: value("usage_usec")?,
        throttled: value("throttled_usec"),
    })
}

/// Cores that `cpu.max` allows; `None` where there is no limit.
fn cpu_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Bytes in `memory.max` or `memory.current`; `None` where there is no limit.
fn cgroup_bytes(text: &str) -> Option<f64> {
    text.trim().parse::<u64>().ok().map(|bytes| bytes as f64)
}

#[cfg(test)]
#[path = "../tests/unit/kernel.rs"]
mod tests;
