//! Values from outside: scipy 1.17.1 and numpy 2 (both of 2026-11), computed once and written down here.

use bench_metrics::{
    CompareOptions, Estimate, Sample, Test, compare_estimates, compare_means, compare_runs,
    quantile_in_time, usl_fit,
};
use bench_schema::Direction::Lower;

fn near(got: f64, wanted: f64, share: f64) {
    assert!(
        (got - wanted).abs() <= share * wanted.abs().max(1e-12),
        "{got} is not {wanted} within {share}"
    );
}

#[test]
fn welch_over_runs_has_scipys_interval_and_p() {
    // ttest_ind(b, a, equal_var=False): p, confidence_interval(0.95); detectable: (t.ppf(.975, df) + t.ppf(.8, df)) * se
    let (a, b) = ([10.0, 11.0, 12.0, 13.0], [12.0, 14.0, 13.0, 15.0, 16.0]);
    let got = compare_runs(&a, &b, Lower, &CompareOptions::default()).unwrap();
    let (low, high) = got.difference.bounds().unwrap();
    near(got.difference.value, 2.5, 1e-12);
    near(low, 0.234_779_718_246_473_92, 1e-6);
    near(high, 4.765_220_281_753_526_5, 1e-6);
    near(got.p, 0.034_938_782_359_964_01, 1e-6);
    near(got.detectable.unwrap(), 3.123_255_072_429_705, 1e-6);
    assert_eq!(got.test, Test::WelchRuns);
    near(got.relative().unwrap().value, 2.5 / 11.5, 1e-12);
}

#[test]
fn groups_without_spread_are_equal_or_certainly_different() {
    let options = CompareOptions::default();
    let p = |a: &[f64], b: &[f64]| compare_runs(a, b, Lower, &options).unwrap().p;
    near(p(&[5.0; 3], &[5.0; 3]), 1.0, 1e-12);
    assert!(p(&[5.0; 3], &[6.0; 3]) < 1e-12);
    assert!(compare_runs(&[5.0], &[6.0; 3], Lower, &options).is_none());
}

#[test]
fn many_runs_are_permuted_and_few_are_not() {
    let options = CompareOptions::default();
    let runs = |n: usize, from: f64| -> Vec<f64> { (0..n).map(|i| from + i as f64).collect() };
    let test = |n, m| {
        compare_runs(&runs(n, 0.0), &runs(m, 1.0), Lower, &options)
            .unwrap()
            .test
    };
    // 6 over 7 can be dealt in 1716 ways, 5 over 7 in 792
    assert_eq!(
        (test(6, 7), test(5, 7)),
        (Test::PermutedRuns, Test::WelchRuns)
    );
}

#[test]
fn intervals_are_divided_arm_by_arm() {
    // MOVER on logarithms: √(ln(120/112)² + ln(115/100)²) below and √(ln(135/120)² + ln(100/90)²) above; p = 2 Φ(−ln 1.2 / (arm / 1.96))
    let before = Estimate::bounded(100.0, 90.0, 115.0, 0.95);
    let after = Estimate::bounded(120.0, 112.0, 135.0, 0.95);
    let options = CompareOptions::default();
    let up = compare_estimates(&before, &after, Lower, &options);
    let (low, high) = up.difference.bounds().unwrap();
    near(low, 2.681_122_400, 1e-6);
    near(high, 40.544_248_939, 1e-6);
    near(up.p, 0.021_866_931, 1e-6);
    near(up.detectable.unwrap(), 25.343_779_737, 1e-6);
    // the other way round: the ratios turned over
    let down = compare_estimates(&after, &before, Lower, &options);
    let (low, high) = down.difference.bounds().unwrap();
    near(low, -34.617_637_572, 1e-6);
    near(high, -3.133_338_246, 1e-6);
    near(down.p, up.p, 1e-9);
    // an interval at 90 % is stretched to 95 % first
    let before = Estimate::bounded(100.0, 90.0, 115.0, 0.9);
    let mixed = compare_estimates(&before, &after, Lower, &options);
    let (low, high) = mixed.difference.bounds().unwrap();
    near(low, 0.206_146_927, 1e-6);
    near(high, 42.542_188_719, 1e-6);
    near(mixed.p, 0.047_439_527, 1e-6);
    // without a spread there is no doubt
    let exact = |x| Estimate::bounded(x, x, x, 0.95);
    let p = |a, b| compare_estimates(&exact(a), &exact(b), Lower, &options).p;
    assert!(p(1.0, 2.0) < 1e-12 && (p(1.0, 1.0) - 1.0).abs() < 1e-12);
}

