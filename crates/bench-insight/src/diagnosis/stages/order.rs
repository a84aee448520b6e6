//! What no load explains: of a server on which a token takes no less time where more are answered, later parts of a search took longer beside fewer, or less beside more.

use super::super::fit::median;
use super::{APART, EACH, Part, SpeedChange, TOLD};

/// By how much one part is slower than another though load would not make it so, as a logarithm; how well that is known, and whether as many were answered in both.
#[derive(Clone, Copy, Debug)]
struct Gain {
    by: f64,
    error: f64,
    is_alike: bool,
}

impl Gain {
    /// Nothing where load may make one slower than the other: by more of it, by more answers under way, or by more first tokens and their prompts meanwhile.
    fn of(slow: &Part, quick: &Part) -> Option<Self> {
        /// Times as many are still as many.
        const MORE: f64 = 1.1;
        let pairs = slow.quick.iter().filter(|_| slow.load <= quick.load);
        let pairs = pairs.filter_map(|(others, own)| {
            // of twice as many nobody knows
            let (more, other) = quick.quick.range(*others..=2 * others).next()?;
            let mut meanwhile = own.meanwhile.iter().zip(&other.meanwhile);
            meanwhile
                .all(|(own, other)| *own <= MORE * other)
                .then(|| Self {
                    by: own.log - other.log,
                    error: own.error.hypot(other.error),
                    is_alike: more == others,
                })
        });
        pairs.max_by(|a, b| a.least().total_cmp(&b.least()))
    }

    fn least(&self) -> f64 {
        self.by - APART * self.error
    }

    fn is_plain(&self) -> bool {
        self.least() > TOLD
    }
}

/// What a server was later on.
#[derive(Clone, Copy, PartialEq)]
enum Later {
    Slower,
    Quicker,
}

/// What says that it was.
#[derive(Clone, Copy)]
struct Votes {
    n: usize,
    /// The logarithm of how many times as long a token took later on, and whether beside as many others.
    by: f64,
    is_alike: bool,
}

/// Of each two parts, how much slower the first is.
struct Gains<'a> {
    parts: &'a [Part],
    all: Vec<Vec<Option<Gain>>>,
}

/// A change that no load explains: at a moment, for a while, or else two stages that are not alike.
pub(super) fn out_of_order(parts: &[Part]) -> Option<(SpeedChange, bool)> {
    let gains = |slow: &Part| parts.iter().map(|quick| Gain::of(slow, quick)).collect();
    let gains = Gains {
        parts,
        all: parts.iter().map(gains).collect(),
    };
    gains.step().or_else(|| gains.unlike())
}

