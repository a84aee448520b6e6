//! The keys of `vllm bench serve --save-result --save-detailed` and the shape of aiperf's `profile_export_aiperf.json`: one collection of requests,
//! from which each tool's file is made. The arithmetic that they share is numpy's.

mod aiperf;
mod rows;
mod vllm;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use bench_metrics::{Histogram, Layout, Sample};
use bench_schema::{CellRecord, Goodput, Nanos, Outcome, Phase, RequestRecord, RunRecord, Stamp};
use serde_json::{Map, Value};

use rows::{BATCH, Row, Rows, fetch};

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
            Tool::Vllm => vllm::write(of, &requests, &mut rows, out)?,
            Tool::Aiperf => {
                let value = aiperf::value(of, &requests, &mut rows)?;
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

fn billionths(value: f64) -> u64 {
    u64::try_from(Nanos::from_secs_f64(value).get()).unwrap_or(0)
}

#[cfg(test)]
#[path = "../../tests/unit/export_tools.rs"]
mod tests;
