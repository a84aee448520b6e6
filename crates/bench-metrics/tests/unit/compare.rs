use super::*;

const LOWER: Direction = Direction::Lower;

#[test]
fn welch_agrees_with_scipy() {
    // scipy 1.17.1: ttest_ind([10, 11, 12, 13], [12, 14, 13, 15, 16], equal_var=False): p = 0.0349388, t = −2.6112
    let got = compare_runs(
        &[10.0, 11.0, 12.0, 13.0],
        &[12.0, 14.0, 13.0, 15.0, 16.0],
        LOWER,
        &CompareOptions::default(),
    )
    .unwrap();
    assert!((got.p - 0.034_938_782_36).abs() < 1e-7, "{}", got.p);
    assert_eq!(
        got.verdict(&CompareOptions::default()),
        Some(Verdict::Worse)
    );
}

#[test]
fn an_interval_without_zero_is_never_beside_no_difference() {
    let at = |x: f64| Estimate::bounded(x, x - 0.8, x + 0.8, 0.95);
    let options = CompareOptions::default();
    let found = compare_estimates(&at(100.0), &at(102.0), LOWER, &options);
    // One of so many rows that chance may have made it.
    let of_many = Comparison {
        adjusted_p: 0.2,
        ..found
    };
    assert_eq!(of_many.verdict(&options), Some(Verdict::WithinMargin));
}

#[test]
fn holm_multiplies_the_smallest_p_by_the_number_of_metrics() {
    let flat = Estimate::bounded(1.0, 0.9, 1.1, 0.95);
    let one = compare_estimates(&flat, &flat, LOWER, &CompareOptions::default());
    let mut family = [0.01, 0.04, 0.03].map(|p| Comparison { p, ..one });
    settle(&mut family);
    let adjusted: Vec<i64> = family
        .iter()
        .map(|c| (c.adjusted_p * 1e6).round())
        .map(|p| format!("{p}").parse().unwrap())
        .collect();
    assert_eq!(adjusted, [30_000, 60_000, 60_000]);
}

#[test]
fn wide_intervals_cannot_tell_and_narrow_ones_find_nothing() {
    let options = CompareOptions::default();
    let wide = Estimate::bounded(100.0, 80.0, 120.0, 0.95);
    let narrow = Estimate::bounded(100.0, 99.0, 101.0, 0.95);
    assert_eq!(
        compare_estimates(&wide, &wide, LOWER, &options).verdict(&options),
        Some(Verdict::CannotTell)
    );
    let same = compare_estimates(&narrow, &narrow, LOWER, &options);
    assert_eq!(same.verdict(&options), Some(Verdict::NoDifferenceFound));
    assert!(
        same.detectable.is_some_and(|d| (d - 2.0).abs() < 0.1),
        "{same:?}"
    );
}

#[test]
fn nobody_becomes_more_than_100_per_cent_quicker_however_wide() {
    let options = CompareOptions::default();
    let base = Estimate::bounded(10.0, 2.0, 50.0, 0.95);
    let new = Estimate::bounded(12.0, 3.0, 60.0, 0.95);
    let found = compare_estimates(&base, &new, LOWER, &options);
    let (low, high) = found.relative().unwrap().bounds().unwrap();
    assert!(low > -1.0 && low < 0.0 && high > 1.0, "{low} {high}");
    // Turned round it is the other ratio: nothing is more certain one way than the other.
    let turned = compare_estimates(&new, &base, LOWER, &options);
    let (back, _) = turned.relative().unwrap().bounds().unwrap();
    assert!(((1.0 + back) * (1.0 + high) - 1.0).abs() < 1e-9);
    assert!((found.p - turned.p).abs() < 1e-9);
    // A figure of 0, or a bound there, has no ratio.
    let none = Estimate::bounded(0.0, 0.0, 1.0, 0.95);
    let (low, _) = compare_estimates(&base, &none, LOWER, &options)
        .difference
        .bounds()
        .unwrap();
    assert!(low.is_finite());
}

