//! Records and ledger entries of the same requests, side by side on one clock, and plain arithmetic over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bench_engine::{Entry, Outcome};
use bench_schema::{CellRecord, Origin, Phase, RequestRecord, RunRecord, Stamp, index};

use crate::VerifyError;
use crate::programs::Known;

/// One figure of a run and of the ledgers.
#[derive(Debug, Clone)]
pub struct Check {
    /// What is compared.
    pub name: &'static str,
    /// What the run says.
    pub said: f64,
    /// What is so.
    pub so: f64,
    /// Most that the first may differ from the second.
    pub limit: f64,
    /// Whether a busy machine may break it; such checks do not decide in CI.
    pub timing: bool,
}

impl Check {
    /// Whether the run may say so. What is no number never holds.
    pub fn holds(&self) -> bool {
        (self.said - self.so).abs() <= self.limit
    }
}

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

    /// What the ledgers say of the measured and completed requests of a cell.
    pub(crate) fn figures(&self, cell: &CellRecord) -> Figures {
        let origin = |pair: &Pair<'_>| match cell.headline {
            Origin::Due => self.monotonic(pair.record.due),
            Origin::Sent => pair.entry.body_ns as f64,
        };
        let pairs: Vec<&Pair<'_>> = self.of_cell(&cell.id).collect();
        let event = |pair: &Pair<'_>, at: Option<&u64>| Some(*at? as f64 - origin(pair));
        let each = |figure: &dyn Fn(&Pair<'_>) -> Option<f64>| {
            pairs.iter().filter_map(|pair| figure(pair)).collect()
        };
        let gaps = pairs.iter().flat_map(|pair| pair.entry.after_ns.windows(2));
        Figures {
            ttft: each(&|pair| event(pair, pair.entry.after_ns.first())),
            e2e: each(&|pair| event(pair, pair.entry.after_ns.last())),
            busy: each(&|pair| Some((pair.entry.end_ns? - pair.entry.head_ns) as f64)),
            itl: gaps
                .filter_map(|two| Some((two.last()? - two.first()?) as f64))
                .collect(),
        }
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
        // A request that was asked again was sent when it was asked first, and answered where it was answered.
        let answered = record.wire.outcome.is_completed();
        let ended = |at: &usize| {
            self.known
                .entries
                .get(*at)
                .is_some_and(|(_, entry)| entry.end_ns.is_some())
        };
        let nearest = untaken.min_by_key(|at| (answered && !ended(at), distance(at)))?;
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

/// Times of a cell's answers, ns.
pub(crate) struct Figures {
    pub(crate) ttft: Sample,
    pub(crate) itl: Sample,
    pub(crate) e2e: Sample,
    /// Head read to answer written: how long a slot of a closed loop is busy.
    pub(crate) busy: Sample,
}

impl Figures {
    /// By Little's law: each slot is busy all the time, and gives one answer in the time of one. Requests/s.
    pub(crate) fn rate_of(&self, slots: f64) -> Option<f64> {
        Some(slots / self.busy.mean()? * 1e9)
    }
}

/// A sample, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl Sample {
    /// `None` of an empty sample.
    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// The `q`-quantile between order statistics (type 7); `None` of an empty sample.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let at = q.clamp(0.0, 1.0) * last as f64;
        let low = index(at).min(last);
        let high = (low + 1).min(last);
        let (below, above) = (self.0.get(low)?, self.0.get(high)?);
        Some(below + (above - below) * (at - low as f64))
    }
}

#[cfg(test)]
#[path = "../tests/unit/truth.rs"]
mod tests;
