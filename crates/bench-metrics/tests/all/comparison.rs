//! How often does a comparison cry wolf, and how often does it see one?

use bench_metrics::{
    CompareOptions, Comparison, Verdict, compare_means, compare_quantiles, compare_runs, settle,
};
use bench_schema::Direction::Lower;

use crate::noise::Noise;

type Compare = fn(&[f64], &[f64], &CompareOptions) -> Option<Comparison>;

fn means(a: &[f64], b: &[f64], o: &CompareOptions) -> Option<Comparison> {
    compare_means(a, b, Lower, o)
}

fn p95s(a: &[f64], b: &[f64], o: &CompareOptions) -> Option<Comparison> {
    compare_quantiles(a, b, 0.95, Lower, o)
}

/// The share of trials in which a difference of `factor` is called significant.
fn alarm_rate(compare: Compare, n: usize, memory: f64, factor: f64, trials: u64) -> f64 {
    let options = CompareOptions::default();
    let significant = (0..trials).filter(|&seed| {
        let mut noise = Noise::seeded(seed);
        let base = noise.latencies(n, memory);
        let new: Vec<f64> = noise
            .latencies(n, memory)
            .iter()
            .map(|x| x * factor)
            .collect();
        compare(&base, &new, &options).is_some_and(|c| c.p < options.alpha)
    });
    significant.count() as f64 / trials as f64
}

#[test]
fn identical_systems_are_rarely_called_different() {
    // Nominal 5 %; 120 trials have a standard error of 2 %.
    for (name, compare) in [("means", means as Compare), ("p95", p95s as Compare)] {
        for memory in [0.0, 0.5] {
            let rate = alarm_rate(compare, 600, memory, 1.0, 120);
            assert!(rate <= 0.11, "{name}, memory {memory}: {rate}");
        }
    }
}

#[test]
fn known_differences_are_found() {
    // 20 % on the mean of 600 values with CoV 0.53: 6.5 standard errors.
    assert!(alarm_rate(means, 600, 0.0, 1.2, 40) > 0.95);
    assert!(alarm_rate(p95s, 2_000, 0.0, 1.25, 40) > 0.9);
}

#[test]
#[ignore = "the long version of the two above, whose figures are in docs/verification.md: run with --release, takes minutes"]
fn long_false_alarms_and_power() {
    for (name, compare) in [("means", means as Compare), ("p95", p95s as Compare)] {
        for (n, memory) in [(200, 0.0), (600, 0.0), (600, 0.5), (2_000, 0.8)] {
            let rates: Vec<String> = [1.0, 1.05, 1.1, 1.2, 1.4]
                .iter()
                .map(|f| format!("{f}: {:.3}", alarm_rate(compare, n, memory, *f, 1_000)))
                .collect();
            println!("{name} n {n} memory {memory}: {}", rates.join("  "));
        }
    }
    let runs = |k: usize, factor: f64| {
        let options = CompareOptions::default();
        let found = (0..4_000_u64).filter(|&seed| {
            let mut noise = Noise::seeded(seed);
            let mut group = |f: f64| {
                (0..k)
                    .map(|_| f * (100.0 + 2.0 * noise.normal()))
                    .collect::<Vec<f64>>()
            };
            let (a, b) = (group(1.0), group(factor));
            compare_runs(&a, &b, Lower, &options).is_some_and(|c| c.p < options.alpha)
        });
        found.count() as f64 / 4_000.0
    };
    for k in [3, 5, 8] {
        println!(
            "runs {k} against {k}, CoV 2 %: {:.3} at 0 %, {:.3} at 3 %, {:.3} at 5 %",
            runs(k, 1.0),
            runs(k, 1.03),
            runs(k, 1.05)
        );
    }
}

#[test]
fn the_minimum_detectable_effect_is_found_with_about_the_asked_power() {
    let options = CompareOptions::default();
    let mut noise = Noise::seeded(9);
    let (a, b) = (noise.latencies(600, 0.3), noise.latencies(600, 0.3));
    let detectable = compare_means(&a, &b, Lower, &options)
        .unwrap()
        .detectable
        .unwrap();
    let power = alarm_rate(means, 600, 0.3, 1.0 + detectable / 113.3, 60);
    assert!((0.6..=1.0).contains(&power), "{detectable}: {power}");
}

#[test]
fn a_family_of_identical_metrics_raises_no_alarm_after_correction() {
    let options = CompareOptions::default();
    let families = 25;
    let alarmed = (0..families).filter(|&seed| {
        let mut noise = Noise::seeded(1_000 + seed);
        let mut family: Vec<Comparison> = (0..12)
            .filter_map(|_| {
                means(
                    &noise.latencies(200, 0.0),
                    &noise.latencies(200, 0.0),
                    &options,
                )
            })
            .collect();
        settle(&mut family);
        family
            .iter()
            .any(|c| matches!(c.verdict(&options), Some(Verdict::Better | Verdict::Worse)))
    });
    assert!(alarmed.count() <= 5);
}

#[test]
fn groups_of_runs_are_compared_run_by_run() {
    let options = CompareOptions::default();
    let clear = compare_runs(
        &[100.0, 101.0, 99.0],
        &[120.0, 121.0, 119.0],
        Lower,
        &options,
    )
    .unwrap();
    assert_eq!(clear.verdict(&options), Some(Verdict::Worse));
    let noisy = compare_runs(
        &[100.0, 140.0, 70.0],
        &[120.0, 90.0, 150.0],
        Lower,
        &options,
    )
    .unwrap();
    assert_eq!(noisy.verdict(&options), Some(Verdict::CannotTell));
    let same = compare_runs(
        &[100.0, 100.1, 99.9],
        &[100.1, 100.0, 99.9],
        Lower,
        &options,
    )
    .unwrap();
    assert_eq!(same.verdict(&options), Some(Verdict::NoDifferenceFound));
}
