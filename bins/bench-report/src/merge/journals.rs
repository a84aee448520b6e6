//! The shards' journals as one, in the order things happened, on one clock, and what is known of how well that is done.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bench_schema::{
    ClockExchange, Entry, JournalFile, JournalPart, Nanos, PartMeter, Phase, Reading,
    ReadingSource, RequestRecord, RunRecord, Stamp,
};
use serde::Serialize;

use super::names;
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
        record.shift(clocks.offset(shard, record.last_instant()));
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
    let names = names(shards);
    let place = |shard, mut reading: Reading| {
        let by = clocks.offset(shard, reading.from);
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
                "{} has no {}; the merged run lacks its content",
                run.path.display(),
                file.part_name(0)
            ));
            continue;
        }
        let mut lines = run.values(file);
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
/// Clocks that are known to this share of a cell do not move its rates.
pub(super) const BOUND: f64 = 0.01;
/// Below this they are not.
pub(super) const HALF: f64 = 0.5;

/// What brings each shard's stamps onto the merged clock: that of shard 0 where the shards compared theirs with it, else the wall clock, counted from the earliest epoch.
#[derive(Debug)]
pub(super) struct Clocks {
    shards: Vec<Comparison>,
    epoch_ns: i64,
    /// Whether all shards ran on one host, as far as its name tells.
    one_host: bool,
    /// How far the clocks may be apart after all, where that is known: by the shards' exchanges, or on one host by wall minus monotonic clock, largest minus smallest.
    disagreement: Option<Nanos>,
    /// Whether the shards compared their clocks.
    met: bool,
}

/// One shard's clock against the merged one.
#[derive(Debug)]
enum Comparison {
    /// By its epoch on the wall clock.
    Wall(Nanos),
    /// By exchanges with shard 0, in order, at least one.
    Met(Vec<ClockExchange>),
}

impl Comparison {
    /// What is to be added to a stamp; between two exchanges on the line from one to the other.
    fn offset(&self, at: Stamp) -> Nanos {
        let all = match self {
            Self::Wall(by) => return *by,
            Self::Met(all) => all,
        };
        let after = all.partition_point(|exchange| exchange.at <= at);
        match (
            after.checked_sub(1).and_then(|before| all.get(before)),
            all.get(after),
        ) {
            (Some(a), Some(b)) => {
                let share = (at - a.at).as_f64() / (b.at - a.at).as_f64();
                let by = (b.offset - a.offset).as_secs_f64() * share;
                a.offset + Nanos::from_secs_f64(by)
            }
            (Some(one), None) | (None, Some(one)) => one.offset,
            (None, None) => Nanos::ZERO,
        }
    }

    /// What was added to its stamps, as the comparisons found it: the least and the most, and how wrong that can be.
    fn offsets(&self) -> Option<String> {
        let Self::Met(all) = self else { return None };
        let offsets = all.iter().map(|exchange| exchange.offset);
        let (least, most) = (offsets.clone().min()?, offsets.max()?);
        let bound = all.iter().map(|exchange| exchange.bound).max()?;
        let comparisons = all.len();
        Some(if least == most {
            format!("{least} ± {bound} in {comparisons} comparisons")
        } else {
            format!("{least} to {most} ± {bound} in {comparisons} comparisons")
        })
    }

    /// The exchanges around a time on the merged clock: the last before it to the first after it.
    fn around(&self, from: Stamp, to: Stamp) -> &[ClockExchange] {
        let Self::Met(all) = self else { return &[] };
        let at = |exchange: &ClockExchange| exchange.at + exchange.offset;
        let first = all.partition_point(|exchange| at(exchange) <= from);
        let last = all.partition_point(|exchange| at(exchange) < to);
        let around = first.saturating_sub(1)..(last + 1).min(all.len());
        all.get(around).unwrap_or_default()
    }
}

/// How far a clock may run from another without being said to have moved: more than any crystal.
const DRIFT: f64 = 200e-6;

