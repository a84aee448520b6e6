//! The keys of `vllm bench serve --save-result --save-detailed`.

use bench_schema::{CellRecord, Load, Outcome, Phase, RequestRecord, RunRecord};
use serde_json::{Map, Value, json};

use super::sums::{Summary, Times};

/// Percentiles that are written.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// One cell as that tool would have written it, by its definitions.
///
/// `requests` are the cell's records in the order they were sent (others are passed over). ITL are the gaps between
/// content events; TPOT is (latency − TTFT) / (output tokens − 1) of answers of two tokens and more; the standard deviation
/// is that of the population; a failed request is an empty entry with its error. Latencies begin
/// just before the connection was asked for, as that tool's do. Lists are in seconds. A role or a finish chunk is no token here, so a server's first TTFT may be
/// later than that tool would say. `generated_texts` are empty unless the run kept texts.
pub fn vllm(
    run: &RunRecord,
    cell: &CellRecord,
    requests: impl IntoIterator<Item = RequestRecord>,
) -> Value {
    let mut lists = Lists::default();
    for record in requests {
        if record.cell == cell.id && record.phase == Phase::Measure {
            lists.add(&record);
        }
    }
    let mut out = Map::new();
    identity(&mut out, run, cell);
    lists.totals(&mut out, cell);
    lists.statistics(&mut out);
    lists.details(&mut out);
    Value::Object(out)
}

fn identity(out: &mut Map<String, Value>, run: &RunRecord, cell: &CellRecord) {
    let model = run.server.model.clone().unwrap_or_default();
    let chat = run.server.api.contains("chat");
    let backend = if chat { "openai-chat" } else { "openai" };
    out.insert("date".into(), date(&run.started_at).into());
    out.insert("endpoint_type".into(), backend.into());
    out.insert("backend".into(), backend.into());
    out.insert("label".into(), Value::Null);
    out.insert("model_id".into(), model.clone().into());
    out.insert("tokenizer_id".into(), model.into());
    out.insert("num_prompts".into(), cell.counts.planned.into());
    for (key, value) in &run.tags {
        out.insert(key.clone(), value.clone().into());
    }
    let (rate, burstiness, concurrency) = match &cell.load {
        Load::Closed { concurrency, .. } => (json!("inf"), 1.0, json!(concurrency)),
        Load::Open {
            rate_per_s,
            arrival,
            in_flight_cap,
        } => (json!(rate_per_s), burstiness(arrival), json!(in_flight_cap)),
    };
    out.insert("request_rate".into(), rate);
    out.insert("burstiness".into(), json!(burstiness));
    out.insert("max_concurrency".into(), concurrency);
}

/// That tool's burstiness is the shape of the gamma gaps: 1 / `CoV`².
fn burstiness(arrival: &bench_schema::ArrivalKind) -> f64 {
    match arrival {
        bench_schema::ArrivalKind::Gamma { cov } if *cov > 0.0 => 1.0 / (cov * cov),
        _ => 1.0,
    }
}

/// `2026-11-20T10:37:16Z` as `20261120-103716`.
fn date(rfc3339: &str) -> String {
    let digits: String = rfc3339
        .chars()
        .filter(char::is_ascii_digit)
        .take(14)
        .collect();
    match digits.split_at_checked(8) {
        Some((day, time)) => format!("{day}-{time}"),
        None => digits,
    }
}

#[derive(Default)]
struct Lists {
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    latencies: Vec<f64>,
    start_times: Vec<f64>,
    queue_times: Vec<f64>,
    texts: Vec<String>,
    errors: Vec<String>,
    completed: Vec<bool>,
    /// Start and end of everything that was sent, seconds.
    span: Option<(f64, f64)>,
    /// Arrival second of each content event of completed requests.
    events: Vec<f64>,
}

impl Lists {
    fn add(&mut self, record: &RequestRecord) {
        let times = Times::of(record);
        let completed = record.wire.outcome.is_completed();
        self.input_lens.push(times.input_tokens);
        self.output_lens
            .push(if completed { times.output_tokens } else { 0 });
        self.ttfts
            .push(times.ttft.filter(|_| completed).unwrap_or(0.0));
        self.latencies
            .push(times.latency.filter(|_| completed).unwrap_or(0.0));
        self.start_times.push(times.start.as_secs_f64());
        self.queue_times
            .push((times.start - record.due).or_zero().as_secs_f64());
        self.texts.push(
            record
                .wire
                .text
                .clone()
                .filter(|_| completed)
                .unwrap_or_default(),
        );
        self.errors.push(error(&record.wire.outcome));
        self.completed.push(completed);
        if !matches!(record.wire.outcome, Outcome::Unsent { .. }) {
            let (start, end) = (
                times.start.as_secs_f64(),
                record.last_instant().as_secs_f64(),
            );
            let (from, to) = self.span.unwrap_or((start, end));
            self.span = Some((from.min(start), to.max(end)));
        }
        if completed {
            self.events.extend(
                record
                    .wire
                    .events
                    .stamps()
                    .map(bench_schema::Stamp::as_secs_f64),
            );
        }
        self.itls
            .push(if completed { times.itl } else { Vec::new() });
    }

