//! A number with what is known about its error: no figure travels without it.

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
