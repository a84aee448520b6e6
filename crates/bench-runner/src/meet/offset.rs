//! How far two clocks are apart, from stamps of one message and its answer.

use bench_schema::{ClockExchange, Nanos, Stamp};

/// Stamps of one message that was answered: sent and back on this clock, came and left on the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FourStamps {
    pub(super) sent: Stamp,
    pub(super) came: Stamp,
    pub(super) left: Stamp,
    pub(super) back: Stamp,
}

impl FourStamps {
    /// What is to be added to this clock for the other one, and how wrong that can be: the message came after it was sent, and its answer after it left, however
    /// unequal the two ways are. Absent where the stamps contradict that.
    pub(super) fn exchange(&self) -> Option<ClockExchange> {
        // the other clock is ahead by at most this, and by at least that
        let (most, least) = (self.came - self.sent, self.left - self.back);
        let width = most - least;
        (width >= Nanos::ZERO).then(|| ClockExchange {
            at: self.back,
            offset: Nanos::new(least.get() + width.get() / 2),
            bound: Nanos::new(width.get() / 2 + width.get() % 2),
        })
    }
}

/// The exchange that says most.
pub(super) fn best(of: impl Iterator<Item = FourStamps>) -> Option<ClockExchange> {
    of.filter_map(|stamps| stamps.exchange())
        .min_by_key(|exchange| exchange.bound)
}

#[cfg(test)]
#[path = "../../tests/unit/meet_offset.rs"]
mod tests;
