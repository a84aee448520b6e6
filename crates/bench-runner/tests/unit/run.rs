use bench_schema::{Benchmark, Counts};

use super::*;

#[test]
fn a_run_without_an_answer_is_an_error_unless_somebody_ended_it() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut record = RunRecord::from_json(stored).unwrap();
    for cell in &mut record.cells {
        cell.counts = Counts {
            planned: 4,
            cancelled: 4,
            ..Counts::default()
        };
    }
    let settings = crate::config::for_tests(Benchmark::Throughput, &[]);
    assert!(nothing_answered(&record, &settings).is_some());
    record.incomplete_reason = Some(stop::ended_by("SIGTERM"));
    assert!(nothing_answered(&record, &settings).is_none());
}
