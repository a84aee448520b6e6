//! The shapes that a speed over time may have, fitted beside what load and lengths add.

use bench_schema::{Cause, Known};

use super::super::fit::{median, quantile, solve, steps_of};
use crate::outages::EARLY;

/// Requests below which nothing is told.
pub(super) const FEWEST: usize = 10;
/// The first are looked at, and so many of the others, evenly chosen: a start is soon over.
const FIRST: usize = 60;
/// A step that meets no order that requests may have among themselves, as of servers that take turns.
const IN_NO_ORDER: f64 = 0.618_033_988_749_895;
const MOST: usize = 240;
/// Of what a shape leaves, what it has to explain for each of its numbers.
const OVER_CHANCE: f64 = 8.0;
/// Of what is off without a change, what leaves no more needs no other.
const ENOUGH: f64 = 0.1;
/// Requests from which on several levels are told, and small changes; where they come one at a time, no other makes one slow.
const MANY: usize = 40;
const MANY_ALONE: usize = 24;
/// Levels, at most; of parts of answers, which lie closer together, more.
const LEVELS: usize = 12;
pub(super) const LEVELS_OF_PARTS: usize = 32;
/// Requests are off by so little (a part of their time) that no change costs anything.
const ALIKE: f64 = 0.02;
/// What is slower by so much is another level, of few requests too.
pub(super) const STEP: f64 = 1.25;
/// Of what a slow start takes more, the part that is left when it is over.
const LEFT_OF_START: f64 = 0.3;
/// Logarithms beyond which a request is no further off than others: something else happened to it.
const FAR: f64 = 1.2;

/// One request as the fit sees it.
#[derive(Clone, Copy)]
pub(super) struct Point {
    /// Its cell among those that are looked at.
    pub(super) cell: usize,
    /// Its answer among those of the cell, of which it is a part.
    pub(super) request: usize,
    /// When that which is looked at began and ended, ns on the clock of the run.
    pub(super) from: f64,
    pub(super) to: f64,
    /// What it took: the time per token, or that of the whole request.
    pub(super) value: f64,
    /// The time that follows from it, and all that its user waited.
    pub(super) of_it: f64,
    pub(super) taken: f64,
    /// How many others were under way meanwhile.
    pub(super) beside: f64,
    /// Its tokens, or where in an answer it lies: twice those up to its middle.
    pub(super) gaps: f64,
    /// What each answer waits for once, for each of its tokens.
    pub(super) once: f64,
    /// Prompt tokens of its own, and those of others that were worked on meanwhile.
    pub(super) prompt: f64,
    pub(super) prompts: f64,
    /// How many those are.
    pub(super) firsts: f64,
    /// Whether no prompt can have been worked on meanwhile.
    pub(super) undisturbed: bool,
}

/// What the speed does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    One,
    /// Another level from each of these moments on.
    Levels(Vec<f64>),
    Line,
    /// Towards a level, by a factor of e in this part of the time.
    Decay(f64),
}

/// A shape with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub(super) shape: Shape,
    pub(super) logs: Vec<f64>,
    /// How slow the server was while each was answered.
    pub(super) slow: Vec<f64>,
    /// Logarithms that are left, and their squares.
    pub(super) off: Vec<f64>,
    pub(super) left: f64,
}

/// The points of some requests, with the columns of what explains them.
pub(super) struct Series {
    pub(super) points: Vec<Point>,
    pub(super) columns: Vec<Vec<f64>>,
    /// Others' prompts that each met, and their tokens, in a unit of its time: what they cost is that times the time that such a request takes. One that is slow by
    /// itself meets more of them, and is not slow by these.
    met: Vec<Vec<f64>>,
    /// What is left of these where neither load nor lengths make a difference, if time may explain what they do.
    pub(super) plain: Option<Vec<Vec<f64>>>,
    pub(super) from: f64,
    pub(super) lasted: f64,
    /// Whether they are of several cells, and of one request at a time.
    pub(super) several: bool,
    pub(super) one_by_one: bool,
    /// Whether load varies within the cells.
    pub(super) open: bool,
    /// Until when a start may last.
    pub(super) soon: f64,
    /// Levels that may be told: more of parts of answers.
    pub(super) most_levels: usize,
    /// Requests that a level has at least.
    pub(super) least: usize,
    /// How many requests share the steps of a server, at the most; of an open loop one.
    pub(super) at_once: f64,
    /// How many requests each cell has at once, where they are several.
    pub(super) slots: Vec<f64>,
}