impl Clocks {
    pub(super) fn of(shards: &[RunFolder]) -> Result<Self, CommandError> {
        let epochs: Vec<i64> = shards
            .iter()
            .map(|shard| {
                let epoch = shard.record.clock.unix_epoch_ns;
                epoch.ok_or_else(|| CommandError::NoEpoch(shard.path.clone()))
            })
            .collect::<Result<_, _>>()?;
        let names: Vec<_> = shards.iter().map(|shard| &shard.record.host.name).collect();
        let one_host = names.iter().all(|name| names.first() == Some(name))
            && names.iter().all(|name| name.is_some());
        let all = shards.iter().map(|shard| &shard.record.clock.met);
        let met = all.clone().all(|exchanges| !exchanges.is_empty());
        if met {
            let shards: Vec<_> = all
                .map(|exchanges| Comparison::Met(exchanges.clone()))
                .collect();
            let first = shards
                .first()
                .map_or(Nanos::ZERO, |first| first.offset(Stamp::EPOCH));
            let epoch = epochs.first().copied().unwrap_or(0);
            let bounds = shards.iter().flat_map(|shard| match shard {
                Comparison::Met(all) => all.as_slice(),
                Comparison::Wall(_) => &[],
            });
            return Ok(Self {
                epoch_ns: epoch.saturating_sub(first.get()),
                one_host,
                disagreement: bounds.map(|exchange| exchange.bound).max(),
                shards,
                met,
            });
        }
        let epoch_ns = epochs.iter().copied().min().unwrap_or(0);
        let boots: Option<Vec<i64>> = shards
            .iter()
            .zip(&epochs)
            .map(|(shard, wall)| Some(wall.saturating_sub(shard.record.clock.monotonic_epoch_ns?)))
            .collect();
        let spread = boots
            .filter(|_| one_host)
            .and_then(|boots| Some(boots.iter().max()?.saturating_sub(*boots.iter().min()?)));
        let by_wall = |epoch: &i64| Comparison::Wall(Nanos::new(epoch.saturating_sub(epoch_ns)));
        Ok(Self {
            shards: epochs.iter().map(by_wall).collect(),
            epoch_ns,
            one_host,
            disagreement: spread.map(Nanos::new),
            met,
        })
    }

    /// Whether the shards compared their clocks, which those do that begin each phase together.
    pub(super) fn met(&self) -> bool {
        self.met
    }

    /// What is to be added to this stamp of this shard.
    pub(super) fn offset(&self, shard: usize, at: Stamp) -> Nanos {
        let shard = self.shards.get(shard);
        shard.map_or(Nanos::ZERO, |clock| clock.offset(at))
    }

    /// The worst that is known of the clocks over a time of the merged clock: how wrong an offset can be, and how far one moved beyond its bounds and what clocks drift.
    pub(super) fn worst(&self, from: Stamp, to: Stamp) -> (Nanos, Nanos) {
        let mut worst = (Nanos::ZERO, Nanos::ZERO);
        for around in self.shards.iter().map(|shard| shard.around(from, to)) {
            let bounds = around.iter().map(|exchange| exchange.bound);
            worst.0 = worst.0.max(bounds.max().unwrap_or(Nanos::ZERO));
            let moved = around.windows(2).filter_map(|pair| {
                let [a, b] = pair else { return None };
                let by = (b.offset - a.offset).get().saturating_abs();
                let drift = Nanos::from_secs_f64((b.at - a.at).as_secs_f64() * DRIFT);
                Some(Nanos::new(by) - a.bound - b.bound - drift)
            });
            worst.1 = worst.1.max(moved.max().unwrap_or(Nanos::ZERO));
        }
        worst
    }

    /// The merged run's clock, and in the host's facts how far the clocks of the shards with these names were apart.
    pub(super) fn write(&self, names: &[String], run: &mut RunRecord) {
        run.clock.unix_epoch_ns = Some(self.epoch_ns);
        run.clock.met = Vec::new();
        if !self.one_host {
            run.clock.monotonic_epoch_ns = None;
        } else if let Some(monotonic) = run.clock.monotonic_epoch_ns {
            let first = self.offset(0, Stamp::EPOCH).get();
            run.clock.monotonic_epoch_ns = Some(monotonic.saturating_sub(first));
        }
        let facts = &mut run.host.facts;
        facts.insert("shards.epochs_apart".to_owned(), self.apart().to_string());
        facts.insert(
            "shards.clock_disagreement".to_owned(),
            match (self.disagreement, self.met) {
                (Some(by), true) => format!("at most {by}"),
                (Some(by), false) => by.to_string(),
                (None, _) => "unknown: different hosts".to_owned(),
            },
        );
        for (name, clock) in names.iter().zip(&self.shards) {
            if let Some(offsets) = clock.offsets() {
                facts.insert(format!("shards.clock_offset {name}"), offsets);
            }
        }
    }

    fn apart(&self) -> Nanos {
        let offsets = self.shards.iter().map(|shard| shard.offset(Stamp::EPOCH));
        let least = offsets.clone().min().unwrap_or(Nanos::ZERO);
        offsets.max().unwrap_or(Nanos::ZERO) - least
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let agreement = match (self.disagreement, self.met) {
            (Some(by), true) => format!("their clocks were compared, with an accuracy of {by}"),
            (Some(by), false) => format!("they ran on one host, whose wall clock moved by {by} relative to its monotonic clock"),
            (None, _) => "they ran on different hosts with an unknown clock offset: latencies do not depend on it, but rates and requests in flight do; use --meet, or synchronise the hosts with NTP or PTP".to_owned(),
        };
        vec![format!(
            "the shards' epochs are {} apart; {agreement}",
            self.apart()
        )]
    }
}

