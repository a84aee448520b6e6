//! Values computed by numpy 2.4.6 and scipy 1.17.1 (Python), on inputs made by the same formulas.

use bench_metrics::{Sample, linear_fit, power_fit, usl_fit};

fn close(got: f64, wanted: f64, relative: f64) {
    assert!(
        (got - wanted).abs() <= relative * wanted.abs().max(1e-300),
        "got {got}, wanted {wanted}"
    );
}

/// `(i * 7919 % 1009)**1.5 for i in range(500)`
fn powers() -> Vec<f64> {
    (0..500)
        .map(|i| f64::from(i * 7919 % 1009).powf(1.5))
        .collect()
}

#[test]
fn quantiles_mean_and_sd_are_those_of_numpy() {
    let sample = Sample::of(&powers()).unwrap();
    let wanted = [
        (0.5, 11_297.976_258_301_096),
        (0.9, 27_274.965_721_953_8),
        (0.95, 29_561.122_232_149_184),
        (0.99, 31_481.054_635_616_77),
        (0.999, 31_884.073_422_314_217),
        (1.0, 31_907.808_072_633_256),
    ];
    for (q, value) in wanted {
        close(sample.quantile(q), value, 1e-13);
    }
    close(sample.mean(), 12_788.515_604_314_622, 1e-13);
    close(sample.sd().unwrap(), 9_604.013_134_871_85, 1e-13);
}

#[test]
fn a_line_and_its_intervals_are_those_of_linregress() {
    let fit = linear_fit(
        &[
            (10.0, 105.0),
            (20.0, 206.0),
            (50.0, 512.0),
            (100.0, 1_021.0),
        ],
        0.95,
    )
    .unwrap();
    close(fit.slope.value, 10.181_632_653_061_225, 1e-12);
    close(fit.intercept.value, 2.826_530_612_244_880_6, 1e-10);
    close(fit.r2, 0.999_999_316_998_563_9, 1e-12);
    let ((sl, sh), (il, ih)) = (fit.slope.bounds().unwrap(), fit.intercept.bounds().unwrap());
    close(sl, 10.156_032_080_524_499, 1e-8);
    close(sh, 10.207_233_225_597_951, 1e-8);
    close(il, 1.367_073_428_502_708_9, 1e-6);
    close(ih, 4.285_987_795_987_053, 1e-6);
}

#[test]
fn a_power_law_is_that_of_linregress_on_logarithms() {
    let points = [
        (25.0, 0.279),
        (100.0, 0.850),
        (225.0, 1.817),
        (400.0, 2.544),
        (600.0, 4.396),
    ];
    let fit = power_fit(&points, 0.95).unwrap();
    close(fit.exponent.value, 0.846_781_563_125_676_9, 1e-10);
    close(fit.factor, (-4.025_843_727_630_147_f64).exp(), 1e-9);
    close(fit.r2, 0.994_708_918_528_631_9, 1e-9);
}

#[test]
fn a_scalability_law_is_that_of_curve_fit() {
    // curve_fit of X itself, sigma = X, bounded below by 0. Ours fits N/X: the same to first order in the noise, here 1 %.
    let noise = [1.01, 0.99, 1.005, 0.992, 1.008, 0.997];
    let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        .iter()
        .zip(noise)
        .map(|(n, e)| {
            (
                *n,
                e * 100.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0)),
            )
        })
        .collect();
    let fit = usl_fit(&points, 0.95, 1).unwrap();
    close(fit.lambda.value, 100.100_786, 1e-3);
    close(fit.sigma.value, 0.050_268_930_2, 5e-3);
    close(fit.kappa.value, 0.001_997_054_24, 5e-3);
    // Half-widths: t(.975, 3) = 3.182 times curve_fit's standard errors, 0.8111, 0.003076, 0.0001037.
    let half = |e: bench_metrics::Estimate| e.bounds().map(|(l, h)| (h - l) / 2.0).unwrap();
    close(half(fit.lambda), 3.182 * 0.811_1, 0.1);
    close(half(fit.sigma), 3.182 * 0.003_076, 0.1);
    close(half(fit.kappa), 3.182 * 0.000_103_7, 0.1);
}
