//! A row for each request, for each content event, and for each value that was read of a machine or a server.

use std::collections::BTreeMap;

use bench_metrics::Instants;
use bench_schema::{
    CellRecord, Channel, Metric, Nanos, Outcome, Phase, Reading, RequestRecord, Stamp, Unit,
};

use crate::table::{Run, Table, labelled};

/// A request, whose it is, and what it came to.
pub(crate) struct Request<'a> {
    run: &'a Run<'a>,
    cell: Option<&'a CellRecord>,
    pub(crate) record: RequestRecord,
    instants: Instants,
}

pub(crate) type ById<'a> = BTreeMap<&'a str, &'a CellRecord>;

pub(crate) fn by_id<'a>(run: &'a Run<'_>) -> ById<'a> {
    let cells = run.record.cells.iter();
    cells.map(|cell| (cell.id.as_str(), cell)).collect()
}

impl<'a> Request<'a> {
    pub(crate) fn of(run: &'a Run<'a>, cells: &ById<'a>, record: RequestRecord) -> Self {
        Self {
            run,
            cell: cells.get(record.cell.as_str()).copied(),
            instants: Instants::of(&record),
            record,
        }
    }

    /// A latency of it, where it is known.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        let always = matches!(metric, Metric::Lateness | Metric::Connect);
        let known = self.instants.completed || always;
        known.then(|| self.instants.value(metric)).flatten()
    }

    /// Whether the cell's percentiles are of it too: it was measured, and began in the steady part where that is the headline. Of several repeats with a steady part
    /// only the first one's window is stored, so that it is not known.
    pub(crate) fn is_headline(&self) -> Option<bool> {
        if self.record.phase != Phase::Measure {
            return Some(false);
        }
        let cell = self.cell?;
        match &cell.windows.steady {
            None => Some(true),
            Some(steady) if cell.repeats == 1 => {
                let began = self.instants.sent.unwrap_or(self.instants.due);
                Some(steady.window.contains(began))
            }
            Some(_) => None,
        }
    }
}

/// The columns of requests, warm-up too (column `phase`).
///
/// `run`, `cell`, `repeat`, `phase`, `id`, `use_case`, `session`, `turn`, `worker`, `endpoint`; how it ended
/// (`outcome`, `failure`, `stage`, `message`, `status`, `finish_reason`); instants in nanoseconds since the run's epoch (`due_ns`, `sent_ns`,
/// `first_ns`, `last_ns`, `closed_ns`); every latency of `docs/metrics.md` as `KEY_ms` (`ttft_ms`, `e2e_ms`, `tpot_ms`, …; those of an
/// answer that is not whole are null, except `lateness_ms` and `connect_ms`) and `tokens_per_s_user`; lengths (`input_tokens`,
/// `output_tokens`, `asked_output_tokens`, `cached_tokens`, `events`, `text_chars`, `request_bytes`, `response_bytes`); the client's own
/// `max_lag_ms` and `bounded_events`; `headline`, whether the percentiles of its cell are of it too (null where a cell has several repeats with a steady part); then `concurrency`, `rate_per_s`, and `tag.NAME` and `factor.NAME` for each name that any run has.
pub(crate) fn request_table<'a>(runs: &'a [Run<'_>]) -> Requests<'a> {
    let mut table = wire(ending(identity(Table::new())));
    let lengths = |metric: &&Metric| matches!(metric, Metric::InputTokens | Metric::OutputTokens);
    for &metric in Metric::ALL.iter().filter(|metric| !lengths(metric)) {
        table = table.number(name(metric), move |request: &Request<'_>| {
            Some(scaled(metric, request.value(metric)?))
        });
    }
    table = table.flag("headline", Request::is_headline);
    labelled(table, runs, |request| (request.run.record, request.cell))
}

/// The column of a metric: latencies in milliseconds, with the unit in the name.
pub(crate) fn name(metric: Metric) -> String {
    match metric.unit() {
        Unit::Ns => format!("{}_ms", metric.key()),
        _ => metric.key().to_owned(),
    }
}

/// A value of a metric in its column's unit.
pub(crate) fn scaled(metric: Metric, value: f64) -> f64 {
    match metric.unit() {
        Unit::Ns => value / 1e6,
        _ => value,
    }
}

pub(crate) type Requests<'a> = Table<'a, Request<'a>>;

