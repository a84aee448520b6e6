//! What the best cell comes to over a day, in users, in money, in energy.

use bench_schema::{
    Answer, Benchmark, CellRecord, Evidence, Experiment, Finding, Known, Metric, RunRecord,
    SloVerdict, TrustVerdict, Unit,
};

use crate::InsightError;
use crate::capacity::{CapacityAssumptions, CapacityFigure, capacity};
use crate::draft::Draft;
use crate::view;

/// Completed requests below which a rate is no capacity.
const FEWEST: u64 = 20;
/// The largest share of requests without an answer at which a rate is a capacity.
const MOST_LOST: f64 = 0.01;
/// An open loop that is served less than this part of what it offers is an overload.
const LEAST_SERVED: f64 = 0.95;

pub(super) fn all(run: &RunRecord) -> Vec<Finding> {
    if run.experiment != Benchmark::Throughput {
        return Vec::new();
    }
    let Some(cell) = best_cell(run) else {
        return Vec::new();
    };
    let mut found: Vec<Finding> = daily(cell).into_iter().collect();
    let figures = capacity(cell, &CapacityAssumptions::default());
    let energy = figures.iter().filter(|f| f.name.starts_with("energy"));
    found.extend(energy.filter_map(|f| planned(cell, f)));
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

fn planned(cell: &CellRecord, figure: &CapacityFigure) -> Option<Finding> {
    let value = Evidence {
        of: Some(figure.unit.clone()),
        ..Evidence::new(figure.name.as_str().into(), figure.value, Unit::Count)
    };
    Draft::in_cell(Answer::Planning, 0.0, cell)
        .push(value)
        .refuted_by(Experiment::Longer)
        .saying(figure.sentence())
        .done()
}

fn daily(cell: &CellRecord) -> Option<Finding> {
    let rate = view::requests_per_s(cell)?;
    Draft::in_cell(Answer::Capacity, 0.0, cell)
        .because(Known::RequestRate, rate, Unit::RequestsPerS)
        .because(Known::RequestsPerDay, rate * 86_400.0, Unit::Count)
        .because_some(
            Known::Throughput,
            view::tokens_per_s(cell),
            Unit::TokensPerS,
        )
        .because_some(
            Known::E2eP95,
            view::quantile(cell, Metric::E2e, 0.95),
            Unit::Ns,
        )
        .refuted_by(Experiment::Longer)
        .done()
}
