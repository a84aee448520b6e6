//! Benchmark results: a concurrency sweep on one L4.

use super::{found, one, says};

#[test]
fn sweep_is_compute_bound_and_not_memory_bound() {
    let (_, all) = found("concurrency-sweep");
    says(
        one(&all, "compute_bound"),
        &[
            "compute is the limit, not memory",
            "100 %",
            "1.1 %",
            "nothing waited",
        ],
    );
    assert!(
        !all.iter()
            .any(|f| f.code == "memory_pressure" || f.code == "queueing")
    );
}

#[test]
fn sweep_degrades_in_ttft_first() {
    let (_, all) = found("concurrency-sweep");
    says(
        one(&all, "ttft_degrades_first"),
        &["5.0×", "27.0 ms → 135 ms", "concurrency 1 to 32"],
    );
}

#[test]
fn sweep_itl_stays_flat_until_concurrency_16() {
    let (_, all) = found("concurrency-sweep");
    says(
        one(&all, "itl_flat"),
        &[
            "up to concurrency 16",
            "6.00 ms against 5.10 ms",
            "at 32 it is 7.10 ms, p95 12.0 ms",
        ],
    );
}

#[test]
fn sweep_throughput_scales_22_times() {
    let (_, all) = found("concurrency-sweep");
    says(
        one(&all, "batching_speedup"),
        &["22.5×", "168 to 3,773", "nearly in proportion"],
    );
    assert!(!all.iter().any(|f| f.code == "diminishing_returns"));
    says(
        one(&all, "best_concurrency"),
        &["load pays up to concurrency 32, the end of the sweep"],
    );
}

#[test]
fn sweep_e2e_is_ttft_and_127_token_gaps() {
    let (_, all) = found("concurrency-sweep");
    let sum = one(&all, "decode_dominated");
    says(sum, &["decode-dominated", "TTFT + (n − 1) × ITL"]);
    assert!(
        sum.evidence
            .iter()
            .filter(|e| e.name == "residual")
            .all(|e| e.value.abs() < 5.0)
    );
}
