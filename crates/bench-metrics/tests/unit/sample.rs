use super::*;

#[test]
fn nan_and_infinity_are_refused_with_their_place() {
    assert_eq!(Sample::new(vec![]), Err(MetricsError::EmptySample));
    let infinite = MetricsError::NotFinite {
        index: 1,
        value: f64::INFINITY,
    };
    assert_eq!(Sample::new(vec![1.0, f64::INFINITY]), Err(infinite));
    assert!(matches!(
        Sample::new(vec![f64::NAN]),
        Err(MetricsError::NotFinite { index: 0, .. })
    ));
}

#[test]
fn a_single_value_is_every_quantile_and_has_no_spread() {
    let one = Sample::of(&[7.0]).unwrap();
    assert!(
        [0.0, 0.5, 0.999, 1.0]
            .iter()
            .all(|q| (one.quantile(*q) - 7.0).abs() < 1e-12)
    );
    assert_eq!((one.sd(), one.cov()), (None, None));
}

#[test]
fn failures_count_as_infinite_and_take_the_tail() {
    let sample = Sample::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(
        sample.quantile_with_failures(0.5, 0).map(f64::to_bits),
        Some(2.5_f64.to_bits())
    );
    assert_eq!(
        sample.quantile_with_failures(0.5, 1).map(f64::to_bits),
        Some(3.0_f64.to_bits())
    );
    assert_eq!(sample.quantile_with_failures(0.9, 1), None);
    assert_eq!(
        sample.quantile_with_failures(1.0, 0).map(f64::to_bits),
        Some(4.0_f64.to_bits())
    );
}

#[test]
fn the_few_samples_rule_asks_for_ten_values_beyond_the_quantile() {
    let needed: Vec<usize> = [0.5, 0.9, 0.95, 0.99, 0.999]
        .into_iter()
        .map(values_needed)
        .collect();
    assert_eq!(needed, [20, 100, 200, 1_000, 10_000]);
}
