//! The built programs, started as a user starts them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench_schema::{JournalFile, RequestRecord, RunRecord};

use crate::error::VerifyError;

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
        Ok(match core {
            None => Command::new(path),
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(path);
                command
            }
        })
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
        let mut command = self.client("bench-report")?;
        command.args(["recover", "--anew"]).arg(out);
        let output = command.output().map_err(VerifyError::io("bench-report"))?;
        let told = left(out).filter(|_| output.status.success());
        told.unwrap_or_else(|| {
            let command = format!("bench-report recover {}", out.display());
            let said = String::from_utf8_lossy(&output.stderr);
            Err(VerifyError::no_result(command, output.status.code(), &said))
        })
    }

    /// TTFT p99 of each cell as `bench-report export --format vllm` writes it, ms.
    pub(crate) fn vllm_ttft_p99(&self, out: &Path) -> Result<Vec<(String, f64)>, VerifyError> {
        let mut command = self.client("bench-report")?;
        command.arg("export").arg(out).args(["--format", "vllm"]);
        let output = command.output().map_err(VerifyError::io("bench-report"))?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut found = Vec::new();
        for path in listed.lines() {
            let text = std::fs::read(path).map_err(VerifyError::io(path))?;
            let value: serde_json::Value =
                serde_json::from_slice(&text).map_err(|error| VerifyError::read(path, &error))?;
            let cell = Path::new(path).file_stem().unwrap_or_default();
            let cell = cell.to_string_lossy().replacen("vllm-", "", 1);
            if let Some(p99) = value.get("p99_ttft_ms").and_then(serde_json::Value::as_f64) {
                found.push((cell, p99));
            }
        }
        Ok(found)
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
