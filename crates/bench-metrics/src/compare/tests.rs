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
