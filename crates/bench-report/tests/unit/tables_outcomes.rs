//! Tests of `src/tables/outcomes.rs`.

use super::*;

#[test]
fn a_target_is_told_in_its_own_unit() {
    let told = |target, value| measured_words(target, Some(value));
    assert_eq!(told("ttft.p95<=1ms", 68_197_116.3), "68.2 ms");
    assert_eq!(told("concurrency=1:requests_per_s>0.5", 0.84), "0.84 req/s");
    assert_eq!(told("output_tokens_per_s>30", 41.46), "41.5 tok/s");
    assert_eq!(told("failed==0", 0.0), "0");
}
