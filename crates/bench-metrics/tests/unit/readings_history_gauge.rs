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
