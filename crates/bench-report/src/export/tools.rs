//! The keys of `vllm bench serve --save-result --save-detailed` and the shape of aiperf's `profile_export_aiperf.json`: one collection of requests,
//! from which each tool's file is made. The arithmetic that they share is numpy's.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use bench_metrics::{Histogram, Layout, Sample};
use bench_schema::{
    ArrivalKind, CellRecord, Goodput, Load, Nanos, Outcome, Phase, RequestRecord, RunRecord, Stamp,
    index,
};
use serde_json::{Map, Value, json};

/// Whose words a cell is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Lists of every request, in the order in which they were sent, and statistics in milliseconds. ITL are the gaps between content events; TPOT is
    /// (latency − TTFT) / (output tokens − 1) of answers of two tokens and more; a failed request is an empty entry with its error. Lists are in
    /// seconds. A role or a finish chunk is no token here, so a server's first TTFT may be later than that tool would say.
    /// `generated_texts` are empty unless the run kept texts.
    Vllm,
    /// Per metric `{unit, avg, p1 … p99, min, max, std, count, sum}`, of completed requests: request latency ends with the last content event, ITL is per
    /// request, decode time over n − 1.
    Aiperf,
}

impl Tool {
    /// What its files are called by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Aiperf => "aiperf",
        }
    }
}

/// Makes the files of a run's cells from its records, which are read once, in any order.
///
/// Memory: 24 bytes a request, its place in the order of sending, until its cell is written; then the values of one figure at a time, of which at
/// most 32 MiB are kept. Everything else waits in a file (or in memory), which is empty at first.
#[derive(Debug)]
pub struct Exporter<'a, S> {
    run: &'a RunRecord,
    cells: BTreeMap<&'a str, Requests>,
    spill: S,
    end: u64,
}

/// The measured requests of a cell: their order, and what they add up to in any order.
#[derive(Debug, Default)]
struct Requests {
    /// When each was sent, its number, and where its row lies in the spill.
    order: Vec<(Stamp, u64, u64)>,
    span: Span,
    completed: u64,
    /// Of the completed ones.
    input: u64,
    /// Of the completed ones.
    output: u64,
    /// How many ended in each other way.
    failed: BTreeMap<&'static str, u64>,
}

/// One request, without its gaps and texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// Where both tools' latencies begin.
    start: Stamp,
    due: Stamp,
    completed: bool,
    /// First and last content event of a whole answer.
    events: Option<(Stamp, Stamp)>,
    input: u64,
    /// The server's count, else that of the content events.
    output: u64,
    /// Where its gaps, its text and its error begin in the spill, one after another, and how long they are.
    place: u64,
    gaps: u64,
    text: u64,
    error: u64,
}

impl<'a, S: Read + Write + Seek> Exporter<'a, S> {
    /// Of a run, before its first record.
    pub fn new(run: &'a RunRecord, spill: S) -> Self {
        let cells = run.cells.iter();
        Self {
            run,
            cells: cells
                .map(|cell| (cell.id.as_str(), Requests::default()))
                .collect(),
            spill,
            end: 0,
        }
    }

    /// Takes a record of the run; warm-ups, and those of a cell that it does not have, are passed over.
    ///
    /// # Errors
    /// Where the spill cannot be written.
    pub fn add(&mut self, record: &RequestRecord) -> io::Result<()> {
        let known = self.cells.get_mut(record.cell.as_str());
        let Some(requests) = known.filter(|_| record.phase == Phase::Measure) else {
            return Ok(());
        };
        let wire = &record.wire;
        let nothing_came = wire.streamed && wire.events.is_empty();
        let completed = wire.outcome.is_completed() && !nothing_came;
        let error = match wire.outcome {
            Outcome::Completed if !completed => NO_CONTENT.to_owned(),
            _ => error(&wire.outcome),
        };
        let text = wire.text.as_deref().filter(|_| completed);
        let text = text.unwrap_or_default();
        let start = start(record);
        let output = record.output_tokens.unwrap_or(wire.events.len() as u64);
        let input = record.input_tokens().or(record.prompt.asked_tokens);
        let row = Row {
            start,
            due: record.due,
            completed,
            events: wire
                .events
                .first()
                .zip(wire.events.last())
                .filter(|_| completed),
            input: input.unwrap_or(0),
            output: if completed { output } else { 0 },
            place: self.end + Row::SIZE as u64,
            gaps: if completed {
                wire.events.gaps().count() as u64
            } else {
                0
            },
            text: text.len() as u64,
            error: error.len() as u64,
        };
        let mut kept = row.to_bytes().to_vec();
        if completed {
            let gaps = wire.events.gaps();
            kept.extend(gaps.flat_map(|gap| gap.get().to_le_bytes()));
        }
        kept.extend_from_slice(text.as_bytes());
        kept.extend_from_slice(error.as_bytes());
        self.spill.write_all(&kept)?;
        requests.add(record, &row, self.end);
        self.end += kept.len() as u64;
        Ok(())
    }