    fn totals(&self, out: &mut Map<String, Value>, cell: &CellRecord) {
        let duration = self.span.map_or(0.0, |(from, to)| to - from);
        let done = |list: &[u64]| {
            list.iter()
                .zip(&self.completed)
                .filter(|(_, done)| **done)
                .map(|(n, _)| n)
                .sum::<u64>()
        };
        let (input, output) = (done(&self.input_lens), done(&self.output_lens));
        let completed = self.completed.iter().filter(|done| **done).count();
        let per_s = |n: f64| if duration > 0.0 { n / duration } else { 0.0 };
        out.insert("duration".into(), json!(duration));
        out.insert("completed".into(), json!(completed));
        out.insert("failed".into(), json!(self.completed.len() - completed));
        out.insert("total_input_tokens".into(), json!(input));
        out.insert("total_output_tokens".into(), json!(output));
        out.insert("request_throughput".into(), json!(per_s(completed as f64)));
        out.insert(
            "request_goodput".into(),
            cell.goodput
                .as_ref()
                .map_or(Value::Null, |goodput| json!(goodput.requests_per_s)),
        );
        out.insert("output_throughput".into(), json!(per_s(output as f64)));
        out.insert(
            "total_token_throughput".into(),
            json!(per_s((input + output) as f64)),
        );
        out.insert(
            "max_output_tokens_per_s".into(),
            json!(self.most_tokens_in_a_second()),
        );
        out.insert("max_concurrent_requests".into(), json!(self.most_at_once()));
        out.insert("rtfx".into(), json!(0.0));
    }

    /// Tokens in the fullest second, counted from the start, as that tool does.
    fn most_tokens_in_a_second(&self) -> f64 {
        let start = self.span.map_or(0.0, |span| span.0);
        let mut seconds = std::collections::BTreeMap::<usize, f64>::new();
        for at in &self.events {
            *seconds.entry(crate::number::index(at - start)).or_default() += 1.0;
        }
        seconds.values().copied().fold(0.0, f64::max)
    }

    /// Requests that touch the fullest second, which is what that tool calls concurrent.
    fn most_at_once(&self) -> u64 {
        let start = self.span.map_or(0.0, |span| span.0);
        let mut changes = std::collections::BTreeMap::<usize, (u64, u64)>::new();
        for ((from, latency), _) in self
            .start_times
            .iter()
            .zip(&self.latencies)
            .zip(&self.completed)
            .filter(|(_, done)| **done)
        {
            changes
                .entry(crate::number::index(from - start))
                .or_default()
                .0 += 1;
            changes
                .entry(crate::number::index(from + latency - start) + 1)
                .or_default()
                .1 += 1;
        }
        let (mut now, mut most) = (0_u64, 0);
        for (begun, ended) in changes.values() {
            now = (now + begun).saturating_sub(*ended);
            most = most.max(now);
        }
        most
    }

    fn statistics(&self, out: &mut Map<String, Value>) {
        let done = |list: &[f64]| -> Vec<f64> {
            list.iter()
                .zip(&self.completed)
                .filter(|(_, done)| **done)
                .map(|(x, _)| *x)
                .collect()
        };
        let answers = self
            .latencies
            .iter()
            .zip(&self.ttfts)
            .zip(&self.output_lens);
        let tpots = answers
            .zip(&self.completed)
            .filter(|((_, n), done)| **done && **n > 1);
        let tpots: Vec<f64> = tpots
            .map(|(((latency, ttft), n), _)| (latency - ttft) / (n - 1) as f64)
            .collect();
        let itls: Vec<f64> = self.itls.iter().flatten().copied().collect();
        for (name, values) in [
            ("ttft", done(&self.ttfts)),
            ("tpot", tpots),
            ("itl", itls),
            ("e2el", done(&self.latencies)),
        ] {
            let summary = Summary::of(&values);
            let ms = |figure: &dyn Fn(&Summary) -> f64| {
                json!(summary.as_ref().map_or(0.0, |s| figure(s) * 1e3))
            };
            out.insert(format!("mean_{name}_ms"), ms(&|s| s.mean));
            out.insert(format!("median_{name}_ms"), ms(&|s| s.sample.median()));
            out.insert(format!("std_{name}_ms"), ms(&|s| s.std));
            for q in PERCENTILES {
                out.insert(
                    format!("p{}_{name}_ms", (q * 100.0).round()),
                    ms(&|s| s.sample.quantile(q)),
                );
            }
        }
    }

    fn details(self, out: &mut Map<String, Value>) {
        out.insert("input_lens".into(), json!(self.input_lens));
        out.insert("output_lens".into(), json!(self.output_lens));
        out.insert("ttfts".into(), json!(self.ttfts));
        out.insert("itls".into(), json!(self.itls));
        out.insert("latencies".into(), json!(self.latencies));
        out.insert("start_times".into(), json!(self.start_times));
        out.insert("queue_times".into(), json!(self.queue_times));
        out.insert("generated_texts".into(), json!(self.texts));
        out.insert("errors".into(), json!(self.errors));
    }
}

/// Empty for a whole answer.
fn error(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => String::new(),
        Outcome::Failed {
            stage,
            failure,
            message,
        } => format!("{failure} at {stage}: {message}"),
        Outcome::TimedOut { stage } => format!("timed out at {stage}"),
        Outcome::Truncated { message } => format!("truncated: {message}"),
        Outcome::Cancelled { reason } => format!("cancelled: {reason}"),
        Outcome::Unsent { reason } => format!("never sent: {reason}"),
    }
}
