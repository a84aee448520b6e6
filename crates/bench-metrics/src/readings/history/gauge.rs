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
mod tests {
    use bench_schema::Stamp;
    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn point(at: i64, value: f64) -> Point {
        Point {
            at: Stamp::new(at),
            value,
        }
    }

    fn window(from: i64, to: i64) -> [Window; 1] {
        [Window {
            from: Stamp::new(from),
            to: Stamp::new(to),
        }]
    }

    #[test]
    fn values_weigh_as_long_as_they_hold() {
        let points = [point(-S, 4.0), point(S, 0.0), point(3 * S, 1.0)];
        let got = level(&points, &window(0, 4 * S)).unwrap();
        // 4 for 1 s, 0 for 2 s, 1 for 1 s
        assert!((got.mean - 1.25).abs() < 1e-12 && (got.zero - 0.5).abs() < 1e-12);
        assert!((got.min - 0.0).abs() < 1e-12 && (got.max - 1.0).abs() < 1e-12);
        assert_eq!(got.n, 2);
    }

    #[test]
    fn several_windows_weigh_by_their_length() {
        let points = [point(0, 1.0), point(3 * S, 5.0)];
        let [a] = window(0, 3 * S);
        let [b] = window(3 * S, 4 * S);
        let got = level(&points, &[a, b]).unwrap();
        // 1 for 3 s, 5 for 1 s; the reading on the border is in both
        assert!((got.mean - 2.0).abs() < 1e-12 && got.n == 3, "{got:?}");
    }

    #[test]
    fn a_value_does_not_hold_for_ever() {
        let points = [point(0, 10.0), point(100 * S, 2.0)];
        let got = level(&points, &window(0, 105 * S)).unwrap();
        // 10 for 5 s, 2 for 5 s; what was between is not known
        assert!((got.mean - 6.0).abs() < 1e-12);
    }

    #[test]
    fn without_a_reading_within_the_window_there_is_no_level() {
        let points = [point(0, 1.0), point(10 * S, 1.0)];
        assert_eq!(level(&points, &window(S, 2 * S)), None);
        assert_eq!(level(&[], &window(S, 2 * S)), None);
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_values_that_held(values in proptest::collection::vec(-1e6_f64..1e6, 1..50), step in 1_i64..S) {
            let points: Vec<Point> = values.iter().zip(0..).map(|(&v, i)| point(i * step, v)).collect();
            let end = i64::try_from(points.len()).unwrap() * step;
            let got = level(&points, &window(0, end)).unwrap();
            prop_assert!(got.mean >= got.min - 1e-6 && got.mean <= got.max + 1e-6);
            prop_assert_eq!(got.n, values.len() as u64);
        }
    }
}
