//! How throughput and latency change with load, devices and length: ratios against a baseline level.

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

#[cfg(test)]
#[path = "../tests/unit/scaling.rs"]
mod tests;