/// When one shard measured one repeat of a cell, on the merged clock.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Its first request was sent.
    from: Stamp,
    /// Its last request was sent.
    sent: Stamp,
    /// Its last request ended.
    to: Stamp,
    requests: i64,
}

impl Span {
    fn of(record: &RequestRecord) -> Self {
        let sent = record.wire.sent.unwrap_or(record.due);
        Self {
            from: sent,
            sent,
            to: record.last_instant(),
            requests: 1,
        }
    }

    fn and(self, more: Self) -> Self {
        Self {
            from: self.from.min(more.from),
            sent: self.sent.max(more.sent),
            to: self.to.max(more.to),
            requests: self.requests + more.requests,
        }
    }

    /// How long it may be silent at either end although it is part of the load: twice the mean time between its requests.
    fn slack(&self) -> Nanos {
        let gaps = (self.requests - 1).max(1);
        Nanos::new((self.sent - self.from).get() / gaps * 2)
    }
}

/// Of each repeat and shard.
type ByShard = BTreeMap<(u32, usize), Span>;

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
        if !self.cells.contains_key(&record.cell) {
            self.cells.insert(record.cell.clone(), BTreeMap::new());
        }
        if let Some(spans) = self.cells.get_mut(&record.cell) {
            let own = Span::of(record);
            let span = spans.entry((record.repeat, shard));
            span.and_modify(|span| *span = span.and(own)).or_insert(own);
        }
    }

    /// First and last instant of each cell, over all shards and repeats, and the shortest time that a shard measured a repeat of it.
    pub(super) fn times(&self) -> impl Iterator<Item = (&str, Stamp, Stamp, Nanos)> {
        self.cells.iter().filter_map(|(cell, spans)| {
            let from = spans.values().map(|span| span.from).min()?;
            let to = spans.values().map(|span| span.to).max()?;
            let shortest = spans.values().map(|span| span.to - span.from).min()?;
            Some((cell.as_str(), from, to, shortest))
        })
    }

    /// The last of these cells in which a shard measured; absent where it measured in none.
    pub(super) fn last_cell(
        &self,
        shard: usize,
        cells: &[bench_schema::CellRecord],
    ) -> Option<usize> {
        let measured = |cell: &bench_schema::CellRecord| {
            let spans = self.cells.get(&cell.id);
            spans.is_some_and(|spans| spans.keys().any(|&(_, of)| of == shard))
        };
        cells.iter().rposition(measured)
    }

    /// Of each cell the worst repeat's share of time in which all shards measured that are part of its load (`is_part`); 0 where one of them did not. `is_full` says
    /// whether the figures of a cell are only of the time in which all slots of all shards were busy: then all of it is shared.
    pub(super) fn overlaps(
        &self,
        shards: usize,
        is_part: impl Fn(&str, usize) -> bool,
        is_full: impl Fn(&str) -> bool,
    ) -> Vec<(String, f64)> {
        self.cells
            .iter()
            .map(|(cell, spans)| {
                let mut repeats: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
                for (&(repeat, shard), &span) in spans {
                    let of_repeat = repeats.entry(repeat).or_default();
                    of_repeat.extend(is_part(cell, shard).then_some(span));
                }
                let all = (0..shards).filter(|shard| is_part(cell, *shard)).count();
                let is_full = is_full(cell);
                let worst = repeats.values().map(|spans| match spans.len() < all {
                    true => 0.0,
                    false if is_full => 1.0,
                    false => overlap(spans),
                });
                (cell.clone(), worst.reduce(f64::min).unwrap_or(0.0))
            })
            .collect()
    }
}

/// The share of a load's time, from its first request to its last answer, in which all shards were part of it. A shard that still waits for an answer when the last
/// request of all is sent was part of it to the end: the slots of one process do not end at one instant either.
fn overlap(spans: &[Span]) -> f64 {
    let all = spans.iter().copied().reduce(Span::and);
    let Some(all) = all.filter(|all| all.to > all.from) else {
        return 1.0;
    };
    let from = spans.iter().map(|span| span.from - span.slack()).max();
    let left = spans.iter().map(|span| span.to + span.slack()).min();
    let from = from.unwrap_or(all.from).max(all.from);
    let to = left.filter(|left| *left < all.sent).unwrap_or(all.to);
    (to - from).or_zero().as_f64() / (all.to - all.from).as_f64()
}

#[cfg(test)]
#[path = "../../tests/unit/merge_journals.rs"]
mod tests;
