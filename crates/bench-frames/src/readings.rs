//! A row for each value that was read of a machine or a server.

use std::path::Path;

use bench_schema::{JournalFile, Reading};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::lines::stream;
use crate::run::{Run, open_all};
use crate::table::{Column, Kind, Sink, Table, Value, Whole};

/// Rows of a batch.
const BATCH: usize = 200_000;

/// The readings of a run in long form, in the order they were taken.
///
/// Columns: `from_ns` and `to_ns` (the window in which the source answered, since the run's epoch), `source`, `instance`, `name`, `value`.
/// Counters are as they stand; take differences.
///
/// # Errors
/// As for [`crate::requests`].
pub fn readings(dir: impl AsRef<Path>) -> Result<DataFrame, FramesError> {
    let mut whole = Whole::default();
    for run in open_all(&[dir])? {
        stream_readings(&run, &mut whole)?;
    }
    Ok(whole.finish())
}

/// The same in batches.
pub(crate) fn stream_readings(run: &Run<'_>, sink: &mut dyn Sink) -> Result<(), FramesError> {
    let columns = [
        ("from_ns", Kind::Whole),
        ("to_ns", Kind::Whole),
        ("source", Kind::Text),
        ("instance", Kind::Text),
        ("name", Kind::Text),
        ("value", Kind::Number),
    ];
    let mut table = Table::new(columns.map(|(name, kind)| Column::new(name, kind)).into());
    sink.batch(table.take()?)?;
    stream(&run.dir, JournalFile::Readings, |reading: &Reading| {
        for (name, value) in &reading.values {
            table.push([
                Value::signed(Some(reading.from.get())),
                Value::signed(Some(reading.to.get())),
                Value::text(Some(reading.source.as_str())),
                Value::text(Some(&reading.instance).filter(|text| !text.is_empty())),
                Value::text(Some(name)),
                Value::number(Some(*value)),
            ]);
        }
        if table.rows() >= BATCH {
            sink.batch(table.take()?)?;
        }
        Ok(())
    })?;
    sink.batch(table.take()?)
}
