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

/// Splits a series of values, each with its standard error, into segments of constant mean; one segment where nothing changes, none for an empty series. A value weighs
/// `1 / (between² + error²)`, where `between` is the standard deviation of the values' own levels around their segment's, estimated from neighbours.
///
/// Each further segment must lower the weighted squared error by `strictness`·(4 + ln n): flatter than the usual ln n, for short histories whose
/// scatter is hardly known. `min_length` is the least length of a segment. `errors` is as long as `series`; where an error is not known, put in a typical one. A value that is more than three standard deviations from the
/// median of the five around it is taken for one that is just so far off. NaN must not occur.
pub fn weighted_change_points(
    series: &[f64],
    errors: &[f64],
    min_length: usize,
    strictness: f64,
) -> Vec<Segment> {
    let between = variance_between(series, errors);
    let variance = |i: usize| between + errors.get(i).map_or(0.0, |error| error * error);
    let penalty = strictness * (4.0 + log_length(series.len()));
    let tame = without_outliers(series, |i| 3.0 * variance(i).sqrt());
    segments(
        &Prefix::of(&tame, |i| 1.0 / variance(i)),
        min_length,
        penalty,
    )
}

/// Values no further than `most` from the median of the five around them: one that is far off by itself is no level.
fn without_outliers(series: &[f64], most: impl Fn(usize) -> f64) -> Vec<f64> {
    let last = series.len().saturating_sub(5);
    let tamed = series.iter().enumerate().map(|(i, &value)| {
        let from = i.saturating_sub(2).min(last);
        let mut around: Vec<f64> = series.iter().skip(from).take(5).copied().collect();
        let middle = median_in_place(&mut around).unwrap_or(value);
        value.clamp(middle - most(i), middle + most(i))
    });
    tamed.collect()
}

fn log_length(n: usize) -> f64 {
    float(n).ln().max(1.0)
}

fn segments(running: &Prefix, min_length: usize, penalty: f64) -> Vec<Segment> {
    let n = running.length();
    let min_length = min_length.max(1);
    if n == 0 {
        return Vec::new();
    }
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

/// The variance that values have beyond their errors: such that half of the differences of neighbours are below their standard deviation times the
/// normal distribution's 0.6745, so that changes of the level do not inflate it.
fn variance_between(series: &[f64], errors: &[f64]) -> f64 {
    let floor = f64::MIN_POSITIVE.max((1e-9 * largest(series)).powi(2));
    let pairs = series.windows(2).zip(errors.windows(2));
    let pairs: Vec<(f64, f64)> = pairs
        .map(|(w, e)| ((w[1] - w[0]).powi(2), e[0] * e[0] + e[1] * e[1]))
        .collect();
    let is_enough = |between: f64| {
        let mut scaled: Vec<f64> = (pairs.iter())
            .map(|(square, error)| square / (2.0 * between + error))
            .collect();
        median_in_place(&mut scaled).unwrap_or(0.0) <= 0.674_489_75_f64.powi(2)
    };
    if is_enough(floor) {
        return floor;
    }
    let (mut low, mut high) = (
        0.0,
        pairs.iter().fold(0.0_f64, |most, (d, _)| most.max(*d)) * 2.0,
    );
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high.max(floor)
}

fn largest(series: &[f64]) -> f64 {
    series.iter().fold(0.0_f64, |most, x| most.max(x.abs()))
}

/// Running sums, for the cost of any segment in O(1).
struct Prefix {
    weights: Vec<f64>,
    sums: Vec<f64>,
    squares: Vec<f64>,
    centre: f64,
}

impl Prefix {
    fn of(series: &[f64], weight: impl Fn(usize) -> f64) -> Self {
        let mut running = Self {
            weights: vec![0.0],
            sums: vec![0.0],
            squares: vec![0.0],
            // Centred, so that the difference of large squares keeps its digits.
            centre: crate::num::mean(series).unwrap_or(0.0),
        };
        let (mut heavy, mut total, mut square) = (0.0, 0.0, 0.0);
        for (i, x) in series.iter().enumerate() {
            let (own, off) = (weight(i), x - running.centre);
            heavy += own;
            total += own * off;
            square += own * off * off;
            running.weights.push(heavy);
            running.sums.push(total);
            running.squares.push(square);
        }
        running
    }

    fn length(&self) -> usize {
        self.sums.len() - 1
    }

    fn cost(&self, start: usize, end: usize) -> f64 {
        let (total, square) = (
            self.sums[end] - self.sums[start],
            self.squares[end] - self.squares[start],
        );
        (square - total * total / self.weight(start, end)).max(0.0)
    }

    fn mean(&self, start: usize, end: usize) -> f64 {
        self.centre + (self.sums[end] - self.sums[start]) / self.weight(start, end)
    }

    fn weight(&self, start: usize, end: usize) -> f64 {
        self.weights[end] - self.weights[start]
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
