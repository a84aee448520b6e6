//! How many requests were in flight, and when: a sweep over their starts and ends.

use bench_schema::{Nanos, Stamp, Window};

/// The number in flight as a step function of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Instants at which the number changes, ascending, with the number from then on.
    steps: Vec<(Stamp, u64)>,
}

impl InFlight {
    /// Of `(sent, ended)` pairs in any order; a pair that ends before it begins counts for nothing. Cost: O(n log n).
    pub fn of(spans: impl IntoIterator<Item = (Stamp, Stamp)>) -> Self {
        let mut changes: Vec<(Stamp, i64)> = Vec::new();
        for (from, to) in spans {
            if from < to {
                changes.push((from, 1));
                changes.push((to, -1));
            }
        }
        changes.sort_unstable();
        changes.dedup_by(|next, moment| {
            let same = next.0 == moment.0;
            moment.1 += if same { next.1 } else { 0 };
            same
        });
        let mut level = 0_i64;
        // collected in the place of the changes
        let steps = changes.into_iter().map(|(at, change)| {
            level += change;
            (at, u64::try_from(level).unwrap_or(0))
        });
        Self {
            steps: steps.collect(),
        }
    }

    /// Instants at which the number changes, ascending, with the number from then on.
    pub fn steps(&self) -> &[(Stamp, u64)] {
        &self.steps
    }

    /// The most in flight at once.
    pub fn peak(&self) -> u64 {
        self.steps.iter().map(|s| s.1).max().unwrap_or(0)
    }

    /// The most in flight at once within a window.
    pub fn peak_within(&self, window: Window) -> u64 {
        self.spells(window)
            .map(|(_, level)| level)
            .max()
            .unwrap_or(0)
    }

    /// The time-weighted mean within a window; `None` for an empty window.
    pub fn mean(&self, window: Window) -> Option<f64> {
        let length = window.length().as_f64();
        let area = crate::num::sum(
            self.spells(window)
                .map(|(time, level)| time.as_f64() * level as f64),
        );
        (length > 0.0).then(|| area / length)
    }

    /// The number that is reached or exceeded for half of a window's time; 0 for an empty one.
    pub fn median(&self, window: Window) -> u64 {
        let mut spells: Vec<(u64, Nanos)> = self
            .spells(window)
            .map(|(time, level)| (level, time))
            .collect();
        spells.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = window.length().get() / 2;
        for (level, time) in spells {
            left -= time.get();
            if left <= 0 {
                return level;
            }
        }
        0
    }

    /// From when the number first reached `level` to when it last did; `None` where it never did.
    pub fn span_at_least(&self, level: u64) -> Option<Window> {
        let from = self.steps.iter().find(|s| s.1 >= level)?.0;
        let last = self.steps.iter().rposition(|s| s.1 >= level)?;
        let to = self.steps.get(last + 1).map_or(from, |s| s.0);
        Some(Window { from, to })
    }

    /// The lengths of time of constant number within a window.
    fn spells(&self, window: Window) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let first = self
            .steps
            .partition_point(|s| s.0 <= window.from)
            .saturating_sub(1);
        let ends = self
            .steps
            .iter()
            .skip(first + 1)
            .map(|s| s.0)
            .chain(std::iter::once(window.to));
        let spells = self
            .steps
            .iter()
            .skip(first)
            .zip(ends)
            .take_while(move |(s, _)| s.0 < window.to);
        spells.map(move |(&(from, level), to)| {
            ((to.min(window.to) - from.max(window.from)).or_zero(), level)
        })
    }
}

#[cfg(test)]
#[path = "../tests/unit/in_flight.rs"]
mod tests;
