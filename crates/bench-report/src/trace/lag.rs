//! The client's own lag over time.

use bench_schema::EventLog;

use super::bin;
use crate::number::index;

const BINS: usize = 120;
/// Buckets of a logarithmic histogram: 8 for each doubling from 1 µs, so within 9 %.
const BUCKETS: usize = 8 * 24;

/// Lag of the content events that arrived in one part of the run.
#[derive(Clone, Debug)]
pub(crate) struct LagBin {
    /// Middle of the part, seconds.
    pub(crate) at: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// Histograms over time.
pub(crate) struct LagBins {
    seconds: f64,
    counts: Vec<[u32; BUCKETS]>,
    max_ns: Vec<i64>,
}

impl LagBins {
    pub(crate) fn new(seconds: f64) -> Self {
        Self {
            seconds,
            counts: vec![[0; BUCKETS]; BINS],
            max_ns: vec![0; BINS],
        }
    }

    pub(crate) fn add(&mut self, events: &EventLog) {
        for (at, lag) in events.stamps().zip(events.lags()) {
            let i = bin(at.as_secs_f64(), 0.0, self.seconds, BINS);
            let micros = lag.as_f64() / 1e3;
            let bucket = index((micros.max(1.0).log2() * 8.0).round()).min(BUCKETS - 1);
            if let Some(count) = self.counts.get_mut(i).and_then(|row| row.get_mut(bucket)) {
                *count = count.saturating_add(1);
            }
            if let Some(max) = self.max_ns.get_mut(i) {
                *max = (*max).max(lag.get());
            }
        }
    }

    /// p99 over everything that was added.
    pub(crate) fn p99_us(&self) -> Option<f64> {
        let mut all = [0_u32; BUCKETS];
        for row in &self.counts {
            for (sum, n) in all.iter_mut().zip(row) {
                *sum = sum.saturating_add(*n);
            }
        }
        quantile(&all, 0.99)
    }

    pub(crate) fn finish(self) -> Vec<LagBin> {
        let width = self.seconds / BINS as f64;
        let bins = self.counts.iter().zip(&self.max_ns).enumerate();
        bins.filter_map(|(i, (counts, &max))| {
            Some(LagBin {
                at: (i as f64 + 0.5) * width,
                p50_us: quantile(counts, 0.5)?,
                p99_us: quantile(counts, 0.99)?,
                max_us: max as f64 / 1e3,
            })
        })
        .collect()
    }
}

fn quantile(counts: &[u32; BUCKETS], q: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let rank = (q * total as f64).ceil().max(1.0);
    let mut seen = 0.0;
    for (bucket, &n) in counts.iter().enumerate() {
        seen += f64::from(n);
        if n > 0 && seen >= rank {
            return Some((bucket as f64 / 8.0).exp2());
        }
    }
    None
}