/// What explains points, column by column.
pub(super) type Columns = fn(&[Point]) -> Vec<Vec<f64>>;

impl Series {
    pub(super) fn of(
        mut points: Vec<Point>,
        explained_by: Columns,
        plain: Columns,
        slots: usize,
    ) -> Option<Self> {
        points.sort_by(|a, b| a.from.total_cmp(&b.from));
        let (columns, plain) = (explained_by(&points), plain(&points));
        let met: [fn(&Point) -> f64; 2] = [|p| p.prompts / p.of_it, |p| p.firsts / p.of_it];
        let met = met.map(|of| points.iter().map(of).collect());
        let each = (points.len().saturating_sub(FIRST) as f64 / MOST as f64).max(1.0);
        let is_kept = |i: usize| i < FIRST || (i as f64 * IN_NO_ORDER).fract() * each < 1.0;
        let thinned = |column: Vec<f64>| -> Vec<f64> {
            let most = column.iter().copied().fold(0.0, f64::max);
            let kept = column.into_iter().enumerate().filter(|(i, _)| is_kept(*i));
            kept.map(|(_, x)| x / most).collect()
        };
        let moves = |column: &Vec<f64>| column.iter().any(|x| *x > 0.0);
        let kept =
            |columns: Vec<Vec<f64>>| columns.into_iter().filter(moves).map(thinned).collect();
        let (columns, plain, met) = (kept(columns), kept(plain), kept(met.into()));
        let from = points.first()?.from;
        let lasted = points.iter().map(|p| p.to).fold(from, f64::max) - from;
        let points = points.into_iter().enumerate().filter(|(i, _)| is_kept(*i));
        let points: Vec<Point> = points
            .map(|(i, point)| {
                let stands_for = if i < FIRST { 1.0 } else { each };
                Point {
                    of_it: stands_for * point.of_it,
                    taken: stands_for * point.taken,
                    ..point
                }
            })
            .collect();
        let least = slots.saturating_mul(2).min(points.len() / 5).max(3);
        let enough = points.len() >= FEWEST && lasted > 0.0;
        enough.then_some(Self {
            points,
            columns,
            met,
            plain: Some(plain),
            from,
            lasted,
            several: false,
            one_by_one: slots == 1,
            most_levels: LEVELS,
            open: false,
            soon: from + EARLY * lasted,
            least,
            at_once: slots as f64,
            slots: Vec::new(),
        })
    }

    /// Whether they are parts of answers, of which one after the other shares what its answer is off by.
    fn are_of_parts(&self) -> bool {
        self.most_levels > LEVELS
    }

    pub(super) fn part(&self, at: f64) -> f64 {
        (at - self.from) / self.lasted
    }

    /// By how much the logarithm of a request's time moves with each number of a shape.
    fn moves(&self, shape: &Shape) -> Vec<Vec<f64>> {
        let each = |of: &dyn Fn(&Point) -> f64| self.points.iter().map(of).collect();
        match shape {
            Shape::One => Vec::new(),
            Shape::Levels(times) => times.iter().map(|at| each(&|p| p.after(*at))).collect(),
            Shape::Line => vec![each(&|p| self.part(p.middle()))],
            Shape::Decay(part) => vec![each(&|p| (-self.part(p.middle()) / part).exp())],
        }
    }

    /// What load and lengths add to each, where such a request takes as long as this.
    fn known(&self, expected: &[f64]) -> Vec<Vec<f64>> {
        let met = self.met.iter();
        let met = met.map(|met| each(met, expected, |met, expected| met * expected));
        self.columns.iter().cloned().chain(met).collect()
    }

    /// How many columns that are.
    fn explained(&self) -> usize {
        self.columns.len() + self.met.len()
    }

    /// The median of each one's cell.
    fn usual(&self) -> Vec<f64> {
        let of = |cell: usize| {
            let own = self.points.iter().filter(|p| p.cell == cell);
            median(own.map(|p| p.value).collect()).unwrap_or(1.0)
        };
        let cells = self.points.iter().map(|p| p.cell).max();
        let cells: Vec<f64> = (0..=cells.unwrap_or(0)).map(of).collect();
        self.points.iter().map(|p| cells[p.cell]).collect()
    }

