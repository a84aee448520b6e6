//! Intervals for quantiles: order statistics at ranks that are widened for dependence.
//!
//! Of n independent values, the number at most the true q quantile is binomial, and Jeffreys' interval for the
//! share q turns into two ranks (Brown, Cai, Das Gupta 2001: it covers as asked on average, where Clopper–Pearson's
//! covers too much). Dependent values are worth fewer: the share's error is measured by blocks of time (or
//! clusters, for token gaps), which gives an effective n, corrected for the blocks' degrees of freedom (Woodruff 1952;
//! Korn and Graubard 1998). No distribution is assumed, and the cost is one pass: nothing is resampled.
//!
//! A tail has few values, and how they cluster is seen badly from them alone. The median shows it well, and tails depend less
//! than the median does: so dependence is never taken as less than the median's to the power 0.8, nor than the memory that the values
//! below the median show makes of this quantile. That exponent is no theory; it was chosen by simulation on autoregressive values
//! (`docs/verification.md` has the coverage).

use crate::blocks::{BlockMean, Part};
use crate::estimate::Estimate;
use crate::memory::Memory;
use crate::num::{float, is_zero};
use crate::sample::Sample;
use crate::tables::{beta_quantile, t_critical, z_critical};

/// A quantile with its interval and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileEstimate {
    /// Which quantile, 0…1.
    pub q: f64,
    /// The exact quantile (type 7) with its interval.
    pub estimate: Estimate,
    /// How many independent values the data is worth for this quantile.
    pub effective: f64,
}

/// The exponent that takes the median's design effect to the least one of any quantile.
const TAIL_EXPONENT: f64 = 0.8;

/// The quantile `q` of values in time order; `sample` holds the same values sorted.
///
/// The interval is absent on a side where the data is worth too few values to have such a rank (p99 of 70 values has no upper
/// bound), and on both for fewer than two values.
pub fn quantile_in_time(
    sample: &Sample,
    in_time_order: &[f64],
    q: f64,
    level: f64,
) -> QuantileEstimate {
    let below = |x| BlockMean::of_parts(below(in_time_order, x));
    let dependence = Dependence::in_sample(sample, below, level);
    quantile_with(sample, below(sample.quantile(q)), q, dependence, level)
}

/// One part per value: whether it is at most `x`.
pub(crate) fn below(in_time_order: &[f64], x: f64) -> impl Iterator<Item = Part> + Clone + '_ {
    in_time_order.iter().map(move |v| Part {
        num: if *v <= x { 1.0 } else { 0.0 },
        den: 1.0,
    })
}

/// One part per cluster that is not empty: how many of its values are at most `x`.
pub(crate) fn clusters_below<'a>(clusters: impl Iterator<Item = &'a [f64]>, x: f64) -> Vec<Part> {
    let full = clusters.filter(|c| !c.is_empty());
    full.map(|c| Part {
        num: float(c.iter().filter(|v| **v <= x).count()),
        den: float(c.len()),
    })
    .collect()
}

/// The quantile `q`, given the share at most its value and the dependence of the data.
pub(crate) fn quantile_with(
    sample: &Sample,
    below: Option<BlockMean>,
    q: f64,
    dependence: Dependence,
    level: f64,
) -> QuantileEstimate {
    let value = sample.quantile(q);
    let Some(ranks) = Ranks::of(float(sample.len()), q, below, dependence, level) else {
        return QuantileEstimate {
            q,
            estimate: Estimate::unbounded(value, level),
            effective: 1.0,
        };
    };
    let estimate = Estimate {
        value,
        low: ranks.low.map(|share| sample.quantile(share).min(value)),
        high: ranks.high.map(|share| sample.quantile(share).max(value)),
        level,
    };
    QuantileEstimate {
        q,
        estimate,
        effective: ranks.effective,
    }
}

/// How much less the values are worth than independent ones, at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependence {
    least: f64,
    memory: Memory,
}

impl Dependence {
    /// From the share of values at most the median, in parts.
    pub(crate) fn at_median(n: f64, below_median: Option<BlockMean>, level: f64) -> Self {
        Self::at(n, 0.5, below_median, level)
    }

    /// The same from any `share` of the values.
    pub(crate) fn at(n: f64, share: f64, below: Option<BlockMean>, level: f64) -> Self {
        let effect = below.map_or(1.0, |b| design_effect(n, share, &b, level));
        Self {
            least: tail_effect(effect),
            memory: below.map_or_else(Memory::default, |b| b.memory.seen_at(share)),
        }
    }

