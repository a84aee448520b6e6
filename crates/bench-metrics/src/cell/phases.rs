//! Where the time of a request goes, and checks of a cell against itself.

use std::collections::BTreeMap;

use bench_schema::{CellAnalysis, Distribution, Metric, Origin, PhaseShares, WindowRates};

use crate::num::{float, floor_index, mean, variance};
use crate::scaling::{decode_residual, little_check};

use super::row::Row;

/// One request's time, in nanoseconds.
struct Split {
    e2e: f64,
    queue: f64,
    prefill: f64,
    decode: f64,
}

/// Shares of the mean response time; `None` where no request completed.
pub(super) fn shares(
    rows: &[&Row],
    headline: Origin,
    baseline: Option<f64>,
) -> Option<PhaseShares> {
    let served = rows.iter().any(|r| r.instants().queue.is_some());
    let baseline = baseline.filter(|_| !served);
    let mut splits: Vec<Split> = rows
        .iter()
        .filter_map(|r| split(r, headline, baseline))
        .collect();
    let total: f64 = splits.iter().map(|s| s.e2e).sum();
    if total <= 0.0 {
        return None;
    }
    let share = |part: fn(&Split) -> f64| splits.iter().map(part).sum::<f64>() / total;
    let (queue, prefill, decode) = (
        share(|s| s.queue),
        share(|s| s.prefill),
        share(|s| s.decode),
    );
    let source = match (served, baseline) {
        (true, _) => "response",
        (false, Some(_)) => "estimate",
        (false, None) => "none",
    };
    splits.sort_unstable_by(|a, b| a.e2e.total_cmp(&b.e2e));
    let by_percentile = [0.5, 0.9, 0.95, 0.99]
        .into_iter()
        .filter_map(|q| around(&splits, q))
        .collect();
    Some(PhaseShares {
        queue,
        prefill,
        decode,
        queue_source: source.to_owned(),
        by_percentile,
    })
}

fn split(row: &Row, headline: Origin, baseline: Option<f64>) -> Option<Split> {
    let instants = row.instants();
    let value = |m: Metric| instants.value(m);
    let e2e = value(Metric::E2e.from_origin(headline)).filter(|_| instants.completed)?;
    let (ttft, decode) = (value(Metric::Ttft)?, value(Metric::Decode)?);
    let before = (e2e - ttft - decode).max(0.0);
    let guessed = baseline.map_or(0.0, |base| (ttft - base).max(0.0));
    let served = value(Metric::Queue).unwrap_or(guessed).min(ttft);
    Some(Split {
        e2e,
        queue: before + served,
        prefill: ttft - served,
        decode,
    })
}

/// `(q, mean queue, mean generation)` of the requests within 2.5 % of ranks around the `q` quantile of E2E.
fn around(sorted: &[Split], q: f64) -> Option<(f64, f64, f64)> {
    let n = float(sorted.len());
    let (low, high) = (
        floor_index((q - 0.025) * (n - 1.0)),
        floor_index(((q + 0.025) * (n - 1.0)).min(n - 1.0)),
    );
    let near = sorted.get(low..=high.max(low))?;
    let queue = mean(&near.iter().map(|s| s.queue).collect::<Vec<_>>())?;
    let generation = mean(&near.iter().map(|s| s.e2e - s.queue).collect::<Vec<_>>())?;
    Some((q, queue, generation))
}

/// Little's law, the decode identity, the tail, ms per token and the spread of repeats.
pub(super) fn analysis(
    rows: &[&Row],
    metrics: &BTreeMap<Metric, Distribution>,
    windows: &WindowRates,
    headline: Origin,
) -> CellAnalysis {
    let e2e = metrics.get(&Metric::E2e.from_origin(headline));
    let tail_ratio = e2e.and_then(|d| Some(d.quantile(0.95)? / d.p50().filter(|p| *p > 0.0)?));
    let tokens = metrics.get(&Metric::OutputTokens).filter(|d| d.mean > 0.0);
    CellAnalysis {
        precision: Vec::new(),
        littles_law_ratio: littles_law(rows, windows),
        decode_identity_residual: decode_identity(rows, metrics),
        tail_ratio,
        ms_per_token: e2e.zip(tokens).map(|(e, n)| e.mean / n.mean / 1e6),
        between_repeats_cov: between_repeats(rows, headline),
    }
}

/// Fewer waves than this in a window and the check tells where it was cut, not what the server did.
const LEAST_WAVES: f64 = 20.0;

/// Arrival rate × mean time in the system over the mean number in flight, in the headline window; `None` below twenty waves.
fn littles_law(rows: &[&Row], windows: &WindowRates) -> Option<f64> {
    let rates = windows.steady.as_ref().or(windows.whole.as_ref())?;
    let stays: Vec<f64> = rows
        .iter()
        .filter_map(|r| Some((r.instants().ended()? - r.instants().sent?).as_secs_f64()))
        .collect();
    let arrivals = float(stays.len()) / rates.seconds;
    little_check(rates.mean_in_flight, arrivals, mean(&stays)?)
        .filter(|_| float(stays.len()) >= LEAST_WAVES * rates.mean_in_flight)
}

/// Mean of (E2E − TTFT − (n − 1)·ITL) / E2E with the cell's median ITL: how uneven the gaps are. From `sent`.
fn decode_identity(rows: &[&Row], metrics: &BTreeMap<Metric, Distribution>) -> Option<f64> {
    let itl = metrics.get(&Metric::Itl)?.p50()?;
    let residuals: Vec<f64> = rows
        .iter()
        .filter(|r| r.completed())
        .filter_map(|r| {
            let value = |m: Metric| r.instants().value(m);
            let (e2e, ttft, n) = (
                value(Metric::E2e)?,
                value(Metric::Ttft)?,
                value(Metric::OutputTokens)?,
            );
            decode_residual(e2e, ttft, itl, n).map(|(_, share)| share)
        })
        .collect();
    mean(&residuals)
}

/// sd of the repeats' mean E2E over their mean.
fn between_repeats(rows: &[&Row], headline: Origin) -> Option<f64> {
    let mut by_repeat: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.completed()) {
        if let Some(e2e) = row.instants().value(Metric::E2e.from_origin(headline)) {
            by_repeat.entry(row.repeat()).or_default().push(e2e);
        }
    }
    let means: Vec<f64> = by_repeat
        .values()
        .filter_map(|values| mean(values))
        .collect();
    let level = mean(&means).filter(|level| *level > 0.0)?;
    Some(variance(&means)?.sqrt() / level)
}
