//! The binaries' shared `main`: from the command line to the exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use bench_schema::{RunRecord, SloVerdict, TrustVerdict};

use crate::RunError;
use crate::config::{self, Settings, Stdout, Surroundings};
use crate::program::Program;
use crate::redact::{self, Console, Secrets};
use crate::run::{self, Outcome};

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
    let flags = match config::parse_flags(program.benchmark, program.about, std::env::args_os()) {
        Ok(flags) => flags,
        Err(asked) => return usage(&asked),
    };
    let settings = match settings(program, flags) {
        Ok(settings) => settings,
        Err(error) => {
            Console::default().note(&redact::told(&error));
            return ExitCode::from(USAGE);
        }
    };
    let secrets = Secrets::of(&settings);
    let failed = |error: &dyn std::error::Error| {
        Console::without(secrets.clone()).note(&redact::told(error));
        ExitCode::from(FAILED)
    };
    match run::run(program, &settings) {
        Ok(Outcome::Planned(plan)) => print(&secrets.hidden(&plan)),
        Ok(Outcome::Done {
            record,
            folder,
            trouble,
        }) => {
            let shown = print(&show(program, &settings, &record, &folder));
            match trouble {
                Some(error) => failed(&error),
                None if shown == ExitCode::SUCCESS => code(&record),
                None => shown,
            }
        }
        Err(error) => failed(&error),
    }
}

/// Help and version are results; everything else clap has to say is an error with code 2.
fn usage(asked: &clap::Error) -> ExitCode {
    let text = asked.render().to_string();
    if asked.use_stderr() {
        Console::default().note(text.trim_end());
        ExitCode::from(USAGE)
    } else {
        print(&text)
    }
}

/// A result to stdout: a run whose result reaches nobody has failed.
fn print(text: &str) -> ExitCode {
    match Console::result(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Console::default().note(&format!("error: cannot write to standard output: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn settings(program: &Program, flags: config::Flags) -> Result<Settings, RunError> {
    let path = flags.config.clone();
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
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the environment enters: the variable that --api-key-env names"
    )]
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        read_bounded(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    }
}

/// A small file as text. It may be a device that never ends.
fn read_bounded(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(file)?.take(LONGEST_FILE + 1);
    if file.read_to_string(&mut text)? as u64 > LONGEST_FILE {
        let wrong = format!("it has more than {} KiB", LONGEST_FILE / 1024);
        return Err(io::Error::other(wrong));
    }
    Ok(text)
}

fn show(program: &Program, settings: &Settings, record: &RunRecord, folder: &Path) -> String {
    match settings.output.output {
        _ if settings.output.quiet => one_line(record, folder),
        Stdout::Table if settings.output.verbose => (program.reports.tables)(record, folder),
        Stdout::Table => (program.reports.table)(record, folder),
        Stdout::Markdown => (program.reports.markdown)(record),
        Stdout::Json => serde_json::to_string_pretty(record).unwrap_or_default() + "\n",
    }
}

fn one_line(record: &RunRecord, folder: &Path) -> String {
    let (completed, planned) = record.cells.iter().fold((0, 0), |(done, all), cell| {
        (done + cell.counts.completed, all + cell.counts.planned)
    });
    let verdict = record.trust.verdict.as_str();
    format!(
        "{verdict}: {completed} of {planned} requests answered in {} cells; results in {}\n",
        record.cells.len(),
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
    let missed = missed_target
        || failed_slo
            .into_iter()
            .any(|slo| slo.verdict != SloVerdict::Pass);
    match record.trust.verdict {
        _ if run::was_interrupted(record) => ExitCode::from(INTERRUPTED),
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
pub fn settings_for_tests(benchmark: bench_schema::Benchmark, args: &[&str]) -> Settings {
    let args = std::iter::once("test")
        .chain(args.iter().copied())
        .map(OsString::from);
    let flags = config::parse_flags(benchmark, "", args).unwrap_or_else(|error| panic!("{error}"));
    config::settings(benchmark, flags, None, &Process)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}
