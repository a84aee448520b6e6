//! A number with what is known about its error: no figure travels without it.

use crate::num::float;
use crate::tables::z_critical;

/// The confidence level used where none is asked for.
pub const LEVEL: f64 = 0.95;

/// A value with its confidence interval. An absent bound is unbounded: the data cannot limit it on that side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The point estimate, in the unit of the data.
    pub value: f64,
    /// The lower bound.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
    /// Confidence level, e.g. 0.95.
    pub level: f64,
}

impl Estimate {
    /// A value with both bounds.
    pub fn bounded(value: f64, low: f64, high: f64, level: f64) -> Self {
        Self {
            value,
            low: Some(low),
            high: Some(high),
            level,
        }
    }

    /// A value of which nothing more is known.
    pub fn unbounded(value: f64, level: f64) -> Self {
        Self {
            value,
            low: None,
            high: None,
            level,
        }
    }

    /// Both bounds, where both exist.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// The larger distance from the value to a bound, over the value's size; `None` where a bound is absent or the value 0.
    pub fn relative_half_width(&self) -> Option<f64> {
        let (low, high) = self.bounds()?;
        let half = (self.value - low).max(high - self.value);
        (self.value.abs() > 0.0).then(|| half / self.value.abs())
    }

    /// Whether `x` lies within the interval; an absent bound excludes nothing.
    pub fn covers(&self, x: f64) -> bool {
        self.low.is_none_or(|low| low <= x) && self.high.is_none_or(|high| x <= high)
    }

    /// The same estimate in another unit, or turned round by a negative factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let (low, high) = (self.low.map(|x| x * factor), self.high.map(|x| x * factor));
        let (low, high) = if factor < 0.0 {
            (high, low)
        } else {
            (low, high)
        };
        Self {
            value: self.value * factor,
            low,
            high,
            level: self.level,
        }
    }
}

// Shares of requests: Wilson's interval.

/// Wilson's score interval for `hits` of `n`; `None` when n is 0.
///
/// Behaves at 0 and n (Wilson 1927): 10 of 10 is not "100 % ± 0".
pub fn wilson(hits: usize, n: usize, level: f64) -> Option<Estimate> {
    let n = float(n);
    wilson_share(float(hits) / n, n, level)
}

/// Wilson's interval of a share that is worth `effective` independent values; `None` where it is no share of anything.
pub(crate) fn wilson_share(share: f64, effective: f64, level: f64) -> Option<Estimate> {
    if !(0.0..=1.0).contains(&share) || effective <= 0.0 {
        return None;
    }
    let z2 = z_critical(level).powi(2);
    let shrink = 1.0 + z2 / effective;
    let centre = (share + z2 / (2.0 * effective)) / shrink;
    let spread = share * (1.0 - share) / effective + z2 / (4.0 * effective * effective);
    let half = z_critical(level) * spread.sqrt() / shrink;
    // The score interval touches 0 and 1 exactly at the ends; rounding must not undo that.
    let low = if share > 0.0 {
        (centre - half).max(0.0)
    } else {
        0.0
    };
    let high = if share < 1.0 {
        (centre + half).min(1.0)
    } else {
        1.0
    };
    Some(Estimate::bounded(share, low, high, level))
}

#[cfg(test)]
#[path = "../tests/unit/proportion.rs"]
mod tests;
