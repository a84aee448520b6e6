use super::*;

#[test]
fn a_server_is_told_its_own_switch_for_the_prefix_cache() {
    let switch = |kind| without_prefix_cache(Some(kind));
    assert!(switch("llama.cpp").contains("cache_prompt"));
    assert!(!switch("llama.cpp").contains("vLLM"));
    assert_eq!(switch("SGLang"), "`--disable-radix-cache`");
    assert_eq!(switch("vllm"), "`--no-enable-prefix-caching`");
    assert!(without_prefix_cache(None).starts_with("vLLM: "));
}

#[test]
fn a_server_is_told_its_own_parameter_and_an_unknown_one_none() {
    let first = |kind| {
        of(&Finding::new(Cause::Queueing, 0.5), kind)
            .swap_remove(0)
            .parameter
    };
    assert_eq!(first(None), None);
    assert_eq!(first(Some("vLLM")).as_deref(), Some("--max-num-seqs"));
    assert_eq!(first(Some("llama.cpp")).as_deref(), Some("--parallel"));
    assert_eq!(first(Some("bench-engine")).as_deref(), Some("max_num_seqs"));
}

#[test]
fn no_cause_no_advice() {
    assert!(of(&Finding::new(Cause::Healthy, 0.0), Some("vllm")).is_empty());
}
