//! What a binary hands to [`main`] (its experiment design, an engine to start, reports to write), and `main`: from the command line to the exit code.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bench_insight::{BLOCK, RunComparison, ServerMatrix};
use bench_schema::{
    Benchmark, Factor, Load, RunRecord, SloVerdict, StopRule, TrustVerdict, counted,
    printable_json, read_within,
};
use bench_workload::{DatasetSpec, LengthSpec, WorkloadError};

use crate::RunError;
use crate::config::{self, Amount, Lengths, Settings, Stdout, Surroundings};
use crate::matrix;
use crate::redact::{self, Secrets};
use crate::run::{self, Outcome};
use crate::stop::was_interrupted;
use crate::versus;

/// One of the three benchmarks. The runner knows neither the engine nor the reports: the binary brings them together.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Which one.
    pub benchmark: Benchmark,
    /// One line for `--help`.
    pub about: &'static str,
    /// The cells of the experiment, from the settings and the server's context length (in tokens), where it tells one.
    pub design: fn(&Settings, Option<u64>) -> Vec<Cell>,
    /// Starts the embedded engine of this profile or file; used where no URL is given.
    pub start_engine: fn(&str) -> Result<Engine, String>,
    /// Makes texts of a finished run.
    pub reports: Reports,
}

/// What distinguishes a point of the experiment, and what is to be done there. The three binaries differ only in these.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Unique, short, usable in a file name.
    pub id: String,
    /// For people.
    pub label: String,
    /// What distinguishes it.
    pub factors: BTreeMap<String, Factor>,
    /// How load is offered.
    pub load: Load,
    /// What ends it.
    pub stop: StopRule,
    /// How often it is run.
    pub repeats: u32,
    /// What goes before each run, where it was said.
    pub warmup: Option<Amount>,
    /// Where prompts come from.
    pub dataset: DatasetSpec,
    /// Prompt length; absent leaves it to the dataset.
    pub input: Option<LengthSpec>,
    /// Output length; absent leaves it to the dataset.
    pub output: Option<LengthSpec>,
}

impl Cell {
    /// One with this load, from this dataset where none was named, and with everything else as the settings have it. Its names and its end are the design's.
    pub fn of(settings: &Settings, load: Load, dataset: DatasetSpec) -> Self {
        let workload = &settings.workload;
        Self {
            id: String::new(),
            label: String::new(),
            factors: BTreeMap::new(),
            load,
            stop: StopRule::default(),
            repeats: settings.load.repeat.unwrap_or(1),
            warmup: settings.load.warmup,
            dataset: workload.dataset.clone().unwrap_or(dataset),
            input: workload.input_tokens.as_ref().and_then(Lengths::spec),
            output: workload.output_tokens.as_ref().and_then(Lengths::spec),
        }
    }

    /// What its rate counts, where it is an open loop.
    pub fn rate_unit(&self) -> &'static str {
        bench_schema::rate_unit(&self.dataset.to_string())
    }
}

/// A running embedded engine; dropping it stops it.
pub struct Engine {
    /// Where it listens.
    pub url: String,
    /// Its process.
    pub pid: u32,
    guard: Box<dyn Any>,
}

impl Engine {
    /// An engine at `url` in process `pid`, alive as long as `guard` is.
    pub fn new(url: String, pid: u32, guard: impl Any) -> Self {
        Self {
            url,
            pid,
            guard: Box::new(guard),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("url", &self.url)
            .field("pid", &self.pid)
            .field("alive", &self.guard.is::<()>())
            .finish()
    }
}

/// Texts made of a run record and its directory.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    /// For the terminal, with where the results lie: what fits one screen.
    pub table: fn(&RunRecord, &Path) -> String,
    /// For the terminal: every table.
    pub tables: fn(&RunRecord, &Path) -> String,
    /// For `report.md`.
    pub markdown: fn(&RunRecord) -> String,
    /// What a search for a capacity came to, in sentences; nothing where none was asked for.
    pub capacity: fn(&RunRecord) -> Option<String>,
    /// For the terminal: what two sides in turns came to.
    pub versus: fn(&RunComparison) -> String,
    /// The same as Markdown.
    pub versus_markdown: fn(&RunComparison) -> String,
    /// For the terminal: what the settings of a server came to.
    pub matrix: fn(&ServerMatrix) -> String,
    /// The same as Markdown.
    pub matrix_markdown: fn(&ServerMatrix) -> String,
    /// For `report.html`, which also shows single requests and readings from the directory.
    pub html: fn(&RunRecord, &Path) -> Result<String, String>,
}

/// The run failed.
const FAILED: u8 = 1;
/// Wrong usage or configuration.
const USAGE: u8 = 2;
/// Done, but the numbers should not be trusted.
const UNTRUSTED: u8 = 3;
/// Done, and a target or objective was missed.
const MISSED: u8 = 4;
/// Ended early by a signal; what was measured is kept.
const INTERRUPTED: u8 = 5;

