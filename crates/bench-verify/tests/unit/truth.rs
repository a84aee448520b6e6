use super::*;

#[test]
fn quantiles_are_those_of_type_7() {
    // numpy.quantile([1, 2, 4, 8], [0, 0.5, 0.99, 1]) = [1, 3, 7.88, 8]
    let sample: Sample = [8.0, 1.0, 4.0, 2.0].into_iter().collect();
    let at = |q| sample.quantile(q).unwrap();
    assert!((at(0.0) - 1.0).abs() < 1e-12 && (at(0.5) - 3.0).abs() < 1e-12);
    assert!((at(0.99) - 7.88).abs() < 1e-12 && (at(1.0) - 8.0).abs() < 1e-12);
    assert!((sample.mean().unwrap() - 3.75).abs() < 1e-12);
    assert_eq!(Sample::default().quantile(0.5), None);
}

#[test]
fn a_peak_counts_what_overlaps_and_not_what_only_touches() {
    assert_eq!(peak(vec![(0, 1), (5, -1), (5, 1), (9, -1)]), 1);
    assert_eq!(peak(vec![(0, 1), (6, -1), (5, 1), (9, -1)]), 2);
    assert_eq!(peak(Vec::new()), 0);
}
