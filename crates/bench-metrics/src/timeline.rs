//! What fell into each stretch of time: counts in bins whose width doubles as a run grows, so that memory stays bounded.

use bench_schema::{Phase, Stamp, Window};

use crate::blocks::Part;

/// Most bins kept; between half of it and this many cover a long run.
const MOST_BINS: usize = 8_192;
/// The first bins are 2^20 ns (about 1 ms) wide.
const FIRST_SHIFT: u32 = 20;

/// Counts of one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeCounts {
    /// Content events.
    pub events: u64,
    /// Output tokens, of requests whose token count is known.
    pub tokens: f64,
    /// Content events of requests whose token count is not known (cut off before the server told).
    pub uncounted_events: u64,
    /// Prompt tokens, counted when the first token comes.
    pub input_tokens: u64,
    /// Requests completed.
    pub completed: u64,
}

impl TimeCounts {
    /// Tokens of an event, of those whose requests tell them: those of one that was cut off before have as many.
    pub(crate) fn tokens_per_event(&self) -> Option<f64> {
        let counted = self.events - self.uncounted_events;
        (counted > 0).then(|| self.tokens / counted as f64)
    }

    /// Adds other counts to these.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.tokens += other.tokens;
        self.uncounted_events += other.uncounted_events;
        self.input_tokens += other.input_tokens;
        self.completed += other.completed;
    }
}

/// Counts over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// A bin is 2^shift ns wide; bin b of `bins` begins at (base + b)·2^shift.
    shift: u32,
    base: i64,
    bins: Vec<TimeCounts>,
    /// The same bins, of the warm-up's requests: it is over soon, so they are few.
    warm: Vec<TimeCounts>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            shift: FIRST_SHIFT,
            base: 0,
            bins: Vec::new(),
            warm: Vec::new(),
        }
    }
}

impl Timeline {
    /// The counts of the bin that holds `at`, to be added to.
    pub fn at(&mut self, at: Stamp) -> &mut TimeCounts {
        self.bin(at, Phase::Measure)
    }

    /// The same for requests of a phase.
    pub(crate) fn bin(&mut self, at: Stamp, phase: Phase) -> &mut TimeCounts {
        let mut index = self.place(at);
        while index >= MOST_BINS {
            self.halve();
            index = self.place(at);
        }
        let bins = match phase {
            Phase::Warmup => &mut self.warm,
            Phase::Measure => &mut self.bins,
        };
        if index >= bins.len() {
            bins.resize(index + 1, TimeCounts::default());
        }
        &mut bins[index]
    }

    /// Whether two instants fall into the same bin, as wide as bins are now.
    pub fn same_bin(&self, a: Stamp, b: Stamp) -> bool {
        a.get() >> self.shift == b.get() >> self.shift
    }

    /// Makes room for `at`: a window between covered instants has no more bins than there are.
    pub(crate) fn cover(&mut self, at: Option<Stamp>) {
        if let Some(at) = at {
            self.at(at);
        }
    }

    /// The position of `at` in `bins`; makes room in front where it lies before the first bin.
    fn place(&mut self, at: Stamp) -> usize {
        let absolute = at.get() >> self.shift;
        if self.bins.is_empty() && self.warm.is_empty() {
            self.base = absolute;
        }
        if absolute < self.base {
            // Some more than needed, so that a slow drift backwards does not move everything each time.
            let missing = usize::try_from(self.base.saturating_sub(absolute)).unwrap_or(usize::MAX);
            let room = missing.saturating_add(missing.min(64));
            let used = self.bins.len().max(self.warm.len());
            if used.saturating_add(room) >= MOST_BINS {
                self.halve();
                return self.place(at);
            }
            for bins in [&mut self.bins, &mut self.warm] {
                bins.splice(0..0, std::iter::repeat_n(TimeCounts::default(), room));
            }
            self.base -= i64::try_from(room).unwrap_or(i64::MAX);
        }
        usize::try_from(absolute.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// Doubles the width of the bins.
    fn halve(&mut self) {
        let odd = usize::try_from(self.base.rem_euclid(2)).unwrap_or(0);
        for bins in [&mut self.bins, &mut self.warm] {
            let mut wider = vec![TimeCounts::default(); (bins.len() + odd).div_ceil(2)];
            for (i, bin) in bins.iter().enumerate() {
                wider[(i + odd) >> 1].add(bin);
            }
            *bins = wider;
        }
        self.base >>= 1;
        self.shift += 1;
    }

    /// The window moved on to the next whole bins, so that what falls inside it is known exactly; `None` where none is left. A window ends with an
    /// answer, whose last token is in it.
    ///
    /// A run of any length has at least 4096 bins once it is longer than 9 s, so this moves an edge by 0.03 % at most.
    pub fn snap(&self, window: Window) -> Option<Window> {
        let mask = (1_i64 << self.shift) - 1;
        let [from, to] = [window.from, window.to].map(|at| at.get().saturating_add(mask) & !mask);
        (from < to).then(|| Window {
            from: Stamp::new(from),
            to: Stamp::new(to),
        })
    }

    /// Each bin of a window, in order, bins that nothing fell into as well. Of the warm-up, what shares its first bin with a beginning that is
    /// not the bin's came before it: the first request is due as the warm-up's answers end.
    fn within(&self, window: Window) -> impl Iterator<Item = TimeCounts> + '_ {
        let first = window.from.get() >> self.shift;
        let last = window.to.get().saturating_add((1 << self.shift) - 1) >> self.shift;
        let begun = first << self.shift == window.from.get();
        (first..last).map(move |absolute| {
            let index = usize::try_from(absolute - self.base).unwrap_or(usize::MAX);
            let mut bin = self.bins.get(index).copied().unwrap_or_default();
            if let Some(warm) = self.warm.get(index).filter(|_| absolute > first || begun) {
                bin.add(warm);
            }
            bin
        })
    }

    /// `(count, seconds)` per bin of a window: what a rate and its interval are made of.
    pub fn parts(&self, window: Window, count: impl Fn(&TimeCounts) -> f64) -> Vec<Part> {
        let den = (1_i64 << self.shift) as f64 / 1e9;
        let bins = self.within(window);
        bins.map(|bin| Part {
            num: count(&bin),
            den,
        })
        .collect()
    }

    /// What the measured requests themselves got within a window.
    pub(crate) fn measured(&self, window: Window) -> TimeCounts {
        let own = Self {
            warm: Vec::new(),
            ..self.clone()
        };
        own.total(window)
    }

    /// Everything within a window.
    pub fn total(&self, window: Window) -> TimeCounts {
        let mut total = TimeCounts::default();
        self.within(window).for_each(|bin| total.add(&bin));
        total
    }
}

#[cfg(test)]
#[path = "../tests/unit/timeline.rs"]
mod tests;
