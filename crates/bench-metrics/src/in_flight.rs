//! How many requests were in flight, and when: a sweep over their starts and ends.

use bench_schema::{Nanos, Stamp, Window};

/// The number in flight as a step function of time. Memory: 16 bytes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Instants at which one more is in flight, ascending, …
    starts: Vec<Stamp>,
    /// … and at which one less is, as many.
    ends: Vec<Stamp>,
}

impl InFlight {
    /// Of `(sent, ended)` pairs in any order; a pair that ends before it begins counts for nothing. Cost: O(n log n).
    pub fn of(spans: impl IntoIterator<Item = (Stamp, Stamp)>) -> Self {
        let spans = spans.into_iter().filter(|(from, to)| from < to);
        let (mut starts, mut ends): (Vec<Stamp>, Vec<Stamp>) = spans.unzip();
        starts.sort_unstable();
        ends.sort_unstable();
        Self { starts, ends }
    }

    /// What it would have been, had each request taken this long.
    #[must_use]
    pub(crate) fn had_each_taken(&self, stay: Nanos) -> Self {
        let starts = self.starts.clone();
        let ends = starts.iter().map(|start| *start + stay).collect();
        Self { starts, ends }
    }

    /// Instants at which requests begin or end, ascending, with the number from then on.
    pub fn steps(&self) -> impl Iterator<Item = (Stamp, u64)> + '_ {
        self.steps_from(0, 0)
    }

    /// The same after so many starts and ends.
    fn steps_from(&self, begun: usize, ended: usize) -> impl Iterator<Item = (Stamp, u64)> + '_ {
        let mut starts = self.starts.iter().skip(begun).peekable();
        let mut ends = self.ends.iter().skip(ended).peekable();
        let mut level = (begun - ended) as u64;
        std::iter::from_fn(move || {
            let next = [starts.peek(), ends.peek()];
            let at = **next.into_iter().flatten().min()?;
            while starts.next_if(|start| **start == at).is_some() {
                level += 1;
            }
            while ends.next_if(|end| **end == at).is_some() {
                level -= 1;
            }
            Some((at, level))
        })
    }

    /// The most in flight at once.
    pub fn peak(&self) -> u64 {
        self.steps().map(|s| s.1).max().unwrap_or(0)
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
        let mut span: Option<Window> = None;
        let mut reached = false;
        for (at, now) in self.steps() {
            match &mut span {
                Some(span) if reached => span.to = at,
                None if now >= level => span = Some(Window { from: at, to: at }),
                _ => {}
            }
            reached = now >= level;
        }
        span
    }

    /// The lengths of time of constant number within a window.
    fn spells(&self, window: Window) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let so_far = |instants: &[Stamp]| instants.partition_point(|at| *at <= window.from);
        let (begun, ended) = (so_far(&self.starts), so_far(&self.ends));
        let newest = self.starts[..begun].last().max(self.ends[..ended].last());
        let before = newest.map(|at| (*at, (begun - ended) as u64));
        let rest = self.steps_from(begun, ended);
        let mut steps = before.into_iter().chain(rest).peekable();
        std::iter::from_fn(move || {
            let (from, level) = steps.next().filter(|(from, _)| *from < window.to)?;
            let to = steps.peek().map_or(window.to, |next| next.0.min(window.to));
            Some(((to - from.max(window.from)).or_zero(), level))
        })
    }
}

#[cfg(test)]
#[path = "../tests/unit/in_flight.rs"]
mod tests;
