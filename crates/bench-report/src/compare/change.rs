//! How figures of the same cell differ between two groups of runs.

use bench_metrics::{
    CompareOptions, Comparison, Estimate, LEVEL, compare_estimates, compare_runs, settle,
};
use bench_schema::{CellRecord, Direction, Interval, Metric, RunRecord};

/// A figure of a cell that can be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Output tokens per second.
    OutputTokensPerS,
    /// Completed requests per second.
    RequestsPerS,
    /// A quantile of a metric from the cell's headline origin.
    Quantile(Metric, f64),
}

/// What is compared where both sides have it.
const MEASURES: [Measure; 9] = [
    Measure::OutputTokensPerS,
    Measure::RequestsPerS,
    Measure::Quantile(Metric::Ttft, 0.5),
    Measure::Quantile(Metric::Ttft, 0.95),
    Measure::Quantile(Metric::Itl, 0.5),
    Measure::Quantile(Metric::Itl, 0.95),
    Measure::Quantile(Metric::E2e, 0.5),
    Measure::Quantile(Metric::E2e, 0.95),
    Measure::Quantile(Metric::E2e, 0.99),
];

/// One figure of one cell, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The cell's id.
    pub cell: String,
    /// What was compared.
    pub measure: Measure,
    /// Difference, interval, p-value, in the unit of the result (nanoseconds for latencies).
    pub comparison: Comparison,
}

impl Measure {
    /// For people: `TTFT p95`.
    pub fn title(self) -> String {
        match self {
            Self::OutputTokensPerS => "output".to_owned(),
            Self::RequestsPerS => "requests".to_owned(),
            Self::Quantile(metric, q) => {
                format!("{} {}", metric.title(), crate::tables::quantile_words(q))
            }
        }
    }

    /// Unit on screen, and what a stored value is divided by.
    pub(super) fn unit(self) -> (&'static str, f64) {
        match self {
            Self::OutputTokensPerS => ("tok/s", 1.0),
            Self::RequestsPerS => ("req/s", 1.0),
            Self::Quantile(metric, _) => {
                let (scale, unit) = crate::tables::scale_of(metric.unit());
                (unit, scale)
            }
        }
    }

    fn direction(self) -> Direction {
        match self {
            Self::OutputTokensPerS | Self::RequestsPerS => Direction::Higher,
            Self::Quantile(metric, _) => metric.direction(),
        }
    }

    /// The figure of a cell with its interval.
    pub(super) fn of(self, cell: &CellRecord) -> Option<Estimate> {
        let (value, interval) = match self {
            Self::OutputTokensPerS => {
                let rates = cell.headline_rates()?;
                (
                    rates.output_tokens_per_s?,
                    rates.output_tokens_per_s_interval,
                )
            }
            Self::RequestsPerS => {
                let rates = cell.headline_rates()?;
                (rates.requests_per_s, rates.requests_per_s_interval)
            }
            Self::Quantile(metric, q) => {
                let entry = cell.headline(metric)?.quantile_entry(q)?;
                (entry.value, entry.interval)
            }
        };
        value.is_finite().then(|| estimate(value, interval))
    }
}

fn estimate(value: f64, interval: Option<Interval>) -> Estimate {
    match interval {
        Some(iv) => Estimate::bounded(value, iv.low, iv.high, iv.confidence),
        None => Estimate::unbounded(value, LEVEL),
    }
}

/// Every figure that both sides have, cell by cell (cells are matched by id), p-values corrected for their number.
///
/// Two and more runs on each side: the run is the unit. Otherwise the intervals of the first run of each side decide.
pub fn changes(base: &[&RunRecord], new: &[&RunRecord]) -> Vec<Change> {
    let options = CompareOptions::default();
    let mut found = Vec::new();
    for cell in base
        .iter()
        .flat_map(|run| run.cells.iter().map(|cell| cell.id.as_str()))
    {
        if found.iter().any(|change: &Change| change.cell == cell) {
            continue;
        }
        for measure in MEASURES {
            let of = |runs: &[&RunRecord]| -> Vec<Estimate> {
                runs.iter()
                    .filter_map(|run| measure.of(run.cell(cell)?))
                    .collect()
            };
            let comparison = compared(&of(base), &of(new), measure.direction(), &options);
            found.extend(comparison.map(|comparison| Change {
                cell: cell.to_owned(),
                measure,
                comparison,
            }));
        }
    }
    let mut family: Vec<Comparison> = found.iter().map(|change| change.comparison).collect();
    settle(&mut family);
    for (change, settled) in found.iter_mut().zip(family) {
        change.comparison = settled;
    }
    found
}

fn compared(
    base: &[Estimate],
    new: &[Estimate],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    if base.len() > 1 && new.len() > 1 {
        let values = |list: &[Estimate]| list.iter().map(|e| e.value).collect::<Vec<_>>();
        return compare_runs(&values(base), &values(new), direction, options);
    }
    Some(compare_estimates(
        base.first()?,
        new.first()?,
        direction,
        options,
    ))
}
