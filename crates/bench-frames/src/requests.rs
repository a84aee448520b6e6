//! A row for each request.

use std::collections::BTreeMap;
use std::path::Path;

use bench_metrics::Instants;
use bench_schema::{JournalFile, Metric, Outcome, Phase, RequestRecord, Stamp, Unit};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::lines::stream;
use crate::run::{Labels, Run, open_all};
use crate::table::{Column, Kind, Sink, Table, Value, Whole};

/// Rows of a batch.
const BATCH: usize = 50_000;

/// The requests of runs, warm-up too (column `phase`), in the order they ended.
///
/// Columns: `run` (its folder's name), `cell`, `repeat`, `phase`, `id`, `use_case`, `session`, `turn`, `worker`, `endpoint`; how it ended
/// (`outcome`, `failure`, `stage`, `message`, `status`, `finish_reason`); instants in nanoseconds since the run's epoch (`due_ns`, `sent_ns`,
/// `first_ns`, `last_ns`, `closed_ns`); every latency of `docs/metrics.md` as `KEY_ms` (`ttft_ms`, `e2e_ms`, `tpot_ms`, …; those of an
/// answer that is not whole are null, except `lateness_ms` and `connect_ms`) and `tokens_per_s_user`; lengths (`input_tokens`,
/// `output_tokens`, `asked_output_tokens`, `cached_tokens`, `events`, `text_chars`, `request_bytes`, `response_bytes`); the client's own
/// `max_lag_ms` and `bounded_events`; then `concurrency`, `rate_per_s`, and `tag.NAME` and `factor.NAME` for each name that any run has.
///
/// # Errors
/// [`FramesError`] where no run is given or a file cannot be read. Damaged lines are passed over.
pub fn requests(dirs: &[impl AsRef<Path>]) -> Result<DataFrame, FramesError> {
    let mut whole = Whole::default();
    stream_requests(&open_all(dirs)?, &mut whole)?;
    Ok(whole.finish())
}

