//! Gaps between content events, and between tokens.

mod coarse;

use std::collections::BTreeMap;

use bench_schema::{EventLog, Nanos, RequestRecord, Stamp};
use coarse::{BLOCKS, CoarseGaps};

use crate::latency::Within;

pub(crate) use coarse::{GapBatch, GapHistograms};

/// One gap between consecutive content events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its length as stamped.
    pub length: Nanos,
    /// How much longer it may have been: the bound of the stamp before it.
    pub longer: Nanos,
    /// How much shorter it may have been: the bound of the stamp that ends it; never more than its length.
    pub shorter: Nanos,
    /// Tokens in the event that ends it; absent where the stream and the counts do not tell.
    pub tokens: Option<u32>,
}

impl Gap {
    /// Whether one of its stamps is not exact.
    pub fn is_bounded(&self) -> bool {
        self.longer > Nanos::ZERO || self.shorter > Nanos::ZERO
    }

    /// Its length as stamped, or at an end of what the bounds of its stamps allow.
    pub fn within(&self, within: Within) -> Nanos {
        match within {
            Within::Stamped => self.length,
            Within::Least => self.length - self.shorter,
            Within::Most => self.length + self.longer,
        }
    }
}

/// The gaps of one answer in order (inter-chunk latencies), with the tokens that each brought.
///
/// Tokens are those of the stream (token ids, continuous usage). Where it has none but the answer's token count (without reasoning
/// that was not sent) equals its number of events, each event is one token. Otherwise they are unknown: then there is no ITL, only ICL.
pub fn gaps(record: &RequestRecord) -> impl Iterator<Item = Gap> + '_ {
    let events = &record.wire.events;
    let counts = record.event_tokens();
    let one_each = counts.is_none() && record.streamed_tokens() == Some(events.len() as u64);
    let bounds = BoundWalk { log: events, at: 0 };
    events
        .gaps()
        .enumerate()
        .scan(bounds, move |bounds, (i, length)| {
            let (before, after) = (bounds.of(i), bounds.of(i + 1));
            let tokens = if one_each {
                Some(1)
            } else {
                counts.and_then(|c| c.get(i + 1).copied())
            };
            Some(Gap {
                length,
                longer: before,
                shorter: after.min(length.or_zero()),
                tokens,
            })
        })
}

/// The gaps between tokens of one answer, in nanoseconds (inter-token latencies); empty where token counts are unknown.
///
/// A gap whose event holds k tokens counts as k gaps of gap/k; the gap before an event without a token (an empty string) is
/// added to the next one.
pub fn token_gaps(record: &RequestRecord) -> Vec<f64> {
    per_token(gaps(record), Within::Stamped).0
}

/// The same of any gaps, as stamped or at an end of what their stamps allow; and how many of them are not exact.
pub(crate) fn per_token(gaps: impl Iterator<Item = Gap>, within: Within) -> (Vec<f64>, u64) {
    let (mut out, mut bounded, mut carried) = (Vec::new(), 0, 0.0);
    for gap in gaps {
        let length = carried + gap.within(within).as_f64();
        match gap.tokens {
            None => return (Vec::new(), 0),
            Some(0) => carried = length,
            Some(k) => {
                carried = 0.0;
                bounded += u64::from(gap.is_bounded()) * u64::from(k);
                out.extend((0..k).map(|_| length / f64::from(k)));
            }
        }
    }
    (out, bounded)
}

/// Looks bounds up in ascending order; most logs have none, and then this costs a comparison.
struct BoundWalk<'a> {
    log: &'a EventLog,
    at: usize,
}

impl BoundWalk<'_> {
    /// The bound of event `index`; indices may go back by one only.
    fn of(&mut self, index: usize) -> Nanos {
        let bounds = self.log.bounds();
        let position = |i: usize| bounds.get(i).and_then(|(at, _)| usize::try_from(*at).ok());
        while position(self.at).is_some_and(|p| p + 1 < index) {
            self.at += 1;
        }
        let near = bounds.iter().skip(self.at).take(2);
        near.filter(|(at, _)| usize::try_from(*at) == Ok(index))
            .map(|(_, width)| *width)
            .next()
            .unwrap_or(Nanos::ZERO)
    }
}

// All gaps of a cell: exact up to a stated number, then histograms over blocks of requests.

/// Gaps kept exactly; beyond it (8192 requests of 512 tokens) histograms take over. At most 55 MB.
pub(crate) const EXACT: usize = 4 << 20;
/// Tokens of an event where they are unknown.
const UNKNOWN: u8 = u8::MAX;
/// The length of a gap that does not fit.
const WIDE: u32 = u32::MAX;

/// Where a request's gaps lie in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GapRange {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Gaps kept one by one, in 5 bytes, or 13 once a stamp was not exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactGaps {
    /// In nanoseconds.
    lengths: Vec<u32>,
    tokens: Vec<u8>,
    /// How much longer and how much shorter each may have been; empty while every stamp was exact.
    ends: Vec<(u32, u32)>,
    /// Those of which something does not fit: longer than four seconds, more than 254 tokens.
    wide: BTreeMap<usize, Gap>,
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
            self.keep(gap);
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        GapRange {
            start: narrow(start),
            len: narrow(self.lengths.len() - start),
        }
    }

    fn keep(&mut self, gap: Gap) {
        let at = self.lengths.len();
        if gap.is_bounded() && self.ends.is_empty() {
            self.ends = vec![(0, 0); at];
        }
        let narrow = |length: Nanos| u32::try_from(length.get()).unwrap_or(WIDE);
        let tokens = gap.tokens.and_then(|k| u8::try_from(k).ok());
        self.lengths.push(narrow(gap.length));
        self.tokens.push(tokens.unwrap_or(UNKNOWN));
        if gap.is_bounded() || !self.ends.is_empty() {
            self.ends.push((narrow(gap.longer), narrow(gap.shorter)));
        }
        if self.at(at) != gap {
            self.lengths[at] = WIDE;
            self.wide.insert(at, gap);
        }
    }

    fn at(&self, i: usize) -> Gap {
        let length = |ns: u32| Nanos::new(i64::from(ns));
        let (longer, shorter) = self.ends.get(i).copied().unwrap_or((0, 0));
        let narrow = Gap {
            length: length(self.lengths[i]),
            longer: length(longer),
            shorter: length(shorter),
            tokens: Some(self.tokens[i])
                .filter(|k| *k != UNKNOWN)
                .map(u32::from),
        };
        let wide = (self.lengths[i] == WIDE).then(|| self.wide.get(&i));
        wide.flatten().copied().unwrap_or(narrow)
    }

    pub(crate) fn batch(&self, range: GapRange) -> GapBatch {
        GapBatch::of(self.of(range))
    }

    /// The single gaps of one request.
    pub(crate) fn of(&self, range: GapRange) -> impl Iterator<Item = Gap> + '_ {
        let start = range.start as usize;
        (start..start + range.len as usize).map(|i| self.at(i))
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

#[cfg(test)]
#[path = "../tests/unit/gaps_store.rs"]
mod tests;
