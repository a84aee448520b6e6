use super::*;

fn change_points(series: &[f64]) -> Vec<Segment> {
    weighted_change_points(series, &vec![0.0; series.len()], 3, 4.0)
}

fn wobble(i: usize) -> f64 {
    f64::from(u32::try_from(i * 7919 % 100).unwrap_or(0)) / 100.0 - 0.5
}

#[test]
fn a_step_is_found_where_it_is() {
    let series: Vec<f64> = (0..100)
        .map(|i| if i < 60 { 10.0 } else { 12.0 } + wobble(i))
        .collect();
    let segments = change_points(&series);
    assert_eq!(segments.len(), 2, "{segments:?}");
    assert!(segments[0].end.abs_diff(60) <= 1 && (segments[1].mean - 12.0).abs() < 0.2);
}

#[test]
fn a_level_series_has_one_segment() {
    let series: Vec<f64> = (0..200).map(wobble).collect();
    assert_eq!(change_points(&series).len(), 1);
    assert_eq!(change_points(&[5.0; 50]).len(), 1);
    assert!(change_points(&[]).is_empty());
}

#[test]
fn a_visit_to_another_regime_has_two_changes() {
    let series: Vec<f64> = (0..90)
        .map(|i| if (30..60).contains(&i) { 40.0 } else { 15.0 } + wobble(i))
        .collect();
    let ends: Vec<usize> = change_points(&series).iter().map(|s| s.end).collect();
    assert_eq!(ends, [30, 60, 90]);
}

#[test]
fn points_outside_the_bins_are_left_out() {
    let bins = bin_by_time(
        [(0.0, 1.0), (0.9, 2.0), (1.0, 4.0), (2.0, 8.0)],
        0.0,
        2.0,
        2,
    );
    let sums: Vec<(usize, u64)> = bins.iter().map(|b| (b.count, b.sum.to_bits())).collect();
    assert_eq!(sums, [(2, 3.0_f64.to_bits()), (1, 4.0_f64.to_bits())]);
}

/// A history of runs: logarithms of figures that scatter by 2 % between runs, and each by its own error; every fifth run is short. From `at` on
/// they are higher by `step`.
fn history(seed: u64, runs: usize, (at, step): (usize, f64)) -> (Vec<f64>, Vec<f64>) {
    use rand::{RngExt as _, SeedableRng as _};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    // the sum of twelve uniform draws less 6 is nearly normal
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let errors: Vec<f64> = (0..runs)
        .map(|i| if i % 5 == 4 { 0.05 } else { 0.01 })
        .collect();
    let values = errors.iter().enumerate().map(|(i, error)| {
        let level = if i < at { 0.0 } else { step };
        level + 0.02 * normal() + error * normal()
    });
    (values.collect(), errors)
}

#[test]
fn histories_without_a_change_rarely_have_one() {
    for (runs, most) in [(8, 6), (20, 6), (50, 4)] {
        let false_alarm = |seed: &u64| {
            let (values, errors) = history(*seed, runs, (runs, 0.0));
            weighted_change_points(&values, &errors, 3, 4.0).len() > 1
        };
        let alarms = (0..200).filter(false_alarm).count();
        assert!(alarms <= most, "{alarms} of 200 histories of {runs} runs");
    }
}

#[test]
fn a_step_of_several_standard_deviations_is_seen_after_a_few_runs() {
    let seen = |seed: &u64| {
        // 30 runs before, 5 after
        let (values, errors) = history(*seed, 35, (30, 0.12_f64));
        let segments = weighted_change_points(&values, &errors, 3, 4.0);
        segments
            .iter()
            .skip(1)
            .any(|segment| segment.start.abs_diff(30) <= 2)
    };
    let found = (0..200).filter(seen).count();
    assert!(found >= 190, "{found} of 200");
}
