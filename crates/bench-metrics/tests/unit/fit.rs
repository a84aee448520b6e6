use super::*;

#[test]
fn a_line_through_two_points_is_exact_and_without_bounds() {
    let fit = linear_fit(&[(1.0, 3.0), (2.0, 5.0)], 0.95).unwrap();
    assert!((fit.at(10.0) - 21.0).abs() < 1e-12);
    assert_eq!(fit.slope.bounds(), None);
}

#[test]
fn errors_in_proportion_are_seen_as_such() {
    // Off by 10 % up and down: a plain fit hears the long ones only.
    let points: Vec<(f64, f64)> = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]
        .iter()
        .enumerate()
        .map(|(i, x)| (*x, (50.0 + 10.0 * x) * if i % 2 == 0 { 1.1 } else { 0.9 }))
        .collect();
    let fit = proportional_fit(&points, 0.95).unwrap();
    assert!(
        fit.slope.covers(10.0) && fit.intercept.covers(50.0),
        "{fit:?}"
    );
    let exact = [(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)];
    assert!((proportional_fit(&exact, 0.95).unwrap().at(10.0) - 21.0).abs() < 1e-9);
}

#[test]
fn what_two_lengths_cost_is_told_apart_where_they_differ() {
    let plane = |x: f64, y: f64| [x, y, 7.0 + 2.0 * x + 0.5 * y];
    let points = [
        plane(1.0, 9.0),
        plane(2.0, 3.0),
        plane(5.0, 4.0),
        plane(9.0, 1.0),
    ];
    let (along, across) = plane_slopes(&points).unwrap();
    assert!((along - 2.0).abs() < 1e-9 && (across - 0.5).abs() < 1e-9);
    assert_eq!(plane_slopes(&[plane(1.0, 1.0), plane(2.0, 2.0)]), None);
    assert_eq!(plane_slopes(&[]), None);
}

#[test]
fn points_over_one_x_have_no_line() {
    assert_eq!(linear_fit(&[(2.0, 1.0), (2.0, 5.0)], 0.95), None);
}

#[test]
fn a_square_law_has_exponent_two() {
    let points: Vec<(f64, f64)> = (1..20)
        .map(|x| (f64::from(x), 3.0 * f64::from(x).powi(2)))
        .collect();
    let fit = power_fit(&points, 0.95).unwrap();
    assert!((fit.exponent.value - 2.0).abs() < 1e-12 && (fit.factor - 3.0).abs() < 1e-9);
}
