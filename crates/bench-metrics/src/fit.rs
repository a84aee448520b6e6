//! Straight lines and power laws through (length, latency) points, by least squares.

use crate::estimate::Estimate;
use crate::num::{float, mean, squared_deviations, sum};
use crate::tables::t_critical;

/// `y = intercept + slope·x`, ordinary least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearFit {
    /// y at x = 0.
    pub intercept: Estimate,
    /// y per x: milliseconds per token, for instance.
    pub slope: Estimate,
    /// Share of the variance that the line explains; 1 where all y are equal.
    pub r2: f64,
    /// Points.
    pub n: usize,
}

impl LinearFit {
    /// The line's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept.value + self.slope.value * x
    }
}

/// `y = factor · x^exponent`, a straight line in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerFit {
    /// y at x = 1.
    pub factor: f64,
    /// The log–log slope; above 1 is super-linear.
    pub exponent: Estimate,
    /// Share of the variance of ln y that the line explains.
    pub r2: f64,
    /// Points used.
    pub n: usize,
}

impl PowerFit {
    /// The curve's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.factor * x.powf(self.exponent.value)
    }
}

/// Fits a line with t intervals (n − 2 degrees of freedom; unbounded for two points).
///
/// `None` with fewer than two different x. Points with NaN or infinity are left out. The intervals assume errors of equal
/// size; fit cell means, not raw requests, where the spread grows with length.
pub fn linear_fit(points: &[(f64, f64)], level: f64) -> Option<LinearFit> {
    let points: Vec<_> = points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    let ys: Vec<f64> = points.iter().map(|p| p.1).collect();
    let (mean_x, mean_y) = (mean(&xs)?, mean(&ys)?);
    let (sxx, syy) = (
        squared_deviations(&xs, mean_x),
        squared_deviations(&ys, mean_y),
    );
    if sxx <= 0.0 {
        return None;
    }
    let sxy = sum(points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)));
    let slope = sxy / sxx;
    let intercept = mean_y - slope * mean_x;
    let residual = sum(points
        .iter()
        .map(|(x, y)| (y - intercept - slope * x).powi(2)));
    let n = float(points.len());
    let df = n - 2.0;
    let with_error = |value: f64, unit_variance: f64| {
        if df < 1.0 {
            return Estimate::unbounded(value, level);
        }
        let half = t_critical(level, df) * (residual / df * unit_variance).sqrt();
        Estimate::bounded(value, value - half, value + half, level)
    };
    Some(LinearFit {
        intercept: with_error(intercept, 1.0 / n + mean_x * mean_x / sxx),
        slope: with_error(slope, 1.0 / sxx),
        r2: if syy > 0.0 {
            (1.0 - residual / syy).max(0.0)
        } else {
            1.0
        },
        n: points.len(),
    })
}

/// Fits a power law; points with a coordinate that is not positive are left out. `None` as for [`linear_fit`].
pub fn power_fit(points: &[(f64, f64)], level: f64) -> Option<PowerFit> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    let line = linear_fit(&logs, level)?;
    Some(PowerFit {
        factor: line.intercept.value.exp(),
        exponent: line.slope,
        r2: line.r2,
        n: line.n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_two_points_is_exact_and_without_bounds() {
        let fit = linear_fit(&[(1.0, 3.0), (2.0, 5.0)], 0.95).unwrap();
        assert!((fit.at(10.0) - 21.0).abs() < 1e-12);
        assert_eq!(fit.slope.bounds(), None);
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
}
