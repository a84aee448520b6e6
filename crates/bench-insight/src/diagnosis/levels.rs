//! Changes of level over time, and a rhythm in it.
//!
//! Optimal segmentation of means over stretches of time proposes; it takes neighbours to be independent, which requests are not (a
//! queue remembers). So each proposed change must also be large against the error of both levels, correlation included; the weakest is
//! dropped until all that are left hold.

use bench_metrics::{Memory, bin_by_time, change_points};
use bench_schema::{Cause, Experiment, Finding, Known};

use super::look::{Look, Seen, mean, median, quantile, squares};
use crate::draft::Draft;

/// Least difference of two levels, over the smaller.
pub(super) const STEP: f64 = 0.25;
/// The same where it stands out of what requests differ by anyway: what trust calls a trend has a name too.
const CLEAR_STEP: f64 = 0.1;
/// From so many standard deviations of the requests around their levels on it stands out: then the step makes more of their spread than all else.
const STANDS_OUT: f64 = 2.0;

/// Least difference of two levels, in standard errors. Five rather than two, because the segmentation looked for the largest ones.
const ERRORS: f64 = 5.0;
/// Values of a span below which its level is not known.
const FEWEST: usize = 8;

/// A stretch of time with one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Values in it.
    pub(super) n: usize,
    pub(super) mean: f64,
}

/// Whether the last level is nearer to the first than to what lies farthest from it.
pub(super) fn comes_back(levels: &[Level]) -> bool {
    let ends = levels.first().zip(levels.last());
    ends.is_some_and(|(first, last)| (last.mean - first.mean).abs() < 0.5 * range(levels))
}

/// What the highest lies above the lowest.
pub(super) fn range(levels: &[Level]) -> f64 {
    let means = || levels.iter().map(|level| level.mean);
    means().fold(0.0, f64::max) - means().fold(f64::INFINITY, f64::min)
}

/// Whether two levels are two.
pub(super) fn differ(a: f64, b: f64) -> bool {
    apart(a, b) >= STEP
}

fn apart(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().min(b.abs()).max(f64::MIN_POSITIVE)
}

/// A piece of the series: indices of its points, and its level.
struct Span {
    from: usize,
    to: usize,
    mean: f64,
}

/// Levels of `(time, value)` points in order of time; empty where there is one level only.
pub(super) fn of(points: &[(f64, f64)]) -> Vec<Level> {
    let mut spans = proposed(points);
    let memory = memory(points, &spans);
    while let Some(weakest) = weakest(points, &spans, memory) {
        let right = spans.remove(weakest + 1);
        if let Some(left) = spans.get_mut(weakest) {
            *left = span(points, left.from, right.to);
        }
    }
    if spans.len() < 2 {
        return Vec::new();
    }
    let at = |index: usize| points.get(index).or(points.last()).map_or(0.0, |p| p.0);
    spans
        .iter()
        .map(|s| Level {
            from: at(s.from),
            to: at(s.to),
            n: s.to - s.from,
            mean: s.mean,
        })
        .collect()
}

/// The ends of a line through points that drift: by as much as a step, and as clearly.
pub(super) fn drift(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    // half of it is what a drift costs
    let (before, after) = bench_metrics::drift(points, 2.0 * super::LEAST)?;
    let (first, last) = (points.first()?.0, points.last()?.0);
    let line = |at: f64| before + (after - before) * (at - first) / (last - first);
    let off: f64 = points.iter().map(|p| (p.1 - line(p.0)).powi(2)).sum();
    let is_clear = (after - before).powi(2) * points.len() as f64 >= STANDS_OUT.powi(2) * off;
    (is_clear || differ(before, after)).then_some((before, after))
}

fn values(points: &[(f64, f64)], from: usize, to: usize) -> Vec<f64> {
    points
        .get(from..to)
        .unwrap_or_default()
        .iter()
        .map(|p| p.1)
        .collect()
}

fn span(points: &[(f64, f64)], from: usize, to: usize) -> Span {
    let own = values(points, from, to);
    Span {
        from,
        to,
        mean: own.iter().sum::<f64>() / (own.len().max(1)) as f64,
    }
}

/// The segmentation of means over up to 60 stretches of time, as spans of points.
fn proposed(points: &[(f64, f64)]) -> Vec<Span> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let bins = (points.len() / 5).clamp(8, 60);
    let stretches = bin_by_time(points.iter().copied(), first.0, last.0, bins);
    let mut level = first.1;
    let series: Vec<f64> = stretches
        .iter()
        .map(|stretch| {
            // Nothing started then: the level is taken to have stayed.
            level = stretch.mean().unwrap_or(level);
            level
        })
        .collect();
    let ends: Vec<usize> = change_points(&series, 3, 4.0)
        .iter()
        .filter_map(|segment| stretches.get(segment.end - 1))
        .map(|stretch| points.partition_point(|p| p.0 < stretch.end))
        .collect();
    let mut spans = Vec::with_capacity(ends.len());
    let mut from = 0;
    for (i, end) in ends.iter().enumerate() {
        // The last point lies on the end of the last stretch.
        let to = if i + 1 == ends.len() {
            points.len()
        } else {
            *end
        };
        spans.push(span(points, from, to));
        from = to;
    }
    spans
}

