use super::*;

fn problem(text: &str) -> String {
    gate(text).unwrap_err().to_string()
}

#[test]
fn the_gates_of_the_cpu_study_are_read() {
    for text in [
        "requests_per_s>0.5",
        "output_tokens_per_s>20",
        "concurrency=4:output_tokens_per_s > 30",
        "failed==0",
        "ttft.p95<=200ms",
        "use_case=code+concurrency=2:e2e.p99.9<2s",
        "attainment>=99%",
        "c8:ttft.p95<=200ms",
        "any:requests_per_s>1",
    ] {
        assert!(gate(text).is_ok(), "{text}: {:?}", gate(text));
    }
    assert!((gate("ttft.p95<=200ms").unwrap().limit - 2e8).abs() < 1e-3);
    assert!((gate("attainment>=99%").unwrap().limit - 0.99).abs() < 1e-12);
}

#[test]
fn a_quantile_may_be_written_as_in_an_objective() {
    for (text, same) in [
        ("p95:ttft=200ms", "ttft.p95<=200ms"),
        ("p99.9:e2e<=2s", "e2e.p99.9<=2s"),
        ("c8:p95:ttft=200ms", "c8:ttft.p95<=200ms"),
        (
            "use_case=code:p50:itl = 20ms",
            "use_case=code:itl.p50<=20ms",
        ),
    ] {
        assert_eq!(gate(text), gate(same), "{text}");
    }
    // the cell of that name has a rate, and no quantile is meant
    assert!(gate("p95:requests_per_s>=1").is_ok());
    assert!(gate("c8:ttft=200ms").is_err());
}

#[test]
fn a_wrong_gate_names_the_part_and_what_is_known() {
    assert!(problem("ttft").contains("no comparison"));
    assert!(problem("ttft.p95<=200").contains("200ms"));
    assert!(problem("ttft<=200ms").contains("ttft.p95"));
    assert!(problem("speed>=1").contains("output_tokens_per_s"));
    assert!(problem("ttft.p42x<=1s").contains("p42x"));
    assert!(problem("concurrency=:failed==0").contains("concurrency=8:"));
    assert!(problem("requests_per_s>=1ms").contains("plain number"));
    assert!(problem("e2e.p95<=fast").contains("not a valid limit"));
}
