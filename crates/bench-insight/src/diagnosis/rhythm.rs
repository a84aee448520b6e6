//! A speed that rises and falls again and again, in equal periods.

use bench_schema::{Cause, Experiment, Finding, Known};

use super::fit::{mean, median};
use super::look::{Look, Seen};
use crate::draft::Draft;

/// Values of which each part of a period needs as many.
const FEWEST: usize = 8;
/// What the slowest part of a period takes, of the quickest.
const SLOWER: f64 = 1.25;
/// Parts of a period; each needs so many answers as a level does.
const OF_A_PERIOD: usize = 8;
/// Share of the variance that every second period has to foretell of the others.
const FORETOLD: f64 = 0.5;
/// Correlation of neighbours, at least.
const ALIKE: f64 = 0.3;
/// A shorter period that foretells nearly as much is the one.
const NEARLY: f64 = 0.85;
/// Periods are longer than so many answers: else it is the rhythm of the requests themselves.
const ANSWERS: f64 = 3.0;

/// What the speed does.
pub(super) struct Rhythm {
    pub(super) period: f64,
    /// The quickest and the slowest part of a period, over the median time per token.
    pub(super) low: f64,
    pub(super) high: f64,
    cost: f64,
    n: usize,
}

impl Rhythm {
    /// Of `(when, time per token)` in order of time, which no first token moves: at least three periods, not where arrivals come and go.
    pub(super) fn of(look: &Look<'_>, points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let whole = last - first;
        // The time from one request of a slot to its next, where users think too.
        let slots = look.concurrency().map_or(0.0, f64::from);
        let cycle = slots * whole / look.seen.len() as f64;
        let answer = median(look.seen.iter().map(|s| s.end - s.sent).collect())?.max(cycle);
        let usual = median(points.iter().map(|p| p.1).collect()).filter(|usual| *usual > 0.0)?;
        if look.load_moves() || points.len() < OF_A_PERIOD * FEWEST || whole <= 0.0 {
            return None;
        }
        // Where the speed changes, what comes one after the other is alike; of two servers in turn it is not.
        let off = points.iter().map(|p| p.1 - usual);
        let (_, likeness) = bench_metrics::lag_one(off);
        likeness.filter(|likeness| *likeness >= ALIKE)?;
        let most = points.len() as f64 / OF_A_PERIOD as f64;
        let mut tried: Vec<(f64, f64)> = Vec::new();
        let mut periods = 2.9;
        while periods <= most && whole / periods >= answer {
            let period = whole / periods;
            tried.push((period, foretold(points, period)));
            periods *= 1.02;
        }
        let best = tried.iter().map(|t| t.1).fold(FORETOLD, f64::max);
        let (period, _) = tried
            .into_iter()
            .rfind(|t| t.1 >= FORETOLD.max(NEARLY * best))
            .filter(|t| t.0 >= ANSWERS * answer)?;
        // Prompts that repeat in the same period are the users' rhythm, as that of conversations.
        let lengths = |s: &Seen<'_>| Some((s.sent, f64::from(s.request.input_tokens?)));
        let lengths: Vec<(f64, f64)> = look.seen.iter().filter_map(lengths).collect();
        if foretold(&lengths, period) >= FORETOLD {
            return None;
        }
        let parts = folded(points, period).map(|[even, odd]| (even.1 + odd.1) / (even.0 + odd.0));
        let low = parts.iter().copied().fold(f64::INFINITY, f64::min);
        let high = parts.iter().copied().fold(0.0, f64::max);
        let all = mean(points.iter().map(|p| p.1))?;
        (low > 0.0 && high >= SLOWER * low).then(|| Self {
            period,
            low: low / usual,
            high: high / usual,
            cost: 1.0 - low / all,
            n: points.len(),
        })
    }

    pub(super) fn finding(&self, look: &Look<'_>) -> Option<Finding> {
        Draft::in_cell(Cause::Step, self.cost, look.cell)
            .because(Known::StallPeriod, self.period)
            .because(Known::LevelBefore, self.low)
            .because(Known::LevelAfter, self.high)
            .because(Known::Requests, self.n as f64)
            .refuted_by(Experiment::Longer)
            .done()
    }
}

/// Number and sum of values by the part of the period that they lie in, even and odd periods apart.
fn folded(points: &[(f64, f64)], period: f64) -> [[(f64, f64); 2]; OF_A_PERIOD] {
    let mut parts = [[(0.0, 0.0); 2]; OF_A_PERIOD];
    for (at, value) in points {
        let (part, odd) = place(*at, period);
        let (n, sum) = &mut parts[part][odd];
        *n += 1.0;
        *sum += value;
    }
    parts
}

/// Which part of its period an instant lies in, and whether that is an odd one. It is asked for each request and each of hundreds of periods.
fn place(at: f64, period: f64) -> (usize, usize) {
    let of_two = (at / period / 2.0).max(0.0).fract() * 2.0;
    let odd = usize::from(of_two >= 1.0);
    let phase = (of_two - odd as f64) * OF_A_PERIOD as f64;
    let part = (1..OF_A_PERIOD)
        .filter(|edge| phase >= *edge as f64)
        .count();
    (part, odd)
}

/// Share of the variance that the parts of every second period foretell of those between.
fn foretold(points: &[(f64, f64)], period: f64) -> f64 {
    let all = mean(points.iter().map(|p| p.1)).unwrap_or(0.0);
    let spread: f64 = points.iter().map(|p| (p.1 - all).powi(2)).sum();
    // Of values whose mean is m, a guess g instead of the mean of all, a, leaves n (g − a)(2 (m − a) − (g − a)) less of their squares.
    let less = |(n, sum): (f64, f64), (others, guess): (f64, f64)| {
        let off = if others > 0.0 {
            guess / others - all
        } else {
            0.0
        };
        off * (2.0 * (sum - n * all) - n * off)
    };
    let parts = folded(points, period);
    let less = parts.map(|[even, odd]| less(even, odd) + less(odd, even));
    if spread > 0.0 {
        less.iter().sum::<f64>() / spread
    } else {
        0.0
    }
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_rhythm.rs"]
mod tests;
