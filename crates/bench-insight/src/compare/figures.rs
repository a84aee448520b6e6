//! Which quantities are compared, and by which test.

use bench_metrics::{
    CompareOptions, Comparison as Tested, Estimate, compare_estimates, compare_quantiles,
    compare_runs, wilson,
};
use bench_schema::{CellRecord, Direction, Metric, Origin, Rates, Unit};

use super::ComparedSamples;
use crate::facts::RequestSample;
use crate::view;

/// Something that both sides have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Quantity {
    RequestsPerS,
    OutputTokensPerS,
    SuccessRate,
    Quantile(Metric, f64),
}

impl Quantity {
    /// As in gates: `e2e.p95`.
    pub(super) fn key(&self) -> String {
        match self {
            Self::RequestsPerS => "requests_per_s".to_owned(),
            Self::OutputTokensPerS => "output_tokens_per_s".to_owned(),
            Self::SuccessRate => "success_rate".to_owned(),
            Self::Quantile(metric, q) => {
                format!("{}.p{}", metric.key(), crate::text::level(q * 100.0))
            }
        }
    }

    /// As in tables.
    pub(super) fn title(&self) -> String {
        match self {
            Self::RequestsPerS => "requests/s".to_owned(),
            Self::OutputTokensPerS => "output tokens/s".to_owned(),
            Self::SuccessRate => "success rate".to_owned(),
            Self::Quantile(metric, q) => {
                format!("{} p{}", metric.title(), crate::text::level(q * 100.0))
            }
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::RequestsPerS => Unit::RequestsPerS,
            Self::OutputTokensPerS => Unit::TokensPerS,
            Self::SuccessRate => Unit::Ratio,
            Self::Quantile(metric, _) => metric.unit(),
        }
    }

    fn direction(&self) -> Direction {
        match self {
            Self::Quantile(metric, _) => metric.direction(),
            _ => Direction::Higher,
        }
    }

    /// The quantity with its interval in one cell.
    fn of(&self, cell: &CellRecord) -> Option<Estimate> {
        let rate = |pick: fn(&Rates) -> Option<Estimate>| pick(cell.headline_rates()?);
        match self {
            Self::RequestsPerS => rate(|r| {
                Some(view::estimate(
                    view::positive(r.requests_per_s)?,
                    r.requests_per_s_interval,
                ))
            }),
            Self::OutputTokensPerS => rate(|r| {
                Some(view::estimate(
                    r.output_tokens_per_s.and_then(view::positive)?,
                    r.output_tokens_per_s_interval,
                ))
            }),
            Self::SuccessRate => {
                let count = |n: u64| usize::try_from(n).ok();
                wilson(
                    count(cell.counts.completed)?,
                    count(cell.counts.planned)?,
                    bench_metrics::LEVEL,
                )
            }
            Self::Quantile(metric, q) => {
                let entry = cell.headline(*metric)?.quantile_entry(*q)?;
                Some(view::estimate(view::positive(entry.value)?, entry.interval))
            }
        }
    }
}

/// The metrics and quantiles of a comparison.
const METRICS: &[Metric] = &[Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e];
const QUANTILES: &[f64] = &[0.5, 0.95, 0.99];

/// What both cells have.
pub(super) fn common(a: &CellRecord, b: &CellRecord) -> Vec<Quantity> {
    let mut all = vec![Quantity::RequestsPerS, Quantity::OutputTokensPerS];
    if a.counts.without_answer() + b.counts.without_answer() > 0 {
        all.push(Quantity::SuccessRate);
    }
    for metric in METRICS {
        all.extend(QUANTILES.iter().map(|q| Quantity::Quantile(*metric, *q)));
    }
    let few = |cell: &CellRecord, metric, q| {
        cell.headline(metric)
            .and_then(|d| d.quantile_entry(q))
            .is_some_and(|entry| entry.few_samples)
    };
    all.retain(|quantity| {
        let thin = match quantity {
            Quantity::Quantile(metric, q) => {
                *q > 0.95 && (few(a, *metric, *q) || few(b, *metric, *q))
            }
            _ => false,
        };
        !thin && quantity.of(a).is_some() && quantity.of(b).is_some()
    });
    all
}

/// The same cell on both sides, once a run.
pub(super) struct Sides<'a> {
    pub(super) base: Vec<&'a CellRecord>,
    pub(super) new: Vec<&'a CellRecord>,
    pub(super) samples: ComparedSamples<'a>,
}

/// The best test that the sides allow.
pub(super) fn test(
    quantity: &Quantity,
    sides: &Sides<'_>,
    options: &CompareOptions,
) -> Option<Tested> {
    let direction = quantity.direction();
    if sides.base.len() > 1 && sides.new.len() > 1 {
        let per_run = |cells: &[&CellRecord]| -> Vec<f64> {
            cells
                .iter()
                .filter_map(|cell| quantity.of(cell))
                .map(|e| e.value)
                .collect()
        };
        return compare_runs(
            &per_run(&sides.base),
            &per_run(&sides.new),
            direction,
            options,
        );
    }
    let (base, new) = (sides.base.first()?, sides.new.first()?);
    if let Quantity::Quantile(metric, q) = quantity
        && let Some((a, b)) = values(*metric, base, sides)
    {
        return compare_quantiles(&a, &b, *q, direction, options);
    }
    Some(compare_estimates(
        &quantity.of(base)?,
        &quantity.of(new)?,
        direction,
        options,
    ))
}

/// Fewest requests of a side for a permutation of blocks of time.
const FEWEST: usize = 30;

/// The metric's values of both runs in order of time, where the samples hold them. They are from `sent`, so an open loop's
/// headline latencies are compared by their intervals instead.
fn values(metric: Metric, cell: &CellRecord, sides: &Sides<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    let pick: fn(&RequestSample) -> Option<f64> = match metric {
        Metric::Ttft => |r| r.ttft,
        Metric::E2e => |r| Some(r.e2e),
        Metric::Tpot => |r| r.tpot,
        _ => return None,
    };
    if cell.headline != Origin::Sent {
        return None;
    }
    let of = |cell: &CellRecord, samples: &[crate::CellSamples]| -> Option<Vec<f64>> {
        let found = samples.iter().find(|s| s.cell == cell.id)?;
        // The headline is of the steady part where there is one, and that is what stands in the report.
        let steady = cell.windows.steady.as_ref().map(|rates| rates.window);
        if steady.is_some() && cell.repeats > 1 {
            return None;
        }
        let values: Vec<f64> = found
            .requests
            .iter()
            .filter(|r| {
                steady.is_none_or(|window| window.contains(r.start) || window.to == r.start)
            })
            .filter_map(pick)
            .filter(|x| x.is_finite())
            .collect();
        (values.len() >= FEWEST).then_some(values)
    };
    let new = *sides.new.first()?;
    Some((of(cell, sides.samples.base)?, of(new, sides.samples.new)?))
}
