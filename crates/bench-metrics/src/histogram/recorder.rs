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
mod tests {
    use super::*;

    #[test]
    fn values_from_many_threads_are_all_counted() {
        let recorder = Recorder::default();
        std::thread::scope(|scope| {
            for t in 0..4_u64 {
                let recorder = &recorder;
                scope.spawn(move || (0..10_000).for_each(|i| recorder.record_value(1_000 * t + i)));
            }
        });
        let snapshot = recorder.snapshot();
        assert_eq!(
            (snapshot.len(), snapshot.min(), snapshot.max()),
            (40_000, Some(0), Some(12_999))
        );
        assert!((snapshot.mean().unwrap() - 6_499.5).abs() < 1e-9);
    }

    #[test]
    fn the_difference_of_two_snapshots_is_what_came_between() {
        let recorder = Recorder::default();
        recorder.record(Duration::from_millis(5));
        let before = recorder.snapshot();
        recorder.record(Duration::from_millis(50));
        recorder.record(Duration::from_millis(70));
        let between = recorder.snapshot().since(&before).unwrap();
        assert_eq!(between.len(), 2);
        assert!((between.mean().unwrap() - 60e6).abs() < 1.0);
        assert!(between.min().unwrap() > 49_000_000);
    }

    #[test]
    fn an_untouched_recorder_has_nothing_to_say() {
        let snapshot = Recorder::default().snapshot();
        assert_eq!(
            (snapshot.quantile(0.5), snapshot.mean(), snapshot.min()),
            (None, None, None)
        );
    }
}
