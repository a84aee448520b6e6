//! What a server's histogram gained: its mean exactly, its quantiles as well as the buckets allow.

/// Observations of a histogram that fell into a window. Seconds, or whatever the histogram counts.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramDelta {
    /// Observations; fractional where the window begins or ends between two readings.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Upper bound and cumulative count, sorted by bound.
    pub buckets: Vec<(f64, f64)>,
}

/// Fewer observations than this are none: interpolation at a window's edges leaves crumbs.
const CRUMB: f64 = 0.5;

impl HistogramDelta {
    /// `sum / count`; `None` of no observation.
    pub fn mean(&self) -> Option<f64> {
        (self.count >= CRUMB).then(|| self.sum / self.count)
    }

    /// The `q`-quantile, taking observations to lie evenly within their bucket (as PromQL's `histogram_quantile`).
    ///
    /// Off by at most the width of that bucket; see [`Self::bracketed`]. `None` of no observation, and where it lies beyond the
    /// last finite bound: then it is only known to be larger.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.bracketed(q).map(|quantile| quantile.value)
    }

    /// The `q`-quantile with the bounds of its bucket, between which it lies for certain.
    pub fn bracketed(&self, q: f64) -> Option<Bracketed> {
        let total = self.buckets.last()?.1;
        if total < CRUMB {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * total;
        // The first bucket has no lower bound of its own: times begin at zero.
        let (mut low, mut below) = (0.0_f64, 0.0_f64);
        for &(high, cumulative) in &self.buckets {
            if cumulative >= rank && cumulative > below {
                let low = low.min(high);
                let share = (rank - below).max(0.0) / (cumulative - below);
                return high.is_finite().then_some(Bracketed {
                    value: low + (high - low) * share,
                    low,
                    high,
                });
            }
            (low, below) = (high, cumulative.max(below));
        }
        None
    }
}

/// A quantile of a histogram: an estimate, and the bucket that holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracketed {
    /// The estimate.
    pub value: f64,
    /// Lower bound of the bucket.
    pub low: f64,
    /// Upper bound of the bucket.
    pub high: f64,
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_history_histogram.rs"]
mod tests;
