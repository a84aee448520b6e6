//! Log-linear histograms: a fixed relative error over the whole range of u64, mergeable, in a few kilobytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_schema::{Distribution, Unit};

use crate::MetricsError;
use crate::estimate::LEVEL;
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

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        let bucket = self.layout.bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.widen(Some((value, value)));
    }

    /// The smallest and the largest value, with those of further values.
    fn widen(&mut self, more: Option<(u64, u64)>) {
        self.range = match (self.range, more) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, two) => one.or(two),
        };
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
        let last = self.layout.bucket(bench_schema::whole(x));
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
        self.widen(other.range);
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

// Where a value falls: exact below 2^p, then 2^p equal buckets per power of two.

/// The precision of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bits: u32,
}

impl Default for Layout {
    /// 8 bits: relative error at most 1/512 (0.2 %), 117 KB for the full range.
    fn default() -> Self {
        Self { bits: 8 }
    }
}

impl Layout {
    /// With 2^bits buckets per power of two; `bits` is kept within 2…14.
    pub fn with_bits(bits: u32) -> Self {
        Self {
            bits: bits.clamp(2, 14),
        }
    }

    /// The largest distance of a value from its bucket's middle, over the value: 2^−(bits+1).
    pub fn relative_error(self) -> f64 {
        (-f64::from(self.bits + 1)).exp2()
    }

    /// Buckets that cover all of u64.
    pub fn buckets(self) -> usize {
        self.bucket(u64::MAX) + 1
    }

    pub(crate) fn bucket(self, value: u64) -> usize {
        let top = (value | 1).ilog2();
        let shift = top.saturating_sub(self.bits);
        let index = (u64::from(shift) << self.bits) + (value >> shift);
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    /// The smallest value of a bucket.
    pub(crate) fn lower(self, bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let shift = (bucket >> self.bits).saturating_sub(1);
        (bucket - (shift << self.bits)) << shift
    }

    /// The largest value of a bucket.
    pub(crate) fn upper(self, bucket: usize) -> u64 {
        let shift = (bucket as u64 >> self.bits).saturating_sub(1);
        self.lower(bucket) + ((1_u64 << shift) - 1)
    }

    pub(crate) fn middle(self, bucket: usize) -> f64 {
        f64::midpoint(self.lower(bucket) as f64, self.upper(bucket) as f64)
    }

    pub(crate) fn same_as(self, other: Self) -> Result<(), MetricsError> {
        if self == other {
            return Ok(());
        }
        Err(MetricsError::DifferentPrecision {
            left: self.bits,
            right: other.bits,
        })
    }
}

// Values sorted into buckets once, to be added to several histograms of the same layout.

/// Bucket numbers of some values, with their sum and extremes.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    layout: Layout,
    buckets: Vec<u32>,
    highest: u32,
    sum: u128,
    range: Option<(u64, u64)>,
}

impl Batch {
    /// Of these values. Cost: a few nanoseconds a value.
    pub(crate) fn of(layout: Layout, values: impl Iterator<Item = u64>) -> Self {
        let (mut sum, mut low, mut high) = (0_u128, u64::MAX, 0);
        let mut buckets = Vec::with_capacity(values.size_hint().0);
        for value in values {
            sum += u128::from(value);
            low = low.min(value);
            high = high.max(value);
            // At most 2^20 buckets exist, so this never saturates.
            buckets.push(u32::try_from(layout.bucket(value)).unwrap_or(u32::MAX));
        }
        let highest = buckets.iter().copied().max().unwrap_or(0);
        let range = (!buckets.is_empty()).then_some((low, high));
        Self {
            layout,
            buckets,
            highest,
            sum,
            range,
        }
    }
}

impl Histogram {
    /// Adds a batch of the same layout.
    pub(crate) fn add(&mut self, batch: &Batch) {
        debug_assert_eq!(self.layout, batch.layout);
        let needed = batch.highest as usize + 1;
        if !batch.buckets.is_empty() && needed > self.counts.len() {
            self.counts.resize(needed, 0);
        }
        for &bucket in &batch.buckets {
            self.counts[bucket as usize] += 1;
        }
        self.count += batch.buckets.len() as u64;
        self.sum += batch.sum;
        self.widen(batch.range);
    }
}

// A histogram that many threads record into at once, without locks.

/// Records latencies of a service: one relaxed `fetch_add` on a bucket and one on the sum per value, no lock, no allocation.
///
/// Share it by reference or in an `Arc`; [`Recorder::snapshot`] may run at any time beside recording. Values that arrive
/// during a snapshot are in it or in the next one, never lost; sum and counts may differ by those few.
#[derive(Debug)]
pub struct Recorder {
    layout: Layout,
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(Layout::default())
    }
}

impl Recorder {
    /// An empty recorder; allocates all its buckets (8 bytes each, see [`Layout::buckets`]).
    pub fn new(layout: Layout) -> Self {
        let counts = (0..layout.buckets()).map(|_| AtomicU64::new(0)).collect();
        Self {
            layout,
            counts,
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    /// Records a duration, to the nanosecond; saturates at 584 years.
    pub fn record(&self, latency: Duration) {
        self.record_value(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records a value of any unit.
    pub fn record_value(&self, value: u64) {
        if let Some(count) = self.counts.get(self.layout.bucket(value)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
        // Loads first: after the first few values the extremes hardly move, and a load does not claim the cache line.
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// A copy of what was recorded so far. Cost: one load per bucket (about 10 µs at 8 bits).
    pub fn snapshot(&self) -> Histogram {
        let mut counts: Vec<u64> = self
            .counts
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        let used = counts
            .iter()
            .rposition(|n| *n > 0)
            .map_or(0, |last| last + 1);
        counts.truncate(used);
        let count: u64 = counts.iter().sum();
        let (min, max) = (
            self.min.load(Ordering::Relaxed),
            self.max.load(Ordering::Relaxed),
        );
        Histogram {
            layout: self.layout,
            count,
            sum: u128::from(self.sum.load(Ordering::Relaxed)),
            // A value whose bucket is counted may not have reached min and max yet: fall back on the bucket's limits.
            range: (count > 0).then(|| {
                let first = counts.iter().position(|n| *n > 0).unwrap_or(0);
                (
                    min.min(self.layout.upper(first)),
                    max.max(self.layout.lower(used - 1)),
                )
            }),
            counts,
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/histogram_layout.rs"]
mod tests;

#[cfg(test)]
#[path = "../tests/unit/histogram_recorder.rs"]
mod recorder_tests;