impl Gains<'_> {
    fn gain(&self, later: Later, before: usize, after: usize) -> Option<Gain> {
        let (slow, quick) = match later {
            Later::Slower => (after, before),
            Later::Quicker => (before, after),
        };
        *self.all.get(slow)?.get(quick)?
    }

    /// The pairs of parts that say this plainly; nothing where they are too few, or others contradict them.
    fn votes(&self, later: Later, before: &[usize], after: &[usize]) -> Option<Votes> {
        let told = |b: usize, a: usize| self.gain(later, b, a).filter(Gain::is_plain);
        let pairs = || {
            before
                .iter()
                .flat_map(|b| after.iter().map(move |a| (*b, *a)))
        };
        let votes: Vec<Gain> = pairs().filter_map(|(b, a)| told(b, a)).collect();
        let middle = |alike: bool| {
            let own = votes.iter().filter(|gain| gain.is_alike || !alike);
            median(own.map(|gain| gain.by).collect())
        };
        let alike = middle(true);
        let by = alike.or_else(|| middle(false))?;
        let sides = before
            .iter()
            .filter(|b| after.iter().any(|a| told(**b, *a).is_some()))
            .count()
            + after
                .iter()
                .filter(|a| before.iter().any(|b| told(*b, **a).is_some()))
                .count();
        // the first requests of a server are slow
        let is_start = |i: &usize| self.parts.get(*i).is_some_and(|part| part.place == 0);
        let starts = later == Later::Quicker && before.iter().all(is_start);
        let other = match later {
            Later::Slower => Later::Quicker,
            Later::Quicker => Later::Slower,
        };
        let is_opposed = |(b, a)| {
            self.gain(other, b, a)
                .is_some_and(|own| -own.least() < by / 2.0)
        };
        (!starts && sides > EACH && !pairs().any(is_opposed)).then_some(Votes {
            n: votes.len(),
            by: if later == Later::Slower { by } else { -by },
            is_alike: alike.is_some(),
        })
    }

    /// A moment, or a while, that most pairs speak for; of moments that are told as well the last, from which on it is known.
    fn step(&self) -> Option<(SpeedChange, bool)> {
        let n = self.parts.len();
        let all: Vec<usize> = (0..n).collect();
        let place = |i: usize| self.parts.get(i).map_or(0, |part| part.place);
        let mut best: Option<(usize, SpeedChange, bool)> = None;
        let mut told = |n: usize, change: SpeedChange, is_alike: bool| {
            if best.as_ref().is_none_or(|(most, ..)| n >= *most) {
                best = Some((n, change, is_alike));
            }
        };
        let sides = [
            (Later::Slower, Later::Quicker),
            (Later::Quicker, Later::Slower),
        ];
        let spans = (1..n).flat_map(|from| (from + 1..=n).map(move |to| (from, to)));
        for ((from, to), (came, went)) in spans.flat_map(|span| sides.map(|sides| (span, sides))) {
            // it changed within a part
            for meanwhile in [0, 1] {
                let Some(within) = all.get(from + meanwhile..to) else {
                    continue;
                };
                let before = self.votes(came, &all[..from], within);
                let Some(before) = before else { continue };
                if to == n {
                    let first = place(from + meanwhile);
                    told(
                        before.n,
                        SpeedChange::From(first, before.by.exp()),
                        before.is_alike,
                    );
                    continue;
                }
                let after = all.get(to + meanwhile..).unwrap_or_default();
                if let Some(after) = self.votes(went, within, after) {
                    let ends = [place(from + meanwhile), place(to - 1)];
                    let by = f64::midpoint(before.by, -after.by).exp();
                    let is_alike = before.is_alike && after.is_alike;
                    told(before.n + after.n, SpeedChange::Between(ends, by), is_alike);
                }
            }
        }
        best.map(|(_, change, is_alike)| (change, is_alike))
    }

    /// The two stages that are least alike, where several parts are not.
    fn unlike(&self) -> Option<(SpeedChange, bool)> {
        let n = self.parts.len();
        let pairs = (0..n).flat_map(|b| (b + 1..n).map(move |a| (b, a)));
        let told = pairs.flat_map(|(b, a)| {
            [(Later::Slower, 1.0), (Later::Quicker, -1.0)].map(|(later, sign)| {
                let gain = self.gain(later, b, a).filter(Gain::is_plain)?;
                Some((b, a, sign, gain))
            })
        });
        let told: Vec<(usize, usize, f64, Gain)> = told.flatten().collect();
        let distinct = |of: fn(&(usize, usize, f64, Gain)) -> usize| {
            let mut all: Vec<usize> = told.iter().map(of).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let enough = distinct(|told| told.0) >= EACH && distinct(|told| told.1) >= EACH;
        let stage = |i: usize| self.parts.get(i).map(|part| part.place);
        let apart = told
            .iter()
            .filter(|(b, a, ..)| stage(*b) != stage(*a) && stage(*b) != Some(0));
        let most = apart.max_by(|x, y| {
            let least = |gain: &Gain| (gain.is_alike, gain.least());
            let (x, y) = (least(&x.3), least(&y.3));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))
        });
        let (b, a, sign, gain) = most.filter(|_| enough)?;
        let change = SpeedChange::Unlike([stage(*b)?, stage(*a)?], (sign * gain.by).exp());
        Some((change, gain.is_alike))
    }
}
