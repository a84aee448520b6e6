//! Records and ledger entries of the same requests, side by side on one clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bench_engine::{Entry, Outcome};
use bench_schema::{Phase, RequestRecord, RunRecord, Stamp};

use crate::engines::Known;
use crate::error::VerifyError;

/// A request as the client recorded it and as its server did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) record: &'a RequestRecord,
    pub(crate) server: usize,
    pub(crate) entry: &'a Entry,
}

/// The requests of a run, matched by id.
#[derive(Debug)]
pub(crate) struct Matched<'a> {
    pub(crate) pairs: Vec<Pair<'a>>,
    /// Records of requests that were sent, which no server knows.
    pub(crate) unknown: usize,
    /// Requests that a server answered whole, and that no record speaks of.
    pub(crate) unrecorded: usize,
    /// The run's epoch on `CLOCK_MONOTONIC`, ns.
    epoch: i64,
}

impl<'a> Matched<'a> {
    /// Matches every record that was sent with the entry of its id; where an id was sent more than once, with the nearest in time.
    pub(crate) fn new(
        run: &RunRecord,
        records: &'a [RequestRecord],
        known: &'a Known,
    ) -> Result<Self, VerifyError> {
        let epoch = run.clock.monotonic_epoch_ns;
        let epoch = epoch.ok_or_else(|| VerifyError::read("run.json", &"no monotonic epoch"))?;
        let mut entries = Entries::new(known, epoch);
        let sent = records.iter().filter(|record| record.wire.sent.is_some());
        let (mut pairs, mut open) = (Vec::new(), Vec::new());
        for record in sent {
            match entries.take(record) {
                Some((server, entry)) => pairs.push(Pair {
                    record,
                    server: *server,
                    entry,
                }),
                None => open.push(record),
            }
        }
        // What never got as far as a server is a failure, not a fault of the record.
        let answered = open.iter().filter(|record| record.wire.headers.is_some());
        Ok(Self {
            unknown: answered.count(),
            unrecorded: entries.left_over(),
            pairs,
            epoch,
        })
    }

    /// A stamp of the run on the ledger's clock, ns.
    pub(crate) fn monotonic(&self, stamp: Stamp) -> f64 {
        stamp.get().saturating_add(self.epoch) as f64
    }

    /// The measured and completed requests of a cell.
    pub(crate) fn of_cell<'b>(&'b self, cell: &'b str) -> impl Iterator<Item = &'b Pair<'a>> {
        self.pairs.iter().filter(move |pair| {
            pair.record.cell == cell
                && pair.record.phase == Phase::Measure
                && pair.record.wire.outcome.is_completed()
        })
    }

    /// Connections that carried recorded requests.
    pub(crate) fn connections(&self) -> usize {
        let used: BTreeSet<(usize, u64)> = self
            .pairs
            .iter()
            .map(|pair| (pair.server, pair.entry.connection))
            .collect();
        used.len()
    }

    /// Most streams at once that each worker had with each server, added up: what it needs in connections over HTTP/1.1.
    pub(crate) fn streams(&self) -> usize {
        let mut ends = BTreeMap::<_, Vec<(i64, i64)>>::new();
        for pair in &self.pairs {
            let record = pair.record;
            let from = record.dispatched.unwrap_or(record.due).get();
            let to = record.last_instant().get();
            let key = (record.worker, pair.server);
            ends.entry(key).or_default().extend([(from, 1), (to, -1)]);
        }
        ends.into_values().map(peak).sum()
    }
}

/// The ledgers' entries by id, and which of them have their record.
struct Entries<'a> {
    known: &'a Known,
    by_id: HashMap<&'a str, Vec<usize>>,
    taken: BTreeSet<usize>,
    epoch: i64,
}

impl<'a> Entries<'a> {
    fn new(known: &'a Known, epoch: i64) -> Self {
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, (_, entry)) in known.entries.iter().enumerate() {
            by_id.entry(&entry.id).or_default().push(at);
        }
        Self {
            known,
            by_id,
            taken: BTreeSet::new(),
            epoch,
        }
    }

    /// The entry of a record, which is then taken.
    fn take(&mut self, record: &RequestRecord) -> Option<&'a (usize, Entry)> {
        let sent = record.wire.sent?.get() + self.epoch;
        let distance = |at: &usize| {
            let entry = self.known.entries.get(*at);
            entry.map_or(0, |(_, entry)| entry.head_ns.cast_signed().abs_diff(sent))
        };
        let called = self.by_id.get(name(record).as_str())?;
        let untaken = called.iter().copied().filter(|at| !self.taken.contains(at));
        let nearest = untaken.min_by_key(distance)?;
        self.taken.insert(nearest);
        self.known.entries.get(nearest)
    }

    /// Answers that were given whole and that no record speaks of.
    fn left_over(&self) -> usize {
        let entries = self.known.entries.iter().enumerate();
        entries
            .filter(|(at, (_, entry))| {
                entry.outcome == Outcome::Completed
                    && !self.taken.contains(at)
                    && !OWN_QUESTIONS.iter().any(|own| entry.id.starts_with(own))
            })
            .count()
    }
}

/// Requests that a benchmark sends for itself.
const OWN_QUESTIONS: [&str; 3] = ["calibration", "preflight", "engine-"];

/// What a record's request is called in `x-request-id`.
fn name(record: &RequestRecord) -> String {
    let mark = match record.phase {
        Phase::Warmup => "w",
        Phase::Measure => "",
    };
    format!("{}-{}-{mark}{}", record.cell, record.repeat, record.id)
}

/// The highest sum of changes, ends before beginnings of the same instant.
fn peak(mut changes: Vec<(i64, i64)>) -> usize {
    changes.sort_unstable();
    let mut now = 0_i64;
    let highest = changes.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(highest.max().unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_counts_what_overlaps_and_not_what_only_touches() {
        assert_eq!(peak(vec![(0, 1), (5, -1), (5, 1), (9, -1)]), 1);
        assert_eq!(peak(vec![(0, 1), (6, -1), (5, 1), (9, -1)]), 2);
        assert_eq!(peak(Vec::new()), 0);
    }
}
