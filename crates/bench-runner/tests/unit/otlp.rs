use super::*;

const PAGE: &str = "\
bench_run_info{benchmark=\"bench-latency\",version=\"0.1.0\",model=\"m\",server=\"http://s\",started_at=\"2026-01-01T00:00:00Z\"} 1
bench_cells 2
bench_requests_total{phase=\"measure\",outcome=\"completed\"} 3
bench_requests_total{phase=\"measure\",outcome=\"failed\"} 1
bench_time_to_first_token_seconds_sum{phase=\"measure\"} 0.75
bench_time_to_first_token_seconds_count{phase=\"measure\"} 3
bench_time_to_first_token_seconds_bucket{le=\"0.1\",phase=\"measure\"} 1
bench_time_to_first_token_seconds_bucket{le=\"0.5\",phase=\"measure\"} 3
bench_time_to_first_token_seconds_bucket{le=\"+Inf\",phase=\"measure\"} 3
# EOF
";

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

#[test]
fn a_page_becomes_sums_gauges_and_histograms_whose_names_prometheus_turns_back_into_the_same() {
    let page = Page::parse(PAGE.as_bytes()).unwrap();
    let body = body(&page, 5, 9);
    let resource = at(&body, "/resourceMetrics/0/resource/attributes");
    let service = json!({ "key": "service.name", "value": { "stringValue": "bench-latency" } });
    assert!(
        resource.as_array().unwrap().contains(&service),
        "{resource}"
    );
    let metrics = at(&body, "/resourceMetrics/0/scopeMetrics/0/metrics");
    let named = |name: &str| {
        let mut all = metrics.as_array().unwrap().iter();
        all.find(|metric| metric["name"] == name).unwrap()
    };
    assert_eq!(metrics.as_array().unwrap().len(), 3, "{metrics}");

    let requests = named("bench_requests");
    assert_eq!(at(requests, "/sum/isMonotonic"), true);
    assert_eq!(at(requests, "/sum/aggregationTemporality"), 2);
    assert_eq!(at(requests, "/sum/dataPoints/0/asInt"), "3");
    assert_eq!(at(requests, "/sum/dataPoints/1/asInt"), "1");
    assert_eq!(at(requests, "/sum/dataPoints/1/startTimeUnixNano"), "5");
    assert_eq!(at(requests, "/sum/dataPoints/1/timeUnixNano"), "9");
    assert_eq!(at(named("bench_cells"), "/gauge/dataPoints/0/asInt"), "2");

    let ttft = named("bench_time_to_first_token");
    assert_eq!(ttft["unit"], "s");
    let point = at(ttft, "/histogram/dataPoints/0");
    assert_eq!(point["explicitBounds"], json!([0.1, 0.5]));
    assert_eq!(point["bucketCounts"], json!(["1", "2", "0"]));
    assert_eq!(
        (&point["count"], &point["sum"]),
        (&json!("3"), &json!(0.75))
    );
    assert_eq!(at(point, "/attributes/0/value/stringValue"), "measure");
    assert_eq!(point["attributes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_url_without_a_path_gets_that_of_the_protocol() {
    for (url, whole) in [
        ("http://h:4318", "http://h:4318/v1/metrics"),
        ("http://h:4318/", "http://h:4318/v1/metrics"),
        ("https://h/otlp/v1/metrics", "https://h/otlp/v1/metrics"),
        ("http://h/?key=x", "http://h/?key=x"),
    ] {
        assert_eq!(with_path(url), whole);
    }
}

#[test]
fn an_answer_says_what_was_rejected_and_why() {
    let said =
        rejected(br#"{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"too old"}}"#);
    assert_eq!(said.unwrap(), "it rejected 2 data points: too old");
    for taken in [
        &b"{}"[..],
        b"",
        br#"{"partialSuccess":{"rejectedDataPoints":0}}"#,
    ] {
        assert_eq!(rejected(taken), None);
    }
}
