//! Critical values and tail probabilities: thin, total wrappers over `statrs`.

use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};

/// The `p` quantile of the standard normal.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// P(Z ≤ z) for the standard normal.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The `p` quantile of Student's t; infinite where `df` is not positive, because then nothing is known.
pub(crate) fn t_quantile(p: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

/// P(|T| ≥ |t|); 1 where `df` is not positive.
pub(crate) fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    StudentsT::new(0.0, 1.0, df).map_or(1.0, |d| (2.0 * d.cdf(-t.abs())).min(1.0))
}

/// The two-sided critical value of Student's t at a confidence `level`.
pub(crate) fn t_critical(level: f64, df: f64) -> f64 {
    t_quantile(f64::midpoint(1.0, level), df)
}

/// The two-sided critical value of the normal at a confidence `level`.
pub(crate) fn z_critical(level: f64) -> f64 {
    normal_quantile(f64::midpoint(1.0, level))
}

/// Above this, `Beta` is replaced by the normal with its mean and variance: by then they agree to four digits of the
/// half-width, and the continued fraction has become slow.
const BETA_IS_NORMAL: f64 = 1e5;

/// The `p` quantile of Beta(a, b); 0 or 1 where a or b is not positive (all the mass is at that end).
pub(crate) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    if a <= 0.0 {
        return 0.0;
    }
    if b <= 0.0 {
        return 1.0;
    }
    if a.min(b) > BETA_IS_NORMAL {
        let n = a + b;
        let sd = (a * b / (n * n * (n + 1.0))).sqrt();
        return (a / n + normal_quantile(p) * sd).clamp(0.0, 1.0);
    }
    Beta::new(a, b).map_or(f64::midpoint(0.0, 1.0), |d| d.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    // scipy 1.17.1: stats.t.ppf(.975, 9), stats.norm.ppf(.975), stats.beta.ppf(.025, 3, 98)
    #[test]
    fn critical_values_are_those_of_scipy() {
        assert!((t_critical(0.95, 9.0) - 2.262_157_162_798_205).abs() < 1e-9);
        assert!((z_critical(0.95) - 1.959_963_984_540_054).abs() < 1e-9);
        assert!((beta_quantile(0.025, 3.0, 98.0) - 0.006_229_971_538_306_396).abs() < 1e-9);
    }

    // scipy 1.17.1: stats.beta.ppf(.975, 990001, 10000), stats.beta.ppf(.975, 9901, 100)
    #[test]
    fn beta_quantiles_of_large_counts_are_those_of_scipy() {
        assert!((beta_quantile(0.975, 990_001.0, 10_000.0) - 0.990_194_093_759).abs() < 1e-6);
        assert!((beta_quantile(0.975, 9_901.0, 100.0) - 0.991_856_403_432).abs() < 1e-6);
    }
}
