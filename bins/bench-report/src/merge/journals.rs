//! The shards' journals as one, in the order things happened, on one clock.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bench_schema::{
    JournalFile, JournalPart, PartMeter, Reading, ReadingSource, RequestRecord, Stamp,
};
use serde::Serialize;

use super::check;
use super::clocks::Clocks;
use crate::error::CommandError;
use crate::lines::{Measured, Values};
use crate::run_folder::RunFolder;

/// A joined journal.
pub(super) struct Joined {
    /// What it holds.
    pub(super) part: JournalPart,
    /// What was passed over.
    pub(super) notes: Vec<String>,
    /// Lines of the shards that could not be read.
    pub(super) unread: Vec<String>,
}

/// Join `requests.jsonl` in `out`; each record is handed on with its shard's place.
pub(super) fn requests(
    shards: &[RunFolder],
    clocks: &Clocks,
    out: &Path,
    each: impl FnMut(usize, &RequestRecord) -> Result<(), CommandError>,
) -> Result<Joined, CommandError> {
    let first_workers = first_workers(shards);
    let place = |shard, mut record: RequestRecord| {
        record.shift(clocks.offset(shard));
        // Worker 0 of one shard is not worker 0 of another.
        let before = first_workers.get(shard).copied().unwrap_or(0);
        record.worker = record.worker.map(|worker| worker.saturating_add(before));
        (record.last_instant(), record)
    };
    join(shards, (out, JournalFile::Requests), place, each)
}

/// Join `hardware.jsonl`: what a shard says of its own machine carries the shard's name.
pub(super) fn readings(
    shards: &[RunFolder],
    clocks: &Clocks,
    out: &Path,
) -> Result<Joined, CommandError> {
    let names: Vec<String> = shards
        .iter()
        .map(|shard| check::name(&shard.record))
        .collect();
    let place = |shard, mut reading: Reading| {
        let by = clocks.offset(shard);
        (reading.from, reading.to) = (reading.from + by, reading.to + by);
        if let Some(name) = names.get(shard) {
            reading.instance = instance(reading.source, &reading.instance, name);
        }
        (reading.from, reading)
    };
    join(shards, (out, JournalFile::Readings), place, |_, _| Ok(()))
}

/// The instance of a series after the merge: the client's side of things is one a shard.
fn instance(source: ReadingSource, instance: &str, shard: &str) -> String {
    match source {
        ReadingSource::Host
        | ReadingSource::Client
        | ReadingSource::Gpu
        | ReadingSource::ServerProcess => format!("shard {shard} {instance}").trim_end().to_owned(),
        ReadingSource::ServerMetrics | ReadingSource::Dcgm | ReadingSource::Prometheus => {
            instance.to_owned()
        }
    }
}

fn first_workers(shards: &[RunFolder]) -> Vec<u32> {
    let mut next = 0_u32;
    shards
        .iter()
        .map(|shard| {
            let cells = shard.record.cells.iter();
            let own = cells
                .map(|cell| cell.client.workers)
                .max()
                .unwrap_or(0)
                .max(1);
            let after = next.saturating_add(own);
            std::mem::replace(&mut next, after)
        })
        .collect()
}

/// One shard's journal, its next value at hand.
struct Source<T> {
    lines: Values<T>,
    next: Option<(Stamp, T)>,
}

/// Merge streams that are each in order; where a shard lacks the file it adds nothing.
fn join<T: Measured + Serialize>(
    shards: &[RunFolder],
    (folder, file): (&Path, JournalFile),
    mut place: impl FnMut(usize, T) -> (Stamp, T),
    mut each: impl FnMut(usize, &T) -> Result<(), CommandError>,
) -> Result<Joined, CommandError> {
    let name = file.part_name(0);
    let out = &folder.join(&name);
    let mut written = PartMeter::default();
    let mut line = Vec::new();
    let mut sources: Vec<(usize, Source<T>)> = Vec::new();
    let mut notes = Vec::new();
    for (shard, run) in shards.iter().enumerate() {
        if file.parts_in(&run.path).is_empty() {
            notes.push(format!(
                "{} has no {}; the merged run lacks what it held",
                run.path.display(),
                file.part_name(0)
            ));
            continue;
        }
        let mut lines = Values::open(&run.path, file, run.damaged_ok);
        let next = lines.next()?.map(|value| place(shard, value));
        sources.push((shard, Source { lines, next }));
    }
    let joined = File::create_new(out).map_err(CommandError::write(out))?;
    let mut writer = BufWriter::with_capacity(1 << 20, joined);
    loop {
        let ready = sources
            .iter_mut()
            .filter(|(_, source)| source.next.is_some());
        let earliest =
            ready.min_by_key(|(shard, source)| (source.next.as_ref().map(|next| next.0), *shard));
        let Some((shard, source)) = earliest else {
            break;
        };
        let Some((_, value)) = source.next.take() else {
            break;
        };
        each(*shard, &value)?;
        line.clear();
        serde_json::to_writer(&mut line, &value)
            .map_err(|error| CommandError::write(out)(error.into()))?;
        line.push(b'\n');
        writer.write_all(&line).map_err(CommandError::write(out))?;
        written.update(&line);
        source.next = source.lines.next()?.map(|value| place(*shard, value));
    }
    writer.flush().map_err(CommandError::write(out))?;
    notes.extend(sources.iter().flat_map(|(_, source)| source.lines.notes()));
    let lines = sources.iter().map(|(_, source)| &source.lines);
    Ok(Joined {
        part: written.part(&name),
        notes,
        unread: lines.flat_map(Values::unread).collect(),
    })
}
