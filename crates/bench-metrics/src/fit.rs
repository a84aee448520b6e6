//! Straight lines and power laws through (length, latency) points, by least squares.

use crate::estimate::Estimate;
use crate::num::{float, sum};
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
    weighted_fit(points, |_| 1.0, level)
}

/// The same where errors grow in proportion to `y`, as those of latencies do with their length: long ones count for less, and the
/// intervals are right all the same. Weights are from the line itself, found in a few rounds.
pub fn proportional_fit(points: &[(f64, f64)], level: f64) -> Option<LinearFit> {
    const ROUNDS: usize = 4;
    let highest = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let mut fit = linear_fit(points, level)?;
    for _ in 0..ROUNDS {
        // A line may cross zero; no point counts for a thousand others.
        let size = |x: f64| fit.at(x).max(highest / 30.0);
        fit = weighted_fit(points, |x| size(x).powi(-2), level)?;
    }
    Some(fit)
}

fn weighted_fit(
    points: &[(f64, f64)],
    weight: impl Fn(f64) -> f64,
    level: f64,
) -> Option<LinearFit> {
    let points: Vec<(f64, f64, f64)> = points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .map(|(x, y)| (*x, *y, weight(*x)))
        .collect();
    let all = |of: &dyn Fn(&(f64, f64, f64)) -> f64| sum(points.iter().map(|p| p.2 * of(p)));
    let total = all(&|_| 1.0);
    let (mean_x, mean_y) = (all(&|p| p.0) / total, all(&|p| p.1) / total);
    let sxx = all(&|p| (p.0 - mean_x).powi(2));
    let syy = all(&|p| (p.1 - mean_y).powi(2));
    if points.is_empty() || sxx.is_nan() || sxx <= 0.0 {
        return None;
    }
    let slope = all(&|p| (p.0 - mean_x) * (p.1 - mean_y)) / sxx;
    let intercept = mean_y - slope * mean_x;
    let residual = all(&|p| (p.1 - intercept - slope * p.0).powi(2));
    let df = float(points.len()) - 2.0;
    let with_error = |value: f64, unit_variance: f64| {
        if df < 1.0 {
            return Estimate::unbounded(value, level);
        }
        let half = t_critical(level, df) * (residual / df * unit_variance).sqrt();
        Estimate::bounded(value, value - half, value + half, level)
    };
    Some(LinearFit {
        intercept: with_error(intercept, 1.0 / total + mean_x * mean_x / sxx),
        slope: with_error(slope, 1.0 / sxx),
        r2: if syy > 0.0 {
            (1.0 - residual / syy).max(0.0)
        } else {
            1.0
        },
        n: points.len(),
    })
}

/// Least-squares slopes of the third coordinate along the first and the second together; `None` where those two vary with each other only, or
/// one does not vary at all.
pub fn plane_slopes(points: &[[f64; 3]]) -> Option<(f64, f64)> {
    let n = float(points.len());
    let centre = [0, 1, 2].map(|i| sum(points.iter().map(|p| p[i])) / n);
    let dot = |i: usize, j: usize| {
        let products = points.iter();
        sum(products.map(|p| (p[i] - centre[i]) * (p[j] - centre[j])))
    };
    let (first, both, second) = (dot(0, 0), dot(0, 1), dot(1, 1));
    let apart = first * second - both * both;
    (apart > 1e-6 * first * second).then(|| {
        let (up, along) = (dot(0, 2), dot(1, 2));
        (
            (second * up - both * along) / apart,
            (first * along - both * up) / apart,
        )
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
#[path = "../tests/unit/fit.rs"]
mod tests;
