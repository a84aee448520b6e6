use super::*;

#[test]
fn groups_without_overlap_are_as_unlikely_as_it_gets() {
    let a: Vec<f64> = (0..10).map(f64::from).collect();
    let b: Vec<f64> = (20..30).map(f64::from).collect();
    assert!(permutation_p(&a, &b, 1) <= 2.0 / 5_000.0);
    assert!((permutation_p(&a, &a, 1) - 1.0).abs() < 1e-12);
}

#[test]
fn p_values_are_those_of_every_arrangement() {
    // scipy 1.17.1, permutation_test over all 462 (and 210) arrangements of Welch's |t|; 4999 draws know them to ± 0.5 %
    let near = |a: &[f64], b: &[f64], exact: f64| {
        let p = permutation_p(a, b, 3);
        assert!(
            (p - exact).abs() < 4.0 * (exact * (1.0 - exact) / 5_000.0).sqrt(),
            "{p} is not {exact}"
        );
    };
    near(
        &[1.0, 2.0, 4.0, 8.0, 16.0],
        &[3.0, 6.0, 12.0, 24.0, 48.0, 96.0],
        0.090_909_090_909,
    );
    near(
        &[5.0, 1.0, 4.0, 9.0],
        &[2.0, 7.0, 11.0, 13.0, 17.0, 6.0],
        0.142_857_142_857,
    );
    // as far apart as the observed one are two of the six arrangements: itself and its mirror image
    near(&[0.0, 1.0], &[10.0, 11.0], 2.0 / 6.0);
    // far from zero nothing changes: a queue's times are large numbers with small differences
    near(&[1e9, 1e9 + 1.0], &[1e9 + 10.0, 1e9 + 11.0], 2.0 / 6.0);
}

#[test]
fn blocks_are_consecutive_and_have_the_mean_of_what_is_in_them() {
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    let means = time_blocks(&values, |x| 10.0 * x);
    let wanted: Vec<f64> = (0..20).map(|b| 10.0 * (f64::from(2 * b) + 0.5)).collect();
    assert!(
        means.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-9),
        "{means:?}"
    );
    assert_eq!(time_blocks(&values[..7], |x| x).len(), 7);
    assert!(time_blocks(&[], |x| x).is_empty());
}

#[test]
fn arrangements_are_binomial_coefficients() {
    assert!((arrangements(3, 3) - 20.0).abs() < 1e-9 && (arrangements(6, 6) - 924.0).abs() < 1e-9);
}

#[test]
fn blocks_cover_every_value_once() {
    let values: Vec<f64> = (0..47).map(f64::from).collect();
    assert_eq!(time_blocks(&values, |x| x).len(), 20);
}
