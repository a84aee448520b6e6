//! Frames of run directories made from records.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use bench_frames::{
    Format, FramesError, Series, along, cells, history, partition, pivot_cells, run_dirs, run_name,
    series, write_run,
};
use bench_metrics::{Estimate, LEVEL, Sample, latency};
use bench_schema::{
    CellRecord, Channel, Event, Exchange, FailureKind, JournalFile, Metric, Nanos, Outcome, Phase,
    Quantity, RequestRecord, RunRecord, Stage, Stamp, TokenSource, TrustVerdict, Unit,
};
use polars::prelude::{DataFrame, DataType, ParquetReader, SerReader as _};
use serde_json::json;

fn record(cell: &str, id: u64) -> RequestRecord {
    let due = Stamp::new(i64::try_from(id).unwrap() * 10_000_000);
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(due + Nanos::new(1_000));
    let failed = id % 5 == 4;
    if failed {
        wire.outcome = Outcome::Failed {
            stage: Stage::Headers,
            failure: FailureKind::Status,
            message: "=HYPERLINK(\"http://x\")".to_owned(),
        };
    }
    for k in 0..if failed { 1 } else { 4 } {
        wire.events.push(Event {
            at: due
                + Nanos::from_millis(20 + k * 7)
                + Nanos::new(i64::try_from(id * 31 % 17).unwrap() * 100_000),
            lag: Some(Nanos::new(30_000)),
            bound: Nanos::new(if k == 2 { 500_000 } else { 0 }),
            tokens: Some(1),
            channel: if k == 0 {
                Channel::Reasoning
            } else {
                Channel::Answer
            },
        });
    }
    RequestRecord {
        phase: if id == 0 {
            Phase::Warmup
        } else {
            Phase::Measure
        },
        use_case: id.is_multiple_of(2).then(|| "code".to_owned()),
        worker: Some(1),
        due,
        dispatched: Some(due),
        asked_output_tokens: Some(4),
        output_tokens: (!failed).then_some(4),
        token_source: TokenSource::Stream,
        ..RequestRecord::bare(id, cell, wire)
    }
}

fn records() -> Vec<RequestRecord> {
    ["c1", "c16"]
        .iter()
        .flat_map(|cell| (0..30).map(move |id| record(cell, id)))
        .collect()
}

fn run_json(gpus: &str) -> String {
    let cell = |id: &str, concurrency: u32| {
        json!({
            "id": id, "label": id, "factors": {"concurrency": concurrency, "prompt": "short"},
            "load": {"kind": "closed", "concurrency": concurrency}, "stop": {"requests": 30}, "repeats": 1,
            "plan": {"hash": "", "requests": 0, "dataset": "mixed", "sized_by": "words"}, "headline": "sent",
            "counts": {"planned": 29, "completed": 23, "failed": 6, "timed_out": 0, "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 1},
            "windows": {}, "analysis": {}, "client": {"workers": 1},
            "metrics": {"e2e": {"unit": "ns", "n": 1, "mean": 2_500_000.0, "min": 1.0, "max": 4.0, "quantiles": [{"q": 0.5, "value": 2_000_000.0}]}},
        })
    };
    json!({
        "schema": {"name": bench_schema::SCHEMA_NAME, "major": bench_schema::SCHEMA_MAJOR, "minor": bench_schema::SCHEMA_MINOR},
        "experiment": "throughput", "title": "t", "trust": {"verdict": "trusted", "reasons": []},
        "tool": {"name": "bench-throughput", "version": "0.1.0"}, "started_at": "2026-11-20T13:00:00Z", "duration": 1,
        "complete": true, "seed": 7, "config": {}, "tags": {"gpus": gpus}, "clock": {"arrival": "kernel"}, "host": {},
        "server": {"urls": [], "embedded": false, "api": "openai-chat"}, "cells": [cell("c1", 1), cell("c16", 16)], "findings": [],
    })
    .to_string()
}

fn run(folder: &Path, gpus: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("run.json"), run_json(gpus)).unwrap();
    let lines: String = records()
        .iter()
        .map(|record| serde_json::to_string(record).unwrap() + "\n")
        .collect();
    fs::write(folder.join("requests.jsonl"), lines + "{\"id\":9,\"torn").unwrap();
    let readings = "{\"from\":1,\"to\":3,\"source\":\"host\",\"values\":{\"load_1m\":0.5,\"cpu_busy_s_total\":2.0}}\n";
    fs::write(folder.join("hardware.jsonl"), readings).unwrap();
    folder.to_owned()
}

