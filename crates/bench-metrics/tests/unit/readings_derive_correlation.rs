use super::*;

#[test]
fn equal_values_share_their_rank() {
    assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    assert_eq!(ranks(&[0.1 + 0.2, 0.3, 0.0]), [2.5, 2.5, 1.0]);
}

#[test]
fn the_correlation_of_a_known_example() {
    // IQ and hours of television, the worked example of Wikipedia's article on Spearman's rank correlation: -29/165
    let iq = [106., 100., 86., 101., 99., 103., 97., 113., 112., 110.];
    let hours = [7., 27., 2., 50., 28., 29., 20., 12., 6., 17.];
    let pairs: Vec<(f64, f64)> = iq.into_iter().zip(hours).collect();
    assert!((rank_correlation(&pairs).unwrap() - -29.0 / 165.0).abs() < 1e-12);
    let flat: Vec<(f64, f64)> = iq.into_iter().map(|x| (x, 1.0)).collect();
    assert_eq!(rank_correlation(&flat), None);
}
