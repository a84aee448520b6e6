use super::*;

fn flights(pairs: &[(i64, i64)]) -> InFlight {
    InFlight::of(pairs.iter().map(|(a, b)| (Stamp::new(*a), Stamp::new(*b))))
}

fn window(from: i64, to: i64) -> Window {
    Window {
        from: Stamp::new(from),
        to: Stamp::new(to),
    }
}

#[test]
fn the_mean_is_weighted_by_time() {
    // Two in flight from 0 to 10, one from 10 to 30: (20 + 20) / 30.
    let flights = flights(&[(0, 10), (0, 30)]);
    assert!((flights.mean(window(0, 30)).unwrap() - 4.0 / 3.0).abs() < 1e-12);
    assert!((flights.mean(window(5, 15)).unwrap() - 1.5).abs() < 1e-12);
    assert!((flights.mean(window(-10, 40)).unwrap() - 40.0 / 50.0).abs() < 1e-12);
    assert_eq!(flights.mean(window(5, 5)), None);
}

#[test]
fn one_that_ends_as_the_next_begins_makes_no_peak() {
    let flights = flights(&[(0, 10), (10, 20), (20, 30)]);
    assert_eq!((flights.peak(), flights.median(window(0, 30))), (1, 1));
}

#[test]
fn the_full_span_leaves_out_ramp_and_drain() {
    let flights = flights(&[(0, 100), (5, 40), (41, 90)]);
    assert_eq!(flights.span_at_least(2), Some(window(5, 90)));
    assert_eq!(flights.span_at_least(3), None);
}