#[test]
fn an_estimate_without_bounds_decides_nothing() {
    let options = CompareOptions::default();
    let bare = Estimate::unbounded(100.0, 0.95);
    let got = compare_estimates(
        &bare,
        &Estimate::bounded(500.0, 499.0, 501.0, 0.95),
        LOWER,
        &options,
    );
    assert_eq!(
        (got.verdict(&options), got.detectable),
        (Some(Verdict::CannotTell), None)
    );
}

#[test]
fn more_throughput_is_better_and_more_latency_worse() {
    let options = CompareOptions::default();
    let (a, b) = (
        Estimate::bounded(10.0, 9.9, 10.1, 0.95),
        Estimate::bounded(12.0, 11.9, 12.1, 0.95),
    );
    assert_eq!(
        compare_estimates(&a, &b, Direction::Higher, &options).verdict(&options),
        Some(Verdict::Better)
    );
    assert_eq!(
        compare_estimates(&a, &b, LOWER, &options).verdict(&options),
        Some(Verdict::Worse)
    );
    assert_eq!(
        compare_estimates(&a, &b, Direction::Neutral, &options).verdict(&options),
        None
    );
}

#[test]
fn a_difference_within_the_margin_is_neither_better_nor_worse_however_certain() {
    let options = CompareOptions::default();
    let about = |x: f64| Estimate::bounded(x, 0.999 * x, 1.001 * x, 0.95);
    let verdict =
        |new: f64| compare_estimates(&about(100.0), &about(new), LOWER, &options).verdict(&options);
    assert_eq!(verdict(101.0), Some(Verdict::WithinMargin));
    assert_eq!(verdict(107.0), Some(Verdict::Worse));
    assert_eq!(verdict(93.0), Some(Verdict::Better));
}

#[test]
fn there_is_no_verdict_without_an_interval_however_small_p_is() {
    let options = CompareOptions::default();
    let half = Estimate {
        high: None,
        ..Estimate::bounded(500.0, 499.0, 501.0, 0.95)
    };
    let flat = Estimate::bounded(100.0, 99.0, 101.0, 0.95);
    let found = compare_estimates(&flat, &half, LOWER, &options);
    assert!(
        found.p < 0.01 && found.difference.bounds().is_none(),
        "{found:?}"
    );
    assert_eq!(found.verdict(&options), Some(Verdict::CannotTell));
}

type Drift = fn(f64, f64) -> f64;

