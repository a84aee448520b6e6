use super::*;
use crate::draft::Draft;

/// A server of a kind that tells nothing else.
fn a(kind: &str) -> ServerRecord {
    ServerRecord {
        kind: Some(kind.to_owned()),
        ..ServerRecord::default()
    }
}

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
        of(&Finding::new(Cause::Queueing, 0.5), &a(kind))
            .swap_remove(0)
            .parameter
    };
    assert_eq!(first("its own"), None);
    assert_eq!(first("vLLM").as_deref(), Some("--max-num-seqs"));
    assert_eq!(first("llama.cpp").as_deref(), Some("--parallel"));
    assert_eq!(first("bench-engine").as_deref(), Some("max_num_seqs"));
}

#[test]
fn a_switch_that_the_server_says_is_on_is_not_advised() {
    let first = |kind: &str, value: &str| {
        let mut server = a(kind);
        let facts = &mut server.facts;
        facts.insert("enable_chunked_prefill".to_owned(), value.to_owned());
        of(&Finding::new(Cause::DecodeInterrupted, 0.5), &server)
            .swap_remove(0)
            .action
    };
    assert_eq!(first("bench-engine", "true"), Action::SmallerPrefillSteps);
    assert_eq!(first("vllm", "True"), Action::SmallerPrefillSteps);
    assert_eq!(first("bench-engine", "false"), Action::ChunkPrefill);
}

#[test]
fn no_cause_no_advice() {
    assert!(of(&Finding::new(Cause::Healthy, 0.0), &a("vllm")).is_empty());
}

#[test]
fn a_parameter_comes_with_the_line_that_tries_it() {
    let told = |kind| {
        let finding = Finding::new(Cause::Queueing, 0.5);
        how_to_vary(&of(&finding, &a(kind)).swap_remove(0), &finding)
    };
    let line = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
    assert_eq!(
        told("vllm"),
        line(
            "--max-num-seqs {max_num_seqs}",
            "--vary max_num_seqs=64,128,256"
        )
    );
    assert_eq!(
        told("bench-engine"),
        line(
            "--set engine.scheduler.max_num_seqs={max_num_seqs}",
            "--vary max_num_seqs=8,32,128"
        )
    );
    assert_eq!(told("tensorrt_llm"), None);
    let finding = Finding::new(Cause::HeadOfLine, 0.5);
    let switch = of(&finding, &a("vllm")).swap_remove(0);
    assert_eq!(
        how_to_vary(&switch, &finding),
        line(
            "{enable_chunked_prefill}",
            "--vary 'enable_chunked_prefill=,--enable-chunked-prefill'"
        )
    );
}

#[test]
fn a_limit_of_requests_is_varied_from_what_was_seen() {
    let vary = |cause: Cause, figure: Known, n: f64| {
        let finding = Draft::new(cause, 0.5).because(figure, n).done().unwrap();
        let advice = of(&finding, &a("vllm")).swap_remove(0);
        how_to_vary(&advice, &finding).unwrap().1
    };
    let slows = Cause::DecodeSlowsWithLoad;
    assert_eq!(
        vary(slows, Known::InFlight, 21.6),
        "--vary max_num_seqs=5,11,22"
    );
    assert_eq!(
        vary(Cause::Queueing, Known::Running, 8.0),
        "--vary max_num_seqs=8,16,32"
    );
    // of so few nothing is to be limited
    assert_eq!(
        vary(slows, Known::InFlight, 3.0),
        "--vary max_num_seqs=64,128,256"
    );
}

#[test]
fn no_action_is_undone_by_another_of_the_same_cell() {
    let opposite = |a, b| are_opposite(a, b) && are_opposite(b, a);
    assert!(opposite(Action::RunMoreAtOnce, Action::RunFewerAtOnce));
    assert!(opposite(
        Action::LargerPrefillSteps,
        Action::SmallerPrefillSteps
    ));
    assert!(!opposite(Action::RunMoreAtOnce, Action::RunMoreAtOnce));
}
