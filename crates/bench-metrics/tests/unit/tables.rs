use super::*;

// scipy 1.17.1: stats.t.ppf(.975, 9), stats.norm.ppf(.975), stats.beta.ppf(.025, 3, 98)
#[test]
fn critical_values_are_those_of_scipy() {
    assert!((t_critical(0.95, 9.0) - 2.262_157_162_798_205).abs() < 1e-9);
    assert!((z_critical(0.95) - 1.959_963_984_540_054).abs() < 1e-9);
    assert!((beta_quantile(0.025, 3.0, 98.0) - 0.006_229_971_538_306_396).abs() < 1e-9);
}

// scipy 1.17.1: stats.t.ppf(.975, [0.5, 1, 3.7, 499, 501, 12345.6, 1e6]), stats.t.ppf(.9995, 2), stats.t.ppf(.9995, 600)
#[test]
fn t_quantiles_are_those_of_scipy_for_few_and_for_many_degrees_of_freedom() {
    for (p, df, wanted) in [
        (0.975, 0.5, 164.557_673_480_488_18),
        (0.975, 1.0, 12.706_204_736_174_694),
        (0.975, 3.7, 2.867_520_707_191_189_5),
        (0.975, 499.0, 1.964_729_390_987_688_6),
        (0.975, 501.0, 1.964_710_322_175_482_7),
        (0.975, 12_345.6, 1.960_156_158_259_510_4),
        (0.975, 1e6, 1.959_966_356_814_107),
        (0.9995, 2.0, 31.599_054_576_445_365),
        (0.9995, 600.0, 3.306_815_787_752_642),
    ] {
        let found = t_quantile(p, df);
        assert!(
            (found / wanted - 1.0).abs() < 1e-9,
            "{p} {df}: {found} {wanted}"
        );
        assert!((t_quantile(1.0 - p, df) / wanted + 1.0).abs() < 1e-9);
    }
}

// where hardly anything varies, the design effect is next to nothing and the degrees of freedom have no bound
#[test]
fn any_degrees_of_freedom_have_a_quantile() {
    for df in [1e6, 1e7, 4e7, 1e15, 1e300, f64::INFINITY] {
        assert!((t_critical(0.95, df) - 1.959_964).abs() < 1e-5, "{df}");
    }
}

#[test]
fn every_quantile_is_found_and_is_one() -> Result<(), Box<dyn std::error::Error>> {
    for step in 0..400 {
        let df = 10_f64.powf(f64::from(step) / 50.0 - 1.0);
        let t = StudentsT::new(0.0, 1.0, df)?;
        let reached = t.cdf(t_quantile(0.975, df));
        assert!((reached - 0.975).abs() < 1e-6, "{df}: {reached}");
    }
    for step in 0..60 {
        let a = 0.5 * 10_f64.powf(f64::from(step) / 10.0);
        for b in [0.5, 1.0, 7.3, 400.5, 60_000.0] {
            let beta = Beta::new(a, b)?;
            for p in [1e-6, 0.025, 0.5, 0.975] {
                let x = beta_quantile(p, a, b);
                // where all the mass is at an end, its last double is the answer
                let (below, above) = (beta.cdf(x * (1.0 - 1e-9)), beta.cdf(x + (1.0 - x) * 1e-9));
                assert!(below <= p + 1e-6 && above >= p - 1e-6, "{p} {a} {b}: {x}");
            }
        }
    }
    Ok(())
}

// scipy 1.17.1: stats.beta.ppf(.975, 990001, 10000), stats.beta.ppf(.975, 9901, 100)
#[test]
fn beta_quantiles_of_large_counts_are_those_of_scipy() {
    assert!((beta_quantile(0.975, 990_001.0, 10_000.0) - 0.990_194_093_759).abs() < 1e-6);
    assert!((beta_quantile(0.975, 9_901.0, 100.0) - 0.991_856_403_432).abs() < 1e-6);
}