/// Bytes of a configuration, a file of scenarios or a key: whatever has more is none.
const LONGEST_FILE: u64 = 1 << 20;

/// Run a benchmark as the process's command line says, and give the process's exit code.
pub fn main(program: &Program) -> ExitCode {
    bench_schema::outlive_file_limits();
    let flags = match config::flags(program.benchmark, program.about, std::env::args_os()) {
        Ok(flags) => flags,
        Err(asked) => return usage(&asked),
    };
    let settings = match settings(program, flags) {
        Ok(settings) => settings,
        Err(error) => {
            Secrets::default().note(&redact::told(&error));
            return ExitCode::from(USAGE);
        }
    };
    let secrets = Secrets::of(&settings);
    let reports = &program.reports;
    if settings.versus.is_asked() && !settings.output.dry_run {
        let forms = [reports.versus, reports.versus_markdown];
        return several(versus::run(program, &settings), &settings, &secrets, forms);
    }
    if !settings.server.vary.is_empty() && !settings.output.dry_run {
        let forms = [reports.matrix, reports.matrix_markdown];
        return several(matrix::run(program, &settings), &settings, &secrets, forms);
    }
    match run::run(program, &settings) {
        Ok(Outcome::Planned(plan)) => print(&secrets.hidden(&plan)),
        Ok(Outcome::Done {
            record,
            folder,
            is_part,
            trouble,
            ..
        }) => {
            let (shown, code) = if is_part {
                (ExitCode::SUCCESS, ExitCode::SUCCESS)
            } else {
                (
                    print(&show(program, &settings, &record, &folder)),
                    code(&record),
                )
            };
            done(shown, trouble.as_ref(), code, &secrets)
        }
        Err(error) => failed(&error, &secrets),
    }
}

/// What several runs came to: two sides in turns, or the settings of a server.
pub(crate) struct Several<T> {
    pub(crate) found: T,
    /// In one sentence.
    pub(crate) summary: String,
    /// Where the runs lie, each in a folder of its own.
    pub(crate) folder: PathBuf,
    pub(crate) runs: Vec<Arc<RunRecord>>,
    /// Whether somebody ended it.
    pub(crate) interrupted: bool,
    /// What else ended it early.
    pub(crate) trouble: Option<RunError>,
}

/// The settings of one of several runs: the seed of its round, a folder of its own, and the tag of its block.
pub(crate) fn settings_of_one(
    settings: &Settings,
    round: u32,
    folder: PathBuf,
    block: u32,
) -> Settings {
    let mut own = settings.clone();
    own.seed = settings.seed.wrapping_add(u64::from(round));
    (own.output.html, own.output.progress) = (false, false);
    own.output.out = Some(folder);
    own.output.tag.retain(|(name, _)| name != BLOCK);
    own.output.tag.push((BLOCK.to_owned(), block.to_string()));
    own
}

/// Shows what several runs came to, as a table or as Markdown. All of them have to be believed.
fn several<T: serde::Serialize>(
    came_to: Result<Several<T>, RunError>,
    settings: &Settings,
    secrets: &Secrets,
    [table, markdown]: [fn(&T) -> String; 2],
) -> ExitCode {
    let several = match came_to {
        Ok(several) => several,
        Err(error) => return failed(&error, secrets),
    };
    let (found, folder) = (&several.found, several.folder.display());
    let shown = print(&match settings.output.output {
        Stdout::Table if settings.output.quiet => {
            format!("{}; results in {folder}\n", several.summary)
        }
        Stdout::Table => format!("{}  Results in {folder}\n", table(found)),
        Stdout::Markdown => markdown(found),
        Stdout::Json => {
            printable_json(serde_json::to_string_pretty(found).unwrap_or_default()) + "\n"
        }
    });
    let untrusted = |run: &Arc<RunRecord>| run.trust.verdict == TrustVerdict::Untrusted;
    let code = if several.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if several.runs.iter().any(untrusted) {
        ExitCode::from(UNTRUSTED)
    } else {
        ExitCode::SUCCESS
    };
    done(shown, several.trouble.as_ref(), code, secrets)
}

/// A result is shown whatever trouble there was, and trouble outranks what it comes to.
fn done(
    shown: ExitCode,
    trouble: Option<&RunError>,
    code: ExitCode,
    secrets: &Secrets,
) -> ExitCode {
    match trouble {
        Some(error) => failed(error, secrets),
        None if shown == ExitCode::SUCCESS => code,
        None => shown,
    }
}

fn failed(error: &RunError, secrets: &Secrets) -> ExitCode {
    secrets.note(&redact::told(error));
    ExitCode::from(match error {
        RunError::Config(_)
        | RunError::OtherMatrix(..)
        | RunError::Workload(WorkloadError::Conflict { .. }) => USAGE,
        // without trouble of its own only somebody who ends it leaves so few blocks
        RunError::Interrupted(_) | RunError::TooFewBlocks(_) => INTERRUPTED,
        _ => FAILED,
    })
}

