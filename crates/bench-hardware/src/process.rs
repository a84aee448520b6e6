//! Process trees: the server's and the client's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bench_schema::{Nanos, ReadingSource, Stamp};

use crate::config::ServerProcess;
use crate::kernel::{
    KernelUnits, ProcFile, ProcessStat, cgroup_cpu, cgroup_directory, cgroup_figures, listener,
    malformed, parent, process_stat, processes, run_queue_wait, text,
};
use crate::reading::{Draft, Round};
use crate::sampler::{Source, thread_cpu};

/// Reads one process tree: CPU time and memory at every tick, the rest once a second.
pub(crate) struct ProcessSource {
    source: ReadingSource,
    target: Target,
    proc: PathBuf,
    units: KernelUnits,
    tree: Option<Tree>,
}

#[derive(Clone, Copy)]
enum Target {
    /// Only this process: what the client starts is not the client.
    Own,
    Server(ServerProcess),
}

impl ProcessSource {
    /// The process that runs this code, without its children.
    pub(crate) fn client() -> Self {
        Self::new(ReadingSource::Client, Target::Own)
    }

    /// The server's process with all that it started.
    pub(crate) fn server(target: ServerProcess) -> Self {
        Self::new(ReadingSource::ServerProcess, Target::Server(target))
    }

    fn new(source: ReadingSource, target: Target) -> Self {
        Self {
            source,
            target,
            proc: PathBuf::from("/proc"),
            units: KernelUnits::of_this_machine(),
            tree: None,
        }
    }

    /// Find the tree if it is not known, and its members, once a second.
    fn find(&mut self, now: Stamp) -> Result<(), String> {
        if self.tree.is_none() {
            let (root, children) = match self.target {
                Target::Own => (std::process::id(), false),
                Target::Server(ServerProcess::Pid(pid)) => (pid, true),
                Target::Server(ServerProcess::Port(port)) => (listener(&self.proc, port)?, true),
            };
            self.tree = Some(Tree::new(root, children, self.units));
        }
        if let Some(tree) = &mut self.tree {
            tree.find_members(now);
        }
        Ok(())
    }

    fn read_tree(&mut self, slow: bool, draft: &mut Draft<'_>) {
        let Some(tree) = &mut self.tree else { return };
        let alive = tree.read(&self.proc, slow, draft);
        if slow && alive {
            read_cgroup(&self.proc, tree.root, draft);
        }
        if !alive {
            self.tree = None;
        }
    }
}

impl Source for ProcessSource {
    fn source(&self) -> ReadingSource {
        self.source
    }

    fn read(&mut self, round: &mut Round<'_>) {
        let (from, whole) = ((round.now)(), round.whole);
        let found = if whole { self.find(from) } else { Ok(()) };
        let instance = match (&self.tree, self.target) {
            (Some(tree), Target::Server(_)) => tree.root.to_string(),
            _ => String::new(),
        };
        round.hand_on(self.source, &instance, (from, None), |draft| match found {
            Ok(()) => self.read_tree(whole, draft),
            Err(why) => draft.unknown("process", why),
        });
    }
}

fn read_cgroup(proc: &Path, pid: u32, draft: &mut Draft<'_>) {
    let group = match cgroup_directory(proc, &pid.to_string()) {
        Ok(group) => group,
        Err(why) => return draft.unknown("cgroup_cpu_s_total", why),
    };
    // Only the host's root group lacks this file; its usage is everybody's.
    if !group.join("cgroup.events").exists() {
        return draft.unknown("cgroup_cpu_s_total", "it does not have its own cgroup");
    }
    let none = || "cpu.stat has no usage".to_owned();
    let cpu = text(&group.join("cpu.stat")).and_then(|text| cgroup_cpu(&text).ok_or_else(none));
    draft.set_all(
        ["cgroup_cpu_s_total", "cgroup_throttled_s_total"],
        cpu.map(|cpu| [Some(cpu.used), cpu.throttled]),
    );
    for (name, figure) in cgroup_figures(&group) {
        draft.set(&format!("cgroup_{name}"), figure);
    }
}

// A process and its descendants: found once a second, read by id in between.

/// The members of a tree and what they have used so far, those that ended included.
struct Tree {
    root: u32,
    members: BTreeMap<u32, Member>,
    ended: Used,
    /// The parent of each process of this host; absent where children do not belong to the tree.
    parents: Option<BTreeMap<u32, u32>>,
    not_before: Stamp,
    units: KernelUnits,
}