/// How often a new side that takes `effect` times as long is called better or worse, of 1,000: in turns by blocks of ABBA or BAAB, or one side
/// after the other. `drift` changes the times over the experiment, which lasts from 0 to 1; it is given a random number of its own.
fn called(effect: f64, drift: Drift, in_turns: bool) -> u32 {
    use rand::{RngExt, SeedableRng};
    const BLOCKS: usize = 6;
    let options = CompareOptions::default();
    let called = (0..1_000_u64).filter(|trial| {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(*trial);
        let own = rng.random::<f64>();
        let (mut base, mut new, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        for block in 0..BLOCKS {
            let b_first = rng.random_bool(0.5);
            outside.push(!b_first);
            let mut logs = [0.0, 0.0];
            for turn in 0..4_usize {
                let is_new = if in_turns {
                    (turn == 1 || turn == 2) != b_first
                } else {
                    2 * block >= BLOCKS
                };
                let time = float(4 * block + turn) / float(4 * BLOCKS);
                let noise = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                let by = if is_new { effect } else { 1.0 };
                let figure = by * (1.0 + drift(time, own)) * (1.0 + 0.01 * noise);
                logs[usize::from(is_new)] += figure.ln() / if in_turns { 2.0 } else { 4.0 };
            }
            let [a, b] = logs.map(f64::exp);
            if in_turns || 2 * block < BLOCKS {
                base.push(a);
            }
            if in_turns || 2 * block >= BLOCKS {
                new.push(b);
            }
        }
        let found = if in_turns {
            let new = straightened(&base, &new, &outside);
            compare_runs_in_turns(&base, &new, LOWER, &options)
        } else {
            compare_runs(&base, &new, LOWER, &options)
        };
        found.is_some_and(|found| found.p < options.alpha)
    });
    u32::try_from(called.count()).unwrap()
}

#[test]
fn what_drifts_cancels_between_sides_in_turns_and_is_an_effect_of_sides_one_after_the_other() {
    use std::f64::consts::TAU;
    let slow = |time: f64, own: f64| 0.1 * (TAU * (time + own)).sin();
    let fast = |time: f64, own: f64| 0.1 * (TAU * (3.0 * time + own)).sin();
    let step = |time: f64, own: f64| if time < own { 0.0 } else { 0.1 };
    // what it is, the drift, fewest times that 3 % are found
    let drifts: [(&str, Drift, u32); 4] = [
        ("none", |_, _| 0.0, 990),
        ("a slow sine of 10 %", slow, 950),
        ("a fast sine of 10 %", fast, 400),
        ("a step of 10 %", step, 700),
    ];
    for (name, drift, fewest) in drifts {
        let [alarms, found] = [1.0, 1.03].map(|effect| called(effect, drift, true));
        let sequential = called(1.0, drift, false);
        println!(
            "{name}: of 1,000 in turns {alarms} false and {found} found, one side after the other {sequential} false"
        );
        assert!(alarms <= 75, "{name}: {alarms}");
        assert!(found >= fewest, "{name}: {found}");
    }
}

/// Blocks of four turns on a server whose times follow a parabola, the new side 3 % slower: what is left is the difference alone.
#[test]
fn a_bent_drift_is_taken_out_of_blocks_and_the_difference_stays() {
    let outside = [true, false, false, true, false, true];
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for (block, outside) in outside.iter().enumerate() {
        let log = |turn: usize| 0.002 * (float(4 * block + turn) - 9.0).powi(2);
        let [outer, inner] = [[0, 3], [1, 2]].map(|[a, b]| f64::midpoint(log(a), log(b)));
        let (a, b) = if *outside {
            (outer, inner)
        } else {
            (inner, outer)
        };
        base.push(a.exp());
        new.push((b + 1.03_f64.ln()).exp());
    }
    let bent = new[0] / base[0];
    assert!((bent - 1.03).abs() > 0.003, "{bent}");
    for (a, b) in base.iter().zip(straightened(&base, &new, &outside)) {
        assert!((b / a - 1.03).abs() < 1e-9, "{}", b / a);
    }
}

#[test]
fn a_few_odd_requests_do_not_decide_how_much_longer_the_same_requests_take() {
    let base: Vec<f64> = (1..=40).map(|i| 50.0 + float(i)).collect();
    let mut new: Vec<f64> = base.iter().map(|x| 1.03 * x).collect();
    for i in [3, 11, 20, 32] {
        new[i] *= 30.0;
    }
    let (level, after) = paired_figures(&base, &new).unwrap();
    assert!((after / level - 1.03).abs() < 1e-9, "{}", after / level);
    assert!(paired_figures(&base[..9], &new[..9]).is_none());
}

#[test]
fn runs_in_turns_are_compared_by_their_ratios() {
    // Logarithms of the ratios 1.02, 1.03, 1.04, 1.03: mean 0.0295352, standard error 0.0039637, t(0.975, 3) = 3.182446.
    let base = [100.0, 200.0, 50.0, 400.0];
    let new = [102.0, 206.0, 52.0, 412.0];
    let options = CompareOptions::default();
    let found = compare_runs_in_turns(&base, &new, LOWER, &options).unwrap();
    let change = found.relative().unwrap();
    let (low, high) = change.bounds().unwrap();
    for (got, wanted) in [
        (change.value, 0.029_535_236_f64.exp_m1()),
        (low, 0.017_064_868),
        (high, 0.043_050_480),
    ] {
        assert!((got - wanted).abs() < 1e-6, "{got} and not {wanted}");
    }
    assert!(compare_runs_in_turns(&base[..3], &new[..3], LOWER, &options).is_none());
    assert!(compare_runs_in_turns(&base, &new[..3], LOWER, &options).is_none());
}
