use super::*;

#[test]
fn a_tail_beyond_the_data_has_no_upper_bound() {
    let values: Vec<f64> = (0..70).map(|i| f64::from(i * 37 % 70)).collect();
    let sample = Sample::of(&values).unwrap();
    let p99 = quantile_in_time(&sample, &values, 0.99, 0.95);
    assert_eq!(p99.estimate.high, None);
    assert!(p99.estimate.low.is_some_and(|low| low < p99.estimate.value));
}

#[test]
fn a_single_value_has_no_interval() {
    let sample = Sample::of(&[3.0]).unwrap();
    let median = quantile_in_time(&sample, &[3.0], 0.5, 0.95);
    assert_eq!((median.estimate.low, median.estimate.high), (None, None));
}

#[test]
fn clustered_values_widen_the_interval() {
    // 1547 is 0.387 of 4001: neighbours are unlike each other.
    let flat: Vec<f64> = (0..4000).map(|i| f64::from(i * 1547 % 4001)).collect();
    let runs: Vec<f64> = (0..4000)
        .map(|i| f64::from((i / 50) * 1547 % 4001))
        .collect();
    let width = |v: &[f64]| {
        let (low, high) = quantile_in_time(&Sample::of(v).unwrap(), v, 0.5, 0.95)
            .estimate
            .bounds()
            .unwrap();
        high - low
    };
    assert!(width(&runs) > 3.0 * width(&flat));
}
