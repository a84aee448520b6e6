//! A process and its descendants: found once a second, read by id in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bench_schema::{Nanos, Stamp};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

use crate::kernel::{KernelUnits, ProcFile, ProcessStat, malformed, process_stat, run_queue_wait};
use crate::reading::Draft;
use crate::sampler::thread_cpu;

/// The members of a tree and what they have used so far, those that ended included.
pub(crate) struct Tree {
    root: u32,
    members: BTreeMap<u32, Member>,
    ended: Used,
    /// Absent where children do not belong to it.
    system: Option<System>,
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
    pub(crate) fn new(root: u32, with_children: bool, units: KernelUnits) -> Result<Self, String> {
        let system = if with_children {
            Some(System::new().map_err(|e| format!("sysinfo: {e:?}"))?)
        } else {
            None
        };
        let mut tree = Self {
            root,
            members: BTreeMap::new(),
            ended: Used::default(),
            system,
            not_before: Stamp::new(i64::MIN),
            units,
        };
        tree.admit(root);
        Ok(tree)
    }

    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    fn admit(&mut self, pid: u32) {
        self.members.entry(pid).or_insert_with(|| Member {
            file: ProcFile::new(format!("/proc/{pid}/stat")),
            last: None,
            waited: 0.0,
        });
    }

    /// Look for descendants that are new. Those that ended are noticed when they are read.
    pub(crate) fn find_members(&mut self, now: Stamp) {
        if now < self.not_before {
            return;
        }
        let Some(system) = &mut self.system else {
            return;
        };
        let began = thread_cpu();
        let nothing = ProcessRefreshKind::nothing().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, nothing);
        let parents: Vec<(u32, u32)> = system
            .processes()
            .iter()
            .filter_map(|(pid, process)| Some((pid.as_u32(), process.parent()?.as_u32())))
            .collect();
        for pid in descendants(self.root, &parents) {
            self.admit(pid);
        }
        let took = thread_cpu() - began;
        self.not_before = now + Nanos::new(took.get().saturating_mul(SCAN_SPACING));
    }

    /// Read every member; false where none is left.
    pub(crate) fn read(&mut self, proc: &Path, slow: bool, draft: &mut Draft<'_>) -> bool {
        let (mut used, mut held) = (Used::default(), Held::default());
        let mut gone: Vec<(u32, String)> = Vec::new();
        for (&pid, member) in &mut self.members {
            match member.read(self.units) {
                Ok(stat) => {
                    held.threads += stat.threads;
                    held.resident += stat.resident;
                }
                Err(why) => gone.push((pid, why)),
            }
            if slow {
                member.read_wait(proc, pid);
            }
            used.add(member);
        }
        used.user += self.ended.user;
        used.system += self.ended.system;
        used.waited += self.ended.waited;
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
            return Err("its id belongs to another process now".to_owned());
        }
        self.last = Some(stat);
        Ok(stat)
    }

    /// A thread that ends takes its wait with it; the sum is kept from falling, so that it can only be too small.
    fn read_wait(&mut self, proc: &Path, pid: u32) {
        if let Ok(waited) = run_queue_wait(proc, pid) {
            self.waited = self.waited.max(waited);
        }
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
mod tests {
    use std::process::{Child, Command, Stdio};

    use bench_schema::ReadingSource;

    use super::*;
    use crate::reading::Named;

    #[test]
    fn descendants_are_found_at_any_depth_and_a_ring_ends() {
        let parents = [(2, 1), (3, 2), (4, 3), (9, 8), (1, 4)];
        assert_eq!(descendants(1, &parents), [2, 3, 4].into());
        assert_eq!(descendants(5, &parents), BTreeSet::new());
    }

    fn waits_for_its_input() -> Child {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::null());
        cat.spawn().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_is_found_and_what_it_used_is_kept_when_it_ends() {
        let mut child = waits_for_its_input();
        let units = KernelUnits::of_this_machine();
        let mut tree = Tree::new(std::process::id(), true, units).unwrap();
        tree.find_members(Stamp::EPOCH);
        assert!(tree.members.contains_key(&child.id()));
        let used = |tree: &mut Tree| {
            let mut named = Named::default();
            let mut draft = Draft::new(ReadingSource::Client, "", Stamp::EPOCH, &mut named);
            assert!(tree.read(Path::new("/proc"), true, &mut draft));
            draft.finish(Stamp::EPOCH).unwrap().values["cpu_s_total"]
        };
        let before = used(&mut tree);
        tree.members
            .get_mut(&child.id())
            .unwrap()
            .last
            .as_mut()
            .unwrap()
            .user = 5.0;
        drop(child.stdin.take());
        child.wait().unwrap();
        let after = used(&mut tree);
        assert!(!tree.members.contains_key(&child.id()));
        assert!(after >= before + 5.0 - 0.5, "{before} {after}");
        assert!(used(&mut tree) >= after);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_has_ended_is_said_to_have_ended() {
        let mut child = waits_for_its_input();
        let units = KernelUnits::of_this_machine();
        let mut tree = Tree::new(child.id(), true, units).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let mut named = Named::default();
        let mut draft = Draft::new(ReadingSource::ServerProcess, "7", Stamp::EPOCH, &mut named);
        assert!(!tree.read(Path::new("/proc"), true, &mut draft));
        let reading = draft.finish(Stamp::EPOCH).unwrap();
        assert!(
            reading.values.is_empty() && reading.unknown["process"].starts_with("it has ended")
        );
    }
}
