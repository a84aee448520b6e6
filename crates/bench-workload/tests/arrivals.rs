//! Arrival processes against what is known of them.

use std::collections::BTreeSet;

use bench_schema::{ArrivalKind, Nanos};
use bench_workload::{Arrivals, Draw, Extent, RateCurve, Seed};
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, Exp, Gamma};

const RATE: f64 = 40.0;
const COUNT: usize = 20_000;

#[expect(clippy::unwrap_used, reason = "only tests call it")]
fn arrivals(kind: &ArrivalKind, extent: Extent, seed: u64) -> Arrivals {
    let draw = Draw::new(Seed::new(seed).stream("arrivals", "test"));
    Arrivals::new(kind, RATE, extent, draw).unwrap()
}

fn due(kind: &ArrivalKind) -> Vec<f64> {
    let extent = Extent::default();
    arrivals(kind, extent, 1)
        .take(COUNT)
        .map(Nanos::as_secs_f64)
        .collect()
}

fn gaps(due: &[f64]) -> Vec<f64> {
    due.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn mean_and_cov(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance.sqrt() / mean)
}

/// Largest distance between the sample's and the expected distribution function.
fn ks(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    // below a microsecond the rounding of due times to whole nanoseconds is what one would see
    let seen = sorted.iter().enumerate().filter(|(_, x)| **x > 1e-6);
    let distances = seen.map(|(i, x)| {
        let expected = cdf(*x);
        (expected - i as f64 / n).max((i + 1) as f64 / n - expected)
    });
    distances.fold(0.0, f64::max)
}

/// The distance that is exceeded once in a thousand samples: 1.95 / √n (Kolmogorov).
fn ks_limit(n: usize) -> f64 {
    1.95 / (n as f64).sqrt()
}

#[test]
fn poisson_gaps_are_exponential() {
    let gaps = gaps(&due(&ArrivalKind::Poisson));
    let exponential = Exp::new(RATE).unwrap();
    assert!(ks(&gaps, |x| exponential.cdf(x)) < ks_limit(gaps.len()));
    let (mean, cov) = mean_and_cov(&gaps);
    assert!((mean * RATE - 1.0).abs() < 0.03, "{mean}");
    assert!((cov - 1.0).abs() < 0.03, "{cov}");
}

#[test]
fn counts_over_many_seeds_are_poisson() {
    let count = |seed| {
        let due = arrivals(&ArrivalKind::Poisson, Extent::default(), seed);
        due.take_while(|at| *at < Nanos::from_secs(10)).count() as f64
    };
    let counts: Vec<f64> = (0..2_000).map(count).collect();
    // 400 expected, sd of the mean √(400/2000) = 0.45
    let mean = counts.iter().sum::<f64>() / 2_000.0;
    assert!((mean - 400.0).abs() < 1.5, "{mean}");
    // the index of dispersion is chi²(1999)/1999: 1 with sd 0.032
    let dispersion = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 1_999.0 / mean;
    assert!((dispersion - 1.0).abs() < 0.105, "{dispersion}");
}

proptest! {
    #[test]
    fn a_plan_that_ends_by_time_has_the_requests_of_its_rate(seed in any::<u64>(), ms in 100_i64..60_000, cov in 0.2..3.0_f64, gamma in any::<bool>(), more in any::<bool>()) {
        let kind = if gamma { ArrivalKind::Gamma { cov } } else { ArrivalKind::Poisson };
        let duration = Nanos::from_millis(ms);
        let more = more.then_some(10_000);
        let extent = Extent { arrivals: more, duration: Some(duration) };
        let due: Vec<Nanos> = arrivals(&kind, extent, seed).take_while(|at| *at < duration).collect();
        let asked = (RATE * duration.as_secs_f64()).round();
        // Bursty gamma gaps may be shorter than a nanosecond: the plan's end then parts requests that are due at once.
        let off = if gamma { 5.0 } else { 0.0 };
        prop_assert!((due.len() as f64 - asked).abs() <= off, "{} of {asked}", due.len());
        let last = due.last().copied().unwrap_or(Nanos::ZERO);
        prop_assert!(duration - last < Nanos::from_millis(1), "{last} of {duration}");
    }
}

proptest! {
    #[test]
    fn a_plan_of_a_moving_rate_has_the_requests_that_its_rate_makes(seed in any::<u64>(), seconds in 5_i64..60, from in 0.0..20.0_f64, to in 0.0..20.0_f64, steps in any::<bool>()) {
        prop_assume!(from + to > 1.0);
        let kind = if steps {
            ArrivalKind::Steps { rates_per_s: vec![from, to] }
        } else {
            ArrivalKind::Ramp { from_per_s: from, to_per_s: to }
        };
        let duration = Nanos::from_secs(seconds);
        let extent = Extent { arrivals: None, duration: Some(duration) };
        let due = arrivals(&kind, extent, seed).take_while(|at| *at < duration).count() as f64;
        let asked = (0.5 * (from + to) * seconds as f64).round();
        prop_assert!((due - asked).abs() <= 1.0, "{due} of {asked}");
        // by number, the last is due where the rate has made as many
        let extent = Extent { arrivals: Some(50), duration: None };
        let last = arrivals(&kind, extent, seed).take(50).last().unwrap();
        let length = 50.0 / (0.5 * (from + to));
        prop_assert!((last.as_secs_f64() - length).abs() < 1e-3 * length, "{last} of {length} s");
    }
}

