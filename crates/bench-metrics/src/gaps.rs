//! Gaps between content events, and between tokens.

mod coarse;

use bench_schema::{EventLog, Nanos, RequestRecord, Stamp};
use coarse::{BLOCKS, CoarseGaps};

use crate::latency::Within;
use crate::packed::PackedInts;

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
    let one_each = is_one_token_each(record);
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

/// Whether each event is one token, as far as the counts tell.
fn is_one_token_each(record: &RequestRecord) -> bool {
    let events = record.wire.events.len() as u64;
    record.event_tokens().is_none() && record.streamed_tokens() == Some(events)
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

/// Gaps kept exactly; beyond it (8192 requests of 512 tokens) histograms take over. They take a few bytes each.
pub(crate) const EXACT: usize = 4 << 20;

/// Where a request's gaps lie in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GapRange {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Gaps kept one by one: most in the three or four bytes of their lengths, and three more where the stamp between two of them was not exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactGaps {
    ints: PackedInts,
    len: usize,
    /// Whether any stamp was not exact.
    pub(crate) any_bounded: bool,
}

/// What a kept gap begins with, in the lowest bits of its length: which tokens it brought, …
const ONE_TOKEN: u64 = 0;
const NOT_KNOWN: u64 = 1;
const TOLD: u64 = 2;
/// … whether its length did not fit and follows, …
const WIDE: u64 = 4;
/// … whether how much longer it may have been differs from how much shorter the one before may, …
const LONGER: u64 = 8;
/// … and whether it may have been shorter.
const SHORTER: u64 = 16;
const FLAG_BITS: u32 = 5;

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
        matches!(self, Self::Exact(exact) if exact.len > limit)
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
    /// Keeps the gaps of one answer, and returns where they begin.
    pub(crate) fn push(&mut self, gaps: impl Iterator<Item = Gap>) -> u32 {
        let start = u32::try_from(self.ints.bytes()).unwrap_or(u32::MAX);
        let mut before = Nanos::ZERO;
        for gap in gaps {
            self.keep(gap, before);
            before = gap.shorter;
        }
        start
    }

    /// `before` is how much shorter the gap before it may have been.
    fn keep(&mut self, gap: Gap, before: Nanos) {
        let mut flags = match gap.tokens {
            Some(1) => ONE_TOKEN,
            None => NOT_KNOWN,
            Some(_) => TOLD,
        };
        flags |= if gap.longer == before { 0 } else { LONGER };
        flags |= if gap.shorter == Nanos::ZERO {
            0
        } else {
            SHORTER
        };
        let length = u64::try_from(gap.length.get()).ok();
        if let Some(ns) = length.filter(|ns| ns >> (u64::BITS - FLAG_BITS) == 0) {
            self.ints.push(ns << FLAG_BITS | flags);
        } else {
            self.ints.push(flags | WIDE);
            self.ints.push_signed(gap.length.get());
        }
        if let Some(tokens) = gap.tokens.filter(|_| flags & TOLD != 0) {
            self.ints.push(u64::from(tokens));
        }
        for (flag, bound) in [(LONGER, gap.longer), (SHORTER, gap.shorter)] {
            if flags & flag != 0 {
                self.ints.push_signed(bound.get());
            }
        }
        self.len += 1;
        self.any_bounded |= gap.is_bounded();
    }

    /// The single gaps of one request.
    pub(crate) fn of(&self, range: GapRange) -> impl Iterator<Item = Gap> + '_ {
        let mut ints = self.ints.read_from(range.start as usize);
        let mut before = Nanos::ZERO;
        (0..range.len).map_while(move |_| {
            let head = ints.unsigned()?;
            let has = |flag| head & flag != 0;
            let length = if has(WIDE) {
                ints.signed()?
            } else {
                (head >> FLAG_BITS).cast_signed()
            };
            let tokens = match head & (TOLD | NOT_KNOWN) {
                ONE_TOKEN => Some(1),
                TOLD => u32::try_from(ints.unsigned()?).ok(),
                _ => None,
            };
            let longer = if has(LONGER) {
                Nanos::new(ints.signed()?)
            } else {
                before
            };
            let shorter = if has(SHORTER) { ints.signed()? } else { 0 };
            before = Nanos::new(shorter);
            Some(Gap {
                length: Nanos::new(length),
                longer,
                shorter: before,
                tokens,
            })
        })
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
