//! Changes of level over time.
//!
//! Optimal segmentation of means over stretches of time proposes; it takes neighbours to be independent, which requests are not (a
//! queue remembers). So each proposed change must also be large against the error of both levels, correlation included; the weakest is
//! dropped until all that are left hold.

use bench_metrics::{Memory, bin_by_time, change_points};

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
    let means = || levels.iter().map(|level| level.mean);
    let range = means().fold(0.0, f64::max) - means().fold(f64::INFINITY, f64::min);
    let ends = levels.first().zip(levels.last());
    ends.is_some_and(|(first, last)| (last.mean - first.mean).abs() < 0.5 * range)
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
    Memory::of(&residuals).of_mean()
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

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_levels.rs"]
mod tests;
