//! Critical values and tail probabilities: total wrappers over `statrs`.
//!
//! Quantiles of t and beta are found here from their distribution functions: `statrs` 0.19 looks for them with an iteration that is wrong
//! in the first figures from 10⁶ degrees of freedom on and never ends from 3 · 10⁷ on, and a run that is over must not hang in its summary.

use statrs::distribution::{Beta, Continuous, ContinuousCDF, Normal, StudentsT};

/// The `p` quantile of the standard normal.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// P(Z ≤ z) for the standard normal.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// From here on the expansion of [`t_quantile`] is exact to ten figures.
const T_IS_NEARLY_NORMAL: f64 = 500.0;

/// The `p` quantile of Student's t; infinite where `df` is not positive, because then nothing is known.
///
/// Many degrees of freedom: Cornish and Fisher's expansion about the normal (Abramowitz and Stegun, 26.7.5).
pub(crate) fn t_quantile(p: f64, df: f64) -> f64 {
    let Ok(t) = StudentsT::new(0.0, 1.0, df) else {
        return f64::INFINITY;
    };
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let z = normal_quantile(p);
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    let expansion = z + (first + (second + third / df) / df) / df;
    if df >= T_IS_NEARLY_NORMAL {
        return expansion;
    }
    let mut high = 2.0 * expansion + 1.0;
    while t.cdf(high) < p && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    root(p, 0.0..high, expansion, |x| (t.cdf(x), t.pdf(x)))
}

/// Where an increasing function, of which `value` gives height and slope, reaches `target` within `range`: Newton's steps, and halves of
/// what is left where a step leads out of it. Ends after 200 steps at the latest, by which time halving alone has used up a double.
fn root(
    target: f64,
    range: std::ops::Range<f64>,
    start: f64,
    value: impl Fn(f64) -> (f64, f64),
) -> f64 {
    let (mut low, mut high) = (range.start, range.end);
    let mut x = start;
    for _ in 0..200 {
        let (height, slope) = value(x);
        if height < target {
            low = x;
        } else {
            high = x;
        }
        let newton = x - (height - target) / slope;
        let next = if newton > low && newton < high {
            newton
        } else {
            f64::midpoint(low, high)
        };
        let step = (next - x).abs();
        x = next;
        if step <= 1e-14 * x.abs() {
            break;
        }
    }
    x
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
    let mean = a / (a + b);
    Beta::new(a, b).map_or(mean, |d| root(p, 0.0..1.0, mean, |x| (d.cdf(x), d.pdf(x))))
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
                    let (below, above) =
                        (beta.cdf(x * (1.0 - 1e-9)), beta.cdf(x + (1.0 - x) * 1e-9));
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
}
