//! All gaps of a cell: exact up to a stated number, then histograms over blocks of requests.

use bench_schema::{Nanos, RequestRecord, Stamp};

use super::coarse::{BLOCKS, CoarseGaps, GapBatch};
use super::{Gap, gaps, per_token};
use crate::latency::Within;

/// Gaps kept exactly; beyond it (8192 requests of 512 tokens) histograms take over. About 50 MB.
pub(crate) const EXACT: usize = 4 << 20;
/// Tokens of an event where they are unknown.
const UNKNOWN: u32 = u32::MAX;

/// Where a request's gaps lie in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GapRange {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Gaps kept one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactGaps {
    lengths: Vec<i64>,
    tokens: Vec<u32>,
    /// How much longer and how much shorter each may have been; empty while every stamp was exact.
    ends: Vec<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub(crate) enum GapStore {
    Exact(ExactGaps),
    /// Histograms by blocks.
    Coarse(CoarseGaps),
}

impl Default for GapStore {
    fn default() -> Self {
        Self::Exact(ExactGaps::default())
    }
}

impl GapStore {
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        matches!(self, Self::Exact(exact) if exact.lengths.len() > limit)
    }

    /// Turns the exact store into a coarse one; `requests` are their ranges, repeats and starts, in the order they ended.
    pub(crate) fn coarsen(&mut self, requests: &[(GapRange, u32, Stamp)]) {
        if let Self::Exact(exact) = self {
            let mut coarse = CoarseGaps::new(requests.len().div_ceil(BLOCKS).max(1));
            for (range, repeat, started) in requests {
                coarse.push(*repeat, *started, &GapBatch::of(exact.of(*range)));
            }
            *self = Self::Coarse(coarse);
        }
    }
}

impl ExactGaps {
    pub(crate) fn push(&mut self, record: &RequestRecord) -> GapRange {
        let start = self.lengths.len();
        for gap in gaps(record) {
            if gap.is_bounded() && self.ends.is_empty() {
                self.ends = vec![(0, 0); self.lengths.len()];
            }
            self.lengths.push(gap.length.get());
            self.tokens.push(gap.tokens.unwrap_or(UNKNOWN));
            if gap.is_bounded() || !self.ends.is_empty() {
                self.ends.push((gap.longer.get(), gap.shorter.get()));
            }
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        GapRange {
            start: narrow(start),
            len: narrow(self.lengths.len() - start),
        }
    }

    pub(crate) fn batch(&self, range: GapRange) -> GapBatch {
        GapBatch::of(self.of(range))
    }

    /// The single gaps of one request.
    pub(crate) fn of(&self, range: GapRange) -> impl Iterator<Item = Gap> + '_ {
        let start = range.start as usize;
        (start..start + range.len as usize).map(|i| {
            let (longer, shorter) = self.ends.get(i).copied().unwrap_or((0, 0));
            Gap {
                length: Nanos::new(self.lengths[i]),
                longer: Nanos::new(longer),
                shorter: Nanos::new(shorter),
                tokens: Some(self.tokens[i]).filter(|k| *k != UNKNOWN),
            }
        })
    }

    /// Whether any stamp was not exact.
    pub(crate) fn any_bounded(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Inter-chunk latencies of one request, as stamped or at an end of what its stamps allow; and how many are not exact.
    pub(crate) fn icl(&self, range: GapRange, within: Within) -> (Vec<f64>, u64) {
        let mut bounded = 0;
        let values = self.of(range).map(|gap| {
            bounded += u64::from(gap.is_bounded());
            gap.within(within).as_f64()
        });
        (values.collect(), bounded)
    }

    /// Inter-token latencies of one request, likewise; empty where tokens are unknown.
    pub(crate) fn itl(&self, range: GapRange, within: Within) -> (Vec<f64>, u64) {
        per_token(self.of(range), within)
    }
}
