//! How throughput and latency change with load, devices and length: ratios against a baseline level, and the law fitted to them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::estimate::Estimate;
use crate::num::{float, floor_index};
use crate::tables::{normal_quantile, t_critical, z_critical};

/// `X(N) / X(1)`; `None` where the baseline is not positive.
pub fn scaling_factor(rate: f64, baseline: f64) -> Option<f64> {
    (baseline > 0.0).then(|| rate / baseline)
}

/// `X(N) / (N · X(1))`, where N is the ratio of the sizes (concurrency, GPUs, replicas, shards).
///
/// `None` where the baseline or `n` is not positive.
pub fn scaling_efficiency(rate: f64, baseline: f64, n: f64) -> Option<f64> {
    scaling_factor(rate, baseline)
        .filter(|_| n > 0.0)
        .map(|factor| factor / n)
}

/// Throughput gain over latency penalty, both relative to the baseline level; above 1 is a good trade.
///
/// `None` where a baseline is not positive, or where latency did not rise: then there is no trade to judge.
pub fn trade_off_ratio(
    rate: f64,
    baseline_rate: f64,
    latency: f64,
    baseline_latency: f64,
) -> Option<f64> {
    let gain = scaling_factor(rate, baseline_rate)? - 1.0;
    let penalty = scaling_factor(latency, baseline_latency)? - 1.0;
    (penalty > 0.0).then(|| gain / penalty)
}

/// Little's law: arrival rate (per second) × mean time in the system (seconds) over the mean number in flight that was observed; `None`
/// where one of them is not positive.
pub fn little_check(observed: f64, rate_per_s: f64, mean_e2e_s: f64) -> Option<f64> {
    let expected = rate_per_s * mean_e2e_s;
    (expected > 0.0 && observed > 0.0).then(|| expected / observed)
}

/// The decode identity's residual `E2E − (TTFT + (n − 1)·ITL)`, in the unit of the latencies, and as a share of E2E.
///
/// Near 0 where decode dominates and token gaps are even. `None` for no tokens or an E2E of 0.
pub fn decode_residual(e2e: f64, ttft: f64, itl: f64, tokens: f64) -> Option<(f64, f64)> {
    if tokens < 1.0 || e2e <= 0.0 {
        return None;
    }
    let residual = e2e - (ttft + (tokens - 1.0) * itl);
    Some((residual, residual / e2e))
}

// The Universal Scalability Law: X(N) = λN / (1 + σ(N − 1) + κN(N − 1)) (Gunther 1993).
//
// N/X is linear in (1, N − 1, N(N − 1)), so the fit is a weighted linear least squares of N/X with relative errors
// (throughput noise is proportional), with σ ≥ 0 and κ ≥ 0 enforced by trying each active set. Intervals come from the
// coefficients' joint t distribution, drawn with a fixed seed, because σ, κ and the knee are ratios of them.

/// Draws of the coefficients for the intervals.
const DRAWS: usize = 4_000;

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UslFit {
    /// λ: throughput of one, without interference; in the unit of the data.
    pub lambda: Estimate,
    /// σ ≥ 0: contention, the serial share.
    pub sigma: Estimate,
    /// κ ≥ 0: coherency, the cost of each pair.
    pub kappa: Estimate,
    /// N* = √((1 − σ)/κ), where throughput peaks; absent where κ is 0 or σ ≥ 1 (no peak). An absent upper bound means that
    /// the data does not exclude that there is no peak.
    pub knee: Option<Estimate>,
    /// Root mean square of the relative residuals of X.
    pub relative_residual: f64,
    /// Points.
    pub n: usize,
}

impl UslFit {
    /// X(N) of the fitted law.
    pub fn at(&self, n: f64) -> f64 {
        let slowdown = 1.0 + self.sigma.value * (n - 1.0) + self.kappa.value * n * (n - 1.0);
        self.lambda.value * n / slowdown
    }
}

/// Fits the law to `(N, X)` points, repeats included.
///
/// `None` with fewer than three different N, or a point that is not positive. Intervals need more points than the
/// coefficients in use; they are absent otherwise.
pub fn usl_fit(points: &[(f64, f64)], level: f64, seed: u64) -> Option<UslFit> {
    let mut levels: Vec<f64> = points.iter().map(|p| p.0).collect();
    levels.sort_unstable_by(f64::total_cmp);
    levels.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    if levels.len() < 3
        || points
            .iter()
            .any(|(n, x)| !(*n > 0.0 && *x > 0.0 && x.is_finite()))
    {
        return None;
    }
    // Relative errors: each row of N/X = a + b(N−1) + cN(N−1) is divided by its left side.
    let rows: Vec<[f64; 3]> = points
        .iter()
        .map(|(n, x)| [1.0, n - 1.0, n * (n - 1.0)].map(|term| term * x / n))
        .collect();
    let best = [vec![0, 1, 2], vec![0, 1], vec![0, 2], vec![0]]
        .iter()
        .filter_map(|active| Solution::of(&rows, active))
        .filter(|s| s.coefficients[0] > 0.0 && s.coefficients[1] >= 0.0 && s.coefficients[2] >= 0.0)
        .min_by(|a, b| a.residual.total_cmp(&b.residual))?;
    Some(describe(&best, rows.len(), level, seed))
}

/// A least-squares solution over the active coefficients; the others are 0.
struct Solution {
    coefficients: [f64; 3],
    active: Vec<usize>,
    /// Cholesky factor of the normal matrix, rows of the lower triangle.
    factor: Vec<Vec<f64>>,
    residual: f64,
}

