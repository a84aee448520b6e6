//! What the best cell comes to over a day, in users, in money, in energy.

use bench_schema::{Benchmark, CellRecord, Finding, FindingKind, Metric, RunRecord, SloVerdict};

use super::Scene;
use crate::InsightError;
use crate::capacity::{CapacityAssumptions, CapacityFigure, capacity};
use crate::draft::Draft;
use crate::text;
use crate::view;

/// Completed requests below which a rate is no capacity.
const FEWEST: u64 = 20;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    if scene.run.experiment != Benchmark::Throughput {
        return Vec::new();
    }
    let Some(cell) = best_cell(scene.run) else {
        return Vec::new();
    };
    let figures = capacity(cell, &CapacityAssumptions::default());
    let mut found: Vec<Finding> = daily(scene.run, cell, &figures).into_iter().collect();
    found.extend(
        figures
            .iter()
            .filter(|f| f.name.starts_with("energy"))
            .filter_map(|f| planned(cell, f)),
    );
    found
}

/// One finding for each figure that the assumptions add: users, replicas, cost. From the cell with most requests per second of those
/// with 20 completed requests and no failed objective; empty without one.
///
/// # Errors
/// As [`CapacityAssumptions::check`].
pub fn planning_findings(
    run: &RunRecord,
    assumptions: &CapacityAssumptions,
) -> Result<Vec<Finding>, InsightError> {
    assumptions.check()?;
    let Some(cell) = best_cell(run) else {
        return Ok(Vec::new());
    };
    let told = |f: &&CapacityFigure| f.name != "requests_per_day" && !f.name.starts_with("energy");
    Ok(capacity(cell, assumptions)
        .iter()
        .filter(told)
        .filter_map(|f| planned(cell, f))
        .collect())
}

/// The cell to plan with.
fn best_cell(run: &RunRecord) -> Option<&CellRecord> {
    let holds = |cell: &&CellRecord| cell.slos.iter().all(|slo| slo.verdict != SloVerdict::Fail);
    run.cells
        .iter()
        .filter(|cell| cell.counts.completed >= FEWEST)
        .filter(holds)
        .filter_map(|cell| Some((cell, view::requests_per_s(cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// `cost_per_million_output_tokens` as people say it.
fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

fn planned(cell: &CellRecord, figure: &CapacityFigure) -> Option<Finding> {
    let claim = figure.sentence();
    let mut draft = Draft::new(&figure.name, FindingKind::Capacity, 0.15, claim).because_in(
        &cell.id,
        spoken(&figure.name),
        figure.value,
        &figure.unit,
    );
    if let Some(i) = figure.interval {
        draft = draft
            .because_in(&cell.id, "lower end", i.low, &figure.unit)
            .because_in(&cell.id, "upper end", i.high, &figure.unit);
    }
    draft
        .decided_by("a longer run with the real mix of requests at that load")
        .about([cell.id.clone()])
        .done()
}

fn daily(run: &RunRecord, cell: &CellRecord, figures: &[CapacityFigure]) -> Option<Finding> {
    let rate = view::requests_per_s(cell)?;
    let day = figures.iter().find(|f| f.name == "requests_per_day")?;
    let under = if run.cells.iter().any(|c| !c.slos.is_empty()) {
        ", its objectives not failed"
    } else {
        ""
    };
    let requests = match day.interval {
        None => format!("{} requests a day if sustained", text::grouped(day.value)),
        Some(i) => format!(
            "{} requests a day if sustained ({} to {})",
            text::rounded(day.value),
            text::rounded(i.low),
            text::rounded(i.high)
        ),
    };
    let claim = format!(
        "{} requests/s served in {}{under}: {requests}",
        text::number(rate),
        cell.label,
    );
    let mut draft = Draft::new("capacity", FindingKind::Capacity, 0.2, claim)
        .because_in(&cell.id, "requests per second", rate, "requests/s")
        .because_in(&cell.id, "requests per day", day.value, "requests");
    if let Some(tokens) = view::tokens_per_s(cell) {
        draft = draft.because_in(&cell.id, "output tokens per second", tokens, "tokens/s");
    }
    if let Some(p95) = view::quantile(cell, Metric::E2e, 0.95) {
        draft = draft.because_time(&cell.id, "E2E p95 at that rate", p95);
    }
    if let Some(i) = day.interval {
        draft = draft
            .because_in(&cell.id, "requests per day, lower end", i.low, "requests")
            .because_in(&cell.id, "requests per day, upper end", i.high, "requests");
    }
    draft
        .decided_by("an open loop at this rate for longer: E2E from due stays level if the rate is sustainable")
        .about([cell.id.clone()])
        .done()
}
