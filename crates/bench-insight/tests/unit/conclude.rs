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

#[test]
fn a_cell_of_which_a_shard_had_no_part_is_not_lost() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    let (mut alone, mut next) = (cell(0, 1.0, 1.0), cell(1, 1.0, 1.0));
    (alone.id, next.id) = ("alone".to_owned(), "next".to_owned());
    run.cells = vec![alone, next];
    let done = Conclusion::new(&run).unwrap().finish(&mut run);
    assert_eq!(done.empty, ["next"]);
    let left: Vec<&str> = run.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(left, ["alone"]);
}
