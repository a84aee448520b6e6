//! Process trees: the server's and the client's own.

mod tree;

use std::path::{Path, PathBuf};

use bench_schema::{Reading, ReadingSource, Stamp};

use crate::config::ServerProcess;
use crate::host::SLOW;
use crate::kernel::{
    KernelUnits, cgroup_bytes, cgroup_cpu, cgroup_directory, cpu_limit, listener, text,
};
use crate::reading::{Draft, Named};
use crate::sampler::Source;
use tree::Tree;

/// Reads one process tree: CPU time and memory at every tick, the rest once a second.
pub(crate) struct ProcessSource {
    source: ReadingSource,
    target: Target,
    proc: PathBuf,
    units: KernelUnits,
    tree: Option<Tree>,
    last_slow: Option<Stamp>,
    named: Named,
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
            last_slow: None,
            named: Named::default(),
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
            self.tree = Some(Tree::new(root, children, self.units)?);
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
            read_cgroup(&self.proc, tree.root(), draft);
        }
        if !alive {
            self.tree = None;
        }
    }
}

impl Source for ProcessSource {
    fn name(&self) -> &'static str {
        match self.target {
            Target::Own => "client",
            Target::Server(_) => "server_process",
        }
    }

    fn read(&mut self, now: &dyn Fn() -> Stamp, emit: &mut dyn FnMut(Reading)) {
        let from = now();
        let slow = self.last_slow.is_none_or(|last| from - last >= SLOW);
        if slow {
            self.last_slow = Some(from);
        }
        let found = if slow { self.find(from) } else { Ok(()) };
        let instance = match (&self.tree, self.target) {
            (Some(tree), Target::Server(_)) => tree.root().to_string(),
            _ => String::new(),
        };
        // The draft borrows the names, and the readers borrow the rest.
        let mut named = std::mem::take(&mut self.named);
        let mut draft = Draft::new(self.source, &instance, from, &mut named);
        match found {
            Ok(()) => self.read_tree(slow, &mut draft),
            Err(why) => draft.unknown("process", why),
        }
        draft.finish(now()).into_iter().for_each(emit);
        self.named = named;
    }
}

fn read_cgroup(proc: &Path, pid: u32, draft: &mut Draft<'_>) {
    let group = match cgroup_directory(proc, &pid.to_string()) {
        Ok(group) => group,
        Err(why) => return draft.unknown("cgroup_cpu_s_total", why),
    };
    // Only the host's root group lacks this file; its usage is everybody's.
    if !group.join("cgroup.events").exists() {
        return draft.unknown("cgroup_cpu_s_total", "it has no control group of its own");
    }
    let read = |name: &str| text(&group.join(name));
    match read("cpu.stat").map(|text| cgroup_cpu(&text)) {
        Ok(Some(cpu)) => {
            draft.set("cgroup_cpu_s_total", cpu.used);
            if let Some(throttled) = cpu.throttled {
                draft.set("cgroup_throttled_s_total", throttled);
            }
        }
        Ok(None) => draft.unknown("cgroup_cpu_s_total", "cpu.stat holds no usage"),
        Err(why) => draft.unknown("cgroup_cpu_s_total", why),
    }
    // The root group has neither; no file and no limit are the same to a process.
    for (name, value) in [
        (
            "cgroup_cpu_limit_cores",
            read("cpu.max").ok().and_then(|t| cpu_limit(&t)),
        ),
        (
            "cgroup_memory_limit_bytes",
            read("memory.max").ok().and_then(|t| cgroup_bytes(&t)),
        ),
        (
            "cgroup_memory_bytes",
            read("memory.current").ok().and_then(|t| cgroup_bytes(&t)),
        ),
    ] {
        if let Some(value) = value {
            draft.set(name, value);
        }
    }
}
