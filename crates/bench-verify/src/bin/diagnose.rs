//! `diagnose`: runs against servers whose trouble is known, and how often it was named.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program; its output is its result"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_schema::Cause;
use bench_verify::diagnosis::{
    Judged, Limits, Score, Situation, Trial, again, by_situation, play, situations,
};
use bench_verify::{Programs, VerifyError};
use clap::Parser;

/// Hold what the benchmarks say of a server against what is wrong with it.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only situations whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Seeds of each situation.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// One seed, with the server's metrics only.
    #[arg(long)]
    quick: bool,
    /// Folder of the built programs; those beside this one unless given.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Append what each run said to this file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Keep every run, and what its servers knew, in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "again")]
    keep: Option<PathBuf>,
    /// Make no run: judge those kept in this folder, as `bench-report recover` concludes them now.
    #[arg(long, value_name = "DIR")]
    again: Option<PathBuf>,
    /// List the situations and stop.
    #[arg(long)]
    list: bool,
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
    let names = |causes: &[Cause]| {
        let names: Vec<&str> = causes.iter().map(|cause| cause.as_str()).collect();
        names.join(", ")
    };
    let chosen: Vec<Situation> = situations()?
        .into_iter()
        .filter(|situation| situation.name.contains(&arguments.only))
        .collect();
    if arguments.list {
        for situation in chosen {
            println!("{:34} {}", situation.name, names(&situation.causes));
        }
        return Ok(true);
    }
    let programs = Programs::new(arguments.programs.clone())?;
    let mut runs = Vec::new();
    for trial in trials(arguments, &chosen) {
        let judged = match &arguments.again {
            Some(kept) => again(&programs, &trial, kept),
            None => play(&programs, &trial, arguments.keep.as_deref()),
        };
        let judged = match judged {
            Ok(judged) => judged,
            Err(error) => {
                eprintln!("error: {}: {error}", trial.situation.name);
                return Ok(false);
            }
        };
        eprintln!(
            "{} {:34} seed {} {:11} {:9} {}",
            match (judged.disturbed, judged.is_right()) {
                (true, _) => " ~ ",
                (false, true) => "   ",
                (false, false) => "NO ",
            },
            judged.name,
            trial.seed,
            if trial.metrics {
                "metrics"
            } else {
                "no metrics"
            },
            judged.trust.0,
            names(&judged.claimed),
        );
        if let Some(path) = &arguments.log {
            append(path, &judged)?;
        }
        runs.push(judged);
    }
    let score = Score::of(&runs);
    println!(
        "{}\n{}",
        score.table(Limits::default()),
        by_situation(&runs)
    );
    Ok(score.holds(Limits::default()))
}

fn append(path: &Path, judged: &Judged) -> Result<(), VerifyError> {
    let failed = |source| VerifyError::Io {
        what: path.display().to_string(),
        source,
    };
    let mut file = std::fs::File::options();
    let mut file = file.append(true).create(true).open(path).map_err(failed)?;
    writeln!(file, "{}", judged.to_json()).map_err(failed)
}

fn trials(arguments: &Arguments, chosen: &[Situation]) -> Vec<Trial> {
    let seeds = if arguments.quick { 1 } else { arguments.seeds };
    let ways: &[bool] = if arguments.quick {
        &[true]
    } else {
        &[true, false]
    };
    let mut trials = Vec::new();
    for seed in 1..=seeds {
        for situation in chosen {
            for metrics in ways {
                trials.push(Trial {
                    situation: situation.clone(),
                    seed,
                    metrics: *metrics,
                });
            }
        }
    }
    trials
}
