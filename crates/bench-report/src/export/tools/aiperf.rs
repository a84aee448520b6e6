//! The shape of aiperf's `profile_export_aiperf.json`.

use std::io::{self, Read, Seek};

use bench_schema::{CellRecord, RunRecord};
use serde_json::{Value, json};

use super::rows::{Row, Rows};
use super::{Figures, Requests, object};

/// The version of aiperf's schema whose keys are written.
const SCHEMA: &str = "1.4";

/// A metric of aiperf that has one value a request: its name, its unit, and what it is.
type Metric = (&'static str, &'static str, fn(&Row) -> Option<f64>);

const METRICS: [Metric; 7] = [
    ("request_latency", "ms", |row| Some(row.latency()? * 1e3)),
    ("time_to_first_token", "ms", |row| Some(row.ttft()? * 1e3)),
    ("inter_token_latency", "ms", |row| {
        Some(row.latency().and(row.per_token())? * 1e3)
    }),
    ("output_token_throughput_per_user", USER, |row| {
        let itl = row.latency().and(row.per_token())?;
        (itl > 0.0).then_some(1.0 / itl)
    }),
    ("e2e_output_token_throughput", USER, |row| {
        let latency = row.latency().filter(|&s| s > 0.0)?;
        Some(row.output as f64 / latency)
    }),
    ("output_sequence_length", "tokens", |row| {
        Some(row.output as f64)
    }),
    ("input_sequence_length", "tokens", |row| {
        Some(row.input as f64)
    }),
];
const USER: &str = "tokens/sec/user";

pub(super) fn value(
    (run, cell): (&RunRecord, &CellRecord),
    requests: &Requests,
    rows: &mut Rows<'_, impl Read + Seek>,
) -> io::Result<Value> {
    let mut out = object(json!({
        "schema_version": SCHEMA,
        "aiperf_version": null,
        "benchmark_id": format!("{}-{}", run.started_at, cell.id),
        "input_config": run.config,
        "was_cancelled": !run.complete,
        "is_complete": run.complete,
        "incomplete_reason": run.incomplete_reason,
        "start_time": run.started_at,
        "trust": run.trust.of_cell(&cell.id).as_str(),
    }));
    let mut single = |metric: &str, unit: &str, value: f64| {
        out.insert(metric.into(), json!({"unit": unit, "avg": value}));
    };
    if let Some(goodput) = &cell.goodput {
        let rate = requests.span.goodput(goodput);
        single("goodput", "requests/sec", rate);
        single("good_request_fraction", "ratio", goodput.attainment);
    }
    let (input, output, completed) = (requests.input, requests.output, requests.completed);
    let span = &requests.span;
    single("request_throughput", "requests/sec", span.per_s(completed));
    single("output_token_throughput", "tokens/sec", span.per_s(output));
    single("request_count", "requests", completed as f64);
    single("error_request_count", "requests", requests.failed() as f64);
    single("benchmark_duration", "sec", span.seconds());
    single("total_isl", "tokens", input as f64);
    single("total_osl", "tokens", output as f64);
    let mut add = |metric: &str, unit: &str, figures: Figures| {
        let known = (figures.n > 0).then(|| figures.distribution(unit));
        out.extend(known.map(|known| (metric.to_owned(), known)));
    };
    for (metric, unit, of) in METRICS {
        add(metric, unit, rows.figures(of)?);
    }
    let (mut seconds, mut chunks) = (Figures::default(), Figures::default());
    rows.each(|spill, row| {
        for (i, gap) in row.gaps(spill)?.into_iter().enumerate() {
            if i == 0 {
                seconds.push(gap * 1e3);
            }
            chunks.push(gap * 1e3);
        }
        Ok(())
    })?;
    add("time_to_second_token", "ms", seconds);
    add("inter_chunk_latency", "ms", chunks);
    let errors = requests.failed.iter();
    let errors = errors.map(|(kind, n)| json!({"error_details": {"type": kind}, "count": n}));
    out.insert("error_summary".into(), errors.collect());
    Ok(Value::Object(out))
}

impl Figures {
    /// As aiperf has them.
    fn distribution(self, unit: &str) -> Value {
        let percents = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];
        let mut out = object(json!({
            "unit": unit,
            "avg": self.mean,
            "min": self.min,
            "max": self.max,
            "std": self.std(),
            "count": self.n,
            "sum": self.mean * self.n as f64,
        }));
        let quantiles = self.quantiles(&percents.map(|percent| percent / 100.0));
        for (percent, quantile) in percents.iter().zip(quantiles) {
            out.insert(format!("p{percent}"), json!(quantile));
        }
        Value::Object(out)
    }
}
