//! What the charts need of single requests and readings: streamed once, kept as summaries.
//!
//! Of each request a few numbers stay (56 bytes, so 56 MB for a million), of its tokens only histograms and the worst few
//! traces. Nothing depends on anything but the files, so the same run gives the same report.

mod series;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bench_metrics::{Histogram, Layout, Sample};
use bench_schema::{
    CellRecord, Entries, Entry, EventLog, JournalFile, Lines, Nanos, Origin, Phase, RequestRecord,
    RunRecord, Stamp, UnreadablePart, index,
};

pub(crate) use series::{Series, Topic, place, readings};

use crate::ReportError;

/// One measured request, times in seconds since the run's epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Index of its cell in the record.
    pub(crate) cell: u32,
    /// Where its headline latencies begin.
    pub(crate) start: f64,
    pub(crate) first: Option<f64>,
    /// Last content event, or whatever is known last.
    pub(crate) end: f64,
    /// Prompt and output tokens, where they are known.
    pub(crate) input: Option<u32>,
    pub(crate) tokens: Option<u32>,
    pub(crate) completed: bool,
}

/// Everything that was kept.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// By cell, and of each by start.
    pub(crate) rows: Vec<Row>,
    /// Those of warm-ups, likewise, which share the server with the first of them.
    pub(crate) warmup: Vec<Row>,
    /// For each cell the time in which its load was whole, where that is known.
    spans: Vec<Option<(f64, f64)>>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) lag: Vec<LagBin>,
    /// p99 of the client's lag over the whole run, µs.
    pub(crate) lag_p99_us: Option<f64>,
    /// Lines that do not count.
    pub(crate) torn: u64,
}

impl Row {
    /// E2E in milliseconds, of a completed request.
    pub(crate) fn e2e_ms(&self) -> Option<f64> {
        (self.completed && self.first.is_some()).then_some((self.end - self.start) * 1e3)
    }

    /// Output tokens per second of its own decode phase.
    pub(crate) fn speed(&self) -> Option<f64> {
        let (first, tokens) = (self.first?, self.tokens.filter(|&n| n >= 2)?);
        let decode = self.end - first;
        (self.completed && decode > 0.0).then(|| f64::from(tokens - 1) / decode)
    }
}

/// Read `requests.jsonl`, where there is one.
///
/// # Errors
/// [`ReportError::Read`] where it is there and cannot be read.
pub(crate) fn trace(run: &RunRecord, files: &RunFiles) -> Result<Option<Trace>, ReportError> {
    let parts = files.requests.as_slice();
    if parts.is_empty() {
        return Ok(None);
    }
    let cells: HashMap<&str, u32> = run
        .cells
        .iter()
        .map(|cell| cell.id.as_str())
        .zip(0..)
        .collect();
    let mut trace = Trace {
        spans: run.cells.iter().map(steady).collect(),
        ..Trace::default()
    };
    let mut stalls = Stalls::new(run.cells.len());
    let mut lag = LagBins::new(run.duration.as_secs_f64());
    trace.torn = stream(parts, |record: RequestRecord| {
        let Some(&cell) = cells.get(record.cell.as_str()) else {
            return;
        };
        lag.add(&record.wire.events);
        let headline = run
            .cells
            .get(cell as usize)
            .map_or(Origin::Sent, |c| c.headline);
        let row = row(cell, headline, &record);
        if record.phase == Phase::Measure {
            trace.rows.push(row);
            stalls.offer(cell, &record);
        } else {
            trace.warmup.push(row);
        }
    })?;
    for rows in [&mut trace.rows, &mut trace.warmup] {
        let times = |a: &Row, b: &Row| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end));
        rows.sort_by(|a, b| a.cell.cmp(&b.cell).then_with(|| times(a, b)));
    }
    trace.stalls = stalls.worst();
    trace.lag_p99_us = lag.p99_us();
    trace.lag = lag.finish();
    Ok((!trace.rows.is_empty()).then_some(trace))
}