    /// The best numbers for a shape, by Gauss and Newton; those that lie far off count for less.
    pub(super) fn fitted(&self, shape: Shape) -> Fitted {
        const ROUNDS: u32 = 4;
        /// Of an answer's time, the least that is its own.
        const OWN: f64 = 0.1;
        let moves = self.moves(&shape);
        let values: Vec<f64> = self.points.iter().map(|p| p.value).collect();
        let least = 1e-3 * median(values.clone()).unwrap_or(1.0);
        let mut weights = vec![1.0; values.len()];
        let mut now = Fitted {
            logs: vec![0.0; moves.len()],
            slow: vec![1.0; values.len()],
            off: Vec::new(),
            left: f64::INFINITY,
            shape,
        };
        let mut base = values.clone();
        let mut expected = self.usual();
        let mut best = now.clone();
        for _ in 0..ROUNDS {
            // each beside its own size
            let size = each(&base, &now.slow, |base, slow| base * slow);
            let scale = each(&weights, &size, |weight, size| weight / size);
            let target = each(&values, &scale, |value, scale| value * scale);
            let known = |slow: &[f64]| -> Vec<Vec<f64>> {
                let scale = each(slow, &scale, |slow, scale| slow * scale);
                let of = |column: &Vec<f64>| each(column, &scale, |x, scale| x * scale);
                self.known(&expected).iter().map(of).collect()
            };
            if !moves.is_empty() {
                let mut columns = known(&now.slow);
                let free = moves
                    .iter()
                    .map(|column| each(column, &weights, |x, w| x * w));
                columns.extend(free);
                let solved = solve(&columns, moves.len(), &target);
                for (log, more) in now.logs.iter_mut().zip(&solved[self.explained()..]) {
                    *log += more.clamp(-1.0, 1.0);
                }
                now.slow = total(&moves, &now.logs, values.len());
                for log in &mut now.slow {
                    *log = log.exp();
                }
            }
            let solved = solve(&known(&now.slow), 0, &target);
            let (own, of_met) = solved.split_at(self.columns.len());
            base = total(&self.columns, own, values.len());
            let met = total(&self.met, of_met, values.len());
            // of its time that of others' prompts is a part
            for ((base, met), slow) in base.iter_mut().zip(met).zip(&now.slow) {
                *base = base.max(least) / (1.0 - met * slow).max(OWN);
            }
            expected = each(&base, &now.slow, |base, slow| base * slow);
            now.off = each(&values, &expected, |value, expected| {
                (value / expected).ln()
            });
            now.left = now.off.iter().map(|off| off.abs().min(FAR).powi(2)).sum();
            weights = robust(&now.off);
            if now.left < best.left {
                best = now.clone();
            }
        }
        best
    }

    /// Whether both sides of a moment have requests enough: in cells of fewer at once fewer are.
    fn parts(&self, at: f64) -> bool {
        const FEWEST: usize = 3;
        const OF_EACH_SLOT: f64 = 2.0;
        let enough = |of: &dyn Fn(&Point) -> bool| {
            let own = self.points.iter().filter(|p| of(p));
            let slots = own.map(|p| self.slots.get(p.cell).copied().unwrap_or(f64::INFINITY));
            let (n, each) = slots.fold((0, 0.0), |(n, each), slots| (n + 1, each + 1.0 / slots));
            n >= self.least || n >= FEWEST && each >= OF_EACH_SLOT
        };
        enough(&|p| p.to <= at) && enough(&|p| p.from >= at)
    }

    /// The step that leaves least.
    fn step(&self) -> Option<Fitted> {
        const COARSE: usize = 24;
        const FINE: usize = 16;
        let at = |times: Vec<f64>| {
            let times = times.into_iter().filter(|at| self.parts(*at));
            let all = times.map(|at| self.fitted(Shape::Levels(vec![at])));
            all.min_by(|a, b| a.left.total_cmp(&b.left))
        };
        let n = self.points.len();
        let begin = |i: usize| self.points.get(i * n / COARSE).map(|p| p.from);
        let coarse = at((1..COARSE).filter_map(begin).collect())?;
        let Shape::Levels(times) = &coarse.shape else {
            return None;
        };
        let near = *times.first()?;
        let ends = self.points.iter().flat_map(|p| [p.from, p.to]);
        let mut ends: Vec<f64> = ends.collect();
        ends.sort_by(|a, b| (a - near).abs().total_cmp(&(b - near).abs()));
        ends.truncate((4 * n / COARSE).max(FINE));
        let each = ends.len().div_ceil(FINE).max(1);
        let fine = at(ends.into_iter().step_by(each).collect());
        fine.filter(|fine| fine.left < coarse.left).or(Some(coarse))
    }