/// What can be read of a journal, one value at a time.
fn journal<T: serde::de::DeserializeOwned>(
    dir: &Path,
    file: JournalFile,
) -> impl FnMut() -> Result<Option<T>, FramesError> {
    let mut lines = file.lines_in(dir);
    move || {
        while let Some(line) = lines.next_line().unwrap() {
            if let Some(value) = line.value() {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn stored(dir: &Path) -> RunRecord {
    RunRecord::from_json(&fs::read_to_string(dir.join("run.json")).unwrap()).unwrap()
}

/// One of the files that are written of a run.
fn frame_of(dir: &Path, name: &str) -> DataFrame {
    let out = tempfile::tempdir().unwrap();
    write(dir, out.path(), Format::Parquet);
    parquet(&out.path().join(name).with_extension("parquet"))
}

fn parquet(path: &Path) -> DataFrame {
    let file = fs::File::open(path).unwrap();
    ParquetReader::new(file).finish().unwrap()
}

fn cells_in(dirs: &[PathBuf]) -> DataFrame {
    let records: Vec<RunRecord> = dirs.iter().map(|dir| stored(dir)).collect();
    let named = dirs.iter().map(|dir| run_name(dir)).zip(&records);
    cells(&named.collect::<Vec<_>>()).unwrap()
}

fn write(dir: &Path, out: &Path, format: Format) -> Vec<PathBuf> {
    let record = stored(dir);
    let (request, reading) = (
        journal(dir, JournalFile::Requests),
        journal(dir, JournalFile::Readings),
    );
    write_run((&run_name(dir), &record), (out, format), request, reading).unwrap()
}

fn numbers(frame: &DataFrame, name: &str) -> Vec<Option<f64>> {
    frame
        .column(name)
        .unwrap()
        .cast(&DataType::Float64)
        .unwrap()
        .f64()
        .unwrap()
        .iter()
        .collect()
}

fn texts(frame: &DataFrame, name: &str) -> Vec<Option<String>> {
    let column = frame.column(name).unwrap().str().unwrap();
    column.iter().map(|text| text.map(str::to_owned)).collect()
}

#[test]
fn a_row_has_the_latencies_of_the_metrics_crate_in_milliseconds_and_null_where_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let frame = frame_of(&run(folder.path(), "2"), "requests");
    let records = records();
    assert_eq!(frame.height(), records.len(), "a torn line is no row");
    let (ttft, e2e) = (numbers(&frame, "ttft_ms"), numbers(&frame, "e2e_ms"));
    let outcome = texts(&frame, "outcome");
    for (i, record) in records.iter().enumerate() {
        let completed = record.wire.outcome.is_completed();
        for (metric, found) in [(Metric::Ttft, ttft[i]), (Metric::E2e, e2e[i])] {
            let wanted = latency(record, metric)
                .filter(|_| completed)
                .map(|ns| ns / 1e6);
            assert_eq!(
                found.map(f64::to_bits),
                wanted.map(f64::to_bits),
                "{metric} of {i}"
            );
        }
        assert_eq!(outcome[i].as_deref(), Some(record.wire.outcome.name()));
    }
    assert_eq!(numbers(&frame, "concurrency")[59], Some(16.0));
    assert_eq!(texts(&frame, "tag.gpus")[0].as_deref(), Some("2"));
    assert_eq!(texts(&frame, "factor.prompt")[0].as_deref(), Some("short"));
    assert_eq!(texts(&frame, "use_case")[1], None);
}

#[test]
fn runs_with_other_tags_share_one_frame_with_null_where_a_tag_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder.path().join("a"), "1");
    let b = run(&folder.path().join("b"), "4");
    let other = fs::read_to_string(b.join("run.json"))
        .unwrap()
        .replace("\"gpus\"", "\"layout\"");
    fs::write(b.join("run.json"), other).unwrap();
    let runs = run_dirs(folder.path());
    assert_eq!(runs.len(), 2);
    let grid = cells_in(&runs);
    assert_eq!(grid.height(), 4);
    let tags = (
        texts(&grid, "tag.gpus")[3].clone(),
        texts(&grid, "tag.layout")[3].clone(),
    );
    assert_eq!(tags, (None, Some("4".to_owned())));
    assert_eq!(numbers(&grid, "e2e_ms.p50")[0], Some(2.0));
    assert_eq!(numbers(&grid, "e2e_ms.p99")[0], None);
    assert_eq!(
        texts(&grid, "run"),
        ["a", "a", "b", "b"].map(|name| Some(name.to_owned()))
    );
}

#[test]
fn tokens_have_a_row_for_each_event_with_gap_bound_and_channel() {
    let folder = tempfile::tempdir().unwrap();
    let frame = frame_of(&run(folder.path(), "2"), "tokens");
    let events: usize = records()
        .iter()
        .filter(|r| r.phase == Phase::Measure)
        .map(|r| r.wire.events.len())
        .sum();
    assert_eq!(frame.height(), events);
    assert_eq!(numbers(&frame, "gap_ms")[..3], [None, Some(7.0), Some(7.0)]);
    assert_eq!(numbers(&frame, "bound_ms")[2], Some(0.5));
    let channels = texts(&frame, "channel");
    assert_eq!(
        (channels[0].as_deref(), channels[1].as_deref()),
        (Some("reasoning"), Some("answer"))
    );
}

#[test]
fn readings_are_long_one_row_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let frame = frame_of(&run(folder.path(), "2"), "readings");
    assert_eq!(
        texts(&frame, "name"),
        [
            Some("cpu_busy_s_total".to_owned()),
            Some("load_1m".to_owned())
        ]
    );
    assert_eq!(numbers(&frame, "value"), [Some(2.0), Some(0.5)]);
}