/// Help and version are results; everything else clap has to say is an error with code 2.
fn usage(asked: &clap::Error) -> ExitCode {
    if asked.use_stderr() {
        Secrets::default().note(asked.render().to_string().trim_end());
        return ExitCode::from(USAGE);
    }
    // in colours, where the terminal, `NO_COLOR` and `CLICOLOR_FORCE` let it
    match asked.print() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        written => printed(written),
    }
}

fn print(text: &str) -> ExitCode {
    printed(bench_schema::print_result(text))
}

/// A result to stdout: a run whose result reaches nobody has failed.
fn printed(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Secrets::default().note(&format!("error: cannot write to standard output: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn settings(program: &Program, flags: config::Flags) -> Result<Settings, RunError> {
    let path = flags.config(&Process);
    let text = path.as_ref().map(|path| {
        read_bounded(path).map_err(|source| RunError::ConfigFile {
            path: path.clone(),
            source,
        })
    });
    let text = text.transpose()?;
    let file = path.as_deref().zip(text.as_deref());
    config::settings(program.benchmark, flags, file, &Process).map_err(RunError::Config)
}

/// The process's own environment and file system.
struct Process;

impl Surroundings for Process {
    /// This is where the environment enters: flags' variables, and those that `--api-key-env` and its like name.
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn names(&self) -> Vec<String> {
        let names = std::env::vars_os();
        names
            .filter_map(|(name, _)| name.into_string().ok())
            .collect()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        read_bounded(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    }
}

/// A small file as text.
fn read_bounded(file: &Path) -> io::Result<String> {
    io::read_to_string(&*read_within(File::open(file)?, LONGEST_FILE)?)
}

fn show(program: &Program, settings: &Settings, record: &RunRecord, folder: &Path) -> String {
    match settings.output.output {
        Stdout::Table if settings.output.quiet => {
            one_line(record, folder, (program.reports.capacity)(record))
        }
        Stdout::Table if settings.output.verbose => (program.reports.tables)(record, folder),
        Stdout::Table => (program.reports.table)(record, folder),
        Stdout::Markdown => (program.reports.markdown)(record),
        Stdout::Json => record.to_json().unwrap_or_default(),
    }
}

fn one_line(record: &RunRecord, folder: &Path, capacity: Option<String>) -> String {
    let (completed, planned) = record.cells.iter().fold((0, 0), |(done, all), cell| {
        (done + cell.counts.completed, all + cell.counts.planned)
    });
    let verdict = record.trust.verdict.as_str();
    let found = capacity.map_or_else(String::new, |found| format!("capacity {found}; "));
    format!(
        "{verdict}: {found}{completed} of {} completed in {}; results in {}\n",
        counted(planned, "request"),
        counted(record.cells.len(), "cell"),
        folder.display()
    )
}

/// An interruption outranks what its numbers come to. A missed target outranks doubt only where the numbers can be believed at all.
fn code(record: &RunRecord) -> ExitCode {
    let missed_target = record.targets.iter().any(|target| !target.met);
    let failed_slo = record.cells.iter().flat_map(|cell| {
        cell.slos
            .iter()
            .chain(cell.groups.iter().flat_map(|group| &group.slos))
    });
    // the stages of a search miss on purpose
    let missed_slo = match &record.analysis.capacity {
        Some(found) => found.value.is_none(),
        None => failed_slo
            .into_iter()
            .any(|slo| slo.verdict != SloVerdict::Pass),
    };
    let missed = missed_target || missed_slo;
    match record.trust.verdict {
        _ if was_interrupted(record) => ExitCode::from(INTERRUPTED),
        TrustVerdict::Untrusted => ExitCode::from(UNTRUSTED),
        _ if missed => ExitCode::from(MISSED),
        _ => ExitCode::SUCCESS,
    }
}

/// Settings from flags alone, for the designs' tests.
///
/// # Panics
/// Where the flags are wrong: it is for tests.
#[doc(hidden)]
#[expect(
    clippy::panic,
    reason = "a helper of tests, which says what is wrong with their flags"
)]
pub fn settings_for_tests(benchmark: Benchmark, args: &[&str]) -> Settings {
    /// Files, and none of the variables of whoever runs the tests.
    struct Files;
    impl Surroundings for Files {
        fn variable(&self, _name: &str) -> Option<OsString> {
            None
        }
        fn names(&self) -> Vec<String> {
            Vec::new()
        }
        fn read(&self, file: &Path) -> Result<String, String> {
            Process.read(file)
        }
    }
    let args = std::iter::once("test")
        .chain(args.iter().copied())
        .map(OsString::from);
    let flags = config::flags(benchmark, "", args).unwrap_or_else(|error| panic!("{error}"));
    config::settings(benchmark, flags, None, &Files)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}