    /// The best of several levels: of one change after another beside a step or a stretch, or of parts of the time, where no change explains much by itself.
    fn levels(&self, step: &Fitted) -> Fitted {
        let stretch = self.stretch();
        let mut all = self.more(step.clone());
        all.extend(stretch.into_iter().flat_map(|stretch| self.more(stretch)));
        let n = self.points.len();
        let parts = self.most_levels.min(n / (self.least + 1));
        let begin = |i: usize| self.points.get(i * n / parts).map(|p| p.from);
        let mut found = self.fitted(Shape::Levels((1..parts).filter_map(begin).collect()));
        while let Some(fewer) = self.without_weakest(&found) {
            all.push(std::mem::replace(&mut found, fewer));
        }
        let best = all
            .into_iter()
            .min_by(|a, b| self.merit(a).total_cmp(&self.merit(b)));
        best.unwrap_or(found)
    }

    /// What is left and what each change adds to it, by Schwarz's criterion; less than a percent is nothing.
    fn merit(&self, found: &Fitted) -> f64 {
        const NOTHING: f64 = 1e-4;
        let n = self.points.len() as f64;
        n * (found.left / n + NOTHING).ln() + 2.0 * n.ln() * found.logs.len() as f64
    }

    /// The stretch between two moments that leaves least.
    fn stretch(&self) -> Option<Fitted> {
        const COARSE: usize = 12;
        const FINE: usize = 8;
        let n = self.points.len();
        let at = |i: usize, of: usize| self.points.get(i * n / of).map(|p| p.from);
        let least = |all: &mut dyn Iterator<Item = Vec<f64>>| {
            let apart = |times: &Vec<f64>| self.parts(times[0]) && self.parts(times[1]);
            let all = all
                .filter(apart)
                .map(|times| self.fitted(Shape::Levels(times)));
            all.min_by(|a, b| a.left.total_cmp(&b.left))
        };
        let pairs = (1..COARSE).flat_map(|i| (i + 1..COARSE).map(move |j| [i, j]));
        let pair = |[i, j]: [usize; 2]| Some(vec![at(i, COARSE)?, at(j, COARSE)?]);
        let mut best = least(&mut pairs.filter_map(pair))?;
        for end in [0, 1] {
            let Shape::Levels(times) = &best.shape else {
                return None;
            };
            let own = self.points.partition_point(|p| p.from < times[end]);
            let step = (n / COARSE).div_ceil(FINE).max(1);
            let from = own.saturating_sub(step * FINE);
            let near = (from..=own + step * FINE).step_by(step);
            let near =
                near.filter_map(|i| Some([self.points.get(i)?.from, self.points.get(i)?.to]));
            let moved = near.flatten().map(|at| {
                let mut times = times.clone();
                times[end] = at;
                times
            });
            let fine = least(&mut moved.filter(|times| times[0] < times[1]));
            best = fine.filter(|fine| fine.left < best.left).unwrap_or(best);
        }
        Some(best)
    }

    /// One change more, and one more, until they have made it no better for some time.
    fn more(&self, first: Fitted) -> Vec<Fitted> {
        const IN_VAIN: usize = 2;
        let mut best = (0, self.merit(&first));
        let mut all = vec![first];
        while let Some(Fitted {
            shape: Shape::Levels(times),
            off,
            ..
        }) = all.last()
        {
            let off = off.iter().map(|off| off.clamp(-FAR, FAR));
            let mut points: Vec<_> = self.points.iter().map(Point::middle).zip(off).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let at = steps_of(&points, times, self.least);
            let Some(at) =
                at.filter(|_| times.len() < self.most_levels && all.len() <= best.0 + IN_VAIN)
            else {
                break;
            };
            let mut times = times.clone();
            times.push(at);
            times.sort_by(f64::total_cmp);
            let more = self.fitted(Shape::Levels(times));
            let merit = self.merit(&more);
            if merit < best.1 {
                best = (all.len(), merit);
            }
            all.push(more);
        }
        all
    }

    fn without_weakest(&self, found: &Fitted) -> Option<Fitted> {
        let Shape::Levels(times) = &found.shape else {
            return None;
        };
        let logs = found.logs.iter().map(|log| log.abs()).enumerate();
        let weakest = logs.min_by(|a, b| a.1.total_cmp(&b.1));
        let (weakest, _) = weakest.filter(|_| times.len() > 1)?;
        let mut times = times.clone();
        times.remove(weakest);
        Some(self.fitted(Shape::Levels(times)))
    }

