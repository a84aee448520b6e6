//! When did the level change? Means over bins of time, and the optimal segmentation of a series into pieces of constant mean (PELT;
//! Killick 2012).

use crate::num::{float, floor_index, median_in_place};

/// A piece of the series with one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Index of its first value.
    pub start: usize,
    /// Index after its last value.
    pub end: usize,
    /// Mean of its values.
    pub mean: f64,
}

/// Splits a series into segments of constant mean; one segment where nothing changes, none for an empty series.
///
/// Each further segment must lower the squared error by more than `strictness`·σ²·ln n, σ being the noise between
/// neighbours (median absolute difference, so the changes themselves do not inflate it). 4 suits independent values; feed
/// means over bins of time, which are nearly so. `min_length` is the least length of a segment. NaN must not occur.
pub fn change_points(series: &[f64], min_length: usize, strictness: f64) -> Vec<Segment> {
    let n = series.len();
    let min_length = min_length.max(1);
    if n == 0 {
        return Vec::new();
    }
    let penalty = strictness * noise_variance(series) * float(n).ln().max(1.0);
    let running = Prefix::of(series);
    // best[t]: least cost of the first t values; last[t]: where its last segment starts.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates = vec![0_usize];
    for t in min_length..=n {
        let total = |s: usize| best[s] + running.cost(s, t) + penalty;
        if let Some(s) = candidates
            .iter()
            .copied()
            .min_by(|a, b| total(*a).total_cmp(&total(*b)))
        {
            last[t] = s;
            let lowest = total(s);
            candidates.retain(|&c| best[c] + running.cost(c, t) <= lowest);
            best[t] = lowest;
        }
        if t + 1 >= 2 * min_length {
            candidates.push(t + 1 - min_length);
        }
    }
    let mut segments = Vec::new();
    let mut end = n;
    while end > 0 {
        let start = last[end];
        segments.push(Segment {
            start,
            end,
            mean: running.mean(start, end),
        });
        end = start;
    }
    segments.reverse();
    segments
}

/// The variance of the noise between neighbours, robust against level changes: (MAD of differences / 0.954)².
fn noise_variance(series: &[f64]) -> f64 {
    let mut differences: Vec<f64> = series.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    // 0.6745·√2: the median absolute difference of two standard normals.
    let robust = median_in_place(&mut differences).unwrap_or(0.0) / 0.953_872_6;
    let scale = series.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    // A floor, so that rounding in a noiseless series is not taken for changes.
    robust
        .max(1e-9 * scale)
        .max(f64::MIN_POSITIVE)
        .powi(2)
        .max(f64::MIN_POSITIVE)
}

/// Running sums, for the cost of any segment in O(1).
struct Prefix {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Prefix {
    fn of(series: &[f64]) -> Self {
        // Centred, so that the difference of large squares keeps its digits.
        let centre = crate::num::mean(series).unwrap_or(0.0);
        let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
        let (mut total, mut square) = (0.0, 0.0);
        for x in series {
            total += x - centre;
            square += (x - centre).powi(2);
            sums.push(total);
            squares.push(square);
        }
        sums.push(centre);
        Self { sums, squares }
    }

    fn cost(&self, start: usize, end: usize) -> f64 {
        let (total, square) = (
            self.sums[end] - self.sums[start],
            self.squares[end] - self.squares[start],
        );
        (square - total * total / float(end - start)).max(0.0)
    }

    fn mean(&self, start: usize, end: usize) -> f64 {
        let centre = self.sums[self.sums.len() - 1];
        centre + (self.sums[end] - self.sums[start]) / float(end - start)
    }
}

/// A stretch of time with what fell into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Start of the stretch, in the unit of the times.
    pub start: f64,
    /// End of the stretch.
    pub end: f64,
    /// How many points fell into it.
    pub count: usize,
    /// Sum of their values.
    pub sum: f64,
}

impl Bin {
    /// Mean of the values; `None` where nothing fell into the bin.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / float(self.count))
    }
}

/// Sorts `(time, value)` points into `bins` equal stretches of `from..to`; points outside are left out.
///
/// Empty where there are no bins or no time.
pub fn bin_by_time(
    points: impl IntoIterator<Item = (f64, f64)>,
    from: f64,
    to: f64,
    bins: usize,
) -> Vec<Bin> {
    if bins == 0 || to <= from {
        return Vec::new();
    }
    let width = (to - from) / float(bins);
    let edge = |b: usize| from + float(b) * width;
    let mut all: Vec<Bin> = (0..bins)
        .map(|b| Bin {
            start: edge(b),
            end: edge(b + 1),
            count: 0,
            sum: 0.0,
        })
        .collect();
    for (time, value) in points {
        if time >= from && time < to {
            let bin = &mut all[floor_index((time - from) / width).min(bins - 1)];
            bin.count += 1;
            bin.sum += value;
        }
    }
    all
}

#[cfg(test)]
#[path = "../tests/unit/change.rs"]
mod tests;
