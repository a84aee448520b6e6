//! The same quantity of the same cell over many runs: when did its level change?

use std::collections::BTreeMap;

use bench_metrics::{Estimate, Sample, weighted_change_points, z_critical};
use bench_schema::{CellRecord, Direction, Metric, RunRecord, TrustVerdict, Unit};

use super::figures::Quantity;

/// Tags that tell the versions of one thing apart; all others tell different things apart.
const VERSIONS: [&str; 4] = ["commit", "version", "revision", "build"];
const METRICS: [Metric; 3] = [Metric::Ttft, Metric::Itl, Metric::E2e];
const QUANTILES: [f64; 2] = [0.5, 0.95];
/// Runs of a level: one or two may be off.
const SHORTEST: usize = 3;
/// Fewer runs have a trend and no changes: their scatter is hardly known.
const FEWEST: usize = 8;
/// What a change has to bear out (docs/reports.md has what it comes to).
const STRICTNESS: f64 = 4.0;

/// What a trusted run contributes to trends.
#[derive(Clone, Debug)]
pub struct Observation {
    started: String,
    at: String,
    values: Vec<(Subject, Estimate)>,
}

/// What a trend is of: runs, a cell, a quantity.
#[derive(Clone, Debug, PartialEq)]
struct Subject {
    runs: String,
    cell: String,
    quantity: Quantity,
}

impl Observation {
    /// The figures of a run, or nothing of one that is incomplete or not trusted.
    pub fn of(run: &RunRecord) -> Option<Self> {
        if run.trust.verdict != TrustVerdict::Trusted || !run.complete {
            return None;
        }
        let version = VERSIONS.iter().find_map(|tag| run.tags.get(*tag));
        let mut runs = vec![run.experiment.as_str().to_owned()];
        runs.extend(run.server.model.clone());
        let others = run
            .tags
            .iter()
            .filter(|(name, _)| !VERSIONS.contains(&name.as_str()));
        runs.extend(others.map(|(name, value)| format!("{name}={value}")));
        let runs = runs.join(" · ");
        let mut values = Vec::new();
        for cell in &run.cells {
            for quantity in quantities() {
                let subject = Subject {
                    runs: runs.clone(),
                    cell: named(cell),
                    quantity,
                };
                let steady = cell.windows.steady.is_some();
                let estimate = subject.quantity.of(cell, steady);
                values.extend(estimate.map(|estimate| (subject, estimate)));
            }
        }
        Some(Self {
            started: run.started_at.clone(),
            at: version.unwrap_or(&run.started_at).clone(),
            values,
        })
    }
}

fn quantities() -> impl Iterator<Item = Quantity> {
    let of = |metric: Metric| QUANTILES.map(|q| Quantity::Quantile(metric, q));
    [Quantity::OutputTokensPerS, Quantity::RequestsPerS]
        .into_iter()
        .chain(METRICS.into_iter().flat_map(of))
}

/// Cells that were given other requests are other cells.
fn named(cell: &CellRecord) -> String {
    format!("{} · {}", cell.label, cell.plan.dataset)
}

/// A quantity over runs, in the order in which these began.
#[derive(Clone, Debug)]
pub struct Trend {
    /// Of which runs: benchmark, model, tags.
    pub runs: String,
    /// Of which of their cells, and its requests.
    pub cell: String,
    /// `E2E p95`.
    pub title: String,
    /// Of every value here.
    pub unit: Unit,
    /// The runs, by version or start, with value and interval.
    pub points: Vec<(String, Estimate)>,
    /// Where the level changed.
    pub changes: Vec<LevelChange>,
}

/// The level of a trend became another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// The first run of the new level.
    pub from: usize,
    /// The run after its last.
    pub to: usize,
    /// Level before.
    pub before: f64,
    /// Level from then on.
    pub after: f64,
    /// Whether that is worse.
    pub is_worse: bool,
}

/// All trends of at least three runs, in the order of the first run that has them.
///
/// Levels are geometric means: the noise of times and rates is in proportion to them. A run weighs by its own interval and by how much runs differ
/// beyond their intervals.
pub fn trends(runs: &[&Observation]) -> Vec<Trend> {
    let mut runs: Vec<&Observation> = runs.to_vec();
    runs.sort_by(|a, b| a.started.cmp(&b.started));
    let mut order = Vec::new();
    let mut points: BTreeMap<(String, String, String), Vec<(String, Estimate)>> = BTreeMap::new();
    for run in runs {
        for (subject, estimate) in &run.values {
            let key = (
                subject.runs.clone(),
                subject.cell.clone(),
                subject.quantity.key(),
            );
            let all = points.entry(key.clone()).or_default();
            if all.is_empty() {
                order.push((key, subject.quantity.clone()));
            }
            all.push((run.at.clone(), *estimate));
        }
    }
    let trend = |(key, quantity): ((String, String, String), Quantity)| {
        let points = points.remove(&key).filter(|points| points.len() >= 3)?;
        Some(Trend {
            runs: key.0,
            cell: key.1,
            title: quantity.title(),
            unit: quantity.unit(),
            changes: changes(&points, quantity.direction()),
            points,
        })
    };
    order.into_iter().filter_map(trend).collect()
}

fn changes(points: &[(String, Estimate)], better: Direction) -> Vec<LevelChange> {
    if points.len() < FEWEST {
        return Vec::new();
    }
    let values: Vec<f64> = points.iter().map(|(_, seen)| seen.value.ln()).collect();
    let errors: Vec<Option<f64>> = points
        .iter()
        .map(|(_, seen)| relative_error(seen))
        .collect();
    let known: Vec<f64> = errors.iter().copied().flatten().collect();
    let typical = Sample::of(&known).map_or(0.0, |known| known.quantile(0.5));
    let errors: Vec<f64> = errors.iter().map(|own| own.unwrap_or(typical)).collect();
    let segments = weighted_change_points(&values, &errors, SHORTEST, STRICTNESS);
    let change = |two: &[bench_metrics::Segment]| {
        let [before, after] = two else { return None };
        let worse = better.for_the_worse(after.mean - before.mean);
        Some(LevelChange {
            from: after.start,
            to: after.end,
            before: before.mean.exp(),
            after: after.mean.exp(),
            is_worse: worse.is_some_and(|by| by > 0.0),
        })
    };
    segments.windows(2).filter_map(change).collect()
}

/// The standard error of the logarithm, from an interval.
fn relative_error(seen: &Estimate) -> Option<f64> {
    let (low, high) = seen.bounds()?;
    (low > 0.0 && high > low).then(|| (high / low).ln() / (2.0 * z_critical(seen.level)))
}

#[cfg(test)]
#[path = "../../tests/unit/trend.rs"]
mod tests;
