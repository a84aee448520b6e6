//! What the best cell comes to over a day, in users, in money, in energy.

use bench_schema::{
    Benchmark, CellRecord, Finding, FindingKind, Metric, RunRecord, SloVerdict, TrustVerdict,
};

use super::Scene;
use crate::InsightError;
use crate::capacity::{CapacityAssumptions, CapacityFigure, capacity};
use crate::draft::Draft;
use crate::text;
use crate::view;

/// Completed requests below which a rate is no capacity.
const FEWEST: u64 = 20;
/// The largest share of requests without an answer at which a rate is a capacity.
const MOST_LOST: f64 = 0.01;
/// An open loop that is served less than this part of what it offers is an overload.
const LEAST_SERVED: f64 = 0.95;

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
/// with 20 completed requests, nearly all answered and every objective met; empty without one.
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

/// The cell to plan with: the most requests per second of those that can be believed and sustained.
fn best_cell(run: &RunRecord) -> Option<&CellRecord> {
    if run.trust.verdict == TrustVerdict::Untrusted {
        return None;
    }
    run.cells
        .iter()
        .filter(|cell| is_sustained(cell))
        .filter_map(|cell| Some((cell, view::requests_per_s(cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// Whether a cell's rate may be called what the server carries: enough requests, nearly all answered, every objective met with its whole
/// interval (what nobody can tell is not met), and, in an open loop, as many served as were offered.
fn is_sustained(cell: &CellRecord) -> bool {
    let counts = &cell.counts;
    let lost = counts.without_answer().saturating_sub(counts.cancelled);
    let answered = lost as f64 <= MOST_LOST * counts.planned as f64;
    let keeps_up = !cell.load.is_open() || {
        let stationary = cell.windows.stationarity.as_ref();
        let rising = stationary.is_some_and(|found| found.stationary == Some(false));
        let offered = cell.plan.offered_rate_per_s.and_then(view::positive);
        let behind = offered
            .zip(view::requests_per_s(cell))
            .is_some_and(|(offered, served)| served < LEAST_SERVED * offered);
        !rising && !behind
    };
    counts.completed >= FEWEST
        && answered
        && keeps_up
        && cell.slos.iter().all(|slo| slo.verdict == SloVerdict::Pass)
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
        ", every objective met"
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
