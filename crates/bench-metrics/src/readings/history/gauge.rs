//! Gauges over a window: time-weighted, each value holding until the next.

use bench_schema::{Nanos, Window};

use super::{Point, first_from};

/// A gauge over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Readings within the window.
    pub(crate) n: u64,
    /// Time-weighted mean.
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Time-weighted share of the window in which it was zero.
    pub(crate) zero: f64,
    /// Nanoseconds over which it was known; at least 1, so that levels can be joined.
    weight: f64,
}

impl Level {
    /// The same gauge over two windows.
    fn then(self, later: Self) -> Self {
        let weight = self.weight + later.weight;
        let join = |a: f64, b: f64| (a * self.weight + b * later.weight) / weight;
        Self {
            n: self.n + later.n,
            mean: join(self.mean, later.mean),
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            zero: join(self.zero, later.zero),
            weight,
        }
    }
}

/// Longest time that a value is taken to hold: after that nobody knows, and the time is left out of the mean.
const HOLD: Nanos = Nanos::from_secs(5);

/// `None` where no reading is within a window. The value before a window holds into it.
pub(super) fn level(points: &[Point], windows: &[Window]) -> Option<Level> {
    windows
        .iter()
        .filter_map(|&window| within(points, window))
        .reduce(Level::then)
}

fn within(points: &[Point], window: Window) -> Option<Level> {
    let inside = first_from(points, window.from);
    let until = points.partition_point(|point| point.at <= window.to);
    let read = points.get(inside..until).filter(|read| !read.is_empty())?;
    let (mut weight, mut weighted, mut zero) = (0.0, 0.0, 0.0);
    for (index, point) in points
        .iter()
        .enumerate()
        .take(until)
        .skip(inside.saturating_sub(1))
    {
        let next = points.get(index + 1).map_or(window.to, |next| next.at);
        let (from, to) = (
            point.at.max(window.from),
            next.min(window.to).min(point.at + HOLD),
        );
        let held = (to - from).or_zero().as_f64();
        weight += held;
        weighted += held * point.value;
        // A share of exactly nothing is what an idle device reports; a small one is not idle.
        if point.value <= 0.0 {
            zero += held;
        }
    }
    let values = || read.iter().map(|point| point.value);
    let n = u64::try_from(read.len()).ok()?;
    let plain = values().sum::<f64>() / read.len() as f64;
    let timed = weight > 0.0;
    Some(Level {
        n,
        mean: if timed { weighted / weight } else { plain },
        min: values().fold(f64::INFINITY, f64::min),
        max: values().fold(f64::NEG_INFINITY, f64::max),
        zero: if timed {
            zero / weight
        } else {
            f64::from(u8::from(plain <= 0.0))
        },
        weight: weight.max(1.0),
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_history_gauge.rs"]
mod tests;