    /// Writes a cell as that tool would have written it, by its definitions, once every record was taken. Its requests are gone then.
    ///
    /// Latencies begin just before the connection was asked for, as those tools' do. Beside the tool's own keys stands `trust`, the verdict on the cell.
    ///
    /// # Errors
    /// Where the spill cannot be read or written, or `out` not be written.
    pub fn write(&mut self, tool: Tool, cell: &CellRecord, out: &mut dyn Write) -> io::Result<()> {
        let own = self.cells.get_mut(cell.id.as_str());
        let mut requests = own.map(std::mem::take).unwrap_or_default();
        let of = (self.run, cell);
        let mut rows = self.in_order(std::mem::take(&mut requests.order))?;
        match tool {
            Tool::Vllm => vllm(of, &requests, &mut rows, out)?,
            Tool::Aiperf => {
                let value = aiperf(of, &requests, &mut rows)?;
                serde_json::to_writer_pretty(&mut *out, &value)?;
            }
        }
        out.write_all(b"\n")
    }

    /// Copies a cell's rows to the end of the spill, in the order of sending.
    fn in_order(&mut self, mut order: Vec<(Stamp, u64, u64)>) -> io::Result<Rows<'_, S>> {
        order.sort_unstable();
        let from = self.end;
        for places in order.chunks(BATCH) {
            let mut rows = Vec::with_capacity(places.len() * Row::SIZE);
            for (.., place) in places {
                rows.extend(fetch(&mut self.spill, *place, Row::SIZE as u64)?);
            }
            self.spill.seek(SeekFrom::Start(self.end))?;
            self.spill.write_all(&rows)?;
            self.end += rows.len() as u64;
        }
        Ok(Rows {
            spill: &mut self.spill,
            from,
            n: order.len(),
        })
    }
}

/// The rows of a cell, one after another in the spill, in the order of sending.
struct Rows<'s, S> {
    spill: &'s mut S,
    from: u64,
    n: usize,
}

/// Rows that are in memory at once.
const BATCH: usize = 1024;

impl<S: Read + Seek> Rows<'_, S> {
    /// Hands each row over, with the spill that its gaps and texts are in.
    fn each(&mut self, mut take: impl FnMut(&mut S, &Row) -> io::Result<()>) -> io::Result<()> {
        for at in (0..self.n).step_by(BATCH) {
            let place = self.from + (at * Row::SIZE) as u64;
            let length = (BATCH.min(self.n - at) * Row::SIZE) as u64;
            let kept = fetch(self.spill, place, length)?;
            for row in kept.as_chunks().0 {
                take(self.spill, &Row::of_bytes(row))?;
            }
        }
        Ok(())
    }

    /// The figures of a value of the completed requests.
    fn figures(&mut self, of: impl Fn(&Row) -> Option<f64>) -> io::Result<Figures> {
        let mut figures = Figures::default();
        self.each(|_, row| {
            if let Some(value) = of(row).filter(|_| row.completed) {
                figures.push(value);
            }
            Ok(())
        })?;
        Ok(figures)
    }
}

/// Just before the connection was asked for. What this client did before that (making the prompt, being late) is none of the server's, and
/// not in the other tools' figures either.
fn start(record: &RequestRecord) -> Stamp {
    let wire = &record.wire;
    let taken_up = record.dispatched.unwrap_or(record.due);
    let set_up = wire.connection.set_up().unwrap_or_default();
    wire.connected
        .map_or(taken_up, |ready| (ready - set_up).max(taken_up))
}

/// First start and last end of everything that was sent, seconds, by repeat: what lies between repeats is no time of the measurement.
#[derive(Debug, Default)]
struct Span(BTreeMap<u32, (f64, f64)>);

