//! Parts of answers: where few long ones do not tell by their own times when the speed changed, their parts do.

use std::collections::BTreeMap;

use super::super::fit::median;
use super::super::look::{Look, Seen};
use super::series::{Fitted, LEVELS_OF_PARTS, Point, STEP, Series, comes_back, ends};

/// An answer, or a part of one: when it began and ended, its events, and how many came before it.
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) events: f64,
    pub(super) before: f64,
}

impl Span {
    pub(super) fn begins(&self) -> bool {
        self.before == 0.0
    }
}

/// An answer as one span, or as its parts.
pub(super) fn spans(s: &Seen<'_>, first: f64, look: &Look<'_>, in_parts: bool) -> Vec<Span> {
    let parts = s.request.parts.iter().map(|at| look.ns(*at));
    let mut ends: Vec<f64> = parts.filter(|_| in_parts).chain([s.end]).collect();
    if !(ends[0] >= first && ends.is_sorted()) {
        ends = vec![s.end];
    }
    let events = s.request.events as usize - 1;
    let number = ends.len();
    let mut from = first;
    let span = |(i, to): (usize, f64)| {
        let [before, until] = [i, i + 1].map(|part| part * events / number);
        Span {
            from: std::mem::replace(&mut from, to),
            to,
            events: (until - before) as f64,
            before: before as f64,
        }
    };
    ends.into_iter().enumerate().map(span).collect()
}

/// Leaves out the parts that a prompt may have interrupted, where half are none, and whether what is left tells anything: a part is short, and one prompt makes it
/// slow. In a closed loop others keep their places.
pub(super) fn keep_undisturbed(points: &mut Vec<Point>, is_open: bool) -> bool {
    let calm = points.iter().filter(|p| p.undisturbed).count();
    let most = calm * 2 >= points.len();
    if most {
        points.retain(|p| p.undisturbed);
    }
    most || !is_open
}

/// Whether some stretch of the time may be slower than another by as much as is told of parts: most runs need no closer look.
pub(super) fn may_move(points: &[Point]) -> bool {
    const STRETCHES: f64 = 40.0;
    const FEWEST: usize = 3;
    let from = points.iter().map(|p| p.from).fold(f64::INFINITY, f64::min);
    let to = points.iter().map(|p| p.to).fold(0.0, f64::max);
    let mut stretches: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for point in points {
        let at = (point.from - from) / (to - from) * STRETCHES;
        let of = stretches.entry(bench_schema::whole(at)).or_default();
        of.push(point.value);
    }
    let several = stretches.into_values().filter(|of| of.len() >= FEWEST);
    let levels: Vec<f64> = several.filter_map(median).collect();
    let (low, high) = ends(&levels);
    high >= STEP.sqrt() * low
}

impl Series {
    /// They are parts of answers, of which many lie in a short time.
    pub(super) fn are_parts(&mut self) {
        const FEWEST: usize = 8;
        const SHORTEST: usize = 40;
        self.most_levels = LEVELS_OF_PARTS;
        self.least = (self.points.len() / SHORTEST).max(FEWEST);
        // cells share no number of parts at once
        self.slots.clear();
    }

    /// Whether parts of answers bear a change out: within the same answers; over cells of several loads one to one side, and beside as many.
    pub(super) fn is_of_parts(&self, found: &Fitted) -> bool {
        let moves = found.moves_by() >= STEP;
        let shows = || {
            if self.several {
                !comes_back(found) && self.shows_at_one_load(found)
            } else {
                self.shows_within_answers(found)
            }
        };
        moves && shows()
    }

    /// Whether some in one cell, beside which as many were under way, differ so between the quickest level and the slowest: what load costs is no straight line,
    /// and a change that nobody met may make up for that.
    fn shows_at_one_load(&self, found: &Fitted) -> bool {
        const PART: f64 = 0.5;
        const NEAR: f64 = 0.1;
        const FEWEST: usize = 2;
        let (low, high) = ends(&found.slow);
        let by = (high / low).ln();
        let mut loads: BTreeMap<(usize, u64), [Vec<f64>; 2]> = BTreeMap::new();
        for (p, slow) in self.points.iter().zip(&found.slow) {
            let of = loads
                .entry((p.cell, bench_schema::whole(p.beside.round())))
                .or_default();
            for (own, level) in of.iter_mut().zip([low, high]) {
                let near = (slow / level).ln().abs() <= NEAR * by;
                own.extend(near.then(|| p.value.ln()));
            }
        }
        let mut loads = loads
            .into_values()
            .filter(|[low, high]| low.len().min(high.len()) >= FEWEST);
        loads.any(|[low, high]| {
            median(high)
                .zip(median(low))
                .is_some_and(|(high, low)| high - low >= PART * by)
        })
    }

    /// Whether parts of the same answers differ as the speed does: answers that are slow by themselves, and what load makes of all, are no change of it.
    fn shows_within_answers(&self, found: &Fitted) -> bool {
        /// Of the change, what parts of an answer show of it, and of all that it moves, what lies within answers.
        const SHOWN: f64 = 0.5;
        const WITHIN: f64 = 0.1;
        let mut answers: BTreeMap<(usize, usize), Vec<(f64, f64)>> = BTreeMap::new();
        for (p, slow) in self.points.iter().zip(&found.slow) {
            let of = answers.entry((p.cell, p.request)).or_default();
            of.push((slow.ln(), p.value.ln()));
        }
        let logs = || answers.values().flatten().copied();
        let (_, all) = moved_together(logs());
        let within = answers
            .values()
            .map(|of| moved_together(of.iter().copied()));
        let (shown, within) = within.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        within >= WITHIN * all && shown >= SHOWN * within
    }
}

impl Fitted {
    /// Times its quickest, at its slowest.
    pub(super) fn moves_by(&self) -> f64 {
        let (low, high) = ends(&self.slow);
        high / low
    }
}

/// The sum of the products of what two numbers of each lie off their means, and of the squares of the first.
fn moved_together(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let (n, a, b) = pairs.clone().fold((0.0, 0.0, 0.0), |(n, a, b), pair| {
        (n + 1.0, a + pair.0, b + pair.1)
    });
    let (a, b) = (a / n, b / n);
    pairs.fold((0.0, 0.0), |(both, own), pair| {
        let off = pair.0 - a;
        (both + off * (pair.1 - b), own + off * off)
    })
}
