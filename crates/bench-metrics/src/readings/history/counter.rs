//! Counters over a window: increases, with restarts and with windows that begin and end between readings.

use bench_schema::{Nanos, Window};

use super::{Point, first_from};

/// What a counter gained over the part of a window in which it was known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Increase {
    /// The gain over the covered part.
    pub(crate) amount: f64,
    /// How much of the window lies between two readings.
    pub(crate) covered: Nanos,
    /// Readings within the window.
    pub(crate) n: u64,
    /// Times the counter began again.
    pub(crate) resets: u64,
    /// The slowest and the fastest rate per second over spans of at least [`SPAN`]; the mean where there is no such span.
    pub(crate) rates: (f64, f64),
}

/// Rates are not taken over shorter spans: the kernel counts in ticks of 10 ms, and drivers renew their counters when they like.
const SPAN: Nanos = Nanos::from_secs(1);

/// A fall by less than this share is jitter (the kernel's I/O wait does it), not a restart.
const JITTER: f64 = 0.1;

/// Share of a window that must be covered before a gain is scaled to the whole of it.
const ENOUGH: f64 = 0.8;

impl Increase {
    /// Gain per second, over the covered part.
    pub(crate) fn rate(&self) -> f64 {
        self.amount / self.covered.as_secs_f64()
    }

    /// The gain scaled to the whole of the windows, or why that would be a guess.
    pub(crate) fn over(&self, windows: &[Window]) -> Result<f64, String> {
        let length = super::seconds(windows);
        let share = self.covered.as_secs_f64() / length;
        if share >= ENOUGH {
            Ok(self.rate() * length)
        } else {
            let percent = (share * 100.0).round();
            Err(format!("it was read over only {percent} % of the time"))
        }
    }

    /// The same counter over two windows, one after the other.
    fn then(self, later: Self) -> Self {
        Self {
            amount: self.amount + later.amount,
            covered: self.covered + later.covered,
            n: self.n + later.n,
            resets: self.resets + later.resets,
            rates: (
                self.rates.0.min(later.rates.0),
                self.rates.1.max(later.rates.1),
            ),
        }
    }

    /// Two instances of the same counter together. The rates' bounds are those of the sums, which is as far as they can go.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            amount: self.amount + other.amount,
            covered: self.covered.min(other.covered),
            n: self.n.min(other.n),
            resets: self.resets + other.resets,
            rates: (self.rates.0 + other.rates.0, self.rates.1 + other.rates.1),
        }
    }
}

/// The gain from one reading to the next. After a restart the counter began at zero, and what it had gained before is lost.
fn gain(before: f64, after: f64) -> (f64, bool) {
    if after >= before {
        (after - before, false)
    } else if after >= before * (1.0 - JITTER) {
        (0.0, false)
    } else {
        (after, true)
    }
}

/// `None` where no two readings enclose a part of a window. Between two readings a counter is taken to grow evenly.
pub(super) fn increase(points: &[Point], windows: &[Window]) -> Option<Increase> {
    windows
        .iter()
        .filter_map(|&window| within(points, window))
        .reduce(Increase::then)
}

fn within(points: &[Point], window: Window) -> Option<Increase> {
    let inside = first_from(points, window.from);
    let begin = inside.saturating_sub(1);
    let mut sum = Increase {
        amount: 0.0,
        covered: Nanos::ZERO,
        n: 0,
        resets: 0,
        rates: (f64::INFINITY, f64::NEG_INFINITY),
    };
    let mut span = (0.0, Nanos::ZERO);
    let mut pairs = points.get(begin..)?.windows(2);
    while let Some([a, b]) = pairs.next() {
        if a.at >= window.to {
            break;
        }
        let (from, to) = (a.at.max(window.from), b.at.min(window.to));
        let (overlap, length) = ((to - from).or_zero(), b.at - a.at);
        if length <= Nanos::ZERO {
            continue;
        }
        let (gained, reset) = gain(a.value, b.value);
        let part = gained * (overlap.as_f64() / length.as_f64());
        sum.amount += part;
        sum.covered += overlap;
        sum.resets += u64::from(reset);
        span = (span.0 + part, span.1 + overlap);
        if span.1 >= SPAN {
            let rate = span.0 / span.1.as_secs_f64();
            sum.rates = (sum.rates.0.min(rate), sum.rates.1.max(rate));
            span = (0.0, Nanos::ZERO);
        }
    }
    let until = points.partition_point(|point| point.at <= window.to);
    sum.n = u64::try_from(until.saturating_sub(inside)).unwrap_or(0);
    if sum.covered <= Nanos::ZERO {
        return None;
    }
    if sum.rates.0 > sum.rates.1 {
        sum.rates = (sum.rate(), sum.rate());
    }
    Some(sum)
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_history_counter.rs"]
mod tests;
