//! What the charts need of single requests and readings: streamed once, kept as summaries.
//!
//! Of each request a few numbers stay (56 bytes, so 56 MB for a million), of its tokens only histograms and the worst few
//! traces. Nothing depends on anything but the files, so the same run gives the same report.

mod kept;
mod series;

use std::collections::HashMap;

use bench_metrics::Sample;
use bench_schema::{Origin, Phase, RequestRecord, RunRecord, Stamp};

pub(crate) use kept::{Flow, LagBin, LagBins, Stall, Stalls, flow};
pub(crate) use series::{Series, Topic, place, readings};

use crate::files::{self, RunFiles};
use crate::{ReportError, number};

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
    /// By start.
    pub(crate) rows: Vec<Row>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) lag: Vec<LagBin>,
    /// p99 of the client's lag over the whole run, µs.
    pub(crate) lag_p99_us: Option<f64>,
    /// Lines that could not be read.
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
    let parts = files.requests();
    if parts.is_empty() {
        return Ok(None);
    }
    let cells: HashMap<&str, u32> = run
        .cells
        .iter()
        .map(|cell| cell.id.as_str())
        .zip(0..)
        .collect();
    let mut trace = Trace::default();
    let mut stalls = Stalls::new(run.cells.len());
    let mut lag = LagBins::new(run.duration.as_secs_f64());
    trace.torn = files::stream(parts, |record: RequestRecord| {
        let Some(&cell) = cells.get(record.cell.as_str()) else {
            return;
        };
        lag.add(&record.wire.events);
        if record.phase == Phase::Measure {
            let headline = run
                .cells
                .get(cell as usize)
                .map_or(Origin::Sent, |c| c.headline);
            trace.rows.push(row(cell, headline, &record));
            stalls.offer(cell, &record);
        }
    })?;
    trace
        .rows
        .sort_by(|a, b| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
    trace.stalls = stalls.worst();
    trace.lag_p99_us = lag.p99_us();
    trace.lag = lag.finish();
    Ok((!trace.rows.is_empty()).then_some(trace))
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

    /// Some figure of a cell's requests.
    pub(crate) fn values(&self, cell: u32, figure: fn(&Row) -> Option<f64>) -> Option<Sample> {
        let values: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.cell == cell)
            .filter_map(figure)
            .collect();
        Sample::of(&values)
    }

    /// First start and last end of a cell's requests, seconds; all cells' without one.
    pub(crate) fn span(&self, cell: Option<u32>) -> Option<(f64, f64)> {
        let mut rows = self
            .rows
            .iter()
            .filter(|row| cell.is_none_or(|cell| row.cell == cell));
        let first = rows.next()?;
        let wider = |(from, to): (f64, f64), row: &Row| (from.min(row.start), to.max(row.end));
        Some(rows.fold((first.start, first.end), wider))
    }

    /// Output and requests under way in equal parts of a cell's time.
    pub(crate) fn flow(&self, cell: u32, parts: usize) -> Vec<Flow> {
        let rows = self.rows.iter().filter(|row| row.cell == cell);
        self.span(Some(cell))
            .map_or_else(Vec::new, |span| flow(rows, span, parts))
    }

    /// The requests that end within each of `bins` equal parts of a cell's time.
    pub(crate) fn binned(&self, cell: u32, bins: usize) -> Vec<Vec<Row>> {
        let mut parts = vec![Vec::new(); bins];
        let Some((from, to)) = self.span(Some(cell)) else {
            return parts;
        };
        for row in self.rows.iter().filter(|row| row.cell == cell) {
            if let Some(part) = parts.get_mut(bin(row.end, from, to, bins)) {
                part.push(*row);
            }
        }
        parts
    }
}

/// Which of `bins` equal parts of `from..to` holds `at`; the last one holds `to`.
pub(crate) fn bin(at: f64, from: f64, to: f64, bins: usize) -> usize {
    let share = if to > from {
        (at - from) / (to - from)
    } else {
        0.0
    };
    number::index(share * bins as f64).min(bins.saturating_sub(1))
}
