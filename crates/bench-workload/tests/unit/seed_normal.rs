use super::quantile;
use statrs::distribution::{ContinuousCDF, Normal};

#[test]
fn quantiles_agree_with_an_independent_distribution_function() {
    let normal = Normal::new(0.0, 1.0).unwrap();
    for p in [
        1e-12,
        1e-6,
        0.001,
        0.075,
        0.2,
        0.5,
        0.7,
        0.925,
        0.99,
        1.0 - 1e-9,
    ] {
        let back = normal.cdf(quantile(p));
        assert!(
            (back - p).abs() <= 1e-11 + 1e-7 * p.min(1.0 - p),
            "{p}: {back}"
        );
    }
    assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
}