/// The steady window of a cell, seconds.
fn steady(cell: &CellRecord) -> Option<(f64, f64)> {
    let window = cell.windows.steady.as_ref()?.window;
    Some((window.from.as_secs_f64(), window.to.as_secs_f64()))
}

fn row(cell: u32, headline: Origin, record: &RequestRecord) -> Row {
    let wire = &record.wire;
    let sent = wire.sent;
    let start = match headline {
        Origin::Due => record.due,
        Origin::Sent => sent.or(record.dispatched).unwrap_or(record.due),
    };
    Row {
        cell,
        start: start.as_secs_f64(),
        first: wire.events.first().map(Stamp::as_secs_f64),
        end: wire
            .events
            .last()
            .unwrap_or_else(|| record.last_instant())
            .as_secs_f64(),
        input: record.input_tokens().and_then(|n| u32::try_from(n).ok()),
        tokens: record.output_tokens.and_then(|n| u32::try_from(n).ok()),
        completed: wire.outcome.is_completed(),
    }
}

impl Trace {
    /// Sorted E2E of a cell's completed requests, milliseconds.
    pub(crate) fn e2e(&self, cell: u32) -> Option<Sample> {
        self.values(cell, Row::e2e_ms)
    }

    pub(crate) fn of_cell(&self, cell: u32) -> impl Iterator<Item = &Row> + Clone {
        of_cell(&self.rows, cell)
    }

    /// Some figure of a cell's requests.
    pub(crate) fn values(&self, cell: u32, figure: fn(&Row) -> Option<f64>) -> Option<Sample> {
        let values: Vec<f64> = self.of_cell(cell).filter_map(figure).collect();
        Sample::of(&values)
    }

    /// The time in which a cell's load was whole, seconds: its steady window, else from its first start to its last. What comes after that is
    /// no level of the server's, but the drain.
    fn span(&self, cell: u32) -> Option<(f64, f64)> {
        let known = self.spans.get(cell as usize).copied().flatten();
        known.or_else(|| {
            let starts = self.of_cell(cell).map(|row| (row.start, row.start));
            starts.reduce(|(from, to), (start, _)| (from.min(start), to.max(start)))
        })
    }

    /// Output and requests in flight in equal parts of a cell's time.
    pub(crate) fn flow(&self, cell: u32, parts: usize) -> Vec<Flow> {
        let span = self.span(cell);
        span.map_or_else(Vec::new, |span| {
            let before = of_cell(&self.warmup, cell);
            flow(self.of_cell(cell).chain(before), span, parts)
        })
    }

    /// The requests that end within each of `bins` equal parts of a cell's time.
    pub(crate) fn binned(&self, cell: u32, bins: usize) -> Vec<Vec<Row>> {
        let mut parts = vec![Vec::new(); bins];
        let (from, to) = self.span(cell).unwrap_or_default();
        let within = |row: &&Row| (from..=to).contains(&row.end);
        for row in self.of_cell(cell).filter(within) {
            if let Some(part) = parts.get_mut(bin(row.end, from, to, bins)) {
                part.push(*row);
            }
        }
        parts
    }
}

/// Those of one cell, of rows that are sorted by cell: of a thousand cells each is asked for often.
fn of_cell(rows: &[Row], cell: u32) -> std::slice::Iter<'_, Row> {
    let before = rows.partition_point(|row| row.cell < cell);
    let rest = rows.get(before..).unwrap_or_default();
    let own = rest.partition_point(|row| row.cell == cell);
    rest.get(..own).unwrap_or_default().iter()
}

/// Which of `bins` equal parts of `from..to` holds `at`; the last one holds `to`.
pub(crate) fn bin(at: f64, from: f64, to: f64, bins: usize) -> usize {
    let share = if to > from {
        (at - from) / (to - from)
    } else {
        0.0
    };
    index(share * bins as f64).min(bins.saturating_sub(1))
}