    /// Whether so many numbers more explain more than chance would.
    pub(super) fn is_over_chance(&self, few: &Fitted, more: &Fitted, numbers: usize) -> bool {
        const SEVERAL: usize = 3;
        // what steps that several requests share are off by they share too: of several levels some follow that
        let shared = bench_metrics::lag_one(more.off.iter().copied()).1;
        let shared = shared.filter(|_| more.logs.len() >= SEVERAL || self.are_of_parts());
        let shared = shared.unwrap_or(0.0).clamp(0.0, 0.9);
        let own = ((1.0 - shared) / (1.0 + shared)).max(1.0 / self.at_once);
        let n = self.points.len() as f64 * own;
        let used = self.explained() + 2 * more.logs.len();
        let rest = n - used as f64;
        rest >= 4.0 && (few.left - more.left) * rest >= OVER_CHANCE * numbers as f64 * more.left
    }

    /// The same with other columns.
    fn with(&self, columns: Vec<Vec<f64>>, met: Vec<Vec<f64>>) -> Self {
        Self {
            columns,
            met,
            plain: None,
            points: self.points.clone(),
            slots: self.slots.clone(),
            ..*self
        }
    }

    /// The shape that is told. Where time by itself leaves far less than load and lengths do together, or where they make no more of a difference beside it than
    /// chance and it shows within the cells too, it and not they make the difference: where answers take longer, more are in flight.
    pub(super) fn change(&self, most_left: f64) -> Option<Fitted> {
        /// Of what load and lengths leave, what time alone may.
        const LEFT_ALONE: f64 = 0.7;
        let beside = self.shape(most_left);
        let alone = self.plain.clone();
        let Some(alone) = alone.map(|plain| self.with(plain, Vec::new())) else {
            return beside;
        };
        let Some(found) = alone.shape(most_left) else {
            return beside;
        };
        let known = self.fitted(Shape::One);
        let more = self.explained().saturating_sub(alone.columns.len()).max(1);
        let as_well = |least: &Fitted| !self.is_better(&found, least, more);
        let explains = found.left <= LEFT_ALONE * known.left
            && alone.is_over_chance(&known, &found, 2 * found.logs.len());
        let within = as_well(&self.fitted(found.shape.clone()))
            && (!self.several || self.shows_within_cells(&found));
        // between two cells it may be their load or their lengths all the same
        let steps = self.several && matches!(found.shape, Shape::Levels(_));
        let is_told = match &beside {
            Some(beside) => (explains || within) && as_well(beside),
            None => within || explains && !steps,
        };
        if is_told { Some(found) } else { beside }
    }

    /// Whether so many numbers more leave less than chance would make them.
    fn is_better(&self, few: &Fitted, more: &Fitted, numbers: usize) -> bool {
        const BY: f64 = 4.0;
        let nothing = 1e-6 * self.points.len() as f64;
        let used = self.explained() + 2 * more.logs.len();
        let rest = self.points.len().saturating_sub(used).max(1) as f64;
        (few.left - more.left - nothing) * rest >= BY * numbers as f64 * more.left
    }

    /// Whether what changes with time does so where each cell has a level of its own, and load may make what it makes within them.
    fn shows_within_cells(&self, found: &Fitted) -> bool {
        const PART: f64 = 0.5;
        let Some(last) = self.points.iter().map(|p| p.cell).max() else {
            return false;
        };
        let level = |cell: usize| {
            self.points
                .iter()
                .map(|p| f64::from(u8::from(p.cell == cell)))
                .collect()
        };
        let levels = (0..=last).map(level);
        let (rest, met) = match &self.plain {
            Some(plain) if !self.open => (plain, Vec::new()),
            _ => (&self.columns, self.met.clone()),
        };
        let within = self.with(levels.chain(rest.iter().skip(1).cloned()).collect(), met);
        let one = within.fitted(Shape::One);
        let same = within.fitted(found.shape.clone());
        let both = same.logs.iter().zip(&found.logs);
        let as_much: f64 = both.map(|(own, all)| own * all).sum();
        let all: f64 = found.logs.iter().map(|log| log * log).sum();
        as_much >= PART * all && within.is_better(&one, &same, same.logs.len())
    }

