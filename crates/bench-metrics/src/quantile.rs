//! Intervals for quantiles: order statistics at ranks that are widened for dependence.
//!
//! Of n independent values, the number at most the true q quantile is binomial, and a Clopper–Pearson interval for the
//! share q turns into two ranks. Dependent values are worth fewer: the share's error is measured by blocks of time (or
//! clusters, for token gaps), which gives an effective n, corrected for the blocks' degrees of freedom (Woodruff 1952;
//! Korn and Graubard 1998). No distribution is assumed, and the cost is one pass: nothing is resampled.

use crate::blocks::{BlockMean, Part};
use crate::estimate::Estimate;
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

/// The quantile `q` of values in time order; `sample` holds the same values sorted.
///
/// The interval is absent on a side where the data ends before the rank (p99 of 70 values has no upper bound), and on
/// both for fewer than two values.
pub fn quantile_in_time(
    sample: &Sample,
    in_time_order: &[f64],
    q: f64,
    level: f64,
) -> QuantileEstimate {
    let value = sample.quantile(q);
    let parts: Vec<Part> = in_time_order
        .iter()
        .map(|x| Part {
            num: if *x <= value { 1.0 } else { 0.0 },
            den: 1.0,
        })
        .collect();
    quantile_by_parts(sample, &parts, q, level)
}

/// The quantile `q` where each part holds a cluster's `(values at most the quantile, values)`, in time order.
///
/// This is how token gaps get an honest error: the request is the cluster.
pub fn quantile_by_parts(sample: &Sample, parts: &[Part], q: f64, level: f64) -> QuantileEstimate {
    let value = sample.quantile(q);
    let n = float(sample.len());
    let Some(ranks) = Ranks::of(n, q, BlockMean::of_parts(parts), level) else {
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
    pub(crate) fn of(n: f64, q: f64, below: Option<BlockMean>, level: f64) -> Option<Self> {
        Some(Self::of_independent(
            effective_count(n, q, &below?, level),
            q,
            level,
        ))
    }

    /// The Clopper–Pearson shares around q for `n` independent values, as far as these have such ranks.
    pub(crate) fn of_independent(n: f64, q: f64, level: f64) -> Self {
        let alpha = f64::midpoint(1.0, -level);
        let low = beta_quantile(alpha, n * q, n * (1.0 - q) + 1.0);
        let high = beta_quantile(1.0 - alpha, n * q + 1.0, n * (1.0 - q));
        Self {
            low: Some(low).filter(|share| share * n >= 1.0),
            high: Some(high).filter(|share| share * n <= n - 1.0),
            effective: n,
        }
    }
}

/// `q(1 − q) / se²` in independent values, discounted for the error being itself estimated; between 1 and n.
fn effective_count(n: f64, q: f64, below: &BlockMean, level: f64) -> f64 {
    if is_zero(below.std_err) {
        return n;
    }
    let raw = q * (1.0 - q) / below.std_err.powi(2);
    (raw * (z_critical(level) / t_critical(level, below.df)).powi(2)).clamp(1.0, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_beyond_the_data_has_no_upper_bound() {
        let values: Vec<f64> = (0..70).map(|i| f64::from(i * 37 % 70)).collect();
        let sample = Sample::of(&values).unwrap();
        let p99 = quantile_in_time(&sample, &values, 0.99, 0.95);
        assert_eq!(p99.estimate.high, None);
        assert!(p99.estimate.low.is_some_and(|low| low < p99.estimate.value));
    }

    #[test]
    fn a_single_value_has_no_interval() {
        let sample = Sample::of(&[3.0]).unwrap();
        let median = quantile_in_time(&sample, &[3.0], 0.5, 0.95);
        assert_eq!((median.estimate.low, median.estimate.high), (None, None));
    }

    #[test]
    fn clustered_values_widen_the_interval() {
        let flat: Vec<f64> = (0..4000).map(|i| f64::from(i * 7919 % 4001)).collect();
        let runs: Vec<f64> = (0..4000)
            .map(|i| f64::from((i / 50) * 7919 % 4001))
            .collect();
        let width = |v: &[f64]| {
            let (low, high) = quantile_in_time(&Sample::of(v).unwrap(), v, 0.5, 0.95)
                .estimate
                .bounds()
                .unwrap();
            high - low
        };
        assert!(width(&runs) > 3.0 * width(&flat));
    }
}
