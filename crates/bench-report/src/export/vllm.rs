//! The keys of `vllm bench serve --save-result --save-detailed`.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use bench_schema::{CellRecord, Load, Nanos, Outcome, Phase, RequestRecord, RunRecord, Stamp};
use serde_json::{Map, Value, json};

use super::{Figures, Span, Times, object};

/// Percentiles that are written.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// What a list is kept in until it is written: a file, or memory.
pub trait Spill: Read + Write + Seek {}

impl<T: Read + Write + Seek> Spill for T {}

/// Write one cell as that tool would have written it, by its definitions.
///
/// `requests` are the run's records in any order (those of other cells are passed over); the lists are in the order in which they were sent.
/// ITL are the gaps between content events; TPOT is (latency − TTFT) / (output tokens − 1) of answers of two tokens and more; the standard deviation
/// is that of the population; a failed request is an empty entry with its error. Latencies begin
/// just before the connection was asked for, as that tool's do. Lists are in seconds. A role or a finish chunk is no token here, so a server's first TTFT may be
/// later than that tool would say. `generated_texts` are empty unless the run kept texts.
///
/// Memory: about 90 bytes a request; gaps and texts wait in `spill`, which is empty at first.
///
/// # Errors
/// Where `spill` or `out` cannot be written.
pub fn vllm(
    (run, cell): (&RunRecord, &CellRecord),
    requests: impl IntoIterator<Item = RequestRecord>,
    spill: &mut dyn Spill,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut lists = Lists::default();
    for record in requests {
        if record.cell == cell.id && record.phase == Phase::Measure {
            lists.add(&record, spill)?;
        }
    }
    lists.rows.sort_unstable_by_key(|row| row.order);
    lists.details(spill, out)?;
    let mut rest = identity(run, cell);
    rest.extend(lists.totals(cell));
    lists.statistics(&mut rest);
    let rest = serde_json::to_string(&rest)?;
    // the lists are the beginning of the same object
    out.write_all(rest.trim_start_matches('{').as_bytes())?;
    out.write_all(b"\n")
}

fn identity(run: &RunRecord, cell: &CellRecord) -> Map<String, Value> {
    let model = run.server.model.clone().unwrap_or_default();
    let chat = run.server.api == "openai-chat";
    let backend = if chat { "openai-chat" } else { "openai" };
    let (rate, burstiness, concurrency) = match &cell.load {
        Load::Closed { concurrency, .. } => (json!("inf"), 1.0, json!(concurrency)),
        Load::Open {
            rate_per_s,
            arrival,
            in_flight_cap,
        } => (json!(rate_per_s), burstiness(arrival), json!(in_flight_cap)),
    };
    let mut out = object(json!({
        "date": date(&run.started_at),
        "endpoint_type": backend,
        "backend": backend,
        "label": null,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": cell.counts.planned,
    }));
    out.extend(
        run.tags
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into())),
    );
    out.extend(object(json!({
        "request_rate": rate,
        "burstiness": burstiness,
        "max_concurrency": concurrency,
    })));
    out
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
    rows: Vec<Row>,
    /// Where the spill ends.
    end: u64,
    span: Span,
    itls: Figures,
    /// Content events of completed requests in each second from the start.
    seconds: BTreeMap<usize, u64>,
}

/// One request, without its gaps and texts.
struct Row {
    order: (Stamp, u64),
    start: Stamp,
    due: Stamp,
    ttft: f64,
    latency: f64,
    input: u64,
    output: u64,
    completed: bool,
    /// Where its gaps, its text and its error begin in the spill, one after another, and how long they are.
    place: u64,
    gaps: u32,
    text: u32,
    error: u32,
}

impl Lists {
    fn add(&mut self, record: &RequestRecord, spill: &mut dyn Spill) -> io::Result<()> {
        let times = Times::of(record);
        let completed = record.wire.outcome.is_completed();
        let error = error(&record.wire.outcome);
        let text = record.wire.text.as_deref().filter(|_| completed);
        let text = text.unwrap_or_default();
        let mut kept = Vec::new();
        if completed {
            let gaps = record.wire.events.gaps();
            kept.extend(gaps.flat_map(|gap| gap.get().to_le_bytes()));
        }
        let narrow = |n: usize| u32::try_from(n).map_err(io::Error::other);
        let gaps = narrow(kept.len() / GAP)?;
        kept.extend_from_slice(text.as_bytes());
        kept.extend_from_slice(error.as_bytes());
        spill.write_all(&kept)?;
        let taken_up = record.dispatched.unwrap_or(record.due);
        self.rows.push(Row {
            order: (taken_up, record.id),
            start: times.start,
            due: record.due,
            ttft: times.ttft.filter(|_| completed).unwrap_or(0.0),
            latency: times.latency.filter(|_| completed).unwrap_or(0.0),
            input: times.input_tokens,
            output: if completed { times.output_tokens } else { 0 },
            completed,
            place: self.end,
            gaps,
            text: narrow(text.len())?,
            error: narrow(error.len())?,
        });
        self.end += kept.len() as u64;
        self.span.add(record, &times);
        Ok(())
    }