#[test]
fn names_with_numbers_in_them_stand_in_the_order_of_the_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = golden(folder.path(), "1", 1.0);
    run.cells = vec![run.cells[0].clone(), run.cells[0].clone()];
    for (cell, rate) in run.cells.iter_mut().zip(["r20", "r5"]) {
        cell.id = rate.to_owned();
    }
    let frame = cells(&[("a".to_owned(), &run)]).unwrap();
    let (grid, _) = pivot_cells(&frame, "run", "cell", "requests_per_s").unwrap();
    let names = grid.get_column_names();
    assert_eq!(names[1..], ["r5", "r20"]);
}

/// A golden result of the repository, its rates and latencies real ones, under another tag.
fn golden(folder: &Path, gpus: &str, faster: f64) -> RunRecord {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/results/v1.1/run.json"
    );
    let mut run = RunRecord::from_json(&fs::read_to_string(path).unwrap()).unwrap();
    run.tags.insert("gpus".to_owned(), gpus.to_owned());
    for cell in &mut run.cells {
        let of_gpus = &mut cell.hardware.get_or_insert_default().derived;
        let busy = Quantity {
            value: 0.125 * gpus.parse::<f64>().unwrap(),
            unit: Unit::Ratio,
            interval: None,
        };
        of_gpus.insert("gpu_utilisation_mean".to_owned(), busy);
    }
    for rates in run
        .cells
        .iter_mut()
        .flat_map(|cell| [&mut cell.windows.whole, &mut cell.windows.steady])
        .flatten()
    {
        rates.requests_per_s = rates.requests_per_s.map(|rate| rate * faster);
        rates.output_tokens_per_s = rates.output_tokens_per_s.map(|x| x * faster);
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(
        folder.join("run.json"),
        serde_json::to_string(&run).unwrap(),
    )
    .unwrap();
    run
}

#[test]
fn a_pivot_of_cells_is_what_the_runs_say_to_the_last_digit() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [("a", "1", 1.0), ("b", "2", 1.59)]
        .map(|(name, gpus, faster)| golden(&folder.path().join(name), gpus, faster));
    let frame = cells_in(&run_dirs(folder.path()));
    for (value, figure) in [("e2e.p95", Metric::E2e), ("ttft.p50", Metric::Ttft)] {
        let q = if value.ends_with("p95") { 0.95 } else { 0.5 };
        let (grid, _) = pivot_cells(&frame, "gpus", "cell", value).unwrap();
        for (row, run) in runs.iter().enumerate() {
            for cell in &run.cells {
                let wanted = cell
                    .headline(figure)
                    .and_then(|d| d.quantile(q))
                    .map(|ns| ns / 1e6);
                let found = numbers(&grid, &cell.id)[row];
                assert_eq!(
                    found.map(f64::to_bits),
                    wanted.map(f64::to_bits),
                    "{value} of {}",
                    cell.id
                );
            }
        }
    }
    let mixed = pivot_cells(&frame, "gpus", "model", "e2e.p95");
    if runs[0].cells.len() > 1 {
        assert!(
            matches!(mixed, Err(FramesError::SeveralCells { .. })),
            "{mixed:?}"
        );
    }
    assert!(matches!(
        pivot_cells(&frame, "gpus", "cell", "e2e.p77"),
        Err(FramesError::NoColumn { name, .. }) if name == "e2e_ms.p77"
    ));
    assert!(matches!(
        pivot_cells(&frame, "gpus", "cell", "model"),
        Err(FramesError::NotANumber { name, .. }) if name == "model"
    ));
}

