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
mod tests {
    use super::*;

    /// Standard normal values from a xorshift generator.
    fn normals(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut uniform = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        std::iter::repeat_with(move || {
            let (a, b) = (uniform().max(1e-12), uniform());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        })
        .skip(20)
    }

    /// Lognormal values (σ 0.3) whose neighbours are correlated by `rho`, ten a second.
    fn series(seed: u64, rho: f64, n: usize) -> Vec<(f64, f64)> {
        let mut state = 0.0_f64;
        let innovation = (1.0 - rho * rho).sqrt();
        normals(seed)
            .take(n)
            .enumerate()
            .map(|(i, e)| {
                state = rho * state + innovation * e;
                (i as f64 / 10.0, 50.0 * (0.3 * state).exp())
            })
            .collect()
    }

    fn alarms(rho: f64, n: usize) -> usize {
        (1..=100)
            .filter(|seed| !of(&series(*seed, rho, n)).is_empty())
            .count()
    }

    #[test]
    fn one_level_with_noise_or_memory_is_rarely_called_two() {
        // Of 100 series each: independent, and correlated as behind a queue.
        assert!(alarms(0.0, 300) <= 2);
        assert!(alarms(0.5, 300) <= 4);
        assert!(alarms(0.8, 300) <= 8);
    }

    #[test]
    fn a_small_step_is_found_where_requests_hardly_differ_and_not_where_they_do() {
        let found = |sigma: f64, factor: f64| {
            let at = |(i, e): (usize, f64)| {
                let level = if i < 90 { 1.0 } else { factor };
                (i as f64 / 10.0, level * (sigma * e).exp())
            };
            let is_found = |seed: &u64| {
                let points: Vec<(f64, f64)> =
                    normals(*seed).take(180).enumerate().map(at).collect();
                of(&points).len() == 2
            };
            (1..=50).filter(is_found).count()
        };
        assert!(found(0.02, 1.15) >= 48 && found(0.02, 1.2) >= 48);
        assert!(found(0.02, 1.05) == 0 && found(0.3, 1.15) <= 2);
    }

    #[test]
    fn a_level_that_doubles_is_found_in_noise_with_memory() {
        let found = (1..=50)
            .filter(|seed| {
                let mut points = series(*seed, 0.5, 300);
                points.iter_mut().skip(150).for_each(|p| p.1 *= 2.0);
                let spans = of(&points);
                spans.len() == 2 && (spans[0].to - 15.0).abs() < 3.0
            })
            .count();
        assert!(found >= 40, "{found} of 50");
    }
}
