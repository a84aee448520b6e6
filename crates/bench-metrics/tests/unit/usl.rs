use super::*;

fn law(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
        .map(|n| {
            (
                n,
                lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)),
            )
        })
        .to_vec()
}

#[test]
fn a_law_without_noise_is_found_again() {
    let fit = usl_fit(&law(100.0, 0.05, 0.001), 0.95, 1).unwrap();
    assert!((fit.lambda.value - 100.0).abs() < 1e-6 && (fit.sigma.value - 0.05).abs() < 1e-8);
    assert!((fit.kappa.value - 0.001).abs() < 1e-9);
    assert!((fit.knee.unwrap().value - (0.95_f64 / 0.001).sqrt()).abs() < 1e-3);
}

#[test]
fn perfect_scaling_has_no_knee() {
    let fit = usl_fit(&law(10.0, 0.0, 0.0), 0.95, 1).unwrap();
    assert!(fit.sigma.value < 1e-9 && fit.kappa.value < 1e-9);
    assert!(fit.knee.is_none_or(|k| k.value > 1e4));
    assert!((fit.at(1000.0) - 10_000.0).abs() < 1.0);
}

#[test]
fn noisy_data_gives_intervals_that_hold_the_truth() {
    let noise = [1.01, 0.99, 1.005, 0.992, 1.008, 0.997, 1.003];
    let points: Vec<_> = law(100.0, 0.05, 0.001)
        .iter()
        .zip(noise)
        .map(|((n, x), e)| (*n, x * e))
        .collect();
    let fit = usl_fit(&points, 0.95, 1).unwrap();
    assert!(
        fit.sigma.covers(0.05) && fit.kappa.covers(0.001) && fit.lambda.covers(100.0),
        "{fit:?}"
    );
    assert!(fit.knee.unwrap().covers(30.8), "{fit:?}");
}

#[test]
fn two_levels_are_not_enough() {
    assert_eq!(usl_fit(&law(1.0, 0.1, 0.0)[..2], 0.95, 1), None);
}