#[test]
fn levels_of_an_axis_have_the_figures_of_their_best_cells_to_the_last_digit() {
    let folder = tempfile::tempdir().unwrap();
    let all = [("1", 1.0), ("2", 1.5), ("2", 1.7), ("4", 2.29)];
    let runs: Vec<(String, RunRecord)> = (all.iter().enumerate())
        .map(|(i, (gpus, faster))| (i.to_string(), golden(folder.path(), gpus, *faster)))
        .collect();
    let of: Vec<(String, &RunRecord)> =
        runs.iter().map(|(name, run)| (name.clone(), run)).collect();
    let rate = |cell: &CellRecord| cell.headline_rates()?.output_tokens_per_s;
    let best = |(_, run): &(String, RunRecord)| {
        let cells = run.cells.iter();
        let best = cells.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
        best.unwrap().clone()
    };
    let frame = cells(&of).unwrap();
    let is_best = runs.iter().flat_map(|named| {
        let id = best(named).id;
        let cells = named.1.cells.iter();
        cells.map(move |cell| cell.id == id).collect::<Vec<_>>()
    });
    let frame = frame.filter(&is_best.collect()).unwrap();
    let (found, _) = along(&frame, "tag.gpus").unwrap();
    let levels: [Vec<CellRecord>; 3] =
        [&runs[..1], &runs[1..3], &runs[3..]].map(|runs| runs.iter().map(best).collect());
    let mean = |level: &Vec<CellRecord>, of: &dyn Fn(&CellRecord) -> Option<f64>| {
        let known: Vec<f64> = level.iter().filter_map(of).collect();
        Some(Sample::of(&known)?.mean())
    };
    let rates = levels.each_ref().map(|level| mean(level, &rate).unwrap());
    let e2e = |cell: &CellRecord| Some(cell.headline(Metric::E2e)?.quantile(0.95)? / 1e6);
    let wanted: [(&str, Vec<Option<f64>>); 3] = [
        ("runs", vec![Some(1.0), Some(2.0), Some(1.0)]),
        ("output_tokens_per_s", rates.map(Some).to_vec()),
        (
            "e2e.p95",
            levels.iter().map(|level| mean(level, &e2e)).collect(),
        ),
    ];
    let bits = |values: Vec<Option<f64>>| {
        values
            .into_iter()
            .map(|x| x.map(f64::to_bits))
            .collect::<Vec<_>>()
    };
    for (name, wanted) in wanted {
        assert_eq!(bits(numbers(&found, name)), bits(wanted), "{name}");
    }
    let named = levels.map(|level| Some(level[0].id.clone()));
    assert_eq!(texts(&found, "best cell"), named);
}

#[test]
fn a_history_is_of_trusted_runs_in_the_order_in_which_they_began_and_of_like_ones_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut frames = Vec::new();
    let mut doubtful = golden(folder.path(), "1", 1.0);
    doubtful.trust.verdict = TrustVerdict::Doubtful;
    assert_eq!(history(&doubtful).unwrap().height(), 0);
    for i in (0..8).rev() {
        let gpus = if i % 2 == 0 { "1" } else { "2" };
        let mut run = golden(folder.path(), gpus, 1.0 + f64::from(i));
        run.trust.verdict = TrustVerdict::Trusted;
        run.started_at = format!("2026-01-{:02}T00:00:00Z", i + 1);
        run.tags.insert("commit".to_owned(), format!("c{i}"));
        frames.push((history(&run).unwrap(), run));
    }
    let mut whole = frames[0].0.clone();
    for (frame, _) in &frames[1..] {
        whole = whole.vstack(frame).unwrap();
    }
    let all = series(&whole).unwrap();
    let of_one = |of: &Series| of.runs.ends_with("gpus=1");
    for one in &all {
        let at: Vec<&str> = one.points.iter().map(|(at, _)| at.as_str()).collect();
        let odd = ["c1", "c3", "c5", "c7"];
        let wanted = if of_one(one) {
            ["c0", "c2", "c4", "c6"]
        } else {
            odd
        };
        assert_eq!(at, wanted, "{}", one.runs);
    }
    // to the last digit what the first run's record has, its interval too
    let run = &frames.last().unwrap().1;
    let cell = &run.cells[0];
    let named = |figure: &str| {
        let named = format!("{} · {}", cell.label, cell.plan.dataset);
        let mut all = all.iter().filter(|one| of_one(one) && one.cell == named);
        let one = all.find(|one| one.figure == figure).unwrap();
        one.points[0].1
    };
    let rates = cell.headline_rates().unwrap();
    let interval = rates.requests_per_s_interval.unwrap();
    let wanted = Estimate::bounded(
        rates.requests_per_s.unwrap(),
        interval.low,
        interval.high,
        LEVEL,
    );
    assert_eq!(named("requests_per_s"), wanted);
    let p95 = cell.headline(Metric::E2e).unwrap().quantile(0.95).unwrap();
    assert_eq!(named("e2e.p95").value.to_bits(), (p95 / 1e6).to_bits());
}

