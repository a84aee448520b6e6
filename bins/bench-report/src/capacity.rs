//! `capacity`: what a run, or what a search found, comes to in days, users, replicas, money and energy, under stated assumptions.

use std::path::PathBuf;

use bench_insight::{CapacityAssumptions, CapacityFigure};
use bench_schema::{CellRecord, RunRecord, TrustReason, TrustVerdict};
use clap::Args;
use serde::Serialize;

use crate::arguments::Output;
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder};
use crate::{Done, json};

#[derive(Debug, Args)]
pub(crate) struct Capacity {
    /// A run directory.
    run: PathBuf,
    /// Show only this cell; default: all cells, or of a capacity search what it found.
    #[arg(long, value_name = "ID")]
    cell: Option<String>,
    /// Think time of a user between a response and the next request, in seconds: gives the number of users.
    #[arg(long, value_name = "SECONDS")]
    think_time: Option<f64>,
    /// Required requests per second: gives the number of replicas.
    #[arg(long, value_name = "RATE")]
    target_rate: Option<f64>,
    /// Price per hour of the whole measured system, in any currency: gives the cost.
    #[arg(long, value_name = "PRICE")]
    price_per_hour: Option<f64>,
    /// Percentage of the measured capacity to plan with; the rest is headroom.
    #[arg(long, value_name = "PERCENT")]
    planned_use: Option<f64>,
    /// Format of stdout.
    #[arg(long, default_value = "table")]
    output: Output,
    #[command(flatten)]
    reads: Reads,
}

#[derive(Serialize)]
struct OfCell {
    cell: String,
    /// What a search found, where this is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// Why its rate is no capacity to plan with; empty where it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    doubts: Vec<String>,
    figures: Vec<CapacityFigure>,
}

pub(crate) fn run(arguments: &Capacity) -> Result<Done, CommandError> {
    let run = RunFolder::open(&arguments.run, arguments.reads)?;
    let given = CapacityAssumptions {
        think_time_s: arguments.think_time,
        target_rate_per_s: arguments.target_rate,
        price_per_hour: arguments.price_per_hour,
        planned_use: arguments.planned_use.map(|percent| percent / 100.0),
    };
    given.check()?;
    let wanted = |cell: &&CellRecord| arguments.cell.as_ref().is_none_or(|id| cell.id == *id);
    let of_cell = |cell: &CellRecord| OfCell {
        cell: cell.id.clone(),
        found: None,
        doubts: doubts(&run.record, cell),
        figures: bench_insight::capacity(cell, &given),
    };
    let found = searched(&run.record, &given).filter(|_| arguments.cell.is_none());
    let all: Vec<OfCell> = match found {
        Some(found) => vec![found],
        None => run
            .record
            .cells
            .iter()
            .filter(wanted)
            .map(of_cell)
            .collect(),
    };
    if all.is_empty() {
        let cells = run.record.cells.iter();
        let known: Vec<&str> = cells.map(|cell| cell.id.as_str()).collect();
        return Err(CommandError::Usage(format!(
            "{} does not have this cell; its cells are {}",
            run.path.display(),
            known.join(", ")
        )));
    }
    let output = match arguments.output {
        Output::Json => json(&all),
        Output::Table => lines(&all, ["", "  ", ""], bench_report::harmless),
        Output::Markdown => lines(&all, ["## ", "- ", "\n"], bench_report::markdown_text),
    };
    Ok(Done::well(output, run.notes))
}

/// What a search for a capacity found.
fn searched(run: &RunRecord, given: &CapacityAssumptions) -> Option<OfCell> {
    let found = run.analysis.capacity.as_ref()?;
    let mut doubts: Vec<String> = untrusted(run, |_| true).collect();
    doubts
        .extend((found.value.is_none()).then(|| "the search did not find the capacity".to_owned()));
    Some(OfCell {
        cell: "capacity".to_owned(),
        found: bench_report::capacity_words(run),
        doubts,
        figures: bench_insight::capacity_found(run, given),
    })
}

fn untrusted(
    run: &RunRecord,
    concerns: impl Fn(&TrustReason) -> bool,
) -> impl Iterator<Item = String> {
    let reasons = run.trust.reasons.iter();
    let grave = reasons.filter(|reason| reason.verdict == TrustVerdict::Untrusted);
    grave
        .filter(move |reason| concerns(reason))
        .map(|reason| format!("the run is untrusted: {}", reason.message))
}

fn doubts(run: &RunRecord, cell: &CellRecord) -> Vec<String> {
    untrusted(run, |reason| reason.concerns(&cell.id))
        .chain(bench_insight::capacity_doubts(run, cell))
        .collect()
}

fn lines(all: &[OfCell], [head, item, gap]: [&str; 3], name: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for one in all {
        out += &format!("{head}{}\n{gap}", name(&one.cell));
        if let Some(found) = &one.found {
            out += &format!("{item}{}\n", name(found));
        }
        for doubt in &one.doubts {
            out += &format!("{item}NOT usable for planning: {}\n", name(doubt));
        }
        for figure in &one.figures {
            out += &format!("{item}{}\n", name(&figure.sentence()));
        }
        out.push('\n');
    }
    out
}
