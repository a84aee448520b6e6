//! Run directories made from records, as the benchmarks write them, and the command under test.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench_metrics::{CellContext, CellSummary, summarise_cell};
use bench_schema::{
    Channel, Event, Exchange, FailureKind, Load, Nanos, Outcome, PromptSize, RequestRecord,
    RunRecord, Stage, Stamp, TokenSource,
};
use serde_json::{Value, json};

pub(crate) const MS: i64 = 1_000_000;
/// The wall clock when the run's own clock began.
pub(crate) const EPOCH: i64 = 1_795_000_000_000_000_000;

/// What the command said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(arguments: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-report"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A request of a closed loop: `slot` of `concurrency`, the `nth` of its slot; every seventh fails. Latencies vary by arithmetic.
pub(crate) fn request(cell: &str, concurrency: u64, id: u64, stretch: f64) -> RequestRecord {
    let (slot, nth) = (id % concurrency, id / concurrency);
    let due = Stamp::new(i64::try_from(nth * 120 + slot * 3).unwrap() * MS);
    let later = |ms: f64| due + Nanos::from_f64(ms * 1e6 * stretch);
    let tokens = 5 + id % 4;
    let failed = id % 7 == 6;
    let mut wire = Exchange::nothing(Outcome::Completed);
    if failed {
        wire.outcome = Outcome::Failed {
            stage: Stage::Headers,
            failure: FailureKind::Status,
            message: "503 Service Unavailable".to_owned(),
        };
    }
    (wire.connected, wire.sent) = (Some(due), Some(due));
    let first = 12.0 + (id * 37 % 11) as f64;
    for k in 0..if failed { 0 } else { tokens } {
        let wobble = ((id * 13 + k * 29) % 7) as f64 * 0.4;
        wire.events.push(Event {
            at: later(first + k as f64 * 9.0 + wobble),
            lag: Some(Nanos::new(40_000)),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    wire.headers = Some(later(first - 1.0));
    wire.closed = Some(wire.events.last().unwrap_or(later(first)) + Nanos::from_millis(1));
    RequestRecord {
        use_case: Some(
            if id.is_multiple_of(2) {
                "short-qa"
            } else {
                "code"
            }
            .to_owned(),
        ),
        worker: Some(0),
        due,
        dispatched: Some(due),
        prompt: PromptSize {
            sent_tokens: Some(20 + id % 5),
            ..PromptSize::default()
        },
        asked_output_tokens: Some(tokens),
        output_tokens: (!failed).then_some(tokens),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id, cell, wire)
    }
}

/// Records of a cell in the order they ended, moved by `from`.
pub(crate) fn requests(
    cell: &str,
    concurrency: u64,
    count: u64,
    from: Nanos,
    stretch: f64,
) -> Vec<RequestRecord> {
    let mut all: Vec<_> = (0..count)
        .map(|id| request(cell, concurrency, id, stretch))
        .collect();
    for record in &mut all {
        record.shift(from);
    }
    all.sort_by_key(RequestRecord::last_instant);
    all
}

/// Two cells, one after the other.
pub(crate) fn both_cells(stretch: f64) -> Vec<RequestRecord> {
    let mut all = requests("c1", 1, 40, Nanos::ZERO, stretch);
    all.extend(requests("c4", 4, 120, Nanos::from_secs(60), stretch));
    all
}

/// `run.json` as it is when a run begins: every cell's design, nothing measured.
pub(crate) fn blank() -> Value {
    let cell = |id: &str, concurrency: u32| {
        json!({
            "id": id, "label": format!("concurrency {concurrency}"), "factors": {"concurrency": concurrency},
            "load": {"kind": "closed", "concurrency": concurrency}, "stop": {"requests": 120}, "repeats": 1,
            "plan": {"hash": "", "requests": 0, "dataset": "mixed", "sized_by": "words"}, "headline": "sent",
            "counts": {"planned": 0, "completed": 0, "failed": 0, "timed_out": 0, "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0},
            "windows": {}, "metrics": {}, "analysis": {}, "client": {"workers": 0},
        })
    };
    json!({
        "schema": {"name": bench_schema::SCHEMA_NAME, "major": bench_schema::SCHEMA_MAJOR, "minor": bench_schema::SCHEMA_MINOR},
        "experiment": "throughput", "title": "throughput of tiny on http://127.0.0.1:8000",
        "trust": {"verdict": "trusted", "reasons": []}, "tool": {"name": "bench-throughput", "version": "0.1.0"},
        "started_at": "2026-11-20T13:00:00Z", "duration": 0, "complete": false,
        "incomplete_reason": "the run has not ended, or the program was killed",
        "seed": 7, "config": {"requests": "120", "slo": "e2e=200ms", "target": ["failed<=1000"], "seed": "7"}, "tags": {"gpus": "1"},
        "clock": {"arrival": "kernel", "monotonic_epoch_ns": 1_000_000_000_i64, "unix_epoch_ns": EPOCH},
        "host": {"name": "here", "cpus": 2}, "server": {"urls": ["http://127.0.0.1:8000"], "embedded": false, "api": "openai-chat", "model": "tiny"},
        "cells": [cell("c1", 1), cell("c4", 4)], "findings": [],
    })
}

/// A run directory as a killed benchmark leaves it.
pub(crate) fn killed(folder: &Path, run: &Value, records: &[RequestRecord]) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("run.json"), run.to_string()).unwrap();
    fs::write(folder.join("requests.jsonl"), lines(records)).unwrap();
    fs::write(
        folder.join("hardware.jsonl"),
        "{\"from\":1,\"to\":2,\"source\":\"host\",\"values\":{\"load_1m\":0.5}}\n",
    )
    .unwrap();
    folder.to_owned()
}

/// The same for a run that ended properly.
pub(crate) fn ended(folder: &Path, run: &Value, records: &[RequestRecord]) -> PathBuf {
    killed(folder, run, records);
    let said = command(&["recover", folder.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let mut run: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    run["complete"] = true.into();
    // what is changed on purpose has no digest
    for key in ["incomplete_reason", "digest"] {
        run.as_object_mut().unwrap().remove(key);
    }
    run["trust"] = json!({"verdict": "trusted", "reasons": []});
    fs::write(folder.join("run.json"), run.to_string()).unwrap();
    folder.to_owned()
}

pub(crate) fn lines(records: &[RequestRecord]) -> String {
    records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap() + "\n")
        .collect()
}

pub(crate) fn stored(folder: &Path) -> RunRecord {
    RunRecord::from_json(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

/// What `bench-metrics` makes of the records of a cell.
pub(crate) fn expected(
    cell: &str,
    concurrency: u32,
    records: &[RequestRecord],
    baseline: Option<f64>,
) -> CellSummary {
    let slo = bench_schema::Slo {
        metric: bench_schema::Metric::E2e,
        q: 0.95,
        limit: 2e8,
        use_case: None,
    };
    let context = CellContext {
        slos: vec![slo],
        queue_baseline: baseline,
        ..CellContext::new(Load::closed(concurrency))
    };
    summarise_cell(records.iter().filter(|record| record.cell == cell), context)
}

/// The aggregates of a stored cell, to be held against [`expected`], which is stored and read too: a number may change by its last bit there.
pub(crate) fn assert_cell_is(found: &bench_schema::CellRecord, wanted: &CellSummary) {
    assert_eq!(found.counts, wanted.counts);
    assert_eq!(found.windows, read_again(&wanted.windows));
    assert_eq!(found.metrics, read_again(&wanted.metrics));
    assert_eq!(found.groups, read_again(&wanted.groups));
    assert_eq!(found.slos, read_again(&wanted.slos));
    assert_eq!(found.phases, read_again(&wanted.phases));
}

fn read_again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&bench_schema::to_json(value).unwrap()).unwrap()
}