impl Span {
    fn add(&mut self, record: &RequestRecord, start: Stamp) {
        if !matches!(record.wire.outcome, Outcome::Unsent { .. }) {
            let (start, end) = (start.as_secs_f64(), record.last_instant().as_secs_f64());
            let (from, to) = self.0.entry(record.repeat).or_insert((start, end));
            (*from, *to) = (from.min(start), to.max(end));
        }
    }

    fn start(&self) -> f64 {
        let starts = self.0.values().map(|(from, _)| *from);
        starts.reduce(f64::min).unwrap_or(0.0)
    }

    fn seconds(&self) -> f64 {
        self.0.values().map(|(from, to)| to - from).sum()
    }

    /// Good requests over the tool's own duration.
    fn goodput(&self, goodput: &Goodput) -> f64 {
        let good = goodput.seconds.map(|long| goodput.requests_per_s * long);
        let own = good.map(|good| good / self.seconds());
        own.filter(|rate| rate.is_finite())
            .unwrap_or(goodput.requests_per_s)
    }

    fn per_s(&self, n: u64) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 {
            n as f64 / seconds
        } else {
            0.0
        }
    }
}

impl Requests {
    fn add(&mut self, record: &RequestRecord, row: &Row, place: u64) {
        self.span.add(record, row.start);
        if row.completed {
            self.completed += 1;
            self.input += row.input;
            self.output += row.output;
        } else {
            let outcome = match record.wire.outcome {
                Outcome::Completed => NO_CONTENT,
                _ => record.wire.outcome.name(),
            };
            *self.failed.entry(outcome).or_default() += 1;
        }
        let sent = record.dispatched.unwrap_or(record.due);
        if self.order.len() == self.order.capacity() {
            // doubling would take twice what is needed
            self.order.reserve_exact(self.order.len() / 8 + BATCH);
        }
        self.order.push((sent, record.id, place));
    }

