use super::*;

#[test]
fn a_page_holds_cumulative_buckets_that_end_at_the_count() {
    let metrics = Arc::new(Metrics::default());
    metrics.first_token(0.03);
    metrics.first_token(0.3);
    metrics.first_token(100.0);
    let page = metrics.page("m\"1");
    assert!(page.contains(
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"0.04\"} 1"
    ));
    assert!(page.contains("le=\"0.5\"} 2"));
    assert!(page.contains(
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"+Inf\"} 3"
    ));
    assert!(
        page.contains(
            "vllm:time_to_first_token_seconds_count{model_name=\"m\\\"1\",engine=\"0\"} 3"
        )
    );
}

#[test]
fn a_sequence_is_counted_once_wherever_it_is() {
    let metrics = Arc::new(Metrics::default());
    let mut sequence = Occupancy::waiting(&metrics);
    sequence.run();
    sequence.run();
    assert_eq!(
        (metrics.waiting.load(Relaxed), metrics.running.load(Relaxed)),
        (0, 1)
    );
    sequence.wait();
    drop(sequence);
    assert_eq!(
        (metrics.waiting.load(Relaxed), metrics.running.load(Relaxed)),
        (0, 0)
    );
}
