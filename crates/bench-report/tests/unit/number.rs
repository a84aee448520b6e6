//! Tests of `src/number.rs`.

use super::*;

#[test]
fn a_column_has_as_many_decimals_as_its_smallest_value_needs() {
    assert_eq!(decimals([27.0, 115.5]), 1);
    assert_eq!(decimals([5.1, 12.0]), 2);
    assert_eq!(decimals([679.0, 1128.0]), 0);
    assert_eq!(decimals([0.0008, 0.02]), 4);
    assert_eq!(decimals([0.08, 30.0]), 2);
    assert_eq!(decimals([0.0, f64::NAN]), 0);
    assert_eq!(decimals([1.0, 32.0]), 0);
}

#[test]
fn shares_have_no_figures_that_nobody_needs() {
    let shown = [0.0, 0.000_46, 0.0346, 0.423, 0.9999, 1.0].map(percent);
    assert_eq!(shown, ["0", "< 0.1", "3.5", "42.3", "100", "100"]);
}

#[test]
fn numbers_have_no_negative_zero_and_infinity_is_a_sign() {
    assert_eq!(fixed(-0.001, 1), "0.0");
    assert_eq!(fixed(f64::INFINITY, 1), "∞");
    assert_eq!(short(1.0 / 3.0), "0.33");
    assert_eq!(short(12.345), "12.3");
}

#[test]
fn chart_values_keep_four_figures() {
    let seen: Vec<f64> = [123_456.0, 0.001_234_56, 0.0, f64::NAN]
        .map(rounded)
        .to_vec();
    assert_eq!(format!("{seen:?}"), "[123500.0, 0.001235, 0.0, 0.0]");
}

#[test]
fn long_durations_are_in_minutes_and_hours() {
    let shown = [125e9, 7_325e9, 5e6].map(duration);
    assert_eq!(shown, ["2 min 05 s", "2 h 02 min", "5.00 ms"]);
}