impl Solution {
    fn of(rows: &[[f64; 3]], active: &[usize]) -> Option<Self> {
        let k = active.len();
        let gram = |a: usize, b: usize| rows.iter().map(|r| r[a] * r[b]).sum::<f64>();
        let mut factor = vec![vec![0.0; k]; k];
        for i in 0..k {
            for j in 0..=i {
                let dot: f64 = (0..j).map(|m| factor[i][m] * factor[j][m]).sum();
                let rest = gram(active[i], active[j]) - dot;
                factor[i][j] = if i == j {
                    Some(rest)
                        .filter(|r| *r > 1e-14 * gram(active[i], active[i]))?
                        .sqrt()
                } else {
                    rest / factor[j][j]
                };
            }
        }
        let mut forward = vec![0.0; k];
        for i in 0..k {
            let dot: f64 = (0..i).map(|m| factor[i][m] * forward[m]).sum();
            let right: f64 = rows.iter().map(|r| r[active[i]]).sum();
            forward[i] = (right - dot) / factor[i][i];
        }
        let solved = back_substitute(&factor, &forward);
        let mut coefficients = [0.0; 3];
        for (value, &slot) in solved.iter().zip(active) {
            coefficients[slot] = *value;
        }
        let residual = rows
            .iter()
            .map(|r| (1.0 - dot3(r, &coefficients)).powi(2))
            .sum();
        Some(Self {
            coefficients,
            active: active.to_vec(),
            factor,
            residual,
        })
    }
}

fn dot3(row: &[f64; 3], coefficients: &[f64; 3]) -> f64 {
    row.iter().zip(coefficients).map(|(a, b)| a * b).sum()
}

/// Solves Lᵀ x = y.
fn back_substitute(factor: &[Vec<f64>], y: &[f64]) -> Vec<f64> {
    let mut x = vec![0.0; y.len()];
    for i in (0..y.len()).rev() {
        let dot: f64 = (i + 1..y.len()).map(|m| factor[m][i] * x[m]).sum();
        x[i] = (y[i] - dot) / factor[i][i];
    }
    x
}

/// λ, σ, κ and N* of coefficients (a, b, c) = (1, σ, κ)/λ.
fn parameters([a, b, c]: [f64; 3]) -> ([f64; 3], Option<f64>) {
    let [lambda, sigma, kappa] = [1.0 / a, b / a, c / a];
    (
        [lambda, sigma, kappa],
        (kappa > 0.0 && sigma < 1.0).then(|| ((1.0 - sigma) / kappa).sqrt()),
    )
}

fn describe(best: &Solution, n: usize, level: f64, seed: u64) -> UslFit {
    let (values, knee) = parameters(best.coefficients);
    let df = float(n) - float(best.active.len());
    let relative_residual = (best.residual / float(n)).sqrt();
    let bare = values.map(|v| Estimate::unbounded(v, level));
    let mut fit = UslFit {
        lambda: bare[0],
        sigma: bare[1],
        kappa: bare[2],
        knee: knee.map(|k| Estimate::unbounded(k, level)),
        relative_residual,
        n,
    };
    if df < 1.0 {
        return fit;
    }
    let scale = (best.residual / df).sqrt() * t_critical(level, df) / z_critical(level);
    let mut drawn: [Vec<f64>; 4] = Default::default();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..DRAWS {
        let z: Vec<f64> = best
            .active
            .iter()
            .map(|_| normal_quantile(rng.random_range(1e-12..1.0)))
            .collect();
        let shift = back_substitute(&best.factor, &z);
        let mut coefficients = best.coefficients;
        for (delta, &slot) in shift.iter().zip(&best.active) {
            coefficients[slot] += scale * delta;
        }
        if coefficients[0] <= 0.0 {
            continue;
        }
        let ([lambda, sigma, kappa], peak) = parameters(coefficients);
        for (list, value) in
            drawn
                .iter_mut()
                .zip([lambda, sigma, kappa, peak.unwrap_or(f64::INFINITY)])
        {
            list.push(value);
        }
    }
    for list in &mut drawn {
        list.sort_unstable_by(f64::total_cmp);
    }
    fit.lambda = with_bounds(fit.lambda, &drawn[0], f64::NEG_INFINITY);
    fit.sigma = if best.active.contains(&1) {
        with_bounds(fit.sigma, &drawn[1], 0.0)
    } else {
        fit.sigma
    };
    fit.kappa = if best.active.contains(&2) {
        with_bounds(fit.kappa, &drawn[2], 0.0)
    } else {
        fit.kappa
    };
    fit.knee = fit.knee.map(|k| with_bounds(k, &drawn[3], 0.0));
    fit
}

/// The percentile interval of sorted draws, not below `floor`; an infinite end is absent.
fn with_bounds(estimate: Estimate, sorted: &[f64], floor: f64) -> Estimate {
    if sorted.is_empty() {
        return estimate;
    }
    let alpha = f64::midpoint(1.0, -estimate.level);
    // By rank, not interpolated: between a number and infinity there is nothing.
    let rank = |q: f64| floor_index(q * float(sorted.len() - 1)).min(sorted.len() - 1);
    let end = |q: f64| Some(sorted[rank(q)].max(floor)).filter(|x| x.is_finite());
    Estimate {
        low: end(alpha),
        high: end(1.0 - alpha),
        ..estimate
    }
}

#[cfg(test)]
#[path = "../tests/unit/scaling.rs"]
mod tests;

#[cfg(test)]
#[path = "../tests/unit/usl.rs"]
mod usl_tests;
