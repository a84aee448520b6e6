use super::*;

#[test]
fn a_compensated_sum_keeps_what_a_plain_one_loses() {
    assert!((sum([1.0, 1e100, 1.0, -1e100]) - 2.0).abs() < 1e-12);
}

#[test]
fn the_median_of_an_even_number_of_values_lies_between_the_middle_two() {
    assert_eq!(
        median_in_place(&mut [4.0, 1.0, 3.0, 2.0]).map(f64::to_bits),
        Some(2.5_f64.to_bits())
    );
    assert_eq!(median_in_place(&mut []), None);
}