#[test]
fn the_scalability_law_has_the_least_squares_solution_of_numpy() {
    // numpy.linalg.lstsq of N/X on (1, N − 1, N(N − 1)) with relative errors; half widths by the delta method with t(4)
    let noise = [1.01, 0.99, 1.005, 0.992, 1.008, 0.997, 1.003];
    let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
        .into_iter()
        .zip(noise)
        .map(|(n, e)| {
            (
                n,
                100.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0)) * e,
            )
        })
        .collect();
    let fit = usl_fit(&points, 0.95, 1).unwrap();
    near(fit.lambda.value, 100.138_536_283_725_41, 1e-9);
    near(fit.sigma.value, 0.050_371_891_681_321_8, 1e-8);
    near(fit.kappa.value, 0.000_991_806_241_389_593_7, 1e-8);
    near(fit.knee.unwrap().value, 30.943_067_306_777_426, 1e-8);
    near(fit.relative_residual, 0.007_178_887_155_206_699, 1e-8);
    for (estimate, half) in [
        (fit.lambda, 1.797_152_798_857_564),
        (fit.sigma, 0.004_694_109_274_211_968),
        (fit.kappa, 8.823_471_613_266_847e-5),
    ] {
        let (low, high) = estimate.bounds().unwrap();
        // 4000 draws know a 95 % half width to about 3 %, and a ratio is not quite symmetrical
        near((high - low) / 2.0, half, 0.08);
        near(f64::midpoint(low, high), estimate.value, 0.02);
    }
}

#[test]
fn throughput_that_falls_from_the_first_step_has_no_knee_to_aim_at() {
    let law = |n: f64| 10.0 * n / (1.0 + 1.5 * (n - 1.0) + 0.1 * n * (n - 1.0));
    let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0].map(|n| (n, law(n))).into();
    let fit = usl_fit(&points, 0.95, 1).unwrap();
    near(fit.sigma.value, 1.5, 1e-6);
    near(fit.kappa.value, 0.1, 1e-6);
    assert_eq!(fit.knee, None);
}

#[test]
fn a_law_is_not_fitted_to_what_cannot_be_a_throughput() {
    // λ 10, σ 0.1, κ 0.02
    let good = [(1.0, 10.0), (2.0, 20.0 / 1.14), (4.0, 40.0 / 1.54)];
    let fit = |points: &[(f64, f64)]| usl_fit(points, 0.95, 1);
    let three = fit(&good).unwrap();
    // three coefficients and three points: no doubt is left to measure
    assert_eq!(three.lambda.bounds(), None);
    for bad in [
        (8.0, 0.0),
        (8.0, -1.0),
        (0.0, 5.0),
        (8.0, f64::NAN),
        (8.0, f64::INFINITY),
    ] {
        assert_eq!(fit(&[&good[..], &[bad]].concat()), None, "{bad:?}");
    }
    // repeats of a level are no new level
    assert_eq!(
        fit(&[(1.0, 10.0), (1.0, 11.0), (2.0, 18.0), (2.0, 19.0)]),
        None
    );
}

#[test]
fn the_quantile_of_independent_values_lies_between_jeffreys_ranks() {
    // stats.beta.ppf([.025, .975], 95.5, 5.5): 0.8939 to 0.9807; of the values 0 … 99 these are ranks. That they are independent has to
    // be seen from them, which makes a hundred worth nine in ten or more.
    let values: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
    let sample = Sample::of(&values).unwrap();
    let p95 = quantile_in_time(&sample, &values, 0.95, 0.95);
    near(p95.estimate.value, 94.05, 1e-9);
    assert!(p95.effective > 90.0, "{p95:?}");
    let (low, high) = p95.estimate.bounds().unwrap();
    near(low, 99.0 * 0.893_899_926_116_897, 0.4);
    near(high, 99.0 * 0.980_668_188_014_133_2, 0.1);
}

#[test]
fn a_bound_is_given_from_the_first_number_of_values_that_has_such_a_rank() {
    // scipy.stats.beta.ppf: the upper share times n is at most n − 1 (and the lower one at least 1) from these n on
    let bounds = |n: u32, q: f64| {
        // multiples of the golden ratio: neighbours are unlike each other
        let value = |i: u32| f64::from(i.wrapping_mul(2_654_435_769));
        let values: Vec<f64> = (0..n).map(value).collect();
        let sample = Sample::of(&values).unwrap();
        let estimate = quantile_in_time(&sample, &values, q, 0.95).estimate;
        (estimate.low.is_some(), estimate.high.is_some())
    };
    for (q, first) in [(0.5, 6), (0.9, 33), (0.95, 66), (0.99, 332)] {
        assert!(!bounds(first - 1, q).1, "p{q} of {}", first - 1);
        assert!(bounds(2 * first, q).1, "p{q} of {}", 2 * first);
        // and by symmetry from below
        assert!(!bounds(first - 1, 1.0 - q).0, "p{q} of {}", first - 1);
        assert!(bounds(2 * first, 1.0 - q).0, "p{q} of {}", 2 * first);
    }
}

#[test]
fn means_are_compared_by_blocks_with_students_t() {
    // twenty blocks of one value each: the ordinary Welch interval; ttest_ind of the same forty values
    let a: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 20)).collect();
    let b: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 20) + 6.0).collect();
    let got = compare_means(&a, &b, Lower, &CompareOptions::default()).unwrap();
    let (low, high) = got.difference.bounds().unwrap();
    // sd √35 on both sides: 6 ± t(38) · √(35 / 10)
    let half = 2.024_394_164_575_136 * 3.5_f64.sqrt();
    near(low, 6.0 - half, 1e-6);
    near(high, 6.0 + half, 1e-6);
    assert!(got.p < 0.01, "{}", got.p);
    assert_eq!(got.test, Test::PermutedBlocks);
}
