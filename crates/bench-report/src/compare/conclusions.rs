//! What a comparison comes to, in sentences.

use std::collections::{BTreeMap, BTreeSet};

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_schema::TrustVerdict;

use super::Study;
use super::tables::signed;
use crate::findings;
use crate::number::percent;
use crate::text::heading as sentence;

/// Differences named for each point.
const NAMED: usize = 4;

/// `after against before (1 and 1 runs)`.
pub(super) fn heading(held: &RunComparison) -> String {
    let (before, now) = held.runs;
    format!(
        "{} against {} ({now} and {before} runs)",
        held.new, held.base
    )
}

/// The conclusions with their numbers: untrusted runs first, then what the axis decides, then each point.
pub(super) fn list(study: &Study<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut doubts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for point in &study.points {
        let worst = point.runs.iter().map(|run| run.trust.verdict).max();
        let follows = match worst.unwrap_or(TrustVerdict::Trusted) {
            TrustVerdict::Trusted => continue,
            TrustVerdict::Doubtful => "doubtful, so that what follows may be off",
            TrustVerdict::Untrusted => "untrusted: what follows should not be used",
        };
        let reasons = point.runs.iter().flat_map(|run| &run.trust.reasons);
        let codes: BTreeSet<&str> = reasons.map(|reason| &*reason.code).collect();
        let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
        let points = doubts.entry(format!("{follows} ({codes})")).or_default();
        points.push(&point.name);
    }
    let doubts = doubts.into_iter();
    lines.extend(doubts.map(|(doubt, points)| format!("{}: {doubt}.", points.join(", "))));
    if let Some(axis) = &study.axis {
        let found = bench_insight::findings_by_tag(axis, &study.firsts());
        let said = found.iter().map(findings::headline);
        lines.extend(said.map(|said| format!("Along {axis}: {said}.")));
    }
    let base = study.baseline().map_or("", |base| base.name.as_str());
    lines.extend(
        study
            .held()
            .map(|(point, held)| format!("{} against {base}: {}.", point.name, summary(held))),
    );
    lines
}

fn summary(held: &RunComparison) -> String {
    if held.rows.is_empty() {
        return "no cell in common".to_owned();
    }
    let with = |wanted: ComparisonVerdict| -> Vec<&ComparisonRow> {
        let rows = held.rows.iter();
        rows.filter(|row| row.verdict == wanted).collect()
    };
    let mut parts = Vec::new();
    for verdict in [ComparisonVerdict::Worse, ComparisonVerdict::Better] {
        let mut found = with(verdict);
        let size = |row: &ComparisonRow| row.relative.map_or(0.0, f64::abs);
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        if found.is_empty() {
            continue;
        }
        let named = found.iter().take(NAMED);
        let named = named.map(|row| {
            let change = row.relative.map_or_else(String::new, signed);
            format!("{} {change} ({})", row.title, row.cell)
        });
        let named: Vec<String> = named.collect();
        let more = match found.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!(
            "{} in {} of {} figures: {}{more}",
            verdict.as_str(),
            found.len(),
            held.rows.len(),
            named.join(", ")
        ));
    }
    let (same, unknown) = (
        with(ComparisonVerdict::NoDifferenceFound).len(),
        with(ComparisonVerdict::CannotTell).len(),
    );
    if same > 0 {
        parts.push(format!("no difference found in {same}"));
    }
    let small = with(ComparisonVerdict::WithinMargin).len();
    if small > 0 {
        parts.push(format!("a difference too small to matter in {small}"));
    }
    if unknown > 0 {
        parts.push(format!(
            "{unknown} cannot be told apart with this much data"
        ));
    }
    parts.join("; ")
}

/// What speaks against the comparison, or limits it.
pub(super) fn notes(held: &RunComparison) -> Vec<String> {
    let mut all = Vec::new();
    for (side, cells) in [("base", &held.only_base), ("new", &held.only_new)] {
        if !cells.is_empty() {
            all.push(format!("only the {side} has {}", cells.join(", ")));
        }
    }
    all.extend(held.cautions.iter().cloned());
    all.push(format!(
        "intervals are of each row; verdicts are corrected for {} rows, so that one false alarm among all has a chance of {} %",
        held.rows.len(),
        percent(held.alpha)
    ));
    all
}

/// What the verdicts rest on, each once.
pub(super) fn method(study: &Study<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (_, held) in study.held() {
        for note in notes(held) {
            let note = sentence(&note);
            if !lines.contains(&note) {
                lines.push(note);
            }
        }
    }
    let mut tests: Vec<&str> = study
        .held()
        .flat_map(|(_, held)| held.rows.iter().map(|row| row.test.as_str()))
        .collect();
    tests.sort_unstable();
    tests.dedup();
    lines.push(format!(
        "Latencies are of completed requests, from the cell's headline origin; cells are matched by their id. Tested by {}.",
        tests.join(", ")
    ));
    lines
}
