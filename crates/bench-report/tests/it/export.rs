//! Exports by the other tools' own definitions.

use std::collections::BTreeSet;
use std::io::Cursor;

use bench_report::export::{self, Exporter, Tool};
use bench_schema::{CellRecord, Nanos, RequestRecord, RunRecord};
use serde_json::Value;

use crate::support::{requests, runs};

/// Keys that `vllm bench serve --save-result --save-detailed` writes, read off a real file and its source, and `trust`.
const VLLM_KEYS: &str = "backend burstiness completed date duration endpoint_type errors failed generated_texts input_lens itls \
    label latencies max_concurrency max_concurrent_requests max_output_tokens_per_s mean_e2el_ms mean_itl_ms mean_tpot_ms mean_ttft_ms \
    median_e2el_ms median_itl_ms median_tpot_ms median_ttft_ms model_id num_prompts output_lens output_throughput p50_e2el_ms \
    p50_itl_ms p50_tpot_ms p50_ttft_ms p90_e2el_ms p90_itl_ms p90_tpot_ms p90_ttft_ms p95_e2el_ms p95_itl_ms p95_tpot_ms p95_ttft_ms \
    p99_e2el_ms p99_itl_ms p99_tpot_ms p99_ttft_ms queue_times request_goodput request_rate request_throughput rtfx start_times \
    std_e2el_ms std_itl_ms std_tpot_ms std_ttft_ms tokenizer_id trust total_input_tokens total_output_tokens total_token_throughput ttfts";

fn run_and_records() -> (RunRecord, Vec<RequestRecord>) {
    let mut run = runs::sweep();
    run.tags.clear();
    let records = requests::records(&run);
    (run, records)
}

/// The export of one cell, from records in the order in which they ended.
fn exported(tool: Tool, run: &RunRecord, cell: &CellRecord, mut all: Vec<RequestRecord>) -> Value {
    all.sort_by_key(RequestRecord::last_instant);
    serde_json::from_slice(&written(tool, run, cell, &all)).unwrap()
}

/// The same as text, from records in the order given.
fn written(tool: Tool, run: &RunRecord, cell: &CellRecord, all: &[RequestRecord]) -> Vec<u8> {
    let mut exporter = Exporter::new(run, Cursor::new(Vec::new()));
    for record in all {
        exporter.add(record).unwrap();
    }
    let mut out = Vec::new();
    exporter.write(tool, cell, &mut out).unwrap();
    out
}

fn vllm(run: &RunRecord, cell: &CellRecord, records: Vec<RequestRecord>) -> Value {
    exported(Tool::Vllm, run, cell, records)
}

fn aiperf(run: &RunRecord, cell: &CellRecord, records: Vec<RequestRecord>) -> Value {
    exported(Tool::Aiperf, run, cell, records)
}

fn list(value: &Value, key: &str) -> Vec<f64> {
    value[key]
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

#[test]
fn the_vllm_export_has_exactly_that_tools_keys() {
    let (run, records) = run_and_records();
    let out = vllm(&run, &run.cells[3], records);
    let keys: BTreeSet<&str> = out
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, VLLM_KEYS.split_whitespace().collect::<BTreeSet<_>>());
    assert_eq!(
        (
            out["request_rate"].as_str(),
            out["max_concurrency"].as_u64(),
            out["date"].as_str()
        ),
        (Some("inf"), Some(8), Some("20261120-103716"))
    );
}

#[test]
fn failed_requests_are_empty_entries_with_their_error_and_the_lists_line_up() {
    let (run, records) = run_and_records();
    let cell = &run.cells[3];
    let mut of_cell: Vec<_> = records
        .iter()
        .filter(|r| r.cell == cell.id)
        .cloned()
        .collect();
    of_cell.sort_by_key(|r| (r.dispatched.unwrap_or(r.due), r.id));
    let out = vllm(&run, cell, records);
    let errors = out["errors"].as_array().unwrap();
    let lengths: BTreeSet<usize> = [
        "errors",
        "ttfts",
        "itls",
        "latencies",
        "input_lens",
        "output_lens",
        "generated_texts",
    ]
    .map(|k| out[k].as_array().unwrap().len())
    .into();
    assert_eq!(lengths, BTreeSet::from([of_cell.len()]));
    let mut failed = 0;
    for (i, record) in of_cell.iter().enumerate() {
        let whole = record.wire.outcome.is_completed();
        failed += u64::from(!whole);
        assert_eq!(errors[i].as_str().unwrap().is_empty(), whole);
        let gaps = out["itls"][i].as_array().unwrap().len();
        assert_eq!(
            gaps,
            if whole {
                record.wire.events.len() - 1
            } else {
                0
            }
        );
        assert_eq!(out["ttfts"][i].as_f64().unwrap() > 0.0, whole);
    }
    assert!(failed > 0);
    assert_eq!(out["failed"].as_u64(), Some(failed));
}

