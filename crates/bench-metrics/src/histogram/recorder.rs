//! A histogram that many threads record into at once, without locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Histogram, Layout};

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
#[path = "../../tests/unit/histogram_recorder.rs"]
mod tests;