    /// The shape that leaves least, if its change is not of chance and leaves at most a part of what is off without one.
    pub(super) fn shape(&self, most_left: f64) -> Option<Fitted> {
        const DECAYS: [f64; 5] = [0.04, 0.08, 0.15, 0.3, 0.6];
        /// Times what a change may leave, where it is so many times as sure.
        const MUCH_NOISE: f64 = 1.4;
        const SURE: usize = 3;
        /// Of what a step or a line leaves, what several levels may.
        const MUCH_LESS: f64 = 0.5;
        /// Of what is off without a change, what a stretch leaves that is told of fewer requests.
        const CERTAIN: f64 = 0.2;
        let one = self.fitted(Shape::One);
        if one.left < ALIKE.powi(2) * self.points.len() as f64 {
            return None;
        }
        let step = self.step()?;
        let smooth = DECAYS.into_iter().map(Shape::Decay).chain([Shape::Line]);
        let smooth = smooth.map(|shape| self.fitted(shape)).filter(Fitted::lasts);
        let smooth = smooth.min_by(|a, b| a.left.total_cmp(&b.left))?;
        let n = self.points.len();
        let several = step.left.min(smooth.left) > ENOUGH * one.left;
        let levels = if !several {
            None
        } else if n >= if self.one_by_one { MANY_ALONE } else { MANY } {
            Some(self.levels(&step))
        } else {
            let stretch = self.stretch().filter(|_| n >= MANY_ALONE);
            stretch.filter(|stretch| stretch.left < CERTAIN * one.left)
        };
        let simple = if smooth.left < step.left {
            smooth
        } else {
            step
        };
        let better = |levels: &Fitted| {
            let returns = levels.logs.len() == 2 || comes_back(levels);
            let much_less = levels.left < MUCH_LESS * simple.left;
            levels.logs.len() > 1 && (much_less && returns || simple.left > MUCH_LESS * one.left)
        };
        let found = levels.filter(better).unwrap_or(simple);
        let numbers = 2 * found.logs.len();
        let less = (found.left / one.left / most_left).max(1.0);
        // of answers that differ much it leaves more, and is as certain
        let sure = numbers * if less > 1.0 { SURE } else { 1 };
        let told = less <= MUCH_NOISE && self.is_over_chance(&one, &found, sure);
        (told && self.is_clear(&found)).then_some(found)
    }

    /// Whether the slowest was slower than the quickest by a quarter, or by a tenth where that stands out of what is left of many. That a few requests in the
    /// middle were quicker is no change.
    fn is_clear(&self, found: &Fitted) -> bool {
        const CLEAR: f64 = 1.1;
        const CLEAR_LINE: f64 = 1.06;
        const PART: f64 = 0.3;
        let (low, high) = ends(&found.slow);
        let n = self.points.len();
        let by = (high / low).ln();
        let steps = matches!(found.shape, Shape::Levels(_));
        let clear = if steps { CLEAR } else { CLEAR_LINE };
        let clear = by >= clear.ln() && by >= 2.0 * (found.left / n as f64).sqrt();
        let quick = found.slow.iter().filter(|s| **s < (low * high).sqrt());
        let stays = found.logs.len() == 1 || !comes_back(found);
        (by >= STEP.ln() || clear && n >= MANY)
            && (stays || quick.count() as f64 >= PART * n as f64)
    }

    /// Whether half of the requests of one load move between the quickest level and the slowest, and not some that are slow by themselves and lie close together.
    pub(super) fn moves_most(&self, found: &Fitted) -> bool {
        const PART: f64 = 0.5;
        /// Of the way between them, within which a request is at one.
        const NEAR: f64 = 0.1;
        let (low, high) = ends(&found.slow);
        let by = (high / low).ln();
        let half = |level: f64| {
            let own = self.points.iter().zip(&found.slow);
            let own = own.filter(|(_, slow)| (*slow / level).ln().abs() <= NEAR * by);
            median(own.map(|(p, _)| p.value.ln()).collect())
        };
        let moved = half(high).zip(half(low)).map(|(high, low)| high - low);
        let steps = matches!(found.shape, Shape::Levels(_));
        !steps || self.several || self.open || moved.is_none_or(|moved| moved >= PART * by)
    }

