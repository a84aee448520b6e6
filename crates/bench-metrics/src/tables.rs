//! Critical values and tail probabilities: total wrappers over `statrs`.
//!
//! Quantiles of t and beta are found here from their distribution functions: `statrs` 0.19 looks for them with an iteration that is wrong
//! in the first figures from 10⁶ degrees of freedom on and never ends from 3 · 10⁷ on, and a run that is over must not hang in its summary.

use std::cell::RefCell;
use std::collections::HashMap;

use statrs::distribution::{Beta, Continuous, ContinuousCDF, Normal, StudentsT};

/// Quantiles that are remembered: those of many small cells are the same few, and were half of the work of a thousand of them.
const REMEMBERED: usize = 4096;

/// What was found for these arguments before in this thread, or is now.
fn remembered(arguments: [f64; 3], find: impl FnOnce() -> f64) -> f64 {
    thread_local! {
        static FOUND: RefCell<HashMap<[u64; 3], f64>> = RefCell::default();
    }
    let key = arguments.map(f64::to_bits);
    if let Some(known) = FOUND.with_borrow(|found| found.get(&key).copied()) {
        return known;
    }
    let new = find();
    FOUND.with_borrow_mut(|found| {
        if found.len() >= REMEMBERED {
            found.clear();
        }
        found.insert(key, new);
    });
    new
}

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
    remembered([p, df, f64::NAN], || {
        while t.cdf(high) < p && high < f64::MAX / 2.0 {
            high *= 2.0;
        }
        root(p, 0.0..high, expansion, |x| (t.cdf(x), t.pdf(x)))
    })
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
pub fn z_critical(level: f64) -> f64 {
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
    let find = |d: Beta| root(p, 0.0..1.0, mean, |x| (d.cdf(x), d.pdf(x)));
    remembered([p, a, b], || Beta::new(a, b).map_or(mean, find))
}

#[cfg(test)]
#[path = "../tests/unit/tables.rs"]
mod tests;