#[test]
fn the_vllm_figures_follow_from_its_lists_by_its_own_arithmetic() {
    let (run, records) = run_and_records();
    let out = vllm(&run, &run.cells[2], records);
    let latencies: Vec<f64> = list(&out, "latencies")
        .into_iter()
        .filter(|&x| x > 0.0)
        .collect();
    let ttfts: Vec<f64> = list(&out, "ttfts")
        .into_iter()
        .filter(|&x| x > 0.0)
        .collect();
    let close = |key: &str, want: f64| {
        let got = out[key].as_f64().unwrap();
        assert!(
            (got - want).abs() <= 1e-9 * want.abs(),
            "{key}: {got} instead of {want}"
        );
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (e2e, ttft) = (mean(&latencies), mean(&ttfts));
    close("mean_e2el_ms", e2e * 1e3);
    close("mean_ttft_ms", ttft * 1e3);
    let variance =
        latencies.iter().map(|x| (x - e2e).powi(2)).sum::<f64>() / latencies.len() as f64;
    close("std_e2el_ms", variance.sqrt() * 1e3);
    close(
        "request_throughput",
        latencies.len() as f64 / out["duration"].as_f64().unwrap(),
    );
    let tokens: f64 = list(&out, "output_lens").iter().sum();
    close(
        "output_throughput",
        tokens / out["duration"].as_f64().unwrap(),
    );
    assert_eq!(out["median_itl_ms"], out["p50_itl_ms"]);
}

#[test]
fn the_vllm_times_count_from_when_a_request_was_taken_up_and_not_from_when_its_slot_was_free() {
    let (run, records) = run_and_records();
    let mut late = records.clone();
    for record in &mut late {
        record.due = record.due - Nanos::from_millis(100);
    }
    let [on_time, late] = [records, late].map(|records| vllm(&run, &run.cells[2], records));
    for key in ["ttfts", "latencies", "p99_ttft_ms", "mean_e2el_ms"] {
        assert_eq!(on_time[key], late[key], "{key}");
    }
}

#[test]
fn what_lies_between_repeats_is_no_time_of_the_measurement() {
    let (run, records) = run_and_records();
    let again = records.iter().cloned().map(|mut record| {
        record.repeat += 1;
        record.shift(Nanos::from_secs(1_000));
        record
    });
    let both: Vec<_> = records.iter().cloned().chain(again).collect();
    let [once, twice] = [records, both].map(|records| {
        let aiperf = aiperf(&run, &run.cells[2], records.clone());
        (vllm(&run, &run.cells[2], records), aiperf)
    });
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    let of = |out: &Value, key: &str| out[key].as_f64().unwrap();
    near(of(&twice.0, "duration"), 2.0 * of(&once.0, "duration"));
    near(
        of(&twice.0, "request_throughput"),
        of(&once.0, "request_throughput"),
    );
    let of = |out: &Value, key: &str| out[key]["avg"].as_f64().unwrap();
    near(
        of(&twice.1, "benchmark_duration"),
        2.0 * of(&once.1, "benchmark_duration"),
    );
}

#[test]
fn the_aiperf_export_has_a_unit_and_percentiles_for_each_metric() {
    let (run, records) = run_and_records();
    let out = aiperf(&run, &run.cells[3], records);
    for metric in [
        "request_latency",
        "time_to_first_token",
        "inter_token_latency",
        "output_sequence_length",
    ] {
        let seen = out[metric].as_object().unwrap();
        for key in [
            "unit", "avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min",
            "max", "std", "count", "sum",
        ] {
            assert!(seen.contains_key(key), "{metric}.{key}");
        }
    }
    assert_eq!(out["is_complete"], true);
    assert!(out["error_summary"][0]["count"].as_u64().unwrap() > 0);
}

#[test]
fn csv_has_one_line_for_each_cell_and_no_formulas() {
    let mut run = runs::sweep();
    run.cells[0].id = "=HYPERLINK(1)".into();
    let csv = export::cells(&run);
    assert_eq!(csv.lines().count(), run.cells.len() + 1);
    assert!(csv.contains("\n'=HYPERLINK(1)"));
    let widths: BTreeSet<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(widths.len(), 1);
    assert!(export::distributions(&run).lines().count() > run.cells.len() * 5);
}

#[test]
fn more_rows_than_are_read_at_once_come_in_the_order_of_sending_whatever_that_of_the_records() {
    let (run, records) = run_and_records();
    let cell = &run.cells[3];
    let own = || records.iter().filter(|record| record.cell == cell.id);
    let copies = 2_500_usize.div_ceil(own().count());
    let copies = (0..copies as u64).flat_map(|copy| {
        own().cloned().map(move |mut record| {
            record.id += copy * 10_000;
            record.shift(Nanos::from_secs(copy.cast_signed()));
            record
        })
    });
    let mut many: Vec<_> = copies.collect();
    let of = |many: &[RequestRecord]| {
        [Tool::Vllm, Tool::Aiperf].map(|tool| written(tool, &run, cell, many))
    };
    let straight = of(&many);
    many.reverse();
    assert!(of(&many) == straight, "the order of the records shows");
    many.sort_by_key(|r| (r.dispatched.unwrap_or(r.due), r.id));
    let lists: Value = serde_json::from_slice(&straight[0]).unwrap();
    let inputs = many.iter().map(|r| r.input_tokens().unwrap_or(0) as f64);
    assert_eq!(list(&lists, "input_lens"), inputs.collect::<Vec<_>>());
    let gaps = |gaps: &Value| gaps.as_array().unwrap().len();
    let gaps: Vec<_> = lists["itls"].as_array().unwrap().iter().map(gaps).collect();
    let expected = many.iter().map(|r| {
        let gaps = r.wire.events.len().saturating_sub(1);
        if r.wire.outcome.is_completed() {
            gaps
        } else {
            0
        }
    });
    assert_eq!(gaps, expected.collect::<Vec<_>>());
}
