//! What a comparison comes to, in sentences.

use bench_metrics::{CompareOptions, Test, Verdict};
use bench_schema::TrustVerdict;

use super::change::Change;
use super::points::{Point, Study};
use super::tables::{best_rate, relative};
use crate::number::short;

/// Differences named for each point.
const NAMED: usize = 4;

/// The conclusions with their numbers, untrusted runs first.
pub(super) fn list(study: &Study<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for point in &study.points {
        let worst = point.runs.iter().map(|run| run.trust.verdict).max();
        if worst == Some(TrustVerdict::Untrusted) {
            lines.push(format!(
                "{} holds an untrusted run: what follows about it should not be used.",
                point.name
            ));
        }
    }
    lines.extend(scaling(study));
    lines.extend(study.others().map(|point| summary(study, point)));
    lines
}

fn scaling(study: &Study<'_>) -> Option<String> {
    let (first, last) = (study.points.first()?, study.points.last()?);
    let (from, to) = (
        first.level.filter(|&x| x > 0.0)?,
        last.level.filter(|&x| x > 0.0)?,
    );
    let (before, after) = (best_rate(first).filter(|&x| x > 0.0)?, best_rate(last)?);
    let efficiency = after / before * from / to * 100.0;
    let axis = crate::text::shortened(study.axis.as_deref()?, 40);
    Some(format!(
        "From {axis} {from} to {to} the best rate goes {} → {} per second: {}×, a scaling efficiency of {} %.",
        short(before),
        short(after),
        short(after / before),
        short(efficiency)
    ))
}

fn summary(study: &Study<'_>, point: &Point<'_>) -> String {
    let options = CompareOptions::default();
    let base = study
        .baseline()
        .map_or("the baseline", |base| base.name.as_str());
    if point.changes.is_empty() {
        return format!("{} and {base} have no cell in common.", point.name);
    }
    let with = |wanted: Verdict| -> Vec<&Change> {
        point
            .changes
            .iter()
            .filter(|change| change.comparison.verdict(&options) == Some(wanted))
            .collect()
    };
    let mut parts = Vec::new();
    for (verdict, words) in [(Verdict::Worse, "worse"), (Verdict::Better, "better")] {
        let mut found = with(verdict);
        let size = |change: &Change| change.comparison.relative().map_or(0.0, |r| r.value.abs());
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        if !found.is_empty() {
            let named: Vec<String> = found
                .iter()
                .take(NAMED)
                .map(|change| {
                    format!(
                        "{} {} ({})",
                        change.measure.title(),
                        relative(change),
                        change.cell
                    )
                })
                .collect();
            let more = found.len().saturating_sub(NAMED);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            parts.push(format!(
                "{words} in {} figures: {}{more}",
                found.len(),
                named.join(", ")
            ));
        }
    }
    let (same, unknown) = (
        with(Verdict::NoDifferenceFound).len(),
        with(Verdict::CannotTell).len(),
    );
    if same > 0 {
        parts.push(format!("no difference found in {same}"));
    }
    if unknown > 0 {
        parts.push(format!(
            "{unknown} cannot be told apart with this much data"
        ));
    }
    format!("{} against {base}: {}.", point.name, parts.join("; "))
}

/// What the verdicts rest on.
pub(super) fn method(study: &Study<'_>) -> Vec<String> {
    let mut lines = vec![
        "A verdict needs a p-value below 0.05 after Holm's correction for all figures compared with one point; \"no difference found\" needs the whole interval within ± 5 %.".to_owned(),
    ];
    let tests: Vec<Test> = study
        .others()
        .flat_map(|point| point.changes.iter().map(|change| change.comparison.test))
        .collect();
    if tests.contains(&Test::Intervals) {
        lines.push("Single runs were compared by their own intervals, which do not see what changes from run to run (placement, temperature, neighbours). Repeat each side a few times to make the run the unit.".to_owned());
    }
    if tests.contains(&Test::WelchRuns) || tests.contains(&Test::PermutedRuns) {
        lines.push(
            "Where both sides have several runs, the run is the unit: one figure for each run."
                .to_owned(),
        );
    }
    lines.push("Latencies are of completed requests, from the cell's headline origin; cells are matched by their id.".to_owned());
    lines
}