#[test]
fn a_cell_without_the_factor_of_a_pivot_is_said_to_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = golden(folder.path(), "1", 1.0);
    run.cells.truncate(1);
    run.cells[0].load = bench_schema::Load::Open {
        rate_per_s: Some(5.0),
        arrival: bench_schema::ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let mut both = run.clone();
    both.cells.push(run.cells[0].clone());
    both.cells[1].id = "r20".to_owned();
    let of = |run: &RunRecord| {
        let cells = cells(&[("a".to_owned(), run)]).unwrap();
        pivot_cells(&cells, "run", "concurrency", "requests_per_s")
    };
    let (grid, _) = of(&run).unwrap();
    assert_eq!(grid.get_column_names()[1], "no concurrency");
    let cells = cells(&[("a".to_owned(), &run)]).unwrap();
    let (grid, _) = pivot_cells(&cells, "run", "rate_per_s", "requests_per_s").unwrap();
    assert_eq!(grid.get_column_names()[1], "5");
    let why = of(&both).unwrap_err().to_string();
    assert!(
        why.starts_with("run a, no concurrency has several cells"),
        "{why}"
    );
}

#[test]
fn a_run_as_parquet_has_its_cells_and_one_without_journals_has_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let dir = run(&folder.path().join("run"), "2");
    let wanted = cells_in(std::slice::from_ref(&dir));
    assert!(frame_of(&dir, "cells").equals_missing(&wanted));
    fs::remove_file(dir.join("requests.jsonl")).unwrap();
    fs::remove_file(dir.join("hardware.jsonl")).unwrap();
    for name in ["requests", "tokens", "readings"] {
        let frame = frame_of(&dir, name);
        assert!(frame.height() == 0 && frame.width() > 5, "{name}");
    }
}

#[test]
fn a_run_as_csv_has_a_line_for_each_row_its_headings_once_and_no_text_that_a_spreadsheet_would_run()
{
    let folder = tempfile::tempdir().unwrap();
    let dir = run(&folder.path().join("run"), "2");
    for path in write(&dir, &folder.path().join("out"), Format::Csv) {
        let frame = frame_of(&dir, path.file_stem().unwrap().to_str().unwrap());
        let text = fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = frame
            .get_column_names()
            .iter()
            .map(|name| name.as_str())
            .collect();
        assert_eq!(text.lines().next().unwrap(), names.join(","));
        assert_eq!(text.lines().count(), frame.height() + 1);
        assert!(!text.contains("\"=HYPERLINK"), "{text}");
        assert_eq!(text.contains("'=HYPERLINK"), path.ends_with("requests.csv"));
    }
}

#[test]
fn no_runs_is_an_error_that_says_what_to_give() {
    assert!(matches!(cells(&[]), Err(FramesError::NoRuns)));
}

#[test]
fn a_column_that_is_not_there_is_named_beside_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let frame = cells_in(&[run(folder.path(), "2")]);
    let error = pivot_cells(&frame, "foo", "cell", "e2e.p95").unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`foo`") && error.contains("tag.gpus") && error.contains("e2e.p95"));
    assert!(
        error.len() < 900 && !error.contains("e2e_ms.p95"),
        "{error}"
    );
}

#[test]
fn an_export_that_cannot_go_on_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = run(&folder.path().join("run"), "2");
    let record = RunRecord::from_json(&run_json("2")).unwrap();
    let out = folder.path().join("out");
    let mut whole = journal(&dir, JournalFile::Requests);
    let mut left = 3;
    let torn = move || {
        left -= 1;
        if left == 0 {
            return Err(FramesError::NoRuns);
        }
        whole()
    };
    let reading = journal(&dir, JournalFile::Readings);
    let failed = write_run(("run", &record), (&out, Format::Parquet), torn, reading);
    assert!(matches!(failed, Err(FramesError::NoRuns)));
    assert_eq!(out.read_dir().unwrap().count(), 0);
}

