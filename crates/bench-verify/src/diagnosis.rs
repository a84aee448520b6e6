//! The diagnosis benchmark: runs against servers whose trouble is known, and what the runs said about it.
//!
//! A [`Situation`] (`situations.toml`) is a server's profile, a command line, and a label: the causes that may be named first, what else is true, the
//! trust that is due. Nothing that a situation is called or labelled reaches the program that is judged.

mod judge;
mod score;
mod situations;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use bench_engine::EngineConfig;

pub use judge::Judged;
pub use score::{Limits, Score, by_situation};
pub use situations::{Situation, situations};

use crate::error::VerifyError;
use crate::programs::{Engines, Known, Programs, Ran};
use situations::{Starve, Starved};

/// One run that is to be made.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Of what.
    pub situation: Situation,
    /// Seed of server and client.
    pub seed: u64,
    /// Whether the server tells of itself.
    pub metrics: bool,
}

impl Trial {
    /// Where its run is kept, below the folder of all.
    fn folder(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = self.situation.name.chars().map(plain).collect();
        let told = if self.metrics { "metrics" } else { "blind" };
        format!("{name}-{}-{told}", self.seed)
    }
}

/// What the servers knew, beside the run that is kept.
const KNOWN_FILE: &str = "known.json";

/// Makes a run and judges it; what it left and what the servers knew stays in `keep`, where that is given.
///
/// # Errors
/// [`VerifyError`] where there is nothing to judge.
pub fn play(
    programs: &Programs,
    trial: &Trial,
    keep: Option<&Path>,
) -> Result<Judged, VerifyError> {
    let scratch = tempfile::tempdir().map_err(VerifyError::io("a folder for the run"))?;
    let folder = keep.map_or_else(
        || scratch.path().to_owned(),
        |keep| keep.join(trial.folder()),
    );
    let failed = |source| VerifyError::io(folder.display().to_string())(source);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let (ran, known) = undisturbed(programs, trial, &folder)?;
    std::fs::write(folder.join(KNOWN_FILE), known.to_json()?).map_err(failed)?;
    Ok(judge::judge(trial, &ran, &known))
}

/// Runs that are made until one is not disturbed by the machine's other tenants: the last is taken as it is.
const ATTEMPTS: usize = 2;

fn undisturbed(
    programs: &Programs,
    trial: &Trial,
    folder: &Path,
) -> Result<(Ran, Known), VerifyError> {
    for _ in 1..ATTEMPTS {
        let made = make(programs, trial, folder)?;
        if !disturbs(made.1.stolen) {
            return Ok(made);
        }
        // The benchmarks write into no folder that holds a run.
        let run = folder.join("run");
        std::fs::remove_dir_all(&run).map_err(VerifyError::io(run.display().to_string()))?;
    }
    make(programs, trial, folder)
}

/// Judges a kept run as `bench-report recover` concludes it now: no server, no load.
///
/// # Errors
/// [`VerifyError`] where the run was not kept or cannot be concluded.
pub fn again(programs: &Programs, trial: &Trial, kept: &Path) -> Result<Judged, VerifyError> {
    let folder = kept.join(trial.folder());
    let known = folder.join(KNOWN_FILE);
    let what = known.display().to_string();
    let known = Known::from_json(&std::fs::read(&known).map_err(VerifyError::io(&what))?)?;
    let ran = programs.conclude_again(&folder.join("run"))?;
    Ok(judge::judge(trial, &ran, &known))
}

fn make(programs: &Programs, trial: &Trial, folder: &Path) -> Result<(Ran, Known), VerifyError> {
    let situation = &trial.situation;
    let profiles = situation.profiles.iter().cloned();
    let configs: Vec<EngineConfig> = profiles
        .map(|profile| EngineConfig {
            seed: trial.seed,
            metrics_page: trial.metrics,
            ..profile
        })
        .collect();
    let engines = Engines::start(programs, &configs)?;
    let mut arguments = engines.arguments();
    arguments.extend(["--seed".to_owned(), trial.seed.to_string()]);
    if !trial.metrics {
        arguments.extend(["--server-metrics".to_owned(), "none".to_owned()]);
    }
    arguments.extend(situation.arguments.split_whitespace().map(str::to_owned));
    let loops = situation
        .starve
        .map(|starve| Loops::start(programs, starve));
    let before = ticks_now();
    let ran = programs.run(&situation.program, &arguments, &folder.join("run"));
    let stolen = stolen_share(before, ticks_now());
    drop(loops.transpose()?);
    let known = engines.end()?;
    Ok((ran?, Known { stolen, ..known }))
}

/// Processes that only count, on one core.
struct Loops(Vec<Child>);

impl Loops {
    fn start(programs: &Programs, starve: Starve) -> Result<Self, VerifyError> {
        let mut loops = Self(Vec::new());
        let core = programs.cores.map(|(client, server)| match starve.core {
            Starved::Server => server,
            Starved::Client => client,
        });
        for _ in 0..starve.loops {
            let mut command = match core {
                Some(core) => {
                    let mut command = Command::new("taskset");
                    command.args(["-c", &core.to_string(), "sh"]);
                    command
                }
                None => Command::new("sh"),
            };
            let child = command
                .args(["-c", "while kill -0 $PPID 2>/dev/null; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .map_err(VerifyError::io("a busy loop"))?;
            loops.0.push(child);
        }
        Ok(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It cannot have ended by itself; if it has, all the better.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

// CPU time that a virtual machine's host gave to others: a run in which it gave much away is no healthy run, whatever its label says.

/// Share of the machine's CPU time from which on a run is disturbed.
const MOST: f64 = 0.04;

/// CPU time since the machine started, in ticks: stolen, and all.
type Ticks = Option<(u64, u64)>;

/// As the kernel tells it now; nothing where there is no such file.
fn ticks_now() -> Ticks {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn ticks(stat: &str) -> Ticks {
    let mut words = stat.lines().next()?.split_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    // user, nice, system, idle, iowait, irq, softirq, steal; a guest's time is in the user's.
    let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    Some((*times.get(7)?, times.iter().sum()))
}

/// Share that was stolen between two readings.
fn stolen_share(before: Ticks, after: Ticks) -> Option<f64> {
    let ((stolen, all), (stolen_after, all_after)) = (before?, after?);
    let passed = all_after.checked_sub(all).filter(|passed| *passed > 0)?;
    Some(stolen_after.checked_sub(stolen)? as f64 / passed as f64)
}

/// Whether so much was stolen that a label says nothing of the run. What is not known is taken for quiet.
fn disturbs(stolen: Option<f64>) -> bool {
    stolen.is_some_and(|share| share > MOST)
}

#[cfg(test)]
#[path = "../tests/unit/diagnosis.rs"]
mod tests;
