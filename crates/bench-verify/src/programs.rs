//! The built programs, started as a user starts them, and the engines they measure, in processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bench_engine::{EngineConfig, Entry, child};
use bench_schema::{JournalFile, RequestRecord, RunRecord};
use serde_json::Value;

use crate::VerifyError;

/// Where the programs lie, and on which cores client and server run.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    /// Cores of the client and of the server, where each has its own.
    pub cores: Option<(usize, usize)>,
}

/// What a benchmark left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) run: RunRecord,
    pub(crate) records: Vec<RequestRecord>,
}

impl Programs {
    /// The programs in `folder`; without one those beside this program, as cargo leaves them.
    ///
    /// # Errors
    /// [`VerifyError::Io`] if this program does not know where it is.
    pub fn new(folder: Option<PathBuf>) -> Result<Self, VerifyError> {
        let beside = || -> Result<PathBuf, VerifyError> {
            let this = std::env::current_exe().map_err(VerifyError::io("where this program is"))?;
            let mut folder = this.parent().unwrap_or(Path::new(".")).to_owned();
            if folder.ends_with("deps") {
                folder.pop();
            }
            Ok(folder)
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            folder: folder.map_or_else(beside, Ok)?,
            cores: (cores >= 2).then_some((0, 1)),
        })
    }

    /// A program that runs where the server runs.
    pub(crate) fn server(&self, name: &str) -> Result<Command, VerifyError> {
        self.command(name, self.cores.map(|(_, server)| server))
    }

    /// A program that runs where the client runs.
    pub(crate) fn client(&self, name: &str) -> Result<Command, VerifyError> {
        self.command(name, self.cores.map(|(client, _)| client))
    }

    fn command(&self, name: &str, core: Option<usize>) -> Result<Command, VerifyError> {
        let path = self.folder.join(name);
        if !path.exists() {
            return Err(VerifyError::Missing { path });
        }
        Ok(on_core(core, &path))
    }

    /// Runs a benchmark to its end and reads what it left in `out`.
    pub(crate) fn run(
        &self,
        name: &str,
        arguments: &[String],
        out: &Path,
    ) -> Result<Ran, VerifyError> {
        let mut command = self.client(name)?;
        command
            .args(arguments)
            .args(["--no-progress", "--no-html", "--out"])
            .arg(out)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(VerifyError::io(name))?;
        let (code, said) = wait(child)?;
        left(out).unwrap_or_else(|| {
            let command = format!("{name} {}", arguments.join(" "));
            Err(VerifyError::no_result(command, code, &said))
        })
    }

    /// Concludes a run again from its journals, with `bench-report recover`.
    pub(crate) fn conclude_again(&self, out: &Path) -> Result<Ran, VerifyError> {
        let output = self.report("recover", out, &["--anew"])?;
        let told = left(out).filter(|_| output.status.success());
        told.unwrap_or_else(|| {
            let command = format!("bench-report recover {}", out.display());
            let said = String::from_utf8_lossy(&output.stderr);
            Err(VerifyError::no_result(command, output.status.code(), &said))
        })
    }

    /// Each cell as `bench-report export --format vllm` writes it.
    pub(crate) fn vllm(&self, out: &Path) -> Result<Vec<(String, Value)>, VerifyError> {
        let output = self.report("export", out, &["--format", "vllm"])?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let read = |path: &str| {
            let text = std::fs::read(path).map_err(VerifyError::io(path))?;
            let value =
                serde_json::from_slice(&text).map_err(|error| VerifyError::read(path, &error))?;
            let cell = Path::new(path).file_stem().unwrap_or_default();
            Ok((cell.to_string_lossy().replacen("vllm-", "", 1), value))
        };
        listed.lines().map(read).collect()
    }

    fn report(&self, what: &str, out: &Path, how: &[&str]) -> Result<Output, VerifyError> {
        let mut command = self.client("bench-report")?;
        command.arg(what).arg(out).args(how);
        command.output().map_err(VerifyError::io("bench-report"))
    }
}