/// One part of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    /// Its middle, seconds.
    pub(crate) at: f64,
    /// Output tokens per second, an answer's tokens spread evenly between its first and its last.
    pub(crate) tokens_per_s: f64,
    /// Requests that had begun and were not over, mean.
    pub(crate) under_way: f64,
}

/// `from..to` in equal parts.
pub(crate) fn flow<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (from, to): (f64, f64),
    parts: usize,
) -> Vec<Flow> {
    let width = (to - from) / parts.max(1) as f64;
    if width <= 0.0 || !width.is_finite() {
        return Vec::new();
    }
    let mut all: Vec<Flow> = (0..parts)
        .map(|i| Flow {
            at: from + (i as f64 + 0.5) * width,
            ..Flow::default()
        })
        .collect();
    for row in rows {
        spread(
            &mut all,
            (from, width),
            (row.start, row.end),
            |part, share| {
                part.under_way += share * (row.end - row.start) / width;
            },
        );
        if let (Some(first), Some(tokens)) = (row.first, row.tokens) {
            spread(&mut all, (from, width), (first, row.end), |part, share| {
                part.tokens_per_s += share * f64::from(tokens) / width;
            });
        }
    }
    all
}

/// Hand each part that `a..b` touches the share of `a..b` that lies in it; an instant goes to one part whole.
fn spread(
    parts: &mut [Flow],
    (from, width): (f64, f64),
    (a, b): (f64, f64),
    mut give: impl FnMut(&mut Flow, f64),
) {
    let whole = b - a;
    if b < from || a > from + parts.len() as f64 * width {
        return;
    }
    let first = index((a - from) / width).min(parts.len().saturating_sub(1));
    for (i, part) in parts.iter_mut().enumerate().skip(first) {
        let low = from + i as f64 * width;
        if whole <= 0.0 {
            give(part, 1.0);
            return;
        }
        if low >= b {
            return;
        }
        let overlap = b.min(low + width) - a.max(low);
        if overlap > 0.0 {
            give(part, overlap / whole);
        }
    }
}

const LAG_BINS: usize = 120;
/// Lag of the content events that arrived in one part of the run.
#[derive(Clone, Debug)]
pub(crate) struct LagBin {
    /// Middle of the part, seconds.
    pub(crate) at: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// Histograms of the lag in each part of the run, of nanoseconds, exact to a hundredth.
pub(crate) struct LagBins {
    seconds: f64,
    parts: Vec<Histogram>,
}

impl LagBins {
    pub(crate) fn new(seconds: f64) -> Self {
        let parts = (0..LAG_BINS).map(|_| Histogram::new(Layout::with_bits(6)));
        Self {
            seconds,
            parts: parts.collect(),
        }
    }

    pub(crate) fn add(&mut self, events: &EventLog) {
        for (at, lag) in events.stamps().zip(events.lags()) {
            let part = bin(at.as_secs_f64(), 0.0, self.seconds, LAG_BINS);
            if let Some(part) = self.parts.get_mut(part) {
                part.record(u64::try_from(lag.get()).unwrap_or(0));
            }
        }
    }

    /// p99 over everything that was added.
    pub(crate) fn p99_us(&self) -> Option<f64> {
        let mut all = Histogram::new(Layout::with_bits(6));
        let merged = self.parts.iter().try_for_each(|part| all.merge(part));
        merged.ok().and_then(|()| Some(all.quantile(0.99)? / 1e3))
    }

