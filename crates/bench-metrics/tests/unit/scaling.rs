use super::*;

#[test]
fn a_baseline_of_zero_has_no_factor() {
    assert_eq!(scaling_factor(1.0, 0.0), None);
    assert_eq!(trade_off_ratio(2.0, 1.0, 1.0, 1.0), None);
}

#[test]
fn little_s_law_holds_for_a_steady_queue() {
    assert!((little_check(8.0, 4.0, 2.0).unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(little_check(0.0, 4.0, 2.0), None);
}