    fn completed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.completed)
    }

    fn totals(&self, cell: &CellRecord) -> Map<String, Value> {
        let input: u64 = self.completed().map(|row| row.input).sum();
        let output: u64 = self.completed().map(|row| row.output).sum();
        let completed = self.completed().count();
        let per_s = |n: f64| self.span.per_s(n);
        object(json!({
            "duration": self.span.seconds(),
            "completed": completed,
            "failed": self.rows.len() - completed,
            "total_input_tokens": input,
            "total_output_tokens": output,
            "request_throughput": per_s(completed as f64),
            "request_goodput": cell.goodput.as_ref().map(|goodput| goodput.requests_per_s),
            "output_throughput": per_s(output as f64),
            "total_token_throughput": per_s((input + output) as f64),
            "max_output_tokens_per_s": self.seconds.values().max().copied().unwrap_or(0) as f64,
            "max_concurrent_requests": self.most_at_once(),
            "rtfx": 0.0,
        }))
    }

    /// Requests that touch the fullest second, which is what that tool calls concurrent.
    fn most_at_once(&self) -> u64 {
        let start = self.span.start();
        let mut changes = BTreeMap::<usize, (u64, u64)>::new();
        for row in self.completed() {
            let from = row.start.as_secs_f64() - start;
            let second = |at: f64| crate::number::index(at);
            changes.entry(second(from)).or_default().0 += 1;
            changes.entry(second(from + row.latency) + 1).or_default().1 += 1;
        }
        let (mut now, mut most) = (0_u64, 0);
        for (begun, ended) in changes.values() {
            now = (now + begun).saturating_sub(*ended);
            most = most.max(now);
        }
        most
    }

    fn statistics(self, out: &mut Map<String, Value>) {
        let (mut ttfts, mut tpots, mut latencies) =
            (Figures::default(), Figures::default(), Figures::default());
        for row in self.completed() {
            ttfts.push(row.ttft);
            latencies.push(row.latency);
            if row.output > 1 {
                tpots.push((row.latency - row.ttft) / (row.output - 1) as f64);
            }
        }
        for (name, figures) in [
            ("ttft", ttfts),
            ("tpot", tpots),
            ("itl", self.itls),
            ("e2el", latencies),
        ] {
            out.insert(format!("mean_{name}_ms"), json!(figures.mean * 1e3));
            out.insert(format!("std_{name}_ms"), json!(figures.std() * 1e3));
            for (q, value) in PERCENTILES.iter().zip(figures.quantiles(&PERCENTILES)) {
                let ms = json!(value * 1e3);
                if (*q - 0.5).abs() < f64::EPSILON {
                    out.insert(format!("median_{name}_ms"), ms.clone());
                }
                out.insert(format!("p{}_{name}_ms", (q * 100.0).round()), ms);
            }
        }
    }

    /// The lists, as the beginning of an object. Gaps and texts come from the spill.
    fn details(&mut self, spill: &mut dyn Spill, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{")?;
        let rows = std::mem::take(&mut self.rows);
        list(out, "input_lens", &rows, |row| Ok(json!(row.input)))?;
        list(out, "output_lens", &rows, |row| Ok(json!(row.output)))?;
        list(out, "ttfts", &rows, |row| Ok(json!(row.ttft)))?;
        list(out, "latencies", &rows, |row| Ok(json!(row.latency)))?;
        let seconds = |at: Stamp| json!(at.as_secs_f64());
        list(out, "start_times", &rows, |row| Ok(seconds(row.start)))?;
        let waited = |row: &Row| (row.start - row.due).or_zero().as_secs_f64();
        list(out, "queue_times", &rows, |row| Ok(json!(waited(row))))?;
        let start = self.span.start();
        list(out, "itls", &rows, |row| {
            let kept = fetch(spill, row.place, row.gaps as usize * GAP)?;
            let gaps = kept.chunks_exact(GAP).filter_map(|gap| gap.try_into().ok());
            let gaps = gaps.map(|gap| Nanos::new(i64::from_le_bytes(gap)).as_secs_f64());
            let mut at = row.start.as_secs_f64() + row.ttft - start;
            let mut event = |at: f64| {
                *self.seconds.entry(crate::number::index(at)).or_default() += 1;
            };
            if row.ttft > 0.0 {
                event(at);
            }
            Ok(gaps
                .inspect(|gap| {
                    at += gap;
                    event(at);
                    self.itls.push(*gap);
                })
                .collect())
        })?;
        let after_gaps = |row: &Row| row.place + u64::from(row.gaps) * GAP as u64;
        list(out, "generated_texts", &rows, |row| {
            text(spill, after_gaps(row), row.text)
        })?;
        list(out, "errors", &rows, |row| {
            text(spill, after_gaps(row) + u64::from(row.text), row.error)
        })?;
        self.rows = rows;
        Ok(())
    }
}

/// Bytes of a gap in the spill.
const GAP: usize = size_of::<i64>();

/// What was kept at a place of the spill.
fn fetch(spill: &mut dyn Spill, place: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut kept = vec![0; length];
    if length > 0 {
        spill.seek(SeekFrom::Start(place))?;
        spill.read_exact(&mut kept)?;
    }
    Ok(kept)
}

fn text(spill: &mut dyn Spill, place: u64, length: u32) -> io::Result<Value> {
    let kept = fetch(spill, place, length as usize)?;
    Ok(String::from_utf8_lossy(&kept).into_owned().into())
}

/// Write a list with its name.
fn list(
    out: &mut dyn Write,
    name: &str,
    rows: &[Row],
    mut value: impl FnMut(&Row) -> io::Result<Value>,
) -> io::Result<()> {
    write!(out, "\n\"{name}\":[")?;
    for (at, row) in rows.iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        serde_json::to_writer(&mut *out, &value(row)?)?;
    }
    out.write_all(b"],")
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