fn identity(table: Requests<'_>) -> Requests<'_> {
    table
        .text("run", |r| Some(r.run.name.clone()))
        .text("cell", |r| Some(r.record.cell.clone()))
        .whole("repeat", |r| Some(r.record.repeat))
        .text("phase", |r| Some(r.record.phase.as_str()))
        .whole("id", |r| Some(r.record.id))
        .text("use_case", |r| r.record.use_case.clone())
        .whole("session", |r| r.record.session)
        .whole("turn", |r| r.record.turn)
        .whole("worker", |r| r.record.worker)
        .whole("endpoint", |r| Some(r.record.wire.connection.endpoint))
}

fn ending(table: Requests<'_>) -> Requests<'_> {
    table
        .text("outcome", |r| Some(r.record.wire.outcome.name()))
        .text("failure", |r| match &r.record.wire.outcome {
            Outcome::Failed { failure, .. } => Some(failure.to_string()),
            _ => None,
        })
        .text("stage", |r| match &r.record.wire.outcome {
            Outcome::Failed { stage, .. } | Outcome::TimedOut { stage } => Some(stage.to_string()),
            _ => None,
        })
        .text("message", |r| match &r.record.wire.outcome {
            Outcome::Failed { message, .. } | Outcome::Truncated { message } => {
                Some(message.clone())
            }
            Outcome::Cancelled { reason } | Outcome::Unsent { reason } => Some(reason.clone()),
            Outcome::Completed | Outcome::TimedOut { .. } => None,
        })
        .whole("status", |r| r.record.wire.status)
        .text("finish_reason", |r| r.record.wire.finish_reason.clone())
}

fn wire(table: Requests<'_>) -> Requests<'_> {
    table
        .whole("due_ns", |r| Some(r.record.due.get()))
        .whole("sent_ns", |r| r.record.wire.sent.map(Stamp::get))
        .whole("first_ns", |r| r.record.wire.events.first().map(Stamp::get))
        .whole("last_ns", |r| r.record.wire.events.last().map(Stamp::get))
        .whole("closed_ns", |r| r.record.wire.closed.map(Stamp::get))
        .whole("input_tokens", |r| r.record.input_tokens())
        .whole("output_tokens", |r| r.record.output_tokens)
        .whole("asked_output_tokens", |r| r.record.asked_output_tokens)
        .whole("cached_tokens", |r| {
            r.record.wire.usage.as_ref()?.cached_tokens
        })
        .whole("events", |r| Some(r.record.wire.events.len()))
        .whole("text_chars", |r| Some(r.record.wire.text_chars))
        .whole("request_bytes", |r| Some(r.record.wire.request_bytes))
        .whole("response_bytes", |r| Some(r.record.wire.response_bytes))
        .number("max_lag_ms", |r| {
            Some(r.record.wire.events.lags().max()?.as_millis_f64())
        })
        .whole("bounded_events", |r| {
            Some(r.record.wire.events.bounds().len())
        })
        .flag("reused_connection", |r| {
            Some(r.record.wire.connection.reused)
        })
}

/// A content event, with its request's cell, repeat and id.
pub(crate) struct Event {
    of: (String, u32, u64),
    index: usize,
    at: Stamp,
    gap: Option<Nanos>,
    lag: Option<Nanos>,
    bound: Nanos,
    tokens: Option<u32>,
    channel: Channel,
}

/// The columns of the content events of measured requests.
///
/// `cell`, `repeat`, `id` (together a request), `index` (from 0), `at_ns` (arrival since the run's epoch), `gap_ms` (since the event
/// before; null for the first), `lag_ms` (read's return minus arrival), `bound_ms` (how much earlier it may have arrived; 0 where
/// the stamp is exact), `tokens` (null where the stream does not tell), `channel`.
pub(crate) fn event_table() -> Table<'static, Event> {
    Table::new()
        .text("cell", |event: &Event| Some(event.of.0.clone()))
        .whole("repeat", |event| Some(event.of.1))
        .whole("id", |event| Some(event.of.2))
        .whole("index", |event| Some(event.index))
        .whole("at_ns", |event| Some(event.at.get()))
        .number("gap_ms", |event| Some(event.gap?.as_millis_f64()))
        .number("lag_ms", |event| Some(event.lag?.as_millis_f64()))
        .number("bound_ms", |event| Some(event.bound.as_millis_f64()))
        .whole("tokens", |event| event.tokens)
        .text("channel", |event| Some(event.channel.as_str()))
}

/// Each content event of a request, where that was measured.
pub(crate) fn events(record: &RequestRecord, mut each: impl FnMut(Event)) {
    if record.phase != Phase::Measure {
        return;
    }
    let log = &record.wire.events;
    let mut gaps = std::iter::once(None).chain(log.gaps().map(Some));
    let mut lags = log.lags();
    let mut runs = log.runs().peekable();
    let mut channel = Channel::Answer;
    for (index, at) in log.stamps().enumerate() {
        while let Some((_, next)) = runs.next_if(|&(from, _)| from <= index) {
            channel = next;
        }
        each(Event {
            of: (record.cell.clone(), record.repeat, record.id),
            index,
            at,
            gap: gaps.next().flatten(),
            lag: lags.next(),
            bound: log.bound(index),
            tokens: log.tokens().and_then(|all| all.get(index).copied()),
            channel,
        });
    }
}

pub(crate) type Read = (Reading, String, f64);

/// The columns of readings in long form.
///
/// `from_ns` and `to_ns` (the window in which the source answered, since the run's epoch), `source`, `instance`, `name`, `value`.
/// Counters are as they stand; take differences.
pub(crate) fn reading_table() -> Table<'static, Read> {
    Table::new()
        .whole("from_ns", |(reading, ..): &Read| Some(reading.from.get()))
        .whole("to_ns", |(reading, ..)| Some(reading.to.get()))
        .text("source", |(reading, ..)| Some(reading.source.as_str()))
        .text("instance", |(reading, ..)| {
            Some(reading.instance.clone()).filter(|text| !text.is_empty())
        })
        .text("name", |(_, name, _)| Some(name.clone()))
        .number("value", |(.., value)| Some(*value))
}

pub(crate) fn values(mut reading: Reading, mut each: impl FnMut(&Read)) {
    let values = std::mem::take(&mut reading.values);
    let mut row = (reading, String::new(), 0.0);
    for (name, value) in values {
        (row.1, row.2) = (name, value);
        each(&row);
    }
}