    pub(crate) fn finish(self) -> Vec<LagBin> {
        let width = self.seconds / LAG_BINS as f64;
        let parts = self.parts.iter().enumerate();
        let known = parts.filter_map(|(i, part)| {
            Some(LagBin {
                at: (i as f64 + 0.5) * width,
                p50_us: part.quantile(0.5)? / 1e3,
                p99_us: part.quantile(0.99)? / 1e3,
                max_us: part.max()? as f64 / 1e3,
            })
        });
        known.collect()
    }
}

/// Cells of which answers are kept: the ones with the longest gaps.
const SHOWN: usize = 4;
/// Points kept of an answer; longer ones keep the longest gap of each stretch.
const POINTS: usize = 400;

/// The gaps of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    pub(crate) cell: u32,
    pub(crate) id: u64,
    /// Longest gap, milliseconds.
    pub(crate) worst_ms: f64,
    /// Median gap, milliseconds.
    pub(crate) median_ms: f64,
    /// Event number and gap before it in milliseconds.
    pub(crate) gaps: Vec<(u32, f64)>,
}

/// The worst answer of each cell seen so far.
pub(crate) struct Stalls {
    by_cell: Vec<Option<Stall>>,
}

impl Stalls {
    pub(crate) fn new(cells: usize) -> Self {
        Self {
            by_cell: vec![None; cells],
        }
    }

    pub(crate) fn offer(&mut self, cell: u32, record: &RequestRecord) {
        let gaps = record.wire.events.gaps().map(Nanos::as_millis_f64);
        let worst_ms = gaps.fold(0.0, f64::max);
        if let Some(kept) = self.by_cell.get_mut(cell as usize)
            && worst_ms > kept.as_ref().map_or(0.0, |kept| kept.worst_ms)
        {
            *kept = Some(stall(cell, worst_ms, record));
        }
    }

    /// The worst of each cell, in the order of cells, of at most four cells.
    pub(crate) fn worst(self) -> Vec<Stall> {
        let mut all: Vec<Stall> = self.by_cell.into_iter().flatten().collect();
        all.sort_by(|a, b| b.worst_ms.total_cmp(&a.worst_ms));
        all.truncate(SHOWN);
        all.sort_by_key(|stall| stall.cell);
        all
    }
}

fn stall(cell: u32, worst_ms: f64, record: &RequestRecord) -> Stall {
    let all: Vec<(u32, f64)> = (1..)
        .zip(record.wire.events.gaps().map(Nanos::as_millis_f64))
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|&(_, gap)| gap).collect();
    sorted.sort_by(f64::total_cmp);
    let stretch = all.len().div_ceil(POINTS).max(1);
    let longest = |part: &[(u32, f64)]| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    Stall {
        cell,
        id: record.id,
        worst_ms,
        median_ms: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
        gaps: all.chunks(stretch).filter_map(longest).collect(),
    }
}

// The files that lie beside a `run.json`.

/// Where single requests and readings of a run are, for the charts that need them. Without them those charts are absent.
#[derive(Clone, Debug, Default)]
pub struct RunFiles {
    requests: Vec<PathBuf>,
    hardware: Vec<PathBuf>,
}

impl RunFiles {
    /// Those that lie in a run directory.
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            requests: JournalFile::Requests.parts_in(dir),
            hardware: JournalFile::Readings.parts_in(dir),
        }
    }
}

/// Hand each entry of a journal to `each`, one at a time, and count the lines that are none: a run that was
/// killed leaves a torn last line, which must not cost the rest.
///
/// # Errors
/// [`ReportError::Read`] where the file cannot be opened or read.
pub(crate) fn stream<T: Entry>(
    parts: &[PathBuf],
    mut each: impl FnMut(T),
) -> Result<u64, ReportError> {
    let mut entries = Entries::of(Lines::of(parts.iter().cloned()));
    let mut torn = 0;
    let failed = |UnreadablePart { path, source }| ReportError::Read { path, source };
    while let Some(entry) = entries.next_entry().map_err(failed)? {
        match entry {
            Ok(value) => each(value),
            Err(_) => torn += 1,
        }
    }
    Ok(torn)
}

#[cfg(test)]
#[path = "../tests/unit/trace.rs"]
mod tests;
