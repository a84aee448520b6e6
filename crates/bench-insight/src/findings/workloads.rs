//! Cells that differ in what is asked, not in how much: datasets and named workloads beside each other.

use bench_schema::{CellRecord, Factor, Finding, FindingKind, Metric};

use super::Scene;
use crate::draft::Draft;
use crate::signals::Signal;
use crate::text;
use crate::view;

/// Factors whose levels are names, of workloads or of what serves them.
const FACTORS: &[&str] = &["dataset", "workload", "use_case", "model"];

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    differ(&scene.run.cells).into_iter().collect()
}

/// A cell, the name of its level, its requests per second.
type Row<'a> = (&'a CellRecord, String, f64);

/// Cells that differ in one named factor only, and the factor.
fn comparable(cells: &[CellRecord]) -> Option<(&'static str, Vec<Row<'_>>)> {
    let factor = *FACTORS.iter().find(|factor| {
        let named =
            |cell: &&CellRecord| matches!(cell.factors.get(**factor), Some(Factor::Name(_)));
        cells.iter().filter(named).count() > 1
    })?;
    let first = cells
        .iter()
        .find(|cell| cell.factors.contains_key(factor))?;
    let same_load = view::key_without(first, factor);
    let rows: Vec<Row<'_>> = cells
        .iter()
        .filter(|cell| view::key_without(cell, factor) == same_load)
        .filter_map(|cell| {
            let name = cell.factors.get(factor)?.to_string();
            Some((cell, name, view::requests_per_s(cell)?))
        })
        .collect();
    Some((factor, rows))
}

/// Requests per second of the fastest workload (or model) over the slowest.
pub(super) fn differ(cells: &[CellRecord]) -> Option<Finding> {
    let (factor, rows) = comparable(cells)?;
    let fast = rows.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let slow = rows.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    let ratio = fast.2 / slow.2;
    if ratio < 1.2 {
        return None;
    }
    let of_model = factor == "model";
    let what = if of_model { "model" } else { "workload" };
    let claim = format!(
        "the {what} decides the rate: {} requests/s with {}, {} with {} ({})",
        text::number(fast.2),
        fast.1,
        text::number(slow.2),
        slow.1,
        text::times(ratio),
    );
    let mut draft = Draft::new("workloads_differ", FindingKind::Capacity, 0.15, claim);
    for (cell, name, rate) in &rows {
        draft = of_level(draft, cell, name, *rate);
    }
    let (why, decided, next) = explanation(of_model);
    draft
        .perhaps(why)
        .decided_by(decided)
        .attempt([next])
        .done()
}

/// What is known of one level.
fn of_level(draft: Draft, cell: &CellRecord, name: &str, rate: f64) -> Draft {
    let mut draft = draft.because_in(
        &cell.id,
        format!("requests/s with {name}"),
        rate,
        "requests/s",
    );
    if let Some(tokens) = view::input_tokens(cell) {
        let what = format!("prompt tokens of {name}");
        draft = draft.because_in(&cell.id, what, tokens, "tokens");
    }
    if let Some(e2e) = view::mean(cell, Metric::E2e) {
        draft = draft.because_time(&cell.id, format!("mean E2E with {name}"), e2e);
    }
    if let Some(used) = Signal::GpuUse.of(cell) {
        draft = draft.because_share(&cell.id, format!("mean GPU use with {name}"), used.mean);
    }
    draft
}

/// Hypothesis, what decides, what to do next.
fn explanation(of_model: bool) -> (&'static str, &'static str, &'static str) {
    if of_model {
        (
            "a larger model reads more weights for each token",
            "time per output token over the models' sizes",
            "take the smallest model that is good enough",
        )
    } else {
        (
            "longer prompts and answers take longer, so fewer fit into a second",
            "tokens/s instead of requests/s: what differs there is not length",
            "measure with the lengths that will be served",
        )
    }
}
