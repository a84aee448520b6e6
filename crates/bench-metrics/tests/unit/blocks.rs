use super::*;
use crate::num::is_zero;

/// How many independent values these are worth for their mean.
fn worth(values: &[f64]) -> f64 {
    let whole = crate::summarise(values, bench_schema::Unit::Count).unwrap();
    whole.effective_n.unwrap()
}

#[test]
fn with_few_values_the_interval_is_the_ordinary_t_interval() {
    // numpy 2.4.6 / scipy 1.17.1: t.interval(.95, 4, mean([1,2,4,4,9]), sem([1,2,4,4,9])) = (0.17293453, 7.82706547)
    let interval = BlockMean::of_values(&[1.0, 2.0, 4.0, 4.0, 9.0])
        .unwrap()
        .interval(0.95);
    let (low, high) = interval.bounds().unwrap();
    assert!(
        (low - 0.172_934_531_245).abs() < 1e-6 && (high - 7.827_065_468_755).abs() < 1e-6,
        "{interval:?}"
    );
}

#[test]
fn equal_values_have_no_error_and_count_in_full() {
    let values = [5.0; 100];
    assert!(is_zero(BlockMean::of_values(&values).unwrap().std_err));
    assert_eq!(worth(&values).to_bits(), 100.0_f64.to_bits());
}

#[test]
fn values_repeated_in_runs_count_once_a_run() {
    // 40 levels, each held for 25 values: about 40 independent ones.
    let values: Vec<f64> = (0..1000)
        .map(|i| f64::from((i / 25) * 7919 % 101))
        .collect();
    let ess = worth(&values);
    assert!((15.0..90.0).contains(&ess), "{ess}");
}

#[test]
fn one_part_has_no_error() {
    assert_eq!(
        BlockMean::of_parts([Part { num: 1.0, den: 1.0 }].iter()),
        None
    );
    assert_eq!(BlockMean::of_parts([Part::default(); 5].iter()), None);
}
