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
        let epoch = epoch.ok_or_else(|| VerifyError::read("run.json", "no monotonic epoch"))?;
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, (_, entry)) in known.entries.iter().enumerate() {
            by_id.entry(&entry.id).or_default().push(at);
        }
        let mut taken = BTreeSet::new();
        let mut pairs = Vec::new();
        let mut open: Vec<&RequestRecord> = records
            .iter()
            .filter(|record| record.wire.sent.is_some())
            .collect();
        // A turn of a conversation that began in warm-up may have gone out under a warm-up's name and count as measured.
        for own_name in [true, false] {
            open.retain(|record| {
                let sent = record.wire.sent.map_or(0, |sent| sent.get() + epoch);
                let distance = |at: &usize| {
                    let head = known.entries.get(*at).map_or(0, |(_, entry)| entry.head_ns);
                    head.cast_signed().abs_diff(sent)
                };
                let called = by_id.get(name(record, own_name).as_str());
                let untaken = called.into_iter().flatten().copied();
                let nearest = untaken
                    .filter(|at| !taken.contains(at))
                    .min_by_key(distance);
                let Some((at, (server, entry))) =
                    nearest.and_then(|at| Some((at, known.entries.get(at)?)))
                else {
                    return true;
                };
                taken.insert(at);
                pairs.push(Pair {
                    record,
                    server: *server,
                    entry,
                });
                false
            });
        }
        // What never got as far as a server is a failure, not a fault of the record.
        let unknown = open
            .iter()
            .filter(|record| record.wire.headers.is_some())
            .count();
        let unrecorded = |(at, (_, entry)): &(usize, &(usize, Entry))| {
            entry.outcome == Outcome::Completed
                && !taken.contains(at)
                && !OWN_QUESTIONS.iter().any(|own| entry.id.starts_with(own))
        };
        Ok(Self {
            unrecorded: known.entries.iter().enumerate().filter(unrecorded).count(),
            pairs,
            unknown,
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
        let mut ends: BTreeMap<(Option<u32>, usize), Vec<(i64, i64)>> = BTreeMap::new();
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

/// Requests that a benchmark sends for itself.
const OWN_QUESTIONS: [&str; 3] = ["calibration", "preflight", "engine-"];

/// What a record's request is called in `x-request-id`, or would be in the other phase.
fn name(record: &RequestRecord, own: bool) -> String {
    let warmup = (record.phase == Phase::Warmup) == own;
    let mark = if warmup { "w" } else { "" };
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