    fn failed(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Requests that touch the fullest second from `start`, which is what vLLM's tool calls concurrent.
fn most_at_once(rows: &mut Rows<'_, impl Read + Seek>, start: f64) -> io::Result<u64> {
    let mut changes = BTreeMap::<usize, (u64, u64)>::new();
    rows.each(|_, row| {
        if row.completed {
            let from = row.start.as_secs_f64() - start;
            let to = from + row.latency().unwrap_or(0.0);
            changes.entry(index(from)).or_default().0 += 1;
            changes.entry(index(to) + 1).or_default().1 += 1;
        }
        Ok(())
    })?;
    let (mut now, mut most) = (0_u64, 0);
    for (begun, ended) in changes.values() {
        now = (now + begun).saturating_sub(*ended);
        most = most.max(now);
    }
    Ok(most)
}

impl Row {
    /// Bytes of a row in the spill.
    const SIZE: usize = 11 * size_of::<u64>();

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let ns = |at: Stamp| at.get().cast_unsigned();
        let (first, last) = self.events.unwrap_or_default();
        let words = [
            ns(self.start),
            ns(self.due),
            u64::from(self.completed) + u64::from(self.events.is_some()),
            ns(first),
            ns(last),
            self.input,
            self.output,
            self.place,
            self.gaps,
            self.text,
            self.error,
        ];
        let mut bytes = [0; Self::SIZE];
        for (word, own) in words.iter().zip(bytes.as_chunks_mut().0) {
            *own = word.to_le_bytes();
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let mut words = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        let mut next = || words.next().unwrap_or_default();
        let at = |word: u64| Stamp::new(word.cast_signed());
        let (start, due, known) = (at(next()), at(next()), next());
        let events = (at(next()), at(next()));
        Self {
            start,
            due,
            completed: known > 0,
            events: Some(events).filter(|_| known > 1),
            input: next(),
            output: next(),
            place: next(),
            gaps: next(),
            text: next(),
            error: next(),
        }
    }

    /// Start to first content event, seconds.
    fn ttft(&self) -> Option<f64> {
        self.events
            .map(|(first, _)| (first - self.start).as_secs_f64())
    }

    /// Start to last content event, seconds.
    fn latency(&self) -> Option<f64> {
        self.events
            .map(|(_, last)| (last - self.start).as_secs_f64())
    }

    /// Decode time over the tokens after the first, of answers of two tokens and more.
    fn per_token(&self) -> Option<f64> {
        let decode = self.latency().unwrap_or(0.0) - self.ttft().unwrap_or(0.0);
        (self.output > 1).then(|| decode / (self.output - 1) as f64)
    }

    /// Its gaps in seconds.
    fn gaps(&self, spill: &mut (impl Read + Seek)) -> io::Result<Vec<f64>> {
        let kept = fetch(spill, self.place, self.gaps * GAP)?;
        let gaps = kept.as_chunks().0.iter().copied().map(i64::from_le_bytes);
        Ok(gaps.map(|gap| Nanos::new(gap).as_secs_f64()).collect())
    }

    fn text(&self, spill: &mut (impl Read + Seek)) -> io::Result<Value> {
        self.words(spill, 0, self.text)
    }

    fn error(&self, spill: &mut (impl Read + Seek)) -> io::Result<Value> {
        self.words(spill, self.text, self.error)
    }

    fn words(&self, spill: &mut (impl Read + Seek), from: u64, length: u64) -> io::Result<Value> {
        let kept = fetch(spill, self.place + self.gaps * GAP + from, length)?;
        Ok(String::from_utf8_lossy(&kept).into_owned().into())
    }
}

/// Bytes of a gap in the spill.
const GAP: u64 = size_of::<i64>() as u64;

/// What was kept at a place of the spill.
fn fetch(spill: &mut (impl Read + Seek), place: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut kept = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    if length > 0 {
        spill.seek(SeekFrom::Start(place))?;
        spill.read_exact(&mut kept)?;
    }
    Ok(kept)
}

/// Of a whole answer in which no token came, which is a failure to both tools.
const NO_CONTENT: &str = "no content";

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

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Percentiles that vLLM's tool writes.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

fn vllm(
    (run, cell): (&RunRecord, &CellRecord),
    requests: &Requests,
    rows: &mut Rows<'_, impl Read + Seek>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (span, fullest) = (&requests.span, &mut BTreeMap::new());
    let itls = lists(rows, span.start(), fullest, out)?;
    let (input, output, completed) = (requests.input, requests.output, requests.completed);
    let mut rest = identity(run, cell);
    rest.extend(object(json!({
        "duration": span.seconds(),
        "completed": completed,
        "failed": requests.failed(),
        "total_input_tokens": input,
        "total_output_tokens": output,
        "request_throughput": span.per_s(completed),
        "request_goodput": cell.goodput.as_ref().map(|goodput| span.goodput(goodput)),
        "output_throughput": span.per_s(output),
        "total_token_throughput": span.per_s(input + output),
        "max_output_tokens_per_s": fullest.values().max().copied().unwrap_or(0) as f64,
        "max_concurrent_requests": most_at_once(rows, span.start())?,
        "rtfx": 0.0,
    })));
    let mut add = |name: &str, figures: Figures| {
        rest.insert(format!("mean_{name}_ms"), json!(figures.mean * 1e3));
        rest.insert(format!("std_{name}_ms"), json!(figures.std() * 1e3));
        for (q, value) in PERCENTILES.iter().zip(figures.quantiles(&PERCENTILES)) {
            let ms = json!(value * 1e3);
            if (*q - 0.5).abs() < f64::EPSILON {
                rest.insert(format!("median_{name}_ms"), ms.clone());
            }
            rest.insert(format!("p{}_{name}_ms", (q * 100.0).round()), ms);
        }
    };
    add("itl", itls);
    add("ttft", rows.figures(|row| row.ttft().or(Some(0.0)))?);
    add("tpot", rows.figures(Row::per_token)?);
    add("e2el", rows.figures(|row| row.latency().or(Some(0.0)))?);
    // the lists are the beginning of the same object
    let rest = serde_json::to_string(&rest)?;
    out.write_all(rest.trim_start_matches('{').as_bytes())
}

/// The lists, as the beginning of an object; gives the gaps, and puts the content events of completed requests into the seconds from `start`.
fn lists<S: Read + Seek>(
    rows: &mut Rows<'_, S>,
    start: f64,
    seconds: &mut BTreeMap<usize, u64>,
    out: &mut dyn Write,
) -> io::Result<Figures> {
    let mut itls = Figures::default();
    out.write_all(b"{")?;
    let mut list = |name: &str, value: &mut dyn FnMut(&mut S, &Row) -> io::Result<Value>| {
        write!(out, "\n\"{name}\":[")?;
        let mut between: &[u8] = b"";
        rows.each(|spill, row| {
            out.write_all(between)?;
            between = b",";
            Ok(serde_json::to_writer(&mut *out, &value(spill, row)?)?)
        })?;
        out.write_all(b"],")
    };
    list("input_lens", &mut |_, row| Ok(json!(row.input)))?;
    list("output_lens", &mut |_, row| Ok(json!(row.output)))?;
    let or_zero = |value: Option<f64>| Ok(json!(value.unwrap_or(0.0)));
    list("ttfts", &mut |_, row| or_zero(row.ttft()))?;
    list("latencies", &mut |_, row| or_zero(row.latency()))?;
    list("start_times", &mut |_, row| {
        Ok(json!(row.start.as_secs_f64()))
    })?;
    list("queue_times", &mut |_, row| {
        Ok(json!((row.start - row.due).or_zero().as_secs_f64()))
    })?;
    list("itls", &mut |spill, row| {
        let gaps = row.gaps(spill)?;
        let first = row.ttft().filter(|ttft| *ttft > 0.0);
        let mut at = row.start.as_secs_f64() + first.unwrap_or(0.0) - start;
        if first.is_some() {
            *seconds.entry(index(at)).or_default() += 1;
        }
        for gap in &gaps {
            at += gap;
            *seconds.entry(index(at)).or_default() += 1;
            itls.push(*gap);
        }
        Ok(gaps.into())
    })?;
    list("generated_texts", &mut |spill, row| row.text(spill))?;
    list("errors", &mut |spill, row| row.error(spill))?;
    Ok(itls)
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
    let tags = run.tags.iter();
    out.extend(tags.map(|(key, value)| (key.clone(), value.clone().into())));
    out.extend(object(json!({
        "trust": run.trust.of_cell(&cell.id).as_str(),
        "request_rate": rate,
        "burstiness": burstiness,
        "max_concurrency": concurrency,
    })));
    out
}

/// That tool's burstiness is the shape of the gamma gaps: 1 / `CoV`².
fn burstiness(arrival: &ArrivalKind) -> f64 {
    match arrival {
        ArrivalKind::Gamma { cov } if *cov > 0.0 => 1.0 / (cov * cov),
        _ => 1.0,
    }
}

/// `2026-11-20T10:37:16Z` as `20261120-103716`.
fn date(rfc3339: &str) -> String {
    let digits = rfc3339.chars().filter(char::is_ascii_digit);
    let digits: String = digits.take(14).collect();
    match digits.split_at_checked(8) {
        Some((day, time)) => format!("{day}-{time}"),
        None => digits,
    }
}

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

fn aiperf(
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

/// Values that are kept one by one; of more a histogram is kept, exact to a thousandth.
const EXACT: usize = 4 << 20;

/// Mean, population standard deviation (`numpy.std`'s default) and percentiles of values that come one by one.
#[derive(Default)]
struct Figures {
    exact: Vec<f64>,
    coarse: Option<Histogram>,
    n: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Figures {
    fn push(&mut self, value: f64) {
        self.n += 1;
        let off = value - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (value - self.mean);
        let (min, max) = if self.n == 1 {
            (value, value)
        } else {
            (self.min, self.max)
        };
        (self.min, self.max) = (min.min(value), max.max(value));
        match &mut self.coarse {
            Some(coarse) => coarse.record(billionths(value)),
            None => self.exact.push(value),
        }
        if self.exact.len() > EXACT {
            let mut coarse = Histogram::new(Layout::with_bits(9));
            for value in std::mem::take(&mut self.exact) {
                coarse.record(billionths(value));
            }
            self.coarse = Some(coarse);
        }
    }

    fn std(&self) -> f64 {
        if self.n > 0 {
            (self.squares / self.n as f64).sqrt()
        } else {
            0.0
        }
    }

    /// The quantiles; 0 without values.
    fn quantiles(self, at: &[f64]) -> Vec<f64> {
        let exact = Sample::new(self.exact).ok();
        let one = |&q: &f64| match (&exact, &self.coarse) {
            (_, Some(coarse)) => coarse.quantile(q).unwrap_or(0.0) / 1e9,
            (Some(exact), None) => exact.quantile(q),
            (None, None) => 0.0,
        };
        at.iter().map(one).collect()
    }
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

fn billionths(value: f64) -> u64 {
    u64::try_from(Nanos::from_secs_f64(value).get()).unwrap_or(0)
}

#[cfg(test)]
#[path = "../../tests/unit/export_tools.rs"]
mod tests;