    /// Of a slow start that fades, the one that ends at a moment, where that leaves less, however few requests it is of: the other one tells neither when it is over
    /// nor how slow it is.
    pub(super) fn or_at_a_moment(&self, found: Fitted) -> Fitted {
        const FEWEST: usize = 4;
        const TRIED: usize = 48;
        let begun = self.points.get(FEWEST).map_or(self.soon, |p| p.from);
        let ends = self.points.iter().flat_map(|p| [p.from, p.to]);
        let mut ends: Vec<f64> = ends.filter(|at| (begun..=self.soon).contains(at)).collect();
        ends.sort_by(f64::total_cmp);
        let each = ends.len().div_ceil(TRIED).max(1);
        let fades = matches!(found.shape, Shape::Decay(_));
        let tried = ends.into_iter().step_by(each).filter(|_| fades);
        let steps = tried.map(|at| self.fitted(Shape::Levels(vec![at])));
        let best = steps.min_by(|a, b| a.left.total_cmp(&b.left));
        let better = |step: &Fitted| step.left < found.left && self.begins_slowly(step);
        best.filter(better).unwrap_or(found)
    }

    /// Until when it is slow at first, or most of what falls has fallen.
    pub(super) fn slow_until(&self, found: &Fitted) -> f64 {
        match &found.shape {
            Shape::Levels(times) => times.first().copied().unwrap_or(self.from),
            Shape::Decay(part) => self.from + std::f64::consts::LN_2 * part * self.lasted,
            Shape::One | Shape::Line => self.from,
        }
    }

    /// Whether each of the first, four or more, is slower than nearly all later ones: a few of them are a chance, or of another kind.
    pub(super) fn stands_alone(&self, found: &Fitted) -> bool {
        const FIRST: usize = 4;
        const NEARLY_ALL: f64 = 0.95;
        let until = self.slow_until(found);
        let n = self.points.partition_point(|p| p.from < until);
        let all = each(&found.slow, &found.off, |slow, off| slow * off.exp());
        let (first, later) = all.split_at(n.min(FIRST));
        let later = quantile(
            later.iter().skip(n - first.len()).copied().collect(),
            NEARLY_ALL,
        );
        n >= FIRST && later.is_some_and(|later| first.iter().all(|slow| *slow > later))
    }

    /// Share of the users' time in a cell that a server as quick as at its best would not have taken.
    pub(super) fn cost(&self, found: &Fitted, cell: usize) -> f64 {
        let best = ends(&found.slow).0;
        let own = self.points.iter().zip(&found.slow);
        let own = || own.clone().filter(|(p, _)| p.cell == cell);
        let lost: f64 = own().map(|(p, slow)| p.of_it * (1.0 - best / slow)).sum();
        lost / own().map(|(p, _)| p.taken).sum::<f64>().max(1.0)
    }

    /// How many of its changes come soon.
    fn begun(&self, times: &[f64]) -> usize {
        times.iter().filter(|at| **at <= self.soon).count()
    }

    /// Whether it is slow at first only: soon over, and what comes later is nearer to the best.
    pub(super) fn begins_slowly(&self, found: &Fitted) -> bool {
        match &found.shape {
            Shape::Levels(times) => {
                let levels = levels_of(&found.logs);
                let best = ends(&levels).0;
                let begun = self.begun(times);
                let rest = levels.iter().skip(1).copied().fold(0.0, f64::max);
                // what moves a little later is no other change
                let most = if begun == times.len() {
                    f64::midpoint(1.0, best)
                } else {
                    best * STEP
                };
                begun > 0 && rest < most.min(f64::midpoint(1.0, best))
            }
            Shape::Decay(part) => found.logs[0] > 0.0 && (-EARLY / part).exp() < LEFT_OF_START,
            Shape::One | Shape::Line => false,
        }
    }

