use bench_schema::Stamp;
use proptest::prelude::*;

use super::*;

const S: i64 = 1_000_000_000;

fn points(values: &[(i64, f64)]) -> Vec<Point> {
    values
        .iter()
        .map(|&(at, value)| Point {
            at: Stamp::new(at),
            value,
        })
        .collect()
}

fn window(from: i64, to: i64) -> [Window; 1] {
    [Window {
        from: Stamp::new(from),
        to: Stamp::new(to),
    }]
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn a_window_between_readings_gets_its_share() {
    // 10 per second from 0 s to 10 s, read at 0, 4 and 10 s
    let points = points(&[(0, 0.0), (4 * S, 40.0), (10 * S, 100.0)]);
    let got = increase(&points, &window(2 * S, 7 * S)).unwrap();
    assert!(close(got.amount, 50.0) && close(got.rate, 10.0));
    assert_eq!((got.n, got.covered), (1, Nanos::from_secs(5)));
    assert!(close(got.over(&window(2 * S, 7 * S)).unwrap(), 50.0));
}

#[test]
fn several_windows_are_one_after_the_other() {
    let points = points(&[(0, 0.0), (10 * S, 100.0), (20 * S, 400.0)]);
    let [a] = window(0, 5 * S);
    let [b] = window(10 * S, 15 * S);
    let got = increase(&points, &[a, b]).unwrap();
    // 10 a second for 5 s, 30 a second for 5 s
    assert!(close(got.amount, 200.0) && close(got.rate, 20.0));
    assert!(close(got.over(&[a, b]).unwrap(), 200.0));
    assert_eq!(increase(&points, &[]), None);
}

#[test]
fn a_restart_loses_what_was_gained_before_it_and_no_more() {
    let points = points(&[(0, 90.0), (S, 100.0), (2 * S, 4.0), (3 * S, 10.0)]);
    let got = increase(&points, &window(0, 3 * S)).unwrap();
    // 10, then 4 since the restart, then 6
    assert!(close(got.amount, 20.0), "{got:?}");
    assert_eq!(got.resets, 1);
}

#[test]
fn a_small_fall_is_jitter() {
    let points = points(&[(0, 100.0), (S, 99.5), (2 * S, 101.0)]);
    let got = increase(&points, &window(0, 2 * S)).unwrap();
    assert!(close(got.amount, 1.5) && got.resets == 0);
}

#[test]
fn a_window_that_is_mostly_unread_is_not_scaled() {
    let points = points(&[(0, 0.0), (S, 10.0)]);
    let wide = &window(0, 10 * S);
    let got = increase(&points, wide).unwrap();
    assert!(close(got.rate, 10.0));
    assert!(got.over(wide).unwrap_err().contains("10 %"));
    assert_eq!(increase(&points, &window(2 * S, 3 * S)), None);
    assert_eq!(increase(&points[..1], &window(0, S)), None);
    assert_eq!(increase(&[], &window(0, S)), None);
}

#[test]
fn peaks_are_of_spans_of_a_second_and_not_of_single_ticks() {
    // ticks of 0.01 s every 0.1 s, but the last 0.1 s brings five at once
    let mut values: Vec<(i64, f64)> = (0..=20).map(|i| (i * S / 10, i as f64 * 0.01)).collect();
    values[20].1 += 0.04;
    let got = increase(&points(&values), &window(0, 2 * S)).unwrap();
    assert!(
        close(got.rates.0, 0.1) && close(got.rates.1, 0.14),
        "{got:?}"
    );
}

#[test]
fn a_mean_lies_between_the_bounds_also_when_the_last_part_is_short() {
    // one core for 2.9 s, two for the last 0.1 s, which are no span of their own
    let points = points(&[
        (0, 0.0),
        (S, 1.0),
        (2 * S, 2.0),
        (29 * S / 10, 2.9),
        (3 * S, 3.1),
    ]);
    let got = increase(&points, &window(0, 3 * S)).unwrap();
    assert!(
        got.rates.0 <= got.rate && got.rate <= got.rates.1,
        "{got:?}"
    );
    assert!(close(got.rates.1, 1.1), "{got:?}");
}

#[test]
fn instances_that_were_read_for_different_times_each_have_their_own_rate() {
    let long = increase(&points(&[(0, 0.0), (10 * S, 100.0)]), &window(0, 10 * S)).unwrap();
    let short = increase(&points(&[(S, 0.0), (10 * S, 90.0)]), &window(0, 10 * S)).unwrap();
    let both = long.plus(short);
    assert!(
        close(both.rate, 20.0) && close(both.amount, 190.0),
        "{both:?}"
    );
    assert!(close(both.over(&window(0, 10 * S)).unwrap(), 200.0));
}

proptest! {
    #[test]
    fn the_parts_of_a_window_add_up_to_the_whole(
        steps in proptest::collection::vec((1_i64..2_000_000_000, 0_u32..1000), 2..40),
        cut in 0.0_f64..1.0,
    ) {
        let (mut at, mut value) = (0, 0.0);
        let mut list = vec![(0, 0.0)];
        for (dt, gained) in steps {
            at += dt;
            value += f64::from(gained);
            list.push((at, value));
        }
        let points = points(&list);
        let middle = Nanos::from_f64(at as f64 * cut).get();
        let whole = increase(&points, &window(0, at)).unwrap();
        let amount = |from, to| increase(&points, &window(from, to)).map_or(0.0, |i| i.amount);
        prop_assert!(close(whole.amount, value));
        prop_assert!(close(amount(0, middle) + amount(middle, at), whole.amount));
        prop_assert!(whole.rates.0 <= whole.rate * (1.0 + 1e-9));
        prop_assert!(whole.rate <= whole.rates.1 * (1.0 + 1e-9));
        prop_assert_eq!(whole.covered, Nanos::new(at));
    }

    #[test]
    fn a_counter_that_restarts_never_loses_more_than_one_interval(
        gains in proptest::collection::vec(1_u32..100, 3..30),
        restart in 1_usize..29,
    ) {
        let restart = restart.min(gains.len() - 1);
        let (mut list, mut value) = (vec![(0, 1000.0)], 1000.0);
        for (gained, i) in gains.iter().zip(0_i64..) {
            value = if i == i64::try_from(restart).unwrap() { f64::from(*gained) } else { value + f64::from(*gained) };
            list.push(((i + 1) * S, value));
        }
        let end = i64::try_from(gains.len()).unwrap() * S;
        let got = increase(&points(&list), &window(0, end)).unwrap();
        // every gain is seen, that of the restarted interval from zero on
        prop_assert!(close(got.amount, gains.iter().map(|&g| f64::from(g)).sum::<f64>()));
        prop_assert_eq!(got.resets, 1);
    }
}
