//! Which setting of a server is best (`--server` with `--vary`): one whole run for each setting in each round, laid beside each other.
//!
//! Each is a run like any other, of a server that was started for it, in a folder of its own with a tag for every parameter, so that everything that is known of a run
//! is known of it. A round has every setting once, in an order drawn anew: what drifts from round to round falls on all of them alike, and their plans are the same.
//! What was measured is not measured again where the same is asked for in the same folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench_insight::{MeasuredSetting, ServerMatrix, server_matrix};
use bench_metrics::CompareOptions;
use bench_schema::{MOST_RUN_BYTES, RunRecord, read_file};
use bench_workload::{Draw, Seed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RunError;
use crate::config::{Settings, Values};
use crate::entry::{Program, Several, settings_of_one};
use crate::folder::{self, RunDirectory};
use crate::progress::Progress;
use crate::redact::Secrets;
use crate::run::{self, Outcome, wall_clock};
use crate::stop::{Ears, was_interrupted};

/// Rounds where nothing is said.
const ROUNDS: u32 = 3;
/// What is asked for and what came of it.
const FILE: &str = "matrix.json";
/// Where runs of a setting go that were broken off: readers of a folder of repeats do not look there.
const BROKEN_OFF: &str = "broken-off";
/// Keys that change neither what is sent nor the server: the matrix may be gone on with under others.
const FREE: [&str; 14] = [
    "out",
    "output",
    "html",
    "live",
    "progress",
    "quiet",
    "verbose",
    "dry_run",
    "vary",
    "only",
    "rounds",
    "baseline",
    "in_order",
    "server_start_timeout",
];

/// Settings between two measurements of the baseline.
const BETWEEN: usize = 4;

/// One setting on its way.
struct Setting {
    values: Values,
    folder: PathBuf,
    runs: Vec<(u32, Arc<RunRecord>)>,
    failures: Vec<String>,
    /// Whether it is measured with the same requests each time, and not with those of its round.
    is_baseline: bool,
}

/// `matrix.json`.
#[derive(Serialize, Deserialize)]
struct Stored {
    config: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ServerMatrix>,
}

/// Measure every setting in every round, and say which is best. The runs lie in the folders of their settings.
///
/// # Errors
/// [`RunError`] where the folder is another matrix's or cannot be written, or where no setting could be measured at all.
pub(crate) fn run(
    program: &Program,
    settings: &Settings,
) -> Result<Several<ServerMatrix>, RunError> {
    let secrets = Secrets::of(settings);
    let directory = directory(settings, &secrets)?;
    let out = directory.name();
    let mut all = all_settings(settings, &out);
    let many = all.len();
    all.extend(baseline(settings, &out));
    let (interrupted, trouble) = measure_all(program, settings, &secrets, &mut all);
    let measured: Vec<MeasuredSetting<'_>> = all.iter().map(Setting::measured).collect();
    let (own, baseline) = measured.split_at(many);
    let found = server_matrix(own, &CompareOptions::default());
    let found = found.map(|found| match baseline {
        [baseline] => found.with_baseline(baseline),
        _ => found,
    });
    let Some(mut matrix) = found else {
        return Err(match trouble {
            Some(error) => error,
            None if interrupted => RunError::Interrupted("a signal"),
            None => RunError::NoSetting(out),
        });
    };
    let failures = matrix.settings.iter_mut().flat_map(|row| &mut row.failures);
    failures.for_each(|failure| secrets.hide(failure));
    let stored = Stored {
        config: asked(settings, &secrets),
        result: Some(matrix.clone()),
    };
    let markdown = (program.reports.matrix_markdown)(&matrix);
    // what cannot be stored is shown all the same
    let stored = write(&directory, &stored, &secrets);
    let stored = stored.and_then(|()| directory.write("matrix.md", &markdown));
    let runs = all.into_iter().flat_map(|setting| setting.runs);
    Ok(Several {
        runs: runs.map(|(_, run)| run).collect(),
        summary: matrix.summary(),
        found: matrix,
        folder: out,
        interrupted,
        trouble: trouble.or(stored.err()),
    })
}

/// Round after round; whether somebody ended it, and what else did.
fn measure_all(
    program: &Program,
    settings: &Settings,
    secrets: &Secrets,
    all: &mut [Setting],
) -> (bool, Option<RunError>) {
    let (mut interrupted, mut trouble) = (false, None);
    let ears = match Ears::open() {
        Ok(ears) => ears,
        Err(error) => return (false, Some(RunError::Thread(error))),
    };
    let turns = order(settings, rounds(settings));
    let many = turns.len();
    for (turn, (round, index)) in turns.into_iter().enumerate() {
        let Some(setting) = all.get_mut(index) else {
            continue;
        };
        // what does not start once would take as long to fail again
        if setting.runs.is_empty() && !setting.failures.is_empty() {
            continue;
        }
        let say = |what: &str| {
            if !settings.output.quiet {
                let baseline = if setting.is_baseline {
                    "baseline, "
                } else {
                    ""
                };
                let name = format!("{baseline}{}", shown(&setting.values));
                secrets.note(&format!(
                    "{} of {many}: {name}, round {}{what}",
                    turn + 1,
                    round + 1
                ));
            }
        };
        let place = setting.folder.join(format!("{:03}", round + 1));
        match finished(&place) {
            Ok(Some(done)) => {
                say(" was already measured");
                setting.runs.push((round, Arc::new(done)));
                continue;
            }
            Ok(None) => say(""),
            Err(damaged) => say(&format!(
                " is measured again: {damaged} is not what it was, and is kept in {BROKEN_OFF}"
            )),
        }
        match setting.measure(program, settings, (round, place.clone())) {
            Ok(()) => {}
            Err(Ended::Failed(why)) => {
                secrets.note(&format!("this setting failed: {why}"));
                setting.failures.push(why);
                // its run may be whole, and is no measurement of this setting
                trouble = put_aside(&place)
                    .err()
                    .map(|error| folder::cannot(&place, error));
            }
            Err(Ended::ByHand) => interrupted = true,
            Err(Ended::By(error)) => trouble = Some(error),
        }
        interrupted |= ears.heard().is_some();
        if interrupted || trouble.is_some() {
            break;
        }
    }
    (interrupted, trouble)
}

/// How often each setting is measured.
pub(crate) fn rounds(settings: &Settings) -> u32 {
    settings.server.rounds.unwrap_or(ROUNDS)
}

/// Why a setting was not measured.
enum Ended {
    /// Its server failed, which is a result.
    Failed(String),
    /// Somebody wants the whole to end.
    ByHand,
    /// Nothing more can be measured.
    By(RunError),
}

impl Setting {
    fn measure(
        &mut self,
        program: &Program,
        settings: &Settings,
        (round, place): (u32, PathBuf),
    ) -> Result<(), Ended> {
        put_aside(&place).map_err(|error| Ended::By(folder::cannot(&place, error)))?;
        let of_round = if self.is_baseline { 0 } else { round };
        let own = settings_of(settings, &self.values, of_round, place);
        let done = match run::run(program, &own) {
            Ok(Outcome::Planned(_)) => return Ok(()),
            Ok(Outcome::Done { record, .. }) if was_interrupted(&record) => {
                return Err(Ended::ByHand);
            }
            Ok(Outcome::Done {
                record, trouble, ..
            }) => trouble.map_or(Ok(record), Err),
            Err(error) => Err(error),
        };
        match done {
            Ok(record) => self.runs.push((round, record)),
            Err(RunError::Server { what, .. }) => return Err(Ended::Failed(what)),
            Err(error @ RunError::NothingAnswered(_)) => {
                return Err(Ended::Failed(error.to_string()));
            }
            Err(RunError::Interrupted(_)) => return Err(Ended::ByHand),
            Err(error) => return Err(Ended::By(error)),
        }
        Ok(())
    }

    fn measured(&self) -> MeasuredSetting<'_> {
        let runs = self.runs.iter().map(|(round, run)| (*round, &**run));
        MeasuredSetting {
            values: self.values.clone(),
            runs: runs.collect(),
            failures: self.failures.clone(),
        }
    }
}