#[test]
fn times_of_a_plan_that_ends_by_time_are_uniform_over_it() {
    // Given its number, the times of a Poisson process are independent and uniform.
    let duration = Nanos::from_secs(500);
    let extent = Extent {
        arrivals: None,
        duration: Some(duration),
    };
    let due: Vec<f64> = arrivals(&ArrivalKind::Poisson, extent, 3)
        .map(Nanos::as_secs_f64)
        .take_while(|at| *at < 500.0)
        .collect();
    assert!(ks(&due, |x| x / 500.0) < ks_limit(due.len()));
    let (_, cov) = mean_and_cov(&gaps(&due));
    assert!((cov - 1.0).abs() < 0.03, "{cov}");
}

#[test]
fn poisson_gaps_do_not_depend_on_each_other() {
    let gaps = gaps(&due(&ArrivalKind::Poisson));
    let (mean, cov) = mean_and_cov(&gaps);
    let variance = (mean * cov).powi(2);
    let products = gaps
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let lag_one = products.sum::<f64>() / gaps.len() as f64 / variance;
    // sd of a correlation of independent values is 1/√n = 0.007
    assert!(lag_one.abs() < 0.025, "{lag_one}");
}

#[test]
fn gamma_gaps_have_the_asked_burstiness_and_rate() {
    for cov in [0.3, 1.0, 2.0, 4.0] {
        let gaps = gaps(&due(&ArrivalKind::Gamma { cov }));
        let shape = 1.0 / (cov * cov);
        let gamma = Gamma::new(shape, shape * RATE).unwrap();
        assert!(ks(&gaps, |x| gamma.cdf(x)) < ks_limit(gaps.len()), "{cov}");
        let (mean, measured) = mean_and_cov(&gaps);
        assert!(
            (mean * RATE - 1.0).abs() < 0.03 * cov.max(1.0) * 1.5,
            "{cov}: {mean}"
        );
        assert!((measured / cov - 1.0).abs() < 0.08, "{cov}: {measured}");
    }
}

#[test]
fn constant_arrivals_are_evenly_spaced_and_do_not_drift() {
    let due = due(&ArrivalKind::Constant);
    assert_eq!(due[0].to_bits(), 0.0_f64.to_bits());
    for (index, at) in due.iter().enumerate() {
        assert!((at - index as f64 / RATE).abs() < 1e-9);
    }
}

#[test]
fn bursts_start_together_at_the_asked_mean_rate() {
    let due = due(&ArrivalKind::Burst { size: 8 });
    for group in due.chunks(8) {
        assert!(group.iter().all(|at| at.to_bits() == group[0].to_bits()));
    }
    assert!((due[8] - 8.0 / RATE).abs() < 1e-9);
    assert!((due[8 * 100] - 800.0 / RATE).abs() < 1e-9);
}

#[test]
fn a_ramp_is_a_poisson_process_whose_rate_rises() {
    let kind = ArrivalKind::Ramp {
        from_per_s: 10.0,
        to_per_s: 70.0,
    };
    let extent = Extent {
        duration: Some(Nanos::from_secs(500)),
        arrivals: None,
    };
    let due: Vec<f64> = arrivals(&kind, extent, 3)
        .map(Nanos::as_secs_f64)
        .take_while(|at| *at < 500.0)
        .collect();
    // 20 000 expected with sd 141; the first half of the time has 10·250 + 0.5·30·250 = 6 250
    assert!((due.len() as f64 - 20_000.0).abs() < 500.0, "{}", due.len());
    let first_half = due.iter().filter(|at| **at < 250.0).count() as f64;
    assert!((first_half - 6_250.0).abs() < 300.0, "{first_half}");
    // by its own rate the process is uniform in area
    let area = |t: f64| (10.0 * t + 0.06 * t * t) / 20_000.0;
    assert!(ks(&due, area) < ks_limit(due.len()));
}

#[test]
fn steps_give_each_rate_its_share_of_the_time() {
    let kind = ArrivalKind::Steps {
        rates_per_s: vec![20.0, 60.0, 40.0],
    };
    let extent = Extent {
        duration: Some(Nanos::from_secs(300)),
        arrivals: None,
    };
    let due: Vec<f64> = arrivals(&kind, extent, 4)
        .map(Nanos::as_secs_f64)
        .take_while(|at| *at < 300.0)
        .collect();
    for (step, expected) in [2_000.0, 6_000.0, 4_000.0_f64].into_iter().enumerate() {
        let from = step as f64 * 100.0;
        let count = due
            .iter()
            .filter(|at| (from..from + 100.0).contains(*at))
            .count() as f64;
        assert!(
            (count - expected).abs() < 4.0 * expected.sqrt(),
            "{step}: {count}"
        );
    }
}