    /// Where nothing is seen of it.
    pub(crate) fn at_least(effect: f64) -> Self {
        Self {
            least: effect.max(1.0),
            memory: Memory::default(),
        }
    }

    /// Of a share that is known by itself only: its own memory stands for that of the median.
    pub(crate) fn of_share(below: &BlockMean) -> Self {
        Self {
            least: 1.0,
            memory: below.memory.seen_at(below.value),
        }
    }

    /// Of a sample, given the share of the data at most a value.
    pub(crate) fn in_sample(
        sample: &Sample,
        below: impl Fn(f64) -> Option<BlockMean>,
        level: f64,
    ) -> Self {
        Self::at_median(float(sample.len()), below(sample.median()), level)
    }

    /// How many independent values the share `below` of n values is worth; between 1 and n.
    pub(crate) fn effective(self, n: f64, share: f64, below: &BlockMean, level: f64) -> f64 {
        let seen = design_effect(n, share, below, level).max(self.least);
        (n / seen.max(self.remembered(n, share, below, level))).clamp(1.0, n)
    }

    /// As many where the values are all on one side, so that they show no spread: what they were worth if the share were `q`.
    pub(crate) fn effective_unseen(self, n: f64, q: f64) -> f64 {
        (n / self.least.max(self.memory.of_share(q))).clamp(1.0, n.max(1.0))
    }

    /// The design effect of parts that know nothing of each other, inflated by memory and discounted for how little that leaves.
    fn remembered(self, n: f64, share: f64, below: &BlockMean, level: f64) -> f64 {
        let independent = share * (1.0 - share) / n;
        let inflation = self.memory.of_share(share);
        if inflation <= 1.0 || independent <= 0.0 || is_zero(below.alone) {
            return 0.0;
        }
        let effect = below.alone.powi(2) / independent * inflation;
        let df = (n / effect - 1.0).max(1.0);
        effect * (t_critical(level, df) / z_critical(level)).powi(2)
    }
}

/// The least design effect of a tail, given that of the middle.
pub(crate) fn tail_effect(of_the_middle: f64) -> f64 {
    of_the_middle.max(1.0).powf(TAIL_EXPONENT)
}

/// The variance of a share over that of independent values, discounted for being itself estimated; 0 where it has none.
fn design_effect(n: f64, share: f64, below: &BlockMean, level: f64) -> f64 {
    let independent = share * (1.0 - share) / n;
    if is_zero(below.std_err) || independent <= 0.0 {
        return 0.0;
    }
    below.std_err.powi(2) / independent * (t_critical(level, below.df) / z_critical(level)).powi(2)
}

/// The shares of the data between which the true quantile lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks {
    /// Absent where the data is worth too few values to limit the quantile from below.
    pub(crate) low: Option<f64>,
    /// Absent where it is worth too few to limit it from above.
    pub(crate) high: Option<f64>,
    /// Independent values that the data is worth.
    pub(crate) effective: f64,
}

impl Ranks {
    /// For n values of which `below` is the measured share at most the quantile; `None` where its error is unknown.
    pub(crate) fn of(
        n: f64,
        q: f64,
        below: Option<BlockMean>,
        dependence: Dependence,
        level: f64,
    ) -> Option<Self> {
        Some(Self::of_independent(
            dependence.effective(n, q, &below?, level),
            q,
            level,
        ))
    }

    /// Jeffreys' shares around q for `n` independent values, as far as these have such ranks.
    pub(crate) fn of_independent(n: f64, q: f64, level: f64) -> Self {
        let (low, high) = share_bounds(n, q, level);
        Self {
            low: Some(low).filter(|share| share * n >= 1.0),
            high: Some(high).filter(|share| share * n <= n - 1.0),
            effective: n,
        }
    }
}

/// Jeffreys' interval of a share measured on `n` independent values; it reaches the end of 0…1 that the share is at.
fn share_bounds(n: f64, share: f64, level: f64) -> (f64, f64) {
    let alpha = f64::midpoint(1.0, -level);
    let (hits, misses) = (n * share, n * (1.0 - share));
    let bound = |p: f64| beta_quantile(p, hits + 0.5, misses + 0.5);
    let low = if hits > 0.0 { bound(alpha) } else { 0.0 };
    let high = if misses > 0.0 {
        bound(1.0 - alpha)
    } else {
        1.0
    };
    (low, high)
}

#[cfg(test)]
#[path = "../tests/unit/quantile.rs"]
mod tests;
