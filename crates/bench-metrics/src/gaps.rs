//! Gaps between content events, and between tokens.

mod coarse;
mod store;

use bench_schema::{EventLog, Nanos, RequestRecord};

use crate::latency::Within;

pub(crate) use coarse::{GapBatch, GapHistograms};
pub(crate) use store::{EXACT, GapRange, GapStore};

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
/// Tokens are those of the stream (token ids, continuous usage). Where it has none but the answer's token count equals
/// its number of events, each event is one token. Otherwise they are unknown: then there is no ITL, only ICL.
pub fn gaps(record: &RequestRecord) -> impl Iterator<Item = Gap> + '_ {
    let events = &record.wire.events;
    let counts = record.event_tokens();
    let one_each = counts.is_none() && record.output_tokens == Some(events.len() as u64);
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