/// A command on a core of its own, where it has one.
pub(crate) fn on_core(core: Option<usize>, program: &Path) -> Command {
    let Some(core) = core else {
        return Command::new(program);
    };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// The servers of one run.
#[derive(Debug)]
pub(crate) struct Engines(Vec<child::Child>);

/// What they knew at its end.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Every request for an answer, of all servers, with the number of its server.
    pub(crate) entries: Vec<(usize, Entry)>,
    /// Connections that were accepted and carried nothing.
    pub(crate) unused: usize,
    /// Share of this machine's CPU time that its host gave to others meanwhile, where it tells.
    pub(crate) stolen: Option<f64>,
}

impl Known {
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, VerifyError> {
        serde_json::to_vec(&(&self.entries, self.unused, self.stolen))
            .map_err(|error| VerifyError::read("what the servers know", &error))
    }

    pub(crate) fn from_json(text: &[u8]) -> Result<Self, VerifyError> {
        let (entries, unused, stolen) = serde_json::from_slice(text)
            .map_err(|error| VerifyError::read("what the servers knew", &error))?;
        Ok(Self {
            entries,
            unused,
            stolen,
        })
    }
}

impl Engines {
    /// Starts one process for each configuration; they listen when it returns.
    pub(crate) fn start(
        programs: &Programs,
        configs: &[EngineConfig],
    ) -> Result<Self, VerifyError> {
        let start = |config| {
            Ok(child::spawn_program(
                programs.server("bench-engine")?,
                config,
            )?)
        };
        configs
            .iter()
            .map(start)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// `--url` and its value for each, in the order of the configurations.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let url = |child: &child::Child| match child.url().strip_prefix("unix:") {
            Some(path) => format!("unix://{path}"),
            None => child.url().to_owned(),
        };
        let both = |child| ["--url".to_owned(), url(child)];
        self.0.iter().flat_map(both).collect()
    }

    pub(crate) fn end(self) -> Result<Known, VerifyError> {
        let mut known = Known::default();
        for (at, child) in self.0.into_iter().enumerate() {
            let one = child.end()?;
            let entries = one.entries.into_iter().map(|entry| (at, entry));
            known.entries.extend(entries);
            let idle = one.connections.iter().filter(|carried| **carried == 0);
            known.unused += idle.count();
        }
        Ok(known)
    }
}

/// What a run left; nothing where it left no `run.json`.
fn left(out: &Path) -> Option<Result<Ran, VerifyError>> {
    let text = std::fs::read_to_string(out.join("run.json")).ok()?;
    let read = || {
        let run = RunRecord::from_json(&text)
            .map_err(|error| VerifyError::read(out.display().to_string(), &error))?;
        let records = records(out)?;
        Ok(Ran { run, records })
    };
    Some(read())
}

/// Waits for a program, at most five minutes; gives its code and what it said.
fn wait(child: Child) -> Result<(Option<i32>, String), VerifyError> {
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        if ended.recv_timeout(Duration::from_mins(5)).is_err()
            && let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed())
        {
            // It may have ended at this moment.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    });
    let output = child.wait_with_output();
    done.send(()).ok();
    watch.join().ok();
    let output = output.map_err(VerifyError::io("wait for a program"))?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), said))
}

/// The whole lines of a run's journal.
fn records(out: &Path) -> Result<Vec<RequestRecord>, VerifyError> {
    let mut records = Vec::new();
    for part in JournalFile::Requests.parts_in(out) {
        let what = part.display().to_string();
        let text = std::fs::read_to_string(&part).map_err(VerifyError::io(&what))?;
        for line in text.lines() {
            let record =
                serde_json::from_str(line).map_err(|error| VerifyError::read(&what, &error))?;
            records.push(record);
        }
    }
    Ok(records)
}
