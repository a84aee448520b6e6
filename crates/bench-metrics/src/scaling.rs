//! How throughput and latency change with load, devices and length: ratios against a baseline level.

use crate::estimate::Estimate;

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

/// A ratio of two independent positive estimates with its interval, from the intervals of both (MOVER-R; Donner and Zou 2012).
///
/// `None` where the denominator is not positive; the upper bound is absent where the denominator's interval reaches 0.
pub fn ratio(num: &Estimate, den: &Estimate) -> Option<Estimate> {
    if den.value <= 0.0 {
        return None;
    }
    let value = num.value / den.value;
    let (Some((nl, nh)), Some((dl, dh))) = (num.bounds(), den.bounds()) else {
        return Some(Estimate::unbounded(value, num.level));
    };
    let product = num.value * den.value;
    let low_root = (product.powi(2) - nl * dh * (2.0 * num.value - nl) * (2.0 * den.value - dh))
        .max(0.0)
        .sqrt();
    let high_root = (product.powi(2) - nh * dl * (2.0 * num.value - nh) * (2.0 * den.value - dl))
        .max(0.0)
        .sqrt();
    let (low_den, high_den) = (dh * (2.0 * den.value - dh), dl * (2.0 * den.value - dl));
    Some(Estimate {
        value,
        low: (low_den > 0.0).then(|| (product - low_root) / low_den),
        high: (high_den > 0.0).then(|| (product + high_root) / high_den),
        level: num.level,
    })
}

/// Little's law: what was in flight against what arrival rate × mean time in the system says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittleCheck {
    /// Time-weighted mean number in flight, observed.
    pub observed: f64,
    /// Arrival rate × mean E2E.
    pub expected: f64,
    /// `observed / expected − 1`.
    pub mismatch: f64,
}

/// Compares the observed concurrency with rate (per second) × mean E2E (seconds); `None` where their product is not positive.
pub fn little_check(observed: f64, rate_per_s: f64, mean_e2e_s: f64) -> Option<LittleCheck> {
    let expected = rate_per_s * mean_e2e_s;
    (expected > 0.0).then(|| LittleCheck {
        observed,
        expected,
        mismatch: observed / expected - 1.0,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_precise_numbers_has_the_error_of_the_imprecise_one() {
        let exact = Estimate::bounded(2.0, 2.0, 2.0, 0.95);
        let loose = Estimate::bounded(10.0, 8.0, 12.0, 0.95);
        let (low, high) = ratio(&loose, &exact).unwrap().bounds().unwrap();
        assert!(
            (low - 4.0).abs() < 1e-9 && (high - 6.0).abs() < 1e-9,
            "{low} {high}"
        );
    }

    #[test]
    fn a_baseline_of_zero_has_no_factor() {
        assert_eq!(scaling_factor(1.0, 0.0), None);
        assert_eq!(trade_off_ratio(2.0, 1.0, 1.0, 1.0), None);
    }

    #[test]
    fn little_s_law_holds_for_a_steady_queue() {
        let check = little_check(8.0, 4.0, 2.0).unwrap();
        assert!(check.mismatch.abs() < 1e-12);
    }
}
