//! What the best cell comes to over a day, in users, in money, in energy.

use bench_schema::{
    Answer, Benchmark, CellRecord, Evidence, Experiment, Finding, Known, Load, Metric, RunRecord,
    SloVerdict, TrustReason, TrustVerdict, Unit,
};

use crate::InsightError;
use crate::capacity::{CapacityAssumptions, CapacityFigure, capacity};
use crate::draft::Draft;
use crate::text;
use crate::view;

/// Completed requests below which a rate is no capacity.
const FEWEST: u64 = 20;
/// The largest share of requests without an answer at which a rate is a capacity.
const MOST_LOST: f64 = 0.01;

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
        .filter(|cell| capacity_doubts(run, cell).is_empty())
        .filter_map(|cell| Some((cell, view::requests_per_s(cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// Why a cell's rate may not be called what the server carries, each a short sentence; nothing where it may: enough requests, nearly all
/// answered, every objective met with its whole interval (what nobody can tell is not met), in an open loop as many served as were
/// offered, and not a part of the load only.
pub fn capacity_doubts(run: &RunRecord, cell: &CellRecord) -> Vec<String> {
    let counts = &cell.counts;
    let mut doubts = Vec::new();
    doubts.extend(run.part().map(|part| {
        format!("this is the part of shard {part}: merge the results of all shards with `bench-report merge`")
    }));
    if counts.completed < FEWEST {
        let got = bench_schema::counted(counts.completed, "request");
        doubts.push(format!("only {got} completed"));
    }
    if moves(&cell.load) {
        doubts.push("the load changed during the cell, so no rate was sustained".to_owned());
    }
    let lost = counts.lost();
    if lost as f64 > MOST_LOST * counts.planned as f64 {
        doubts.push(format!(
            "{lost} of {} requests got no complete response",
            counts.planned
        ));
    }
    if let Some(behind) = view::behind(cell) {
        doubts.push(format!(
            "overload: the server completed {} of {} requests/s offered, so its queue keeps growing",
            text::number(behind.served),
            text::number(behind.offered)
        ));
    } else if is_moving(cell) {
        doubts
            .push("the window is not in steady state: its end differs from its average".to_owned());
    }
    // Means over a server that stood still for a while, or over two of different speed; and a rate that is not known.
    let reasons = run.trust.reasons.iter().filter(|r| r.names(&cell.id));
    let moved =
        reasons.filter(|r| matches!(&*r.code, "stalled" | "rate_undecided") || levels_moved(r));
    doubts.extend(moved.map(|r| r.message.clone()));
    doubts.extend(
        super::objectives_of(cell)
            .iter()
            .filter_map(|(_, outcome)| {
                let (name, n) = (super::objectives::name(outcome), counts.planned);
                let share = text::percent(outcome.attainment);
                match outcome.verdict {
                    SloVerdict::Pass => None,
                    SloVerdict::Fail => Some(format!(
                        "{name} misses its limit: {share} of the requests meet it"
                    )),
                    SloVerdict::CannotTell => Some(format!(
                        "{n} requests are too few to decide {name}, although {share} of them meet it"
                    )),
                }
            }),
    );
    doubts
}

/// Whether the load is to change over the cell.
fn moves(load: &Load) -> bool {
    load.ramp().is_some() || load.is_open() && !load.has_one_rate()
}

/// Whether a trend was found in the cell, in a closed loop too: its mean is the rate of no server.
fn is_moving(cell: &CellRecord) -> bool {
    let found = cell.windows.stationarity.as_ref();
    found.is_some_and(|found| found.stationary == Some(false))
}

/// Whether a cause says that the level of the cell's times moved, which the trend tests of its window did not see.
fn levels_moved(reason: &TrustReason) -> bool {
    reason.code == "not_stationary" && reason.threshold.is_some_and(|limit| limit > 0.0)
}

fn planned(cell: &CellRecord, figure: &CapacityFigure) -> Option<Finding> {
    let value = Evidence {
        of: Some(figure.unit.clone()),
        ..Evidence::new(figure.name.as_str().into(), figure.value, Unit::Count)
    };
    Draft::in_cell(Answer::Planning, 0.0, cell)
        .push(value)
        .refuted_by(Experiment::MoreRequests)
        .saying(figure.sentence())
        .done()
}

fn daily(cell: &CellRecord) -> Option<Finding> {
    let rate = view::requests_per_s(cell)?;
    Draft::in_cell(Answer::Capacity, 0.0, cell)
        .because(Known::RequestRate, rate)
        .because(Known::RequestsPerDay, rate * 86_400.0)
        .because(Known::Throughput, view::tokens_per_s(cell))
        .because(Known::E2eP95, view::quantile(cell, Metric::E2e, 0.95))
        .refuted_by(Experiment::MoreRequests)
        .done()
}
