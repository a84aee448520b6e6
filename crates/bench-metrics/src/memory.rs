//! How alike neighbours are, and what that does to errors: a first-order autoregression.
//!
//! The correlation of neighbours is underestimated in short series by about (1 + 3ρ)/n (Kendall 1954), which is put back, and 0.7 of its
//! standard error is added: a ρ that is too small costs more coverage than one that is too large costs width. For a mean, ρ inflates the variance by 1 + 2 Σ (1 − k/n) ρᵏ. The share of values
//! below a quantile forgets more slowly than its own neighbours say, since being below is a coarse look at a value: what is seen there is
//! turned into the ρ of the values (for the median, sin(π/2 · c); for another share by inverting the correlation there), and that into the
//! share's inflation, as for normal values.

use std::borrow::Borrow;

use crate::num::float;
use crate::tables::normal_quantile;

/// Standard errors of ρ that are added to it. By simulation (`docs/verification.md`): without them 30 requests of ρ 0.5 have intervals that
/// hold 88 times in 100, with them 93 times, and those of 100 independent ones
/// are 6 % wider.
const CAUTION: f64 = 0.7;
/// Values below which nobody can see what they remember.
const FEWEST: usize = 20;
/// Nothing remembers longer than this can tell.
const MOST: f64 = 0.98;
/// Powers of ρ below this add nothing.
const FORGOTTEN: f64 = 1e-3;

/// How many residuals there are, and the correlation of neighbours in them, if their mean is zero; nothing where they do not vary.
pub fn lag_one(residuals: impl Iterator<Item = impl Borrow<f64>>) -> (usize, Option<f64>) {
    let (mut n, mut squares, mut products) = (0, 0.0, 0.0);
    let mut before = None;
    for residual in residuals {
        let residual = *residual.borrow();
        squares += residual * residual;
        products += before.map_or(0.0, |before| before * residual);
        (before, n) = (Some(residual), n + 1);
    }
    (n, (squares > 0.0).then(|| products / squares))
}

/// How alike neighbours of a series are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    rho: f64,
    n: f64,
}

impl Memory {
    /// Of residuals in time order, whose mean is zero.
    pub fn of(residuals: impl Iterator<Item = impl Borrow<f64>>) -> Self {
        let (count, seen) = lag_one(residuals);
        let n = float(count);
        let Some(seen) = seen.filter(|_| count >= FEWEST) else {
            return Self { rho: 0.0, n };
        };
        let unbiased = seen + (1.0 + 3.0 * seen) / n;
        let error = ((1.0 - unbiased * unbiased).max(0.0) / n).sqrt();
        Self {
            rho: (unbiased + CAUTION * error).clamp(0.0, MOST),
            n,
        }
    }

    /// By how much it inflates the variance of a mean, at least 1 and below n.
    pub fn of_mean(self) -> f64 {
        self.sum(|rho| rho)
    }

    /// By how much the values' memory inflates the variance of the share of them below their `q` quantile, given that of the share below
    /// the median.
    pub(crate) fn of_share(self, q: f64) -> f64 {
        let values = Self {
            rho: (std::f64::consts::FRAC_PI_2 * self.rho).sin().min(MOST),
            ..self
        };
        values.sum(|rho| together(q, rho))
    }

    /// The same as the share below the median would show it, seen in the share below another quantile: that forgets sooner than the values do.
    pub(crate) fn seen_at(self, share: f64) -> Self {
        let share = share.clamp(0.02, 0.98);
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        for _ in 0..40 {
            let rho = f64::midpoint(low, high);
            if together(share, rho) < self.rho {
                low = rho;
            } else {
                high = rho;
            }
        }
        let rho = together(0.5, low).clamp(self.rho, MOST.max(self.rho));
        Self { rho, ..self }
    }

    fn sum(self, correlation: impl Fn(f64) -> f64) -> f64 {
        let (mut power, mut k, mut inflation) = (self.rho, 1.0, 1.0);
        while power > FORGOTTEN && k < self.n {
            inflation += 2.0 * (1.0 - k / self.n) * correlation(power);
            power *= self.rho;
            k += 1.0;
        }
        inflation.clamp(1.0, (self.n / 1.5).max(1.0))
    }
}

/// Correlation of being below the `q` quantile, of two normal values with correlation `rho`: ∫ exp(−z²/(1 + sin θ)) dθ / 2π up to
/// asin ρ, over q (1 − q); by Simpson's rule.
fn together(q: f64, rho: f64) -> f64 {
    const STEPS: u32 = 8;
    let z = normal_quantile(q);
    let to = rho.asin();
    let height = |i: u32| {
        let angle = to * f64::from(i) / f64::from(STEPS);
        (-z * z / (1.0 + angle.sin())).exp()
    };
    let weight = |i: u32| match i {
        0 | STEPS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=STEPS).map(|i| weight(i) * height(i)).sum();
    let integral = to / (3.0 * f64::from(STEPS)) * sum;
    integral / (std::f64::consts::TAU * q * (1.0 - q))
}

#[cfg(test)]
#[path = "../tests/unit/memory.rs"]
mod tests;
