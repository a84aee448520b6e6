//! A row for each content event.

use std::path::Path;

use bench_schema::{Channel, JournalFile, Nanos, Phase, RequestRecord};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::lines::stream;
use crate::run::{Run, open_all};
use crate::table::{Column, Kind, Sink, Table, Value, Whole};

/// Rows of a batch.
const BATCH: usize = 200_000;

/// The content events of the measured requests of a run, in the order the requests ended.
///
/// Columns: `cell`, `repeat`, `id` (together a request), `index` (from 0), `at_ns` (arrival since the run's epoch), `gap_ms` (since the event
/// before; null for the first), `lag_ms` (read's return minus arrival), `bound_ms` (how much earlier it may have arrived; 0 where
/// the stamp is exact), `tokens` (null where the stream does not tell), `channel`.
///
/// # Errors
/// As for [`crate::requests`]. A run of a million answers of 500 tokens makes 500 million rows: [`crate::write_run`] writes them
/// without holding them.
pub fn tokens(dir: impl AsRef<Path>) -> Result<DataFrame, FramesError> {
    let mut whole = Whole::default();
    for run in open_all(&[dir])? {
        stream_tokens(&run, &mut whole)?;
    }
    Ok(whole.finish())
}

/// The same in batches.
pub(crate) fn stream_tokens(run: &Run<'_>, sink: &mut dyn Sink) -> Result<(), FramesError> {
    let columns = [
        ("cell", Kind::Text),
        ("repeat", Kind::Whole),
        ("id", Kind::Whole),
        ("index", Kind::Whole),
        ("at_ns", Kind::Whole),
        ("gap_ms", Kind::Number),
        ("lag_ms", Kind::Number),
        ("bound_ms", Kind::Number),
        ("tokens", Kind::Whole),
        ("channel", Kind::Text),
    ];
    let mut table = Table::new(columns.map(|(name, kind)| Column::new(name, kind)).into());
    sink.batch(table.take()?)?;
    stream(&run.dir, JournalFile::Requests, |record: &RequestRecord| {
        if record.phase == Phase::Measure {
            events(&mut table, record);
        }
        if table.rows() >= BATCH {
            sink.batch(table.take()?)?;
        }
        Ok(())
    })?;
    sink.batch(table.take()?)
}

fn events(table: &mut Table, record: &RequestRecord) {
    let log = &record.wire.events;
    let mut gaps = std::iter::once(None).chain(log.gaps().map(Some));
    let mut lags = log.lags();
    let mut runs = log.runs().peekable();
    let mut channel = Channel::Answer;
    for (index, at) in log.stamps().enumerate() {
        while let Some((_, next)) = runs.next_if(|&(from, _)| from <= index) {
            channel = next;
        }
        let tokens = log.tokens().and_then(|all| all.get(index));
        table.push([
            Value::text(Some(&record.cell)),
            Value::whole(Some(record.repeat.into())),
            Value::whole(Some(record.id)),
            Value::whole(Some(index as u64)),
            Value::signed(Some(at.get())),
            Value::number(gaps.next().flatten().map(Nanos::as_millis_f64)),
            Value::number(lags.next().map(Nanos::as_millis_f64)),
            Value::number(Some(log.bound(index).as_millis_f64())),
            Value::whole(tokens.map(|&n| u64::from(n))),
            Value::text(Some(word(channel))),
        ]);
    }
}

fn word(channel: Channel) -> &'static str {
    match channel {
        Channel::Answer => "answer",
        Channel::Reasoning => "reasoning",
        Channel::Tool => "tool",
        Channel::Refusal => "refusal",
    }
}
