//! The shards' journals as one, in the order things happened, on one clock, and what is known of how well that is done.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bench_schema::{
    Entry, JournalFile, JournalPart, Nanos, PartMeter, Phase, Reading, ReadingSource,
    RequestRecord, RunRecord, Stamp,
};
use serde::Serialize;

use super::check;
use crate::error::CommandError;
use crate::journal::Values;
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
fn join<T: Entry + Serialize>(
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

/// Shards that measure together for this share of a cell are one load.
pub(super) const FULL: f64 = 0.9;
/// Below this they are not.
pub(super) const HALF: f64 = 0.5;

/// Each shard's epoch on the merged clock, whose epoch is the earliest shard's.
#[derive(Debug)]
pub(super) struct Clocks {
    offsets: Vec<Nanos>,
    epoch_ns: i64,
    /// Whether all shards ran on one host, as far as its name tells.
    one_host: bool,
    /// Wall minus monotonic clock of shards on one host, largest minus smallest.
    disagreement: Option<Nanos>,
}

impl Clocks {
    pub(super) fn of(shards: &[RunFolder]) -> Result<Self, CommandError> {
        let epochs: Vec<i64> = shards
            .iter()
            .map(|shard| {
                let epoch = shard.record.clock.unix_epoch_ns;
                epoch.ok_or_else(|| CommandError::NoEpoch(shard.path.clone()))
            })
            .collect::<Result<_, _>>()?;
        let epoch_ns = epochs.iter().copied().min().unwrap_or(0);
        let names: Vec<_> = shards.iter().map(|shard| &shard.record.host.name).collect();
        let one_host = names.iter().all(|name| names.first() == Some(name))
            && names.iter().all(|name| name.is_some());
        let boots: Option<Vec<i64>> = shards
            .iter()
            .zip(&epochs)
            .map(|(shard, wall)| Some(wall.saturating_sub(shard.record.clock.monotonic_epoch_ns?)))
            .collect();
        let spread = boots
            .filter(|_| one_host)
            .and_then(|boots| Some(boots.iter().max()?.saturating_sub(*boots.iter().min()?)));
        Ok(Self {
            offsets: epochs
                .iter()
                .map(|epoch| Nanos::new(epoch.saturating_sub(epoch_ns)))
                .collect(),
            epoch_ns,
            one_host,
            disagreement: spread.map(Nanos::new),
        })
    }

    /// What is to be added to a stamp of this shard.
    pub(super) fn offset(&self, shard: usize) -> Nanos {
        self.offsets.get(shard).copied().unwrap_or(Nanos::ZERO)
    }

    /// The merged run's clock, and in the host's facts how far the shards were apart.
    pub(super) fn write(&self, run: &mut RunRecord) {
        run.clock.unix_epoch_ns = Some(self.epoch_ns);
        if !self.one_host {
            run.clock.monotonic_epoch_ns = None;
        } else if let Some(monotonic) = run.clock.monotonic_epoch_ns {
            let first = self.offset(0).get();
            run.clock.monotonic_epoch_ns = Some(monotonic.saturating_sub(first));
        }
        let facts = &mut run.host.facts;
        facts.insert("shards.epochs_apart".to_owned(), self.apart().to_string());
        facts.insert(
            "shards.clock_disagreement".to_owned(),
            self.disagreement.map_or_else(
                || "unknown: different hosts".to_owned(),
                |by| by.to_string(),
            ),
        );
    }

    fn apart(&self) -> Nanos {
        self.offsets.iter().copied().max().unwrap_or(Nanos::ZERO)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let agreement = match self.disagreement {
            Some(by) => format!("they ran on one host, whose wall clock moved by {by} against its monotonic clock between them"),
            None => "they ran on different hosts, whose clocks' disagreement the results do not tell: latencies are each taken on one clock and do not depend on it, rates and requests in flight do; keep the hosts on NTP or PTP".to_owned(),
        };
        vec![format!(
            "the shards' epochs are {} apart; {agreement}",
            self.apart()
        )]
    }
}

/// First and last instant, by repeat and shard.
type ByShard = BTreeMap<(u32, usize), (Stamp, Stamp)>;

/// When each shard measured each cell, on the merged clock.
#[derive(Debug, Default)]
pub(super) struct Spans {
    cells: BTreeMap<String, ByShard>,
}

impl Spans {
    pub(super) fn add(&mut self, shard: usize, record: &RequestRecord) {
        if record.phase != Phase::Measure {
            return;
        }
        let (from, to) = (
            record.wire.sent.unwrap_or(record.due),
            record.last_instant(),
        );
        if !self.cells.contains_key(&record.cell) {
            self.cells.insert(record.cell.clone(), BTreeMap::new());
        }
        if let Some(spans) = self.cells.get_mut(&record.cell) {
            let span = spans.entry((record.repeat, shard)).or_insert((from, to));
            *span = (span.0.min(from), span.1.max(to));
        }
    }

    /// Of each cell the worst repeat's share of time in which all shards measured; 0 where one of them did not.
    pub(super) fn overlaps(&self, shards: usize) -> Vec<(String, f64)> {
        self.cells
            .iter()
            .map(|(cell, spans)| {
                let mut repeats: BTreeMap<u32, Vec<(Stamp, Stamp)>> = BTreeMap::new();
                for (&(repeat, _), &span) in spans {
                    repeats.entry(repeat).or_default().push(span);
                }
                let worst = repeats
                    .values()
                    .map(|spans| overlap(spans, shards))
                    .reduce(f64::min);
                (cell.clone(), worst.unwrap_or(0.0))
            })
            .collect()
    }
}

/// The time that all share over the longest of them.
fn overlap(spans: &[(Stamp, Stamp)], shards: usize) -> f64 {
    if spans.len() < shards {
        return 0.0;
    }
    let from = spans.iter().map(|span| span.0).max();
    let to = spans.iter().map(|span| span.1).min();
    let longest = spans.iter().map(|span| span.1 - span.0).max();
    match (from, to, longest) {
        (Some(from), Some(to), Some(longest)) if longest > Nanos::ZERO => {
            (to - from).or_zero().as_f64() / longest.as_f64()
        }
        _ => 1.0,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/merge_journals.rs"]
mod tests;