/// The folder of the whole: a new one, or one in which the same was begun before.
fn directory(settings: &Settings, secrets: &Secrets) -> Result<RunDirectory, RunError> {
    let path = folder::wanted(settings, wall_clock());
    let progress = Progress::new(false, secrets.clone());
    let config = asked(settings, secrets);
    let before = fs::read_to_string(path.join(FILE)).ok();
    let Some(before) = before.and_then(|text| serde_json::from_str::<Stored>(&text).ok()) else {
        let directory = RunDirectory::at(path, progress)?;
        let result = None;
        write(&directory, &Stored { config, result }, secrets)?;
        return Ok(directory);
    };
    if let Some(key) = differing(&before.config, &config) {
        return Err(RunError::OtherMatrix(path, key));
    }
    RunDirectory::held(path, progress)
}

fn write(directory: &RunDirectory, stored: &Stored, secrets: &Secrets) -> Result<(), RunError> {
    let json = serde_json::to_string_pretty(stored).unwrap_or_default() + "\n";
    directory.write(FILE, &secrets.hidden(&json))
}

/// What is asked for, but for what may be changed on the way, and without secrets: as it is stored, to be held against what was stored.
fn asked(settings: &Settings, secrets: &Secrets) -> Value {
    let mut config = settings.stored();
    if let Some(keys) = config.as_object_mut() {
        keys.retain(|key, _| !FREE.contains(&key.as_str()));
    }
    secrets.hide_in_json(&mut config);
    config
}