    /// When it changed, for how long or how often, and from where to where.
    pub(super) fn movement(&self, found: &Fitted, cause: Cause) -> Vec<(Known, f64)> {
        let (low, high) = ends(&found.slow);
        let (first, last) = (found.slow.first().copied(), found.slow.last().copied());
        let (first, last) = (first.unwrap_or(1.0), last.unwrap_or(1.0));
        let at = |at: f64| (Known::At, at - self.from);
        let levels = levels_of(&found.logs);
        let (mut told, (before, after)) = match (&found.shape, cause) {
            (Shape::Decay(part), Cause::ColdStart) => {
                // a twentieth is left then
                (vec![(Known::At, 3.0 * part * self.lasted)], (first, last))
            }
            (Shape::Levels(times), Cause::ColdStart) => {
                // what moves by little later is no part of it
                let most = last + LEFT_OF_START * (high - last);
                let slow = levels.iter().rposition(|level| level * first > most);
                let until = times.get(slow.unwrap_or(0));
                (until.map(|to| at(*to)).into_iter().collect(), (high, last))
            }
            (Shape::Levels(times), _) => match times.as_slice() {
                [time] => (vec![at(*time)], (1.0, levels[1])),
                [from, to] if comes_back(found) => (
                    vec![at(*from), (Known::Lasted, to - from)],
                    (1.0, levels[1]),
                ),
                _ => match swings(&levels) {
                    0 | 1 => {
                        let most = found.main_step().and_then(|step| times.get(step));
                        (
                            most.map(|time| at(*time)).into_iter().collect(),
                            (1.0, levels[times.len()]),
                        )
                    }
                    many => (vec![(Known::Changes, many as f64)], (low, high)),
                },
            },
            _ => (Vec::new(), (first, last)),
        };
        told.push((Known::LevelBefore, before));
        told.push((Known::LevelAfter, after));
        told
    }
}

impl Fitted {
    /// Whether it rises and falls all the time and by little, as what varies by chance does: the more often, the more it has to move.
    pub(super) fn is_wavering(&self) -> bool {
        let Shape::Levels(times) = &self.shape else {
            return false;
        };
        let levels = levels_of(&self.logs);
        let (low, high) = ends(&levels);
        let least = match swings(&levels) {
            2 if times.len() > 2 => 1.2,
            0..=2 => 1.0,
            _ => 1.3,
        };
        high < least * low
    }

    /// The step of several to one side that is most of the change.
    fn main_step(&self) -> Option<usize> {
        const MOST: f64 = 0.8;
        let all: f64 = self.logs.iter().sum();
        self.logs.iter().position(|log| log / all >= MOST)
    }

    /// Whether it is no first moment in which fewer share the server.
    fn lasts(&self) -> bool {
        const PART: f64 = 0.1;
        match &self.shape {
            Shape::Decay(part) => *part > PART || self.logs.iter().all(|log| *log > 0.0),
            _ => true,
        }
    }
}

impl Point {
    fn middle(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    /// The part of it that came after a moment.
    fn after(&self, at: f64) -> f64 {
        ((self.to - at) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

pub(super) fn each(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

/// The sum of columns, each so many times.
fn total(columns: &[Vec<f64>], times: &[f64], n: usize) -> Vec<f64> {
    let at = |i: usize| {
        columns
            .iter()
            .zip(times)
            .map(move |(column, times)| column[i] * times)
    };
    (0..n).map(|i| at(i).sum()).collect()
}

/// Square roots of the weights by which those far off count for less.
fn robust(off: &[f64]) -> Vec<f64> {
    let typical = median(off.iter().map(|off| off.abs()).collect()).unwrap_or(0.0);
    let rms = (off.iter().map(|off| off * off).sum::<f64>() / off.len() as f64).sqrt();
    let far = 3.0 * (1.48 * typical).max(0.7 * rms) + 6e-3;
    off.iter()
        .map(|off| (far / off.abs().max(far)).sqrt())
        .collect()
}

/// Whether it falls after it rose, or the other way round.
pub(super) fn comes_back(found: &Fitted) -> bool {
    let rises = |log: &f64| *log > 0.0;
    found.logs.iter().any(rises) && !found.logs.iter().all(rises)
}

/// How often levels rise or fall, whatever the number of steps in which they do; what is little beside all that they move is none.
pub(super) fn swings(levels: &[f64]) -> usize {
    /// Of all that they move.
    const LITTLE: f64 = 0.25;
    let (low, high) = ends(levels);
    let little = LITTLE * (high / low).ln();
    let mut turn = levels.first().map_or(0.0, |level| level.ln());
    let (mut n, mut direction) = (0, 0.0_f64);
    for log in levels.iter().map(|level| level.ln()) {
        let moved = log - turn;
        if moved * direction > 0.0 {
            turn = log;
        } else if moved.abs() > little {
            (turn, direction) = (log, moved);
            n += 1;
        }
    }
    n
}

pub(super) fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(0.0, f64::max))
}

/// The levels of which each differs from the one before by these logarithms, the first of them 1.
fn levels_of(logs: &[f64]) -> Vec<f64> {
    let mut sum = 0.0_f64;
    let after = logs.iter().map(|log| {
        sum += log;
        sum.exp()
    });
    std::iter::once(1.0).chain(after).collect()
}
