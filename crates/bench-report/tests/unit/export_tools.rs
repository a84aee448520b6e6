//! Tests of `src/export/tools.rs`.

use super::*;

#[test]
fn many_values_have_the_figures_of_a_few_of_them_to_a_thousandth() {
    let mut figures = Figures::default();
    for i in 0..=EXACT {
        figures.push(0.01 + 1e-5 * (i % 1000) as f64);
    }
    assert!(figures.coarse.is_some() && figures.exact.is_empty());
    let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 2e-3, "{got} {want}");
    near(figures.mean, 0.014_995);
    near(figures.std(), 1e-5 * (999_999.0_f64 / 12.0).sqrt());
    near(figures.max, 0.019_99);
    let quantiles = figures.quantiles(&[0.5, 0.99]);
    near(quantiles[0], 0.014_995);
    near(quantiles[1], 0.019_895);
}