/// The first key in which two differ.
fn differing(before: &Value, now: &Value) -> Option<String> {
    let (before, now) = (before.as_object()?, now.as_object()?);
    let mut keys = before.keys().chain(now.keys());
    keys.find(|key| before.get(*key) != now.get(*key)).cloned()
}

fn all_settings(settings: &Settings, out: &Path) -> Vec<Setting> {
    let mut names: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for values in settings.server.settings() {
        let wanted = folder_name(&values);
        let mut numbered = (2..).map(|n| format!("{wanted}-{n}"));
        let name = if names.contains(&wanted) {
            numbered.find(|name| !names.contains(name))
        } else {
            None
        };
        let name = name.unwrap_or(wanted);
        all.push(Setting {
            folder: out.join(&name),
            values,
            runs: Vec::new(),
            failures: Vec::new(),
            is_baseline: false,
        });
        names.push(name);
    }
    all
}

/// `max_num_seqs=64,tp=2`, short and without what a file's name cannot have.
fn folder_name(values: &Values) -> String {
    let parts = values.iter().map(|(name, value)| format!("{name}={value}"));
    let name = parts.collect::<Vec<_>>().join(",");
    let safe = |c: char| c.is_ascii_alphanumeric() || "=,.+-_".contains(c);
    name.chars()
        .map(|c| if safe(c) { c } else { '_' })
        .take(120)
        .collect()
}

fn shown(values: &Values) -> String {
    let parts = values.iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The setting that is measured in between, where there is one; its place is behind all others.
fn baseline(settings: &Settings, out: &Path) -> Option<Setting> {
    let values: Values = settings.server.baseline.iter().cloned().collect();
    (!values.is_empty()).then(|| Setting {
        values,
        folder: out.join("baseline"),
        runs: Vec::new(),
        failures: Vec::new(),
        is_baseline: true,
    })
}

/// The settings of each round, in an order of its own, each with its round; the baseline at the beginning, the end and in between, each with how often it was measured before.
fn order(settings: &Settings, rounds: u32) -> Vec<(u32, usize)> {
    let many = settings.server.settings().len();
    let mut draw = Draw::new(Seed::new(settings.seed).stream("settings", ""));
    let mut round = |round| {
        let mut order: Vec<usize> = (0..many).collect();
        if !settings.load.in_order {
            draw.shuffle(&mut order);
        }
        order.into_iter().map(move |index| (round, index))
    };
    let own: Vec<(u32, usize)> = (0..rounds)
        .flat_map(|n| round(n).collect::<Vec<_>>())
        .collect();
    if settings.server.baseline.is_empty() {
        return own;
    }
    let between = (0..).zip(own.chunks(BETWEEN));
    let mut all: Vec<(u32, usize)> = between
        .flat_map(|(n, own)| std::iter::once((n, many)).chain(own.iter().copied()))
        .collect();
    all.push((
        u32::try_from(own.len().div_ceil(BETWEEN)).unwrap_or(0),
        many,
    ));
    all
}

/// What one run is asked for: its setting's command, the seed of its round, a folder of its own and its tags.
fn settings_of(settings: &Settings, values: &Values, round: u32, place: PathBuf) -> Settings {
    let mut own = settings_of_one(settings, round, place, round + 1);
    own.server.server = settings.server.command_of(values);
    own.server.vary.clear();
    own.server.only.clear();
    own.server.baseline.clear();
    own.server.rounds = None;
    let tags = &mut own.output.tag;
    let block = tags.pop();
    tags.retain(|(name, _)| !values.contains_key(name));
    tags.extend(values.clone());
    tags.extend(block);
    own
}

/// A run that was measured to its end; the file that was damaged, where one of its records was since.
fn finished(place: &Path) -> Result<Option<RunRecord>, String> {
    let Some(run) = read_file(&place.join("run.json"), MOST_RUN_BYTES)
        .ok()
        .and_then(|bytes| RunRecord::from_json(&String::from_utf8_lossy(&bytes)).ok())
        .filter(|run| run.complete)
    else {
        return Ok(None);
    };
    let damaged = run.journal.iter().find(|part| !part.is_whole_in(place));
    match damaged {
        Some(part) => Err(place.join(&part.file).display().to_string()),
        None => Ok(Some(run)),
    }
}

/// A run that was broken off is kept, where nobody takes it for one of its setting's.
fn put_aside(place: &Path) -> std::io::Result<()> {
    let (Some(setting), Some(name)) = (place.parent(), place.file_name()) else {
        return Ok(());
    };
    if !folder::is_occupied(place) {
        return Ok(());
    }
    let aside = setting.join(BROKEN_OFF);
    fs::create_dir_all(&aside)?;
    let wanted = aside.join(name);
    let free = folder::numbered(&wanted).find(|path| !path.exists());
    fs::rename(place, free.unwrap_or_default())
}

#[cfg(test)]
#[path = "../tests/unit/matrix.rs"]
mod tests;
