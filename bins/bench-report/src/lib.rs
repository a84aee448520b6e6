//! `bench-report`: render, compare, gate, keep as baselines, export, merge, recover and list results. It measures nothing.

#![expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "texts are short; `write!` to a String would need its impossible error dropped each time"
)]

mod arguments;
mod baseline;
mod capacity;
mod compare;
mod error;
mod export;
mod files;
mod frames;
mod gate;
mod journal;
mod merge;
mod render;
mod run_folder;
mod serve;
mod site;

use std::io::{self, Write as _};
use std::process::ExitCode;

use bench_schema::printable_json;
use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};
use error::CommandError;

/// What a command came to.
pub(crate) struct Done {
    /// For stdout.
    pub(crate) output: String,
    /// For stderr, a line each.
    pub(crate) notes: Vec<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl Done {
    /// With exit code 0.
    pub(crate) fn well(output: String, notes: Vec<String>) -> Self {
        Self {
            output,
            notes,
            code: 0,
        }
    }
}

/// The program.
pub fn main() -> ExitCode {
    bench_schema::outlive_file_limits();
    bench_report::terminal::fit_terminal();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => return usage(&told),
    };
    match run(arguments.command) {
        Ok(done) => {
            for note in &done.notes {
                say(note);
            }
            match bench_schema::print_result(&done.output) {
                Err(error) => unwritten(&error),
                Ok(()) => ExitCode::from(done.code),
            }
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(error.code())
        }
    }
}

/// Shows the help, the version, or what is wrong with the command line.
fn usage(told: &clap::Error) -> ExitCode {
    match told.print() {
        Err(error) if !told.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            unwritten(&error)
        }
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2)),
    }
}

fn unwritten(error: &io::Error) -> ExitCode {
    say(&format!("cannot write to standard output: {error}"));
    ExitCode::FAILURE
}

/// What its command line takes.
pub fn command() -> clap::Command {
    Arguments::command()
}

fn run(command: Command) -> Result<Done, CommandError> {
    match command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Pivot(arguments) => frames::pivot(&arguments),
        Command::Gate(arguments) => gate::run(&arguments),
        Command::Baseline(arguments) => baseline::run(&arguments),
        Command::Capacity(arguments) => capacity::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Site(arguments) => site::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Recover(arguments) => render::recover(&arguments),
    }
}

/// As programs read it.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    printable_json(serde_json::to_string_pretty(value).unwrap_or_default()) + "\n"
}

fn say(line: &str) {
    let line = bench_report::harmless(line);
    // Nobody may be reading.
    writeln!(io::stderr().lock(), "bench-report: {line}").ok();
}
