//! A set of measured values, sorted once, of which every statistic may rely on being finite and non-empty.

use crate::MetricsError;
use crate::num::{float, floor_index, is_zero, mean, squared_deviations};

/// One or more finite values in ascending order. The unit is the caller's.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Sorts the values. Cost: O(n log n), once.
    ///
    /// # Errors
    /// [`MetricsError::EmptySample`] without values, [`MetricsError::NotFinite`] where one is NaN or infinite.
    pub fn new(mut values: Vec<f64>) -> Result<Self, MetricsError> {
        if values.is_empty() {
            return Err(MetricsError::EmptySample);
        }
        if let Some((index, &value)) = values.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(MetricsError::NotFinite { index, value });
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(Self { sorted: values })
    }

    /// A copy of the values, sorted; `None` where [`Sample::new`] would refuse them.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::new(values.to_vec()).ok()
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// How many values there are; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a sample is never empty")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> f64 {
        mean(&self.sorted)
            .unwrap_or(self.sorted[0])
            .clamp(self.min(), self.max())
    }

    /// Standard deviation with n − 1; `None` for a single value.
    pub fn sd(&self) -> Option<f64> {
        let n = self.sorted.len();
        (n > 1).then(|| (squared_deviations(&self.sorted, self.mean()) / float(n - 1)).sqrt())
    }

    /// Coefficient of variation `sd / mean`; `None` for a single value or a mean of zero.
    pub fn cov(&self) -> Option<f64> {
        let mean = self.mean();
        self.sd()
            .filter(|_| !is_zero(mean))
            .map(|sd| sd / mean.abs())
    }

    /// The `q` quantile, exact: linear interpolation between order statistics (Hyndman–Fan type 7, as numpy's default).
    ///
    /// With h = (n − 1)·q, it is `x[⌊h⌋] + (h − ⌊h⌋)·(x[⌊h⌋+1] − x[⌊h⌋])`. `q` is clamped to 0…1; NaN counts as 0.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile_of(&self.sorted, q)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The `q` quantile when `failed` further values count as +∞; `None` where that many failures reach it.
    ///
    /// Type 7 over n + failed values: as soon as an infinite value would take part, the answer is infinite.
    pub fn quantile_with_failures(&self, q: f64, failed: usize) -> Option<f64> {
        let n = self.sorted.len();
        let h = float(n + failed - 1) * q.clamp(0.0, 1.0);
        let (index, part) = (floor_index(h), h.fract());
        let low = *self.sorted.get(index)?;
        if is_zero(part) {
            return Some(low);
        }
        self.sorted
            .get(index + 1)
            .map(|high| low + part * (high - low))
    }

    /// How many values are at most `x`.
    pub fn count_at_most(&self, x: f64) -> usize {
        self.sorted.partition_point(|v| *v <= x)
    }

    /// The share of values at most `x`: the empirical distribution function.
    pub fn share_at_most(&self, x: f64) -> f64 {
        float(self.count_at_most(x)) / float(self.sorted.len())
    }
}

/// [`Sample::quantile`] of a slice known to be sorted and not empty.
pub(crate) fn quantile_of(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len() - 1;
    let h = float(last) * q.clamp(0.0, 1.0);
    let index = floor_index(h).min(last);
    let low = sorted[index];
    let high = sorted[(index + 1).min(last)];
    let part = h - float(index);
    // From the nearer end, so that the result never leaves [low, high] by rounding.
    if part < 0.5 {
        low + part * (high - low)
    } else {
        high - (1.0 - part) * (high - low)
    }
}

/// How many values a quantile needs before it is printed without a mark: 10 / (1 − q), rounded up.
///
/// 20 for the median, 1000 for p99, 10 000 for p99.9: about ten values lie beyond the quantile.
pub fn values_needed(q: f64) -> usize {
    floor_index(bench_schema::Quantile::values_needed(q))
}

/// How steady a latency is, by its coefficient of variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CovClass {
    /// Below 5 %.
    Consistent,
    /// 5 % to below 10 %.
    Mostly,
    /// 10 % to 20 %.
    Noticeable,
    /// Above 20 %.
    Unstable,
}

impl CovClass {
    /// The class of a coefficient of variation given as a ratio (0.05 is 5 %).
    pub fn of(cov: f64) -> Self {
        match cov.abs() {
            c if c < 0.05 => Self::Consistent,
            c if c < 0.10 => Self::Mostly,
            c if c <= 0.20 => Self::Noticeable,
            _ => Self::Unstable,
        }
    }

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consistent => "consistent",
            Self::Mostly => "mostly consistent",
            Self::Noticeable => "noticeable variation",
            Self::Unstable => "unstable",
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/sample.rs"]
mod tests;
