//! `truth-matrix`: the benchmarks against engines that know the truth, as a table.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program; its output is its result"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use bench_verify::matrix::{self, Size};
use bench_verify::{Programs, VerifyError};
use clap::Parser;

/// Hold the three benchmarks against the ledgers of the servers they measure.
#[derive(Debug, Parser)]
struct Arguments {
    /// A few rows of a second each, in which times decide nothing, as CI runs them.
    #[arg(long)]
    small: bool,
    /// Only rows whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the built programs; those beside this one unless given.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Also write the table to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, VerifyError> {
    let programs = Programs::new(arguments.programs.clone())?;
    let size = if arguments.small {
        Size::Small
    } else {
        Size::Full
    };
    let mut rows = Vec::new();
    for case in matrix::cases(size) {
        if !case.name.contains(&arguments.only) {
            continue;
        }
        eprintln!("{} …", case.name);
        match matrix::judge(&programs, &case) {
            Ok(judged) => rows.push(judged),
            Err(error) => {
                eprintln!("error: {}: {error}", case.name);
                return Ok(false);
            }
        }
    }
    let table = matrix::markdown(&rows);
    println!("{table}");
    if let Some(path) = &arguments.out {
        std::fs::write(path, &table).map_err(|source| VerifyError::Io {
            what: path.display().to_string(),
            source,
        })?;
    }
    Ok(rows.iter().all(|row| row.failed().next().is_none()))
}
