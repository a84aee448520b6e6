use super::*;

/// A cell whose TTFT has these quantiles, in milliseconds.
fn cell(concurrency: u32, p50: f64, p90: f64) -> CellRecord {
    let text = format!(
        r#"{{"id": "c", "label": "c", "factors": {{}}, "load": {{"kind": "closed", "concurrency": {concurrency}}}, "stop": {{}}, "repeats": 1,
            "plan": {{"hash": "", "requests": 0, "dataset": "mixed", "sized_by": "words"}}, "headline": "sent",
            "counts": {{"planned": 0, "completed": 0, "failed": 0, "timed_out": 0, "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0}},
            "windows": {{}}, "analysis": {{}}, "client": {{"workers": 0}},
            "metrics": {{"ttft": {{"unit": "ns", "n": 9, "mean": {p50}, "min": 1, "max": 999,
                "quantiles": [{{"q": 0.5, "value": {p50}, "few": false}}, {{"q": 0.9, "value": {p90}, "few": false}}]}}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_requests_wait_alone_is_known_where_they_are_alike() {
    assert_eq!(
        baseline(&[cell(8, 90.0, 91.0), cell(1, 30.0, 31.0)]),
        Some(30.0)
    );
    // with a line over prompt lengths, what is above its median is no queue
    assert_eq!(baseline(&[cell(1, 120.0, 190.0)]), None);
    assert_eq!(baseline(&[cell(8, 90.0, 91.0)]), None);
}