struct Member {
    file: ProcFile,
    last: Option<ProcessStat>,
    waited: f64,
}

/// What has been used, in seconds. That of ended members is kept: without it a counter would fall when a child exits.
#[derive(Clone, Copy, Default)]
struct Used {
    user: f64,
    system: f64,
    waited: f64,
}

/// What the living members have now.
#[derive(Clone, Copy, Default)]
struct Held {
    threads: f64,
    resident: f64,
}

/// A scan over all processes may take 1 % of a core: on a host with thousands of them it is done less often than once a second.
const SCAN_SPACING: i64 = 100;

impl Tree {
    fn new(root: u32, with_children: bool, units: KernelUnits) -> Self {
        let mut tree = Self {
            root,
            members: BTreeMap::new(),
            ended: Used::default(),
            parents: with_children.then(BTreeMap::new),
            not_before: Stamp::new(i64::MIN),
            units,
        };
        tree.admit(root);
        tree
    }

    fn admit(&mut self, pid: u32) {
        self.members.entry(pid).or_insert_with(|| Member {
            file: ProcFile::new(format!("/proc/{pid}/stat")),
            last: None,
            waited: 0.0,
        });
    }

    /// Look for descendants that are new. Those that ended are noticed when they are read.
    fn find_members(&mut self, now: Stamp) {
        if now < self.not_before {
            return;
        }
        let Some(known) = &mut self.parents else {
            return;
        };
        let began = thread_cpu();
        let proc = Path::new("/proc");
        // Only who is new is asked: nobody becomes the child of another process but of one that adopts the children of its own.
        let parent_of = |pid| known.get(&pid).copied().or_else(|| parent(proc, pid));
        let parents = processes(proc).filter_map(|pid| Some((pid, parent_of(pid)?)));
        let parents: Vec<(u32, u32)> = parents.collect();
        *known = parents.iter().copied().collect();
        for pid in descendants(self.root, &parents) {
            self.admit(pid);
        }
        let took = thread_cpu() - began;
        self.not_before = now + Nanos::new(took.get().saturating_mul(SCAN_SPACING));
    }

    /// Read every member; false where none is left.
    fn read(&mut self, proc: &Path, slow: bool, draft: &mut Draft<'_>) -> bool {
        let (mut used, mut held) = (self.ended, Held::default());
        let mut gone: Vec<(u32, String)> = Vec::new();
        for (&pid, member) in &mut self.members {
            match member.read(self.units) {
                Ok(stat) => {
                    held.threads += stat.threads;
                    held.resident += stat.resident;
                }
                Err(why) => gone.push((pid, why)),
            }
            // A thread that ends takes its wait with it; the sum is kept from falling, so that it can only be too small.
            if let Some(Ok(waited)) = slow.then(|| run_queue_wait(proc, pid)) {
                member.waited = member.waited.max(waited);
            }
            used.add(member);
        }
        let mut last_words = String::new();
        for (pid, why) in gone {
            last_words = why;
            if let Some(member) = self.members.remove(&pid) {
                self.ended.add(&member);
            }
        }
        if self.members.is_empty() {
            draft.unknown("process", format!("it has ended: {last_words}"));
            return false;
        }
        draft.set("cpu_s_total", used.user + used.system);
        draft.set("cpu_user_s_total", used.user);
        draft.set("cpu_system_s_total", used.system);
        draft.set("memory_resident_bytes", held.resident);
        if slow {
            draft.set("run_queue_wait_s_total", used.waited);
            draft.set("threads", held.threads);
            draft.set("processes", self.members.len() as f64);
        }
        true
    }
}

impl Used {
    fn add(&mut self, member: &Member) {
        if let Some(last) = member.last {
            self.user += last.user;
            self.system += last.system;
        }
        self.waited += member.waited;
    }
}

impl Member {
    fn read(&mut self, units: KernelUnits) -> Result<ProcessStat, String> {
        let text = self.file.read()?;
        let stat = process_stat(text, units).ok_or_else(|| malformed("/proc/<pid>/stat"))?;
        if self.last.is_some_and(|last| last.started != stat.started) {
            return Err("its process ID now belongs to another process".to_owned());
        }
        self.last = Some(stat);
        Ok(stat)
    }
}

/// All processes below `root`, from pairs of process and parent.
fn descendants(root: u32, parents: &[(u32, u32)]) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(pid, parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if child != root && found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "../tests/unit/process.rs"]
mod tests;
