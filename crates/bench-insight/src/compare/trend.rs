//! The same quantity of the same cell over many runs: when did its level change?

use bench_metrics::{Estimate, Sample, weighted_change_points, z_critical};
use bench_schema::{CellRecord, Direction, Metric, Unit};

use super::figures::Quantity;

/// Fewer runs are no trend; runs of a level: one or two may be off.
const SHORTEST: usize = 3;
/// What a change has to bear out (docs/reports.md has what it comes to).
const STRICTNESS: f64 = 4.0;

/// What has trends.
const FIGURES: [Quantity; 8] = [
    Quantity::OutputTokensPerS,
    Quantity::RequestsPerS,
    Quantity::Quantile(Metric::Ttft, 0.5),
    Quantity::Quantile(Metric::Ttft, 0.95),
    Quantity::Quantile(Metric::Itl, 0.5),
    Quantity::Quantile(Metric::Itl, 0.95),
    Quantity::Quantile(Metric::E2e, 0.5),
    Quantity::Quantile(Metric::E2e, 0.95),
];

/// The figures of a cell that have trends, each under its name in gates (`e2e.p95`), with its interval where it has one; in milliseconds where it is a time.
pub fn trend_figures(cell: &CellRecord) -> impl Iterator<Item = (String, Estimate)> {
    FIGURES.iter().filter_map(move |quantity| {
        let seen = quantity.headline(cell)?;
        let shown = |value: f64| match quantity.unit() {
            Unit::Ns => value / 1e6,
            _ => value,
        };
        let seen = Estimate {
            value: shown(seen.value),
            low: seen.low.map(shown),
            high: seen.high.map(shown),
            ..seen
        };
        Some((quantity.key(), seen))
    })
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
    /// Of the quantity; values here are in milliseconds where it is a time.
    pub unit: Unit,
    /// The runs, by version or start, with value and interval.
    pub points: Vec<(String, Estimate)>,
    /// Where the level changed.
    pub changes: Vec<LevelChange>,
}

impl Trend {
    /// Fewer runs have a trend and no changes: their scatter is hardly known.
    pub const FEWEST: usize = 8;

    /// Of a figure of [`trend_figures`] by its name, with its runs in the order in which they began. `None` of fewer than three runs, or of a figure that
    /// is not known.
    ///
    /// Levels are geometric means: the noise of times and rates is in proportion to them. A run weighs by its own interval and by how much runs differ
    /// beyond their intervals.
    pub fn new(
        (runs, cell): (String, String),
        figure: &str,
        points: Vec<(String, Estimate)>,
    ) -> Option<Self> {
        let quantity = FIGURES.iter().find(|known| known.key() == figure)?;
        if points.len() < SHORTEST {
            return None;
        }
        Some(Self {
            runs,
            cell,
            title: quantity.title(),
            unit: quantity.unit(),
            changes: changes(&points, quantity.direction()),
            points,
        })
    }
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

fn changes(points: &[(String, Estimate)], better: Direction) -> Vec<LevelChange> {
    if points.len() < Trend::FEWEST {
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
