//! Log-linear histograms: a fixed relative error over the whole range of u64, mergeable, in a few kilobytes.

mod batch;
mod layout;
mod recorder;

pub(crate) use batch::Batch;
pub use layout::Layout;
pub use recorder::Recorder;

use bench_schema::{Distribution, Unit};

use crate::MetricsError;
use crate::estimate::LEVEL;
use crate::num::floor_index;
use crate::quantile::Ranks;
use crate::summary::{QUANTILES, interval_of, quantile_entry};

/// Counts of non-negative integers (nanoseconds, usually) in log-linear buckets.
///
/// A value is kept to a relative error of at most [`Layout::relative_error`]; count, sum, min and max are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    layout: Layout,
    /// One count per bucket, up to the highest in use.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    /// Smallest and largest value; absent while empty, and bucket limits after [`Histogram::since`].
    range: Option<(u64, u64)>,
}

impl Histogram {
    /// An empty one.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            counts: Vec::new(),
            count: 0,
            sum: 0,
            range: None,
        }
    }

    /// Counts a value once.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `times` over.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = self.layout.bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.range = Some(self.range.map_or((value, value), |(low, high)| {
            (low.min(value), high.max(value))
        }));
    }

    /// How many values were counted.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bucket layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Non-empty buckets in ascending order: the middle of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let middle = move |b: usize| self.layout.middle(b);
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(move |(b, n)| (middle(b), *n))
    }

    /// Exact mean; `None` while empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation (n − 1) of the bucket middles; `None` below two values.
    pub fn sd(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.count > 1)?;
        let squares = crate::num::sum(self.buckets().map(|(x, n)| (x - mean).powi(2) * n as f64));
        Some((squares / (self.count - 1) as f64).sqrt())
    }

    /// Smallest value; exact, or its bucket's lower end after [`Histogram::since`].
    pub fn min(&self) -> Option<u64> {
        self.range.map(|r| r.0)
    }

    /// Largest value; exact, or its bucket's upper end after [`Histogram::since`].
    pub fn max(&self) -> Option<u64> {
        self.range.map(|r| r.1)
    }

    /// The `q` quantile (type 7 over bucket middles, kept within min and max); `None` while empty.
    ///
    /// Within [`Layout::relative_error`] of the exact quantile. Cost: O(buckets).
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (low, high) = self.range?;
        let h = (self.count - 1) as f64 * q.clamp(0.0, 1.0);
        let (rank, part) = (h.floor(), h.fract());
        let lower = self.order_statistic(rank)?;
        let upper = if part > 0.0 {
            self.order_statistic(rank + 1.0)?
        } else {
            lower
        };
        Some((lower + part * (upper - lower)).clamp(low as f64, high as f64))
    }

    /// The middle of the bucket that holds the value of this rank, from 0.
    fn order_statistic(&self, rank: f64) -> Option<f64> {
        let mut seen = 0_u64;
        self.buckets().find_map(|(middle, n)| {
            seen += n;
            (seen as f64 > rank).then_some(middle)
        })
    }

    /// How many values are at most `x`, to the bucket.
    pub fn count_at_most(&self, x: f64) -> u64 {
        if x < 0.0 {
            return 0;
        }
        let last = self
            .layout
            .bucket(u64::try_from(floor_index(x)).unwrap_or(u64::MAX));
        self.counts.iter().take(last + 1).sum()
    }

    /// Adds the counts of another.
    ///
    /// # Errors
    /// [`MetricsError::DifferentPrecision`] where the layouts differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), MetricsError> {
        self.layout.same_as(other.layout)?;
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, two) => one.or(two),
        };
        Ok(())
    }

    /// What was counted since `earlier`, a snapshot of the same recorder: the interval between two scrapes.
    ///
    /// Min and max are known to the bucket only. Counts that would be negative (the order was wrong) are 0.
    ///
    /// # Errors
    /// [`MetricsError::DifferentPrecision`] where the layouts differ.
    pub fn since(&self, earlier: &Self) -> Result<Self, MetricsError> {
        self.layout.same_as(earlier.layout)?;
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts: Vec<u64> = self
            .counts
            .iter()
            .zip(before)
            .map(|(now, then)| now.saturating_sub(then))
            .collect();
        let first = counts.iter().position(|n| *n > 0);
        let last = counts.iter().rposition(|n| *n > 0);
        Ok(Self {
            layout: self.layout,
            count: counts.iter().sum(),
            sum: self.sum.saturating_sub(earlier.sum),
            range: first
                .zip(last)
                .map(|(a, b)| (self.layout.lower(a), self.layout.upper(b))),
            counts,
        })
    }

    /// The same summary as of exact values; `None` while empty.
    ///
    /// Quantile intervals are order statistics that take the values as independent: a recorder keeps no order. Of a
    /// service's own latencies that is optimistic; of a benchmark the accumulator's intervals are used instead.
    pub fn summary(&self, unit: Unit) -> Option<Distribution> {
        let (low, high) = self.range?;
        let n = self.count as f64;
        let quantiles = QUANTILES
            .iter()
            .filter_map(|&q| {
                let value = self.quantile(q)?;
                let ranks = Ranks::of_independent(n, q, LEVEL);
                let bounds = ranks.low.zip(ranks.high).and_then(|(low, high)| {
                    let (low, high) = (self.quantile(low)?, self.quantile(high)?);
                    interval_of(low.min(value), high.max(value), LEVEL)
                });
                Some(quantile_entry(q, value, bounds, self.count))
            })
            .collect();
        let (mean, sd) = (self.mean()?, self.sd());
        let half = sd.map(|sd| crate::tables::z_critical(LEVEL) * sd / n.sqrt());
        Some(Distribution {
            unit,
            n: self.count,
            effective_n: None,
            mean,
            mean_interval: half.and_then(|h| interval_of(mean - h, mean + h, LEVEL)),
            sd,
            cov: sd.filter(|_| mean > 0.0).map(|sd| sd / mean),
            min: low as f64,
            max: high as f64,
            quantiles,
            with_failures: None,
            bounded_share: None,
            resolution: Some(self.layout.relative_error()),
        })
    }
}
