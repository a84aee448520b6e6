//! The shape of aiperf's `profile_export_aiperf.json`.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Outcome, Phase, RequestRecord, RunRecord};
use serde_json::{Map, Value, json};

use super::sums::{Figures, Times};

/// The version of that file's schema whose keys are written.
const SCHEMA: &str = "1.4";

#[derive(Default)]
struct Samples {
    by_metric: BTreeMap<&'static str, (&'static str, Figures)>,
    errors: BTreeMap<String, u64>,
    span: Option<(f64, f64)>,
    completed: u64,
    input: u64,
    output: u64,
}

/// One cell in that shape: per metric `{unit, avg, p1 … p99, min, max, std, count, sum}`, of completed requests, by that
/// tool's definitions (request latency ends with the last content event, ITL is per request: decode time over n − 1).
///
/// `requests` are records of the run; those of other cells are passed over.
pub fn aiperf(
    run: &RunRecord,
    cell: &CellRecord,
    requests: impl IntoIterator<Item = RequestRecord>,
) -> Value {
    let mut samples = Samples::default();
    for record in requests {
        if record.cell == cell.id && record.phase == Phase::Measure {
            samples.add(&record);
        }
    }
    let mut out = Map::new();
    out.insert("schema_version".into(), SCHEMA.into());
    out.insert("aiperf_version".into(), Value::Null);
    out.insert(
        "benchmark_id".into(),
        format!("{}-{}", run.started_at, cell.id).into(),
    );
    samples.write(&mut out);
    if let Some(goodput) = &cell.goodput {
        out.insert(
            "goodput".into(),
            json!({"unit": "requests/sec", "avg": goodput.requests_per_s}),
        );
        out.insert(
            "good_request_fraction".into(),
            json!({"unit": "ratio", "avg": goodput.attainment}),
        );
    }
    out.insert("input_config".into(), run.config.clone());
    out.insert("was_cancelled".into(), json!(!run.complete));
    out.insert("is_complete".into(), json!(run.complete));
    out.insert("incomplete_reason".into(), json!(run.incomplete_reason));
    out.insert("start_time".into(), json!(run.started_at));
    Value::Object(out)
}

impl Samples {
    fn push(&mut self, metric: &'static str, unit: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            let known = self.by_metric.entry(metric);
            known.or_insert((unit, Figures::default())).1.push(value);
        }
    }

    fn add(&mut self, record: &RequestRecord) {
        let times = Times::of(record);
        if !matches!(record.wire.outcome, Outcome::Unsent { .. }) {
            let (start, end) = (
                times.start.as_secs_f64(),
                record.last_instant().as_secs_f64(),
            );
            let (from, to) = self.span.unwrap_or((start, end));
            self.span = Some((from.min(start), to.max(end)));
        }
        if !record.wire.outcome.is_completed() {
            *self
                .errors
                .entry(record.wire.outcome.name().to_owned())
                .or_default() += 1;
            return;
        }
        self.completed += 1;
        self.input += times.input_tokens;
        self.output += times.output_tokens;
        let (ms, n) = (1e3, times.output_tokens as f64);
        let decode = times
            .latency
            .zip(times.ttft)
            .map(|(latency, ttft)| latency - ttft);
        let itl = decode.filter(|_| n >= 2.0).map(|decode| decode / (n - 1.0));
        self.push("request_latency", "ms", times.latency.map(|s| s * ms));
        self.push("time_to_first_token", "ms", times.ttft.map(|s| s * ms));
        self.push(
            "time_to_second_token",
            "ms",
            record
                .wire
                .events
                .gaps()
                .next()
                .map(|gap| gap.as_secs_f64() * ms),
        );
        self.push("inter_token_latency", "ms", itl.map(|s| s * ms));
        self.push(
            "output_token_throughput_per_user",
            "tokens/sec/user",
            itl.filter(|&s| s > 0.0).map(|s| 1.0 / s),
        );
        self.push(
            "e2e_output_token_throughput",
            "tokens/sec/user",
            times.latency.filter(|&s| s > 0.0).map(|s| n / s),
        );
        self.push("output_sequence_length", "tokens", Some(n));
        self.push(
            "input_sequence_length",
            "tokens",
            Some(times.input_tokens as f64),
        );
        for gap in record.wire.events.gaps() {
            self.push("inter_chunk_latency", "ms", Some(gap.as_secs_f64() * ms));
        }
    }

    fn write(self, out: &mut Map<String, Value>) {
        let seconds = self.span.map_or(0.0, |(from, to)| to - from);
        let per_s = |n: u64| {
            if seconds > 0.0 {
                n as f64 / seconds
            } else {
                0.0
            }
        };
        let failed: u64 = self.errors.values().sum();
        let single = [
            ("request_throughput", "requests/sec", per_s(self.completed)),
            ("output_token_throughput", "tokens/sec", per_s(self.output)),
            ("request_count", "requests", self.completed as f64),
            ("error_request_count", "requests", failed as f64),
            ("benchmark_duration", "sec", seconds),
            ("total_isl", "tokens", self.input as f64),
            ("total_osl", "tokens", self.output as f64),
        ];
        for (metric, unit, value) in single {
            out.insert(metric.into(), json!({"unit": unit, "avg": value}));
        }
        for (metric, (unit, figures)) in self.by_metric {
            out.insert(metric.into(), distribution(unit, figures));
        }
        let errors: Vec<Value> = self
            .errors
            .iter()
            .map(|(kind, n)| json!({"error_details": {"type": kind}, "count": n}))
            .collect();
        out.insert("error_summary".into(), errors.into());
    }
}

fn distribution(unit: &str, figures: Figures) -> Value {
    let percents = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];
    let mut out = Map::new();
    out.insert("unit".into(), unit.into());
    out.insert("avg".into(), json!(figures.mean));
    out.insert("min".into(), json!(figures.min));
    out.insert("max".into(), json!(figures.max));
    out.insert("std".into(), json!(figures.std()));
    out.insert("count".into(), json!(figures.n));
    out.insert("sum".into(), json!(figures.mean * figures.n as f64));
    let quantiles = figures.quantiles(&percents.map(|percent| percent / 100.0));
    for (percent, quantile) in percents.iter().zip(quantiles) {
        out.insert(format!("p{percent}"), json!(quantile));
    }
    Value::Object(out)
}
