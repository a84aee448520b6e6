use bench_schema::{Exchange, Outcome};

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

#[test]
fn a_stage_ends_while_there_is_time_left_to_answer_what_was_sent() {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.closed = Some(Stamp::EPOCH);
    let one = RequestRecord::bare(0, "c", wire);
    let second = |at: f64| Nanos::from_secs_f64(at);
    // 10 requests a second for at most 46 s with their answers
    let ends = |answers_per_s: f64| {
        let mut stage = cell(1, 1.0, 1.0);
        stage.load = Load::Open {
            rate_per_s: Some(10.0),
            arrival: bench_schema::ArrivalKind::Poisson,
            in_flight_cap: None,
        };
        (stage.stop.requests, stage.stop.duration) = (Some(400), Some(second(40.0)));
        let asked = Asked {
            search: Some(SearchAsked::default()),
            ..Asked::default()
        };
        let mut told = CellConclusion::new(&stage, &asked);
        let enough = (0..400).find(|i| {
            let at = f64::from(*i) / answers_per_s;
            let mut answer = one.clone();
            answer.shift(second(at));
            answer.due = one.due + second(f64::from(*i) / 10.0);
            told.push(&answer);
            told.is_enough()
        });
        enough.map(|i| f64::from(i) / answers_per_s)
    };
    // a third of them is answered: what 15 s send takes all of it
    let sent_until = ends(10.0 / 3.0).unwrap();
    assert!((14.0..16.0).contains(&sent_until), "{sent_until}");
    assert_eq!(ends(10.0), None);
}