/// The same in batches.
pub(crate) fn stream_requests(runs: &[Run<'_>], sink: &mut dyn Sink) -> Result<(), FramesError> {
    let labels = Labels::of(runs);
    let mut table = Table::new(columns(&labels));
    sink.batch(table.take()?)?;
    for run in runs {
        let cells: BTreeMap<&str, Vec<Value>> = run
            .record
            .cells
            .iter()
            .map(|cell| (cell.id.as_str(), labels.values(run, Some(cell))))
            .collect();
        let unknown = labels.values(run, None);
        stream(&run.dir, JournalFile::Requests, |record: &RequestRecord| {
            let labelled = cells.get(record.cell.as_str()).unwrap_or(&unknown);
            table.push(row(run, record).into_iter().chain(labelled.iter().cloned()));
            if table.rows() >= BATCH {
                sink.batch(table.take()?)?;
            }
            Ok(())
        })?;
    }
    sink.batch(table.take()?)
}

/// Latencies and speeds; lengths have columns of their own.
fn metrics() -> impl Iterator<Item = Metric> {
    let lengths = |metric: &Metric| matches!(metric, Metric::InputTokens | Metric::OutputTokens);
    Metric::ALL
        .iter()
        .copied()
        .filter(move |metric| !lengths(metric))
}

fn columns(labels: &Labels) -> Vec<Column> {
    let fixed = [
        ("run", Kind::Text),
        ("cell", Kind::Text),
        ("repeat", Kind::Whole),
        ("phase", Kind::Text),
        ("id", Kind::Whole),
        ("use_case", Kind::Text),
        ("session", Kind::Whole),
        ("turn", Kind::Whole),
        ("worker", Kind::Whole),
        ("endpoint", Kind::Whole),
        ("outcome", Kind::Text),
        ("failure", Kind::Text),
        ("stage", Kind::Text),
        ("message", Kind::Text),
        ("status", Kind::Whole),
        ("finish_reason", Kind::Text),
        ("due_ns", Kind::Whole),
        ("sent_ns", Kind::Whole),
        ("first_ns", Kind::Whole),
        ("last_ns", Kind::Whole),
        ("closed_ns", Kind::Whole),
        ("input_tokens", Kind::Whole),
        ("output_tokens", Kind::Whole),
        ("asked_output_tokens", Kind::Whole),
        ("cached_tokens", Kind::Whole),
        ("events", Kind::Whole),
        ("text_chars", Kind::Whole),
        ("request_bytes", Kind::Whole),
        ("response_bytes", Kind::Whole),
        ("max_lag_ms", Kind::Number),
        ("bounded_events", Kind::Whole),
        ("reused_connection", Kind::Flag),
    ];
    let mut all: Vec<Column> = fixed.map(|(name, kind)| Column::new(name, kind)).into();
    all.extend(metrics().map(|metric| Column::new(name(metric), Kind::Number)));
    all.extend(labels.columns());
    all
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

fn row(run: &Run<'_>, record: &RequestRecord) -> Vec<Value> {
    let instants = Instants::of(record);
    let mut row = identity(run, record);
    row.extend(ending(&record.wire.outcome));
    row.extend(wire(record));
    row.extend(metrics().map(|metric| {
        let known = instants.completed || matches!(metric, Metric::Lateness | Metric::Connect);
        let value = known.then(|| instants.value(metric)).flatten();
        Value::number(value.map(|value| scaled(metric, value)))
    }));
    row
}

fn identity(run: &Run<'_>, record: &RequestRecord) -> Vec<Value> {
    let phase = match record.phase {
        Phase::Warmup => "warmup",
        Phase::Measure => "measure",
    };
    vec![
        Value::text(Some(&run.name)),
        Value::text(Some(&record.cell)),
        Value::whole(Some(record.repeat.into())),
        Value::text(Some(phase)),
        Value::whole(Some(record.id)),
        Value::text(record.use_case.as_ref()),
        Value::whole(record.session),
        Value::whole(record.turn.map(u64::from)),
        Value::whole(record.worker.map(u64::from)),
        Value::whole(Some(record.wire.connection.endpoint.into())),
    ]
}

/// `outcome`, `failure`, `stage`, `message`.
fn ending(outcome: &Outcome) -> [Value; 4] {
    let (failure, stage, message) = match outcome {
        Outcome::Completed => (None, None, None),
        Outcome::Failed {
            stage,
            failure,
            message,
        } => (
            Some(failure.to_string()),
            Some(stage.to_string()),
            Some(message.clone()),
        ),
        Outcome::TimedOut { stage } => (None, Some(stage.to_string()), None),
        Outcome::Truncated { message } => (None, None, Some(message.clone())),
        Outcome::Cancelled { reason } | Outcome::Unsent { reason } => {
            (None, None, Some(reason.clone()))
        }
    };
    [
        Value::text(Some(outcome.name())),
        Value::Text(failure),
        Value::Text(stage),
        Value::Text(message),
    ]
}

/// From `status` to `reused_connection`.
fn wire(record: &RequestRecord) -> Vec<Value> {
    let wire = &record.wire;
    let at = |stamp: Option<Stamp>| Value::signed(stamp.map(Stamp::get));
    let cached = wire.usage.as_ref().and_then(|usage| usage.cached_tokens);
    let lag = wire
        .events
        .lags()
        .max()
        .map(bench_schema::Nanos::as_millis_f64);
    vec![
        Value::whole(wire.status.map(u64::from)),
        Value::text(wire.finish_reason.as_ref()),
        at(Some(record.due)),
        at(wire.sent),
        at(wire.events.first()),
        at(wire.events.last()),
        at(wire.closed),
        Value::whole(record.input_tokens()),
        Value::whole(record.output_tokens),
        Value::whole(record.asked_output_tokens),
        Value::whole(cached),
        Value::whole(Some(wire.events.len() as u64)),
        Value::whole(Some(wire.text_chars)),
        Value::whole(Some(wire.request_bytes)),
        Value::whole(Some(wire.response_bytes)),
        Value::number(lag),
        Value::whole(Some(wire.events.bounds().len() as u64)),
        Value::flag(wire.connection.reused),
    ]
}
