//! Results of every version of the format keep loading. A version's files are written once and never changed.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::path::{Path, PathBuf};

use bench_schema::{
    CellProgress, Metric, Nanos, Reading, RequestRecord, RunRecord, SchemaError, TrustVerdict,
};

fn golden(file: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/results")
        .join(file);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_run_of_version_one_loads_with_its_meaning() {
    let run = RunRecord::from_json(&golden("v1/run.json")).unwrap();
    assert_eq!((run.schema.major, run.schema.minor), (1, 0));
    assert!(run.complete && run.server.embedded);
    assert_eq!(
        run.cells
            .iter()
            .map(|cell| cell.id.as_str())
            .collect::<Vec<_>>(),
        ["c1", "c2"]
    );
    for cell in &run.cells {
        assert!(cell.counts.add_up());
        assert_eq!(cell.counts.completed, 4);
        assert!(
            cell.headline(Metric::Ttft)
                .and_then(bench_schema::Distribution::p50)
                .is_some_and(|p50| p50 > 0.0)
        );
    }
    assert!(run.trust.verdict <= TrustVerdict::Untrusted);
    assert_eq!(run.targets.first().map(|target| target.met), Some(true));
}

#[test]
fn a_run_of_version_one_one_loads_with_the_pause_of_late_reading() {
    let run = RunRecord::from_json(&golden("v1.1/run.json")).unwrap();
    assert_eq!((run.schema.major, run.schema.minor), (1, 1));
    let client = &run.cells.first().unwrap().client;
    assert_eq!(client.pause, Some(Nanos::new(229_376)));
    assert!(client.lag.as_ref().is_some_and(|lag| lag.n == 3072));
}

#[test]
fn a_bit_that_flips_in_a_stored_run_is_told_or_changes_nothing() {
    let run = RunRecord::from_json(&golden("v1.2/run.json")).unwrap();
    let text = run.to_json().unwrap();
    let run = RunRecord::from_json(&text).unwrap();
    assert_eq!(run.to_json().unwrap(), text);
    let (mut told, step) = (0, text.len() / 300 + 1);
    let tail = text.len() - 60..text.len();
    for at in (0..text.len()).step_by(step).chain(tail) {
        let mut flipped = text.clone().into_bytes();
        flipped[at] ^= 1 << (at % 7);
        let read = RunRecord::from_json(&String::from_utf8_lossy(&flipped));
        match read {
            Ok(read) => assert_eq!(read, run, "byte {at}"),
            Err(_) => told += 1,
        }
    }
    assert!(told >= 300, "{told}");
}

#[test]
fn a_run_of_version_one_two_loads_with_what_the_server_told_of_itself() {
    let run = RunRecord::from_json(&golden("v1.2/run.json")).unwrap();
    assert_eq!((run.schema.major, run.schema.minor), (1, 2));
    let facts = &run.server.facts;
    assert_eq!(facts["gpu_memory_utilization"], "0.92");
    assert_eq!(facts["gpus"], "2 × Tesla T4");
    let older = RunRecord::from_json(&golden("v1.1/run.json")).unwrap();
    assert!(older.server.facts.is_empty());
}

#[test]
fn a_recovered_run_of_version_two_two_loads_without_the_hash_of_its_plans() {
    let text = golden("v2.2/run.json");
    let run = RunRecord::from_json(&text).unwrap();
    assert_eq!((run.schema.major, run.schema.minor), (2, 2));
    assert!(!run.complete && run.cells.len() == 2);
    for cell in &run.cells {
        assert!(cell.counts.add_up());
        assert_eq!((cell.counts.completed, &cell.plan.hash), (4, &None));
    }
    assert_eq!(run.to_json().unwrap(), text);
}

#[test]
fn requests_of_version_two_three_tell_which_connections_were_opened_beforehand() {
    let mut beforehand = 0;
    for line in golden("v2.3/requests.jsonl").lines() {
        let record: RequestRecord = serde_json::from_str(line).unwrap();
        let connection = &record.wire.connection;
        assert!(connection.set_up().is_some() || !connection.beforehand);
        beforehand += usize::from(connection.beforehand);
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
    assert!(beforehand > 0);
    let cells: Vec<CellProgress> = serde_json::from_str(&golden("v2.3/cells.json")).unwrap();
    assert!(cells[0].ended.is_some_and(|ended| ended > cells[0].began));
}

#[test]
fn an_open_loop_of_version_two_four_loads_without_a_rate() {
    let text = golden("v2.4/run.json");
    let run = RunRecord::from_json(&text).unwrap();
    assert_eq!((run.schema.major, run.schema.minor), (2, 4));
    let whole = run.cells[0].windows.whole.as_ref().unwrap();
    assert_eq!(
        (whole.offered_requests_per_s, whole.requests_per_s),
        (Some(20.0), None)
    );
    let again = run.to_json().unwrap();
    assert_eq!(RunRecord::from_json(&again).unwrap(), run);
    assert!(!again.contains("\"requests_per_s\": null"));
}

#[test]
fn requests_and_readings_of_version_one_load_and_are_written_the_same_again() {
    for line in golden("v1/requests.jsonl").lines() {
        let record: RequestRecord = serde_json::from_str(line).unwrap();
        let again: serde_json::Value = serde_json::to_value(&record).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(line).unwrap()
        );
        assert_eq!(record.output_tokens, Some(4));
    }
    for line in golden("v1/hardware.jsonl").lines() {
        let reading: Reading = serde_json::from_str(line).unwrap();
        assert!(reading.from <= reading.to);
    }
}

#[test]
fn a_newer_major_version_and_another_format_are_refused_by_name() {
    let run = golden("v1/run.json");
    let newer = run.replacen("\"major\": 1", "\"major\": 3", 1);
    assert!(matches!(
        RunRecord::from_json(&newer),
        Err(SchemaError::TooNew { found: 3 })
    ));
    let other = run.replacen("llm-bench-run", "something-else", 1);
    assert!(matches!(
        RunRecord::from_json(&other),
        Err(SchemaError::OtherFormat { .. })
    ));
}
