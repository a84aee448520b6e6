//! The one rule of verdicts on "quantile q is at most a limit": it is where at least q of the values are within the limit, so the share
//! of those within decides with its interval, all of it on one side of q. That has an answer where the quantile has no bound.

use std::borrow::Borrow;

use bench_schema::{Distribution, Interval, Share, Slo, SloOutcome, SloVerdict};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::estimate::wilson_share;
use crate::num::is_zero;
use crate::quantile::{Dependence, below, tail_effect};
use crate::tables::z_critical;

/// What the interval of the share within a limit says of the quantile `q`.
pub fn verdict(share_within: &Interval, q: f64) -> SloVerdict {
    if share_within.low >= q {
        SloVerdict::Pass
    } else if share_within.high < q {
        SloVerdict::Fail
    } else {
        SloVerdict::CannotTell
    }
}

/// How many independent values it takes to tell whether their quantile `q` is within a limit, if this share of them is within it: as many as it takes
/// for an end of the share's interval (Wilson) to be `q`. 73 that are all within show a p95, 381 a p99. `None` where the share is `q`, so that no
/// number will do.
///
/// ```
/// let p95 = bench_metrics::values_to_decide(1.0, 0.95);
/// assert_eq!(p95.map(f64::ceil), Some(73.0));
/// ```
pub fn values_to_decide(share: f64, q: f64) -> Option<f64> {
    // The interval holds what the score test does not refute, so its end is where the share is as many standard errors off.
    let values = z_critical(LEVEL).powi(2) * q * (1.0 - q) / (share - q).powi(2);
    values.is_finite().then_some(values)
}

/// The outcome where only a distribution is known: what its quantiles and extremes tell of the share within, for as many independent values
/// as it is worth: as a tail is, or all where no value is beyond halfway from the median to the limit. `None` where that is unknown.
pub fn outcome_of_distribution(d: &Distribution, slo: &Slo) -> Option<SloOutcome> {
    let told = Told::of(d, slo.limit)?;
    // However alike they are, lost requests were lost.
    let lost = wilson_share(told.failed / told.all, told.all, LEVEL)?.low?;
    let ((least, low), (most, high)) = (told.within, told.beyond);
    let upper = wilson_share(most, told.worth, LEVEL)?.high?.min(1.0 - lost);
    let shown = Interval {
        low: wilson_share(least, told.worth, LEVEL)?.low?.min(upper),
        high: upper,
        confidence: LEVEL,
    };
    // on a line between the quantiles that are known
    let part = Some((slo.limit - low) / (high - low)).filter(|part| part.is_finite());
    let value = least + part.map_or(0.0, |part| part.clamp(0.0, 1.0)) * (most - least);
    let entry = d.quantile_entry(slo.q);
    let with_failures = d.with_failures.as_ref().map(|view| {
        let mut all = view.quantiles.iter();
        all.find(|(q, _)| (q - slo.q).abs() < 1e-9)
            .and_then(|of| of.1)
    });
    Some(SloOutcome {
        slo: slo.clone(),
        measured: with_failures.unwrap_or(entry.map(|entry| entry.value)),
        // what failures move has no interval of its own
        interval: entry
            .and_then(|entry| entry.interval)
            .filter(|_| told.failed <= 0.0),
        verdict: verdict(&shown, slo.q),
        within: Some(Share {
            value,
            effective: told.worth,
        }),
        attainment: value,
        attainment_interval: shown,
        vacuous: 0,
    })
}

/// What a distribution tells of the share of its values within a limit.
struct Told {
    /// The highest share that is known to be within, and the lowest that is not, each with the value there; +∞ beyond all.
    within: (f64, f64),
    beyond: (f64, f64),
    all: f64,
    failed: f64,
    /// Independent values.
    worth: f64,
}

impl Told {
    fn of(d: &Distribution, limit: f64) -> Option<Self> {
        let failed = d.with_failures.as_ref().map_or(0, |view| view.failed);
        let all = (d.n + failed) as f64;
        let far = d.p50().is_some_and(|p50| {
            let halfway = f64::midpoint(p50, limit);
            if limit > p50 {
                d.max <= halfway && failed == 0
            } else {
                d.min >= halfway
            }
        });
        let effect = d.n as f64 / d.effective_n?;
        let told: Vec<(f64, f64)> = match &d.with_failures {
            Some(view) => {
                let value = |x: Option<f64>| x.unwrap_or(f64::INFINITY);
                view.quantiles
                    .iter()
                    .map(|(q, x)| (*q, value(*x)))
                    .collect()
            }
            None => d.quantiles.iter().map(|e| (e.q, e.value)).collect(),
        };
        let ends = [(0.0, d.min), (d.n as f64 / all, d.max)];
        let known = || told.iter().chain(&ends).copied();
        let within = known().filter(|(_, x)| *x <= limit);
        let beyond = known().filter(|(_, x)| *x > limit);
        let share = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0);
        Some(Self {
            within: within.max_by(share).unwrap_or((0.0, d.min)),
            beyond: beyond.min_by(share).unwrap_or((1.0, f64::INFINITY)),
            all,
            failed: failed as f64,
            worth: all / if far { 1.0 } else { tail_effect(effect) },
        })
    }
}

/// The share of values in time order that are within `limit`; +∞ is a value that never came, and counts. `q` is the quantile of interest:
/// where all or none are within, the share is worth as many values as it would be if it were `q`. `None` without values.
pub fn share_within(in_time_order: &[f64], limit: f64, q: f64) -> Option<Share> {
    let at = halfway(in_time_order.iter().copied(), limit);
    let dependence = BlockMean::of_parts(below(in_time_order, at));
    let dependence = dependence.map(|b| Dependence::of_share(&b));
    share_of_parts(below(in_time_order, limit), dependence, q)
}

/// Wilson's interval of a share, for as many values as it is worth; all of 0 to 1 where it is worth none.
pub fn share_interval(share: &Share) -> Interval {
    let bounds = wilson_share(share.value, share.effective, LEVEL).and_then(|w| w.bounds());
    let (low, high) = bounds.unwrap_or((0.0, 1.0));
    Interval {
        low,
        high,
        confidence: LEVEL,
    }
}

/// The share within, worth as many independent values as its parts: where all or none are within, as many as they were worth if the share
/// were `q`. Without a dependence, that of the parts themselves.
pub(crate) fn share_of_parts(
    parts: impl Iterator<Item = impl Borrow<Part>> + Clone,
    dependence: Option<Dependence>,
    q: f64,
) -> Option<Share> {
    let n: f64 = parts.clone().map(|p| p.borrow().den).sum();
    let hits: f64 = parts.clone().map(|p| p.borrow().num).sum();
    let value = hits / n;
    let seen = BlockMean::of_parts(parts);
    let dependence = dependence.or_else(|| seen.as_ref().map(Dependence::of_share));
    let effective = match (seen.filter(|b| !is_zero(b.std_err)), dependence) {
        (Some(seen), Some(dependence)) => dependence.effective(n, value, &seen, LEVEL),
        (None, Some(dependence)) => dependence.effective_unseen(n, q),
        _ => n,
    };
    (n > 0.0).then_some(Share { value, effective })
}

/// Halfway from the median to the limit: how alike neighbours are is seen there. At the median it is that of the smallest jitter, at the limit
/// few are on one side.
pub(crate) fn halfway(values: impl Iterator<Item = f64>, limit: f64) -> f64 {
    let mut sorted: Vec<f64> = values.filter(|x| x.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied();
    f64::midpoint(median.unwrap_or(limit), limit)
}

#[cfg(test)]
#[path = "../tests/unit/objective.rs"]
mod tests;