/// By how much the likeness of neighbours within their spans inflates the variance of a mean.
fn memory(points: &[(f64, f64)], spans: &[Span]) -> f64 {
    let within = |s: &Span| {
        let mean = s.mean;
        values(points, s.from, s.to)
            .into_iter()
            .map(move |value| value - mean)
    };
    let residuals: Vec<f64> = spans.iter().flat_map(within).collect();
    Memory::of(residuals.iter()).of_mean()
}

/// Variance of a span's values.
fn spread(points: &[(f64, f64)], s: &Span) -> f64 {
    let own = values(points, s.from, s.to);
    let squares: f64 = own.iter().map(|v| (v - s.mean).powi(2)).sum();
    squares / own.len().saturating_sub(1).max(1) as f64
}

/// Variance of a span's mean: that of its values, inflated by `memory`.
fn error(points: &[(f64, f64)], s: &Span, memory: f64) -> f64 {
    spread(points, s) / (s.to - s.from) as f64 * memory
}

/// The first span of the pair whose difference holds least; `None` where all hold.
fn weakest(points: &[(f64, f64)], spans: &[Span], memory: f64) -> Option<usize> {
    spans
        .windows(2)
        .enumerate()
        .map(|(i, pair)| (i, strength(points, &pair[0], &pair[1], memory)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, strength)| *strength < 1.0)
        .map(|(i, _)| i)
}

/// A difference over the least one that counts: at least 1 holds.
fn strength(points: &[(f64, f64)], a: &Span, b: &Span, memory: f64) -> f64 {
    if (a.to - a.from).min(b.to - b.from) < FEWEST {
        return 0.0;
    }
    let is_clear =
        (a.mean - b.mean).powi(2) >= STANDS_OUT.powi(2) * spread(points, a).max(spread(points, b));
    let step = apart(a.mean, b.mean) / if is_clear { CLEAR_STEP } else { STEP };
    let noise = (error(points, a, memory) + error(points, b, memory)).sqrt();
    if noise <= 0.0 {
        return step;
    }
    step.min((a.mean - b.mean).abs() / (ERRORS * noise))
}

/// Parts of a cell, of as many values.
pub(super) const PARTS: usize = 12;

/// Values in parts of equal number, in order of time, where the part that one is in tells a third of their variance and more than chance makes.
pub(super) struct Parts {
    pub(super) n: usize,
    /// The median of each.
    pub(super) levels: Vec<f64>,
    /// Of all values.
    pub(super) mean: f64,
    pub(super) typical: f64,
    /// Squares around the mean of all, and around that of each part.
    pub(super) whole: f64,
    pub(super) within: f64,
}

impl Parts {
    /// Of `(when, value)` in order of time. Each part has to hold two answers of every slot of a closed loop, since these come in waves.
    pub(super) fn of(points: &[(f64, f64)], slots: Option<u32>) -> Option<Self> {
        const FEWEST: usize = 8;
        const FEWEST_OF_A_PART: usize = 3;
        const TOLD: f64 = 0.33;
        /// Variance between parts over that within, each by its degrees of freedom: once in a thousand by chance.
        const OVER_CHANCE: f64 = 4.0;
        let n = points.len();
        let parts = (n / FEWEST_OF_A_PART).min(PARTS);
        if parts < FEWEST || n < 2 * parts * slots.map_or(1, |slots| slots as usize) {
            return None;
        }
        let edge = |part: usize| part * n / parts;
        let each = |part: usize| values(points, edge(part), edge(part + 1));
        let each: Vec<Vec<f64>> = (0..parts).map(each).collect();
        let all = values(points, 0, n);
        let squares = |of: &Vec<f64>| squares(of.iter().copied());
        let (whole, within) = (squares(&all), each.iter().map(squares).sum::<f64>());
        let over = (whole - within) / (parts - 1) as f64 * (n - parts) as f64;
        let found = Self {
            n,
            levels: each.into_iter().filter_map(median).collect(),
            mean: mean(all.iter().copied())?,
            typical: median(all)?,
            whole,
            within,
        };
        (found.told() >= TOLD && over >= OVER_CHANCE * within).then_some(found)
    }

    /// Share of the variance that the parts tell.
    pub(super) fn told(&self) -> f64 {
        1.0 - self.within / self.whole
    }

    /// The lowest level and the highest.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        let level = |q: f64| quantile(self.levels.clone(), q);
        level(0.0).zip(level(1.0))
    }
}

// A speed that rises and falls again and again, in equal periods.

/// Parts of a period; each needs so many answers as a level does.
const OF_A_PERIOD: usize = 8;
/// Share of the variance that every second period has to foretell of the others.
const FORETOLD: f64 = 0.5;
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
        (low > 0.0 && differ(low, high)).then(|| Self {
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
#[path = "../../tests/unit/diagnosis_levels.rs"]
mod tests;

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_rhythm.rs"]
mod rhythm_tests;