#[test]
fn a_place_of_a_pivot_has_the_worst_verdict_on_its_cells() {
    let folder = tempfile::tempdir().unwrap();
    let reason = |verdict: &str, cell: serde_json::Value| json!({"code": "lateness", "verdict": verdict, "message": "m", "cell": cell});
    let trust = |reasons: serde_json::Value| json!({"verdict": "untrusted", "reasons": reasons});
    let all = [
        ("1", trust(json!([]))),
        ("2", trust(json!([reason("untrusted", "c16".into())]))),
        (
            "4",
            trust(json!([
                reason("doubtful", json!(null)),
                reason("untrusted", "c1".into())
            ])),
        ),
    ];
    let runs = all.map(|(gpus, trust)| {
        let dir = run(&folder.path().join(gpus), gpus);
        let mut record: serde_json::Value = serde_json::from_str(&run_json(gpus)).unwrap();
        record["trust"] = trust;
        fs::write(dir.join("run.json"), record.to_string()).unwrap();
        dir
    });
    let (_, grid) = pivot_cells(&cells_in(&runs), "gpus", "cell", "planned").unwrap();
    assert_eq!(numbers(&grid, "c1"), [Some(0.0), Some(0.0), Some(2.0)]);
    assert_eq!(numbers(&grid, "c16"), [Some(0.0), Some(2.0), Some(1.0)]);
}

/// The middle of the bucket that holds the value of this rank, of buckets in order.
fn of_rank(buckets: &[(f64, f64)], rank: usize) -> f64 {
    let mut below = 0.0;
    let mut all = buckets.iter();
    let found = all.find(|(_, n)| {
        below += n;
        below > rank as f64
    });
    found.unwrap().0
}

#[test]
fn histograms_of_a_run_count_what_its_percentiles_are_of_and_give_them_within_two_in_a_thousand() {
    let folder = tempfile::tempdir().unwrap();
    let dir = run(&folder.path().join("a run"), "2");
    let record = RunRecord::from_json(&run_json("2")).unwrap();
    let (name, below) = partition(&dir, &record);
    assert_eq!(name, "130000-a_run");
    let place = "date=2026-11-20/benchmark=throughput/run=130000-a_run";
    assert_eq!(below, Path::new(place));
    let out = folder.path().join("all").join(&below);
    write(&dir, &out, Format::Parquet);
    let histograms = parquet(&out.join("histograms.parquet"));
    let requests = parquet(&out.join("requests.parquet"));
    let text = |name: &str| -> Vec<String> {
        let column = histograms.column(name).unwrap().str().unwrap();
        column.iter().map(|text| text.unwrap().to_owned()).collect()
    };
    let (cells, metrics) = (text("cell"), text("metric"));
    let (values, counts) = (numbers(&histograms, "value_ms"), numbers(&histograms, "n"));
    let in_headline = requests.column("headline").unwrap().bool().unwrap();
    assert_eq!(
        in_headline.iter().filter(|is| *is == Some(true)).count(),
        58
    );
    let of = |cell: &str, metric: &str| {
        let rows = cells.iter().zip(&metrics).zip(values.iter().zip(&counts));
        let mine = rows.filter(|((of, which), _)| *of == cell && *which == metric);
        let buckets = mine.map(|(_, (value, n))| (value.unwrap(), n.unwrap()));
        buckets.collect::<Vec<_>>()
    };
    for (cell, from) in [("c1", 0), ("c16", 30)] {
        for metric in ["ttft", "e2e", "tpot"] {
            let column = numbers(&requests, &format!("{metric}_ms"));
            let mut exact: Vec<f64> = (from..from + 30)
                .filter(|&row| in_headline.get(row) == Some(true))
                .filter_map(|row| column[row])
                .collect();
            exact.sort_by(f64::total_cmp);
            let buckets = of(cell, metric);
            let all: f64 = buckets.iter().map(|(_, n)| n).sum();
            assert!((all - exact.len() as f64).abs() < 0.5, "{cell} {metric}");
            for (rank, exact) in exact.iter().enumerate() {
                let found = of_rank(&buckets, rank);
                assert!(
                    (found / exact - 1.0).abs() < 0.002,
                    "{cell} {metric}: {found} for {exact}"
                );
            }
        }
    }
}
