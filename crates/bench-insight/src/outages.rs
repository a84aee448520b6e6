//! When a server was away, and when it stood still, from its answers alone.

use bench_schema::{Nanos, Outcome, RequestRecord, Stamp};

use crate::facts::{Outage, Stall};

/// A shorter time without an answer is a gap between two answers.
const SHORTEST_OUTAGE: Nanos = Nanos::from_millis(500);
/// A shorter silence is a long gap between tokens.
const SHORTEST_STALL: Nanos = Nanos::from_millis(500);
/// Time is looked at in bins of this length.
const BIN: Nanos = Nanos::from_millis(50);
/// A day of bins, 216 kB; what is later is not looked at.
const MOST_BINS: usize = 24 * 3600 * 20;

/// Ends of requests, to find the longest time in which all failed. Takes them in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Bins in which an answer ended.
    answered: Bins,
    /// Bins in which a request was sent that was answered.
    asked: Bins,
    /// Failures by the bin in which they became known: when the first of them was sent, and how many.
    failed: Vec<(u32, u32, u64)>,
}

impl Answers {
    pub(crate) fn push(&mut self, record: &RequestRecord) {
        let at = record.last_instant();
        match record.wire.outcome {
            Outcome::Completed => {
                self.answered.set(at);
                self.asked.set(record.wire.sent.unwrap_or(record.due));
            }
            Outcome::Cancelled { .. } => {}
            _ => {
                let sent = record.wire.sent.unwrap_or(record.due);
                if let (Some(bin), Some(sent)) = (Bins::number(at), Bins::number(sent)) {
                    match self.failed.last_mut() {
                        Some((last, first, n)) if *last == bin => {
                            *first = sent.min(*first);
                            *n += 1;
                        }
                        _ => self.failed.push((bin, sent, 1)),
                    }
                }
            }
        }
    }

    pub(crate) fn longest_outage(mut self, began: Stamp) -> Option<Outage> {
        self.failed.sort_unstable_by_key(|(bin, ..)| *bin);
        let since = |bin: u32| Bins::begin(bin) - began;
        let mut worst: Option<Outage> = None;
        let mut failures = self.failed.iter().peekable();
        while let Some(&(known, sent, n)) = failures.next() {
            // All failures up to the next answer are of one outage. It began when the first of them was sent, but not before the last answer,
            // and is over when a request is sent that is answered.
            let after = self.answered.after(known);
            let (mut first, mut failed, mut last) = (sent, n, known);
            while let Some((bin, sent, more)) =
                failures.next_if(|(bin, ..)| after.is_none_or(|after| *bin < after))
            {
                first = first.min(*sent);
                failed += more;
                last = *bin;
            }
            let first = first.max(self.answered.before(known));
            let back = after.and_then(|_| self.asked.after(last.saturating_sub(1)));
            let length = Bins::begin(back.unwrap_or(last)) - Bins::begin(first);
            let longer = |w: &Outage| failed > w.failed;
            if length >= SHORTEST_OUTAGE && worst.as_ref().is_none_or(longer) {
                worst = Some(Outage {
                    from: since(first).or_zero(),
                    until: back.map(since),
                    failed,
                });
            }
        }
        worst
    }
}

/// Tokens over time, and the long gaps of single streams, to find a time in which all streams stood still together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    tokens: Bins,
    gaps: Vec<(Stamp, Stamp)>,
}

/// Long gaps that are kept: one stall gives as many as there are streams.
const MOST_GAPS: usize = 10_000;

impl Silence {
    pub(crate) fn push(&mut self, record: &RequestRecord) {
        let mut before: Option<Stamp> = None;
        for at in record.wire.events.stamps() {
            self.tokens.set(at);
            if let Some(from) = before.filter(|from| at - *from >= SHORTEST_STALL)
                && self.gaps.len() < MOST_GAPS
            {
                self.gaps.push((from, at));
            }
            before = Some(at);
        }
    }

    /// The longest part of a gap in which no stream got a token.
    pub(crate) fn longest(&self, began: Stamp) -> Option<Stall> {
        let quiet = self.gaps.iter().filter_map(|(from, to)| {
            let (from, to) = (Bins::number(*from)?, Bins::number(*to)?);
            self.tokens.longest_empty(from + 1, to)
        });
        let (first, last) = quiet.max_by_key(|(first, last)| last - first)?;
        if Bins::begin(last) - Bins::begin(first) < SHORTEST_STALL {
            return None;
        }
        // From the last token of those that stood still to their first one: bins know it to their width only.
        let holds = |(from, to): &&(Stamp, Stamp)| {
            Bins::number(*from).is_some_and(|bin| bin < first)
                && Bins::number(*to).is_some_and(|bin| bin >= last)
        };
        let gaps = || self.gaps.iter().filter(holds);
        let from = gaps().map(|gap| gap.0).max()?.max(Bins::begin(first - 1));
        let to = gaps().map(|gap| gap.1).min()?.min(Bins::begin(last + 1));
        Some(Stall {
            from: (from - began).or_zero(),
            length: to - from,
        })
    }
}

/// A set of bins of time.
#[derive(Clone, Debug, Default)]
struct Bins {
    set: Vec<u64>,
}

impl Bins {
    /// The bin that holds an instant; absent before the run's epoch and beyond the last.
    fn number(at: Stamp) -> Option<u32> {
        let bin = u32::try_from(at.get() / BIN.get()).ok()?;
        usize::try_from(bin)
            .is_ok_and(|bin| bin < MOST_BINS)
            .then_some(bin)
    }

    fn begin(bin: u32) -> Stamp {
        Stamp::new(i64::from(bin) * BIN.get())
    }

    fn set(&mut self, at: Stamp) {
        let Some(bin) = Self::number(at) else { return };
        let word = (bin / 64) as usize;
        if word >= self.set.len() {
            self.set.resize(word + 1, 0);
        }
        if let Some(bits) = self.set.get_mut(word) {
            *bits |= 1 << (bin % 64);
        }
    }

    fn has(&self, bin: u32) -> bool {
        let word = self.set.get((bin / 64) as usize);
        word.is_some_and(|bits| bits >> (bin % 64) & 1 == 1)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.set.len() * 64).unwrap_or(u32::MAX)
    }

    /// The latest bin of the set at or before `bin`; the first of all where there is none.
    fn before(&self, bin: u32) -> u32 {
        let mut earlier = (0..=bin.min(self.len())).rev();
        earlier.find(|b| self.has(*b)).unwrap_or(0)
    }

    /// The earliest bin of the set after `bin`.
    fn after(&self, bin: u32) -> Option<u32> {
        (bin.saturating_add(1)..self.len()).find(|b| self.has(*b))
    }

    /// The longest run of bins that are not in the set, from the first to before the last.
    fn longest_empty(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let (mut best, mut start) = (None::<(u32, u32)>, from);
        for bin in from..=to {
            if bin == to || self.has(bin) {
                if bin > start && best.is_none_or(|(a, b)| bin - start > b - a) {
                    best = Some((start, bin));
                }
                start = bin + 1;
            }
        }
        best
    }
}