#[test]
fn users_ask_at_an_even_cadence_each() {
    let kind = ArrivalKind::Users {
        users: 4,
        every: Nanos::from_secs(2),
    };
    let due: Vec<Nanos> = arrivals(&kind, Extent::default(), 1).take(12).collect();
    for user in 0..4 {
        let own: Vec<Nanos> = due.iter().skip(user).step_by(4).copied().collect();
        assert!(
            own.windows(2)
                .all(|pair| pair[1] - pair[0] == Nanos::from_secs(2))
        );
    }
    let distinct: BTreeSet<Nanos> = due.iter().copied().collect();
    assert_eq!(distinct.len(), 12, "users do not ask at the same moment");
}

#[test]
fn a_rate_of_nothing_is_refused_and_a_trace_needs_its_dataset() {
    let draw = || Draw::new(Seed::new(1).stream("arrivals", ""));
    for rate in [0.0, -3.0, f64::NAN, f64::INFINITY] {
        let refused = Arrivals::new(&ArrivalKind::Poisson, rate, Extent::default(), draw());
        assert!(refused.unwrap_err().to_string().contains("greater than 0"));
    }
    let endless = ArrivalKind::Ramp {
        from_per_s: 1.0,
        to_per_s: 2.0,
    };
    assert!(Arrivals::new(&endless, 1.0, Extent::default(), draw()).is_err());
    assert!(
        Arrivals::new(
            &ArrivalKind::Gamma { cov: 0.0 },
            1.0,
            Extent::default(),
            draw()
        )
        .is_err()
    );
    assert!(
        Arrivals::new(
            &ArrivalKind::Trace { speed: 1.0 },
            1.0,
            Extent::default(),
            draw()
        )
        .is_err()
    );
}

fn any_kind() -> impl Strategy<Value = ArrivalKind> {
    prop_oneof![
        Just(ArrivalKind::Poisson),
        Just(ArrivalKind::Constant),
        (0.1..5.0).prop_map(|cov| ArrivalKind::Gamma { cov }),
        (1..50_u32).prop_map(|size| ArrivalKind::Burst { size }),
        (0.0..50.0, 0.1..50.0).prop_map(|(from_per_s, to_per_s)| ArrivalKind::Ramp {
            from_per_s,
            to_per_s
        }),
        proptest::collection::vec(0.1..50.0, 1..5)
            .prop_map(|rates_per_s| ArrivalKind::Steps { rates_per_s }),
    ]
}

proptest! {
    #[test]
    fn due_times_never_decrease_and_the_same_seed_gives_them_again(kind in any_kind(), seed in any::<u64>()) {
        let extent = Extent { arrivals: Some(300), duration: None };
        let due: Vec<Nanos> = arrivals(&kind, extent, seed).take(400).collect();
        prop_assert!(due.is_sorted());
        prop_assert!(due.first().is_none_or(|first| *first >= Nanos::ZERO));
        let again: Vec<Nanos> = arrivals(&kind, extent, seed).take(400).collect();
        prop_assert_eq!(due, again);
    }
}

#[test]
fn a_ramp_is_inverted_exactly() {
    // 0 to 10 per second over 10 s: area(t) = t²/2, so request 8 is due at 4 s, 50 at 10 s, 60 at 11 s
    let extent = Extent {
        duration: Some(Nanos::from_secs(10)),
        arrivals: None,
    };
    let curve = RateCurve::ramp((0.0, 10.0), extent).unwrap();
    for (area, seconds) in [(0.0, 0.0), (8.0, 4.0), (50.0, 10.0), (60.0, 11.0)] {
        assert!((curve.time_at(area).unwrap() - seconds).abs() < 1e-12);
    }
}

#[test]
fn steps_by_requests_take_the_time_that_gives_these_requests() {
    // 10, 20, 30 per second for 60 requests: 1 s each
    let extent = Extent {
        duration: None,
        arrivals: Some(60),
    };
    let curve = RateCurve::steps(&[10.0, 20.0, 30.0], extent).unwrap();
    for (area, seconds) in [
        (10.0, 1.0),
        (20.0, 1.5),
        (30.0, 2.0),
        (60.0, 3.0),
        (90.0, 4.0),
    ] {
        assert!((curve.time_at(area).unwrap() - seconds).abs() < 1e-12);
    }
}

#[test]
fn a_series_passes_over_times_without_requests_and_ends_where_its_rate_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rates.csv");
    std::fs::write(&file, "seconds,requests_per_s\n0,10\n1,0\n3,5\n4,0\n").unwrap();
    let curve = RateCurve::from_file(&file).unwrap();
    assert_eq!(curve.time_at(5.0), Some(0.5));
    assert_eq!(curve.time_at(12.5), Some(3.5));
    assert_eq!(curve.time_at(15.5), None);
    std::fs::write(&file, "0,10\n5,1\n4,2\n").unwrap();
    let message = RateCurve::from_file(&file).unwrap_err().to_string();
    assert!(message.contains("rates.csv:3"), "{message}");
}
