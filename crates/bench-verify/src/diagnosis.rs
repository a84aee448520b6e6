//! The diagnosis benchmark: runs against servers whose trouble is known, and what the runs said about it.
//!
//! A [`Situation`] (`situations.toml`) is a server's profile, a command line, and a label: the causes that may be named first, what else is true, the
//! trust that is due. Nothing that a situation is called or labelled reaches the program that is judged.

mod score;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use bench_engine::EngineConfig;
use bench_schema::{Cause, TrustVerdict};
use serde::Deserialize;

use crate::VerifyError;
use crate::programs::{Engines, Known, Programs, Ran, on_core};

pub use score::Judged;
pub use score::{Limits, Score, by_situation};

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
    Ok(score::judge(trial, &ran, &known))
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
    Ok(score::judge(trial, &ran, &known))
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
            let child = on_core(core, Path::new("sh"))
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

// The situations, as `situations.toml` lists them.

/// A server's trouble, a load, and what a run against it has to say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// Its name, for `--only` and the table.
    pub name: String,
    /// Names of the servers' profiles.
    engines: Vec<String>,
    /// The profiles themselves.
    #[serde(skip)]
    profiles: Vec<EngineConfig>,
    #[serde(default = "throughput")]
    program: String,
    /// The command line, without servers, seed and output.
    arguments: String,
    /// Whose core real busy loops take, and how many of them.
    starve: Option<Starve>,
    /// Causes of which one has to be named first. Empty: there is nothing to name.
    #[serde(default = "healthy")]
    pub causes: Vec<Cause>,
    /// The same where the server tells nothing of itself, if it differs.
    hidden: Option<Vec<Cause>>,
    /// Causes that are true as well, or consequences: no merit, no fault.
    also: Option<Vec<Cause>>,
    /// Verdicts that are right.
    trust: Option<Vec<TrustVerdict>>,
    /// Advice for the first finding: one of these words has to be in it. Empty: none is judged.
    #[serde(default)]
    advice: Vec<String>,
}

/// Busy loops on a core.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Starve {
    core: Starved,
    loops: usize,
}

/// Whose core is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Starved {
    Server,
    Client,
}

fn throughput() -> String {
    "bench-throughput".to_owned()
}

fn healthy() -> Vec<Cause> {
    vec![Cause::Healthy]
}

impl Situation {
    /// Whether nothing is wrong with the server.
    pub fn is_healthy(&self) -> bool {
        self.causes.first() == Some(&Cause::Healthy)
    }

    /// Causes that may come first.
    fn accepted(&self, metrics: bool) -> &[Cause] {
        let hidden = self.hidden.as_ref().filter(|_| !metrics);
        hidden.unwrap_or(&self.causes)
    }

    /// Whether a cause is true as well. A healthy server's prefix cache may have helped.
    fn is_true_as_well(&self, cause: Cause) -> bool {
        match &self.also {
            Some(also) => also.contains(&cause),
            None => self.is_healthy() && cause == Cause::PrefixCache,
        }
    }

    /// Whether a verdict is right.
    fn is_due(&self, verdict: TrustVerdict) -> bool {
        match &self.trust {
            Some(due) => due.contains(&verdict),
            None if self.is_healthy() => verdict == TrustVerdict::Trusted,
            None => verdict != TrustVerdict::Untrusted,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    engines: BTreeMap<String, EngineConfig>,
    situation: Vec<Situation>,
}

/// All situations, the healthy ones first.
///
/// # Errors
/// [`VerifyError::Read`] where the list is not one, or names a profile that there is not.
pub fn situations() -> Result<Vec<Situation>, VerifyError> {
    let wrong = |reason: &dyn ToString| VerifyError::read("situations.toml", &reason.to_string());
    let list: List =
        toml::from_str(include_str!("diagnosis/situations.toml")).map_err(|error| wrong(&error))?;
    let mut all = list.situation;
    for situation in &mut all {
        for name in &situation.engines {
            let profile = list.engines.get(name).cloned();
            let profile = profile.ok_or_else(|| wrong(&format!("there is no engine `{name}`")))?;
            situation.profiles.push(profile);
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "../tests/unit/diagnosis.rs"]
mod tests;

#[cfg(test)]
#[path = "../tests/unit/diagnosis_situations.rs"]
mod situations_tests;
