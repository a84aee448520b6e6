//! Cells that differ in what is asked, not in how much: datasets and named workloads beside each other.

use bench_schema::{CellRecord, Factor, Finding, FindingKind};

use super::Scene;
use crate::draft::Draft;
use crate::text;
use crate::view;

/// Factors whose levels are names of workloads.
const FACTORS: &[&str] = &["dataset", "workload", "use_case"];

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    differ(&scene.run.cells).into_iter().collect()
}

/// Requests per second of the fastest workload over the slowest.
fn differ(cells: &[CellRecord]) -> Option<Finding> {
    let factor = FACTORS.iter().find(|factor| {
        let named =
            |cell: &&CellRecord| matches!(cell.factors.get(**factor), Some(Factor::Name(_)));
        cells.iter().filter(named).count() > 1
    })?;
    let first = cells
        .iter()
        .find(|cell| cell.factors.contains_key(*factor))?;
    let same_load = view::key_without(first, factor);
    let rows: Vec<(&CellRecord, String, f64)> = cells
        .iter()
        .filter(|cell| view::key_without(cell, factor) == same_load)
        .filter_map(|cell| {
            let name = cell.factors.get(*factor)?.to_string();
            Some((cell, name, view::requests_per_s(cell)?))
        })
        .collect();
    let fast = rows.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let slow = rows.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    let ratio = fast.2 / slow.2;
    if ratio < 1.2 {
        return None;
    }
    let claim = format!(
        "the workload decides the rate: {} requests/s with {}, {} with {} ({})",
        text::number(fast.2),
        fast.1,
        text::number(slow.2),
        slow.1,
        text::times(ratio),
    );
    let mut draft = Draft::new("workloads_differ", FindingKind::Capacity, 0.15, claim);
    for (cell, name, rate) in &rows {
        draft = draft.because_in(
            &cell.id,
            format!("requests/s with {name}"),
            *rate,
            "requests/s",
        );
        if let Some(tokens) = view::input_tokens(cell) {
            draft = draft.because_in(
                &cell.id,
                format!("prompt tokens of {name}"),
                tokens,
                "tokens",
            );
        }
    }
    draft
        .perhaps("longer prompts and answers take longer, so fewer fit into a second")
        .decided_by("tokens/s instead of requests/s: what differs there is not length")
        .attempt(["measure with the lengths that will be served"])
        .done()
}
