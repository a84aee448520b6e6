//! The shape of aiperf's `profile_export_aiperf.json`.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Phase, RequestRecord, RunRecord};
use serde_json::{Map, Value, json};

use super::{Figures, Span, Times, object};

/// The version of that file's schema whose keys are written.
const SCHEMA: &str = "1.4";

#[derive(Default)]
struct Samples {
    by_metric: BTreeMap<&'static str, (&'static str, Figures)>,
    errors: BTreeMap<String, u64>,
    span: Span,
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
    let mut out = object(json!({
        "schema_version": SCHEMA,
        "aiperf_version": null,
        "benchmark_id": format!("{}-{}", run.started_at, cell.id),
        "input_config": run.config,
        "was_cancelled": !run.complete,
        "is_complete": run.complete,
        "incomplete_reason": run.incomplete_reason,
        "start_time": run.started_at,
    }));
    if let Some(goodput) = &cell.goodput {
        out.extend(object(json!({
            "goodput": {"unit": "requests/sec", "avg": goodput.requests_per_s},
            "good_request_fraction": {"unit": "ratio", "avg": goodput.attainment},
        })));
    }
    samples.write(&mut out);
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
        self.span.add(record, &times);
        if !record.wire.outcome.is_completed() {
            let kind = record.wire.outcome.name().to_owned();
            *self.errors.entry(kind).or_default() += 1;
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
        let user = "tokens/sec/user";
        let mut gaps = record.wire.events.gaps();
        let second = gaps.next().map(|gap| gap.as_secs_f64() * ms);
        let per_user = itl.filter(|&s| s > 0.0).map(|s| 1.0 / s);
        let whole = times.latency.filter(|&s| s > 0.0).map(|s| n / s);
        for (metric, unit, value) in [
            ("request_latency", "ms", times.latency.map(|s| s * ms)),
            ("time_to_first_token", "ms", times.ttft.map(|s| s * ms)),
            ("time_to_second_token", "ms", second),
            ("inter_token_latency", "ms", itl.map(|s| s * ms)),
            ("output_token_throughput_per_user", user, per_user),
            ("e2e_output_token_throughput", user, whole),
            ("output_sequence_length", "tokens", Some(n)),
            (
                "input_sequence_length",
                "tokens",
                Some(times.input_tokens as f64),
            ),
        ] {
            self.push(metric, unit, value);
        }
        for gap in record.wire.events.gaps() {
            self.push("inter_chunk_latency", "ms", Some(gap.as_secs_f64() * ms));
        }
    }

    fn write(self, out: &mut Map<String, Value>) {
        let failed: u64 = self.errors.values().sum();
        let single = [
            (
                "request_throughput",
                "requests/sec",
                self.span.per_s(self.completed as f64),
            ),
            (
                "output_token_throughput",
                "tokens/sec",
                self.span.per_s(self.output as f64),
            ),
            ("request_count", "requests", self.completed as f64),
            ("error_request_count", "requests", failed as f64),
            ("benchmark_duration", "sec", self.span.seconds()),
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
    let mut out = object(json!({
        "unit": unit,
        "avg": figures.mean,
        "min": figures.min,
        "max": figures.max,
        "std": figures.std(),
        "count": figures.n,
        "sum": figures.mean * figures.n as f64,
    }));
    let quantiles = figures.quantiles(&percents.map(|percent| percent / 100.0));
    for (percent, quantile) in percents.iter().zip(quantiles) {
        out.insert(format!("p{percent}"), json!(quantile));
    }
    Value::Object(out)
}
