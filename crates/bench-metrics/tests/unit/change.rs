use super::*;

fn wobble(i: usize) -> f64 {
    f64::from(u32::try_from(i * 7919 % 100).unwrap_or(0)) / 100.0 - 0.5
}

#[test]
fn a_step_is_found_where_it_is() {
    let series: Vec<f64> = (0..100)
        .map(|i| if i < 60 { 10.0 } else { 12.0 } + wobble(i))
        .collect();
    let segments = change_points(&series, 3, 4.0);
    assert_eq!(segments.len(), 2, "{segments:?}");
    assert!(segments[0].end.abs_diff(60) <= 1 && (segments[1].mean - 12.0).abs() < 0.2);
}

#[test]
fn a_level_series_has_one_segment() {
    let series: Vec<f64> = (0..200).map(wobble).collect();
    assert_eq!(change_points(&series, 3, 4.0).len(), 1);
    assert_eq!(change_points(&[5.0; 50], 3, 4.0).len(), 1);
    assert!(change_points(&[], 3, 4.0).is_empty());
}

#[test]
fn a_visit_to_another_regime_has_two_changes() {
    let series: Vec<f64> = (0..90)
        .map(|i| if (30..60).contains(&i) { 40.0 } else { 15.0 } + wobble(i))
        .collect();
    let ends: Vec<usize> = change_points(&series, 3, 4.0)
        .iter()
        .map(|s| s.end)
        .collect();
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
