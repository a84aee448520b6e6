//! What a run counted last, second by second, and what is under way: for the live screen.

use std::collections::{BTreeMap, VecDeque};

use bench_metrics::{Histogram, Layout};
use bench_schema::{Metric, Nanos, Outcome, Reading, ReadingSource, RequestRecord, Stamp};

/// Seconds whose values are kept, for rates and quantiles.
pub(crate) const LATEST: usize = 10;
/// Seconds whose quantiles are kept, for the curves.
pub(crate) const CURVE: usize = 180;
/// How old a reading may be and still be how it is now.
const FRESH: Nanos = Nanos::from_secs(10);
/// A tick may come a little early.
const SECOND: Nanos = Nanos::from_millis(900);
/// Latencies that are shown.
const SHOWN: [Metric; 3] = [Metric::Ttft, Metric::Itl, Metric::Lateness];
/// Values of readings that are shown.
const READ: [&str; 7] = [
    "utilisation_share",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "running",
    "waiting",
    "kv_cache_share",
];

/// A phase that is under way.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// Which cell it is of, from 0.
    pub(crate) cell: usize,
    /// What it is called, without secrets.
    pub(crate) phase: String,
    /// How load is offered.
    pub(crate) offered: String,
    /// Whether requests have times at which they are due.
    pub(crate) open: bool,
    /// Requests of its plan, where that has a number of them.
    pub(crate) requests: Option<u64>,
    /// How long it lasts, where its plan says so.
    pub(crate) length: Option<Nanos>,
    pub(crate) began: Stamp,
    /// Requests of the run that were over when it began.
    pub(crate) over_before: u64,
}

/// What was counted within about a second.
struct Second {
    lasted: Nanos,
    taken_up: u64,
    ended: u64,
    tokens: u64,
    latencies: [Histogram; SHOWN.len()],
}

impl Default for Second {
    fn default() -> Self {
        // to 2 %, in a few kilobytes
        let empty = || Histogram::new(Layout::with_bits(5));
        Self {
            lasted: Nanos::ZERO,
            taken_up: 0,
            ended: 0,
            tokens: 0,
            latencies: SHOWN.map(|_| empty()),
        }
    }
}

/// What was counted per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) taken_up: f64,
    pub(crate) ended: f64,
    pub(crate) tokens: f64,
}

/// Values of a reading, by name.
pub(crate) type Told = BTreeMap<&'static str, f64>;

/// p50 and p99 of a latency, in nanoseconds.
pub(crate) type Quantiles = (f64, f64);

/// What was counted last. Its memory is bounded, whether anybody looks or not.
#[derive(Default)]
pub(crate) struct Recent {
    pub(crate) stage: Option<Stage>,
    /// When the cell that is under way began.
    pub(crate) cell_began: Option<Stamp>,
    pub(crate) cells_ended: usize,
    /// Requests that are over since the run began, by what became of them.
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    /// Those that failed, by kind and by where in their life.
    pub(crate) failures: BTreeMap<(&'static str, &'static str), u64>,
    current: Second,
    whole: VecDeque<Second>,
    /// Of each whole second, TTFT and ITL.
    curves: [VecDeque<Option<Quantiles>>; 2],
    since: Option<(Stamp, u64)>,
    readings: BTreeMap<(ReadingSource, String), (Stamp, Told)>,
}

impl Recent {
    /// A phase begins. What is counted per second is counted from the first one on.
    pub(crate) fn begin(&mut self, stage: Stage) {
        if self.stage.is_none() {
            self.current = Second::default();
            self.whole.clear();
            self.since = Some((stage.began, stage.over_before));
        }
        if self.stage.as_ref().map(|before| before.cell) != Some(stage.cell) {
            self.cell_began = Some(stage.began);
        }
        self.stage = Some(stage);
    }

    /// A request is over.
    pub(crate) fn ended(&mut self, record: &RequestRecord) {
        *self.outcomes.entry(record.wire.outcome.name()).or_default() += 1;
        if let Outcome::Failed { stage, failure, .. } = &record.wire.outcome {
            let kind = (failure.as_str(), stage.as_str());
            *self.failures.entry(kind).or_default() += 1;
        }
        self.current.ended += 1;
        self.current.tokens += record.output_tokens.unwrap_or(0);
    }

    /// Latencies of an answer that came whole, in nanoseconds.
    pub(crate) fn latencies(&mut self, metric: Metric, values: &[f64]) {
        let shown = SHOWN.iter().zip(&mut self.current.latencies);
        for (_, histogram) in shown.filter(|(one, _)| **one == metric) {
            for value in values {
                let whole = Nanos::from_f64(*value).get();
                histogram.record(u64::try_from(whole).unwrap_or(0));
            }
        }
    }

    /// A machine or a server told how it is.
    pub(crate) fn reading(&mut self, reading: &Reading) {
        let told = READ.iter();
        let told = told.filter_map(|name| Some((*name, *reading.values.get(*name)?)));
        let told: Told = told.collect();
        if !told.is_empty() {
            let of = (reading.source, reading.instance.clone());
            self.readings.insert(of, (reading.to, told));
        }
    }

    /// End the second that is over at `now`, if one is. `taken_up` is the number of requests that were, since the run began.
    pub(crate) fn roll(&mut self, now: Stamp, taken_up: u64) {
        let (since, before) = *self.since.get_or_insert((now, taken_up));
        if now - since < SECOND {
            return;
        }
        self.since = Some((now, taken_up));
        let mut second = std::mem::take(&mut self.current);
        second.lasted = now - since;
        second.taken_up = taken_up.saturating_sub(before);
        for (curve, histogram) in self.curves.iter_mut().zip(&second.latencies) {
            keep(curve, quantiles(histogram), CURVE);
        }
        keep(&mut self.whole, second, LATEST);
    }

    /// What was counted per second, over the latest whole seconds; absent before there is one.
    pub(crate) fn rates(&self) -> Option<Rates> {
        let lasted: Nanos = self.whole.iter().map(|second| second.lasted).sum();
        let per_s = |count: fn(&Second) -> u64| {
            let count: u64 = self.whole.iter().map(count).sum();
            count as f64 / lasted.as_secs_f64()
        };
        (lasted > Nanos::ZERO).then(|| Rates {
            taken_up: per_s(|second| second.taken_up),
            ended: per_s(|second| second.ended),
            tokens: per_s(|second| second.tokens),
        })
    }

    /// A latency's quantiles over the latest whole seconds; absent where no answer ended in them.
    pub(crate) fn quantiles(&self, metric: Metric) -> Option<Quantiles> {
        let at = SHOWN.iter().position(|one| *one == metric)?;
        let mut all = Second::default().latencies.into_iter().next()?;
        let each = (self.whole.iter()).filter_map(|second| second.latencies.get(at));
        // they have one layout
        each.for_each(|one| drop(all.merge(one)));
        quantiles(&all)
    }

    /// The quantiles of each of the last seconds, oldest first: TTFT's, then ITL's.
    pub(crate) fn curves(&self) -> [Vec<Option<Quantiles>>; 2] {
        self.curves
            .each_ref()
            .map(|curve| curve.iter().copied().collect())
    }

    /// What each of these sources told last, if that is how it is now.
    pub(crate) fn told(&self, source: ReadingSource, now: Stamp) -> Vec<&Told> {
        let of = |((one, _), _): &(&(ReadingSource, String), _)| *one == source;
        let readings = self.readings.iter().filter(of);
        let fresh = readings.filter(|(_, (at, _))| now - *at < FRESH);
        fresh.map(|(_, (_, told))| told).collect()
    }
}

fn quantiles(histogram: &Histogram) -> Option<Quantiles> {
    Some((histogram.quantile(0.5)?, histogram.quantile(0.99)?))
}

fn keep<T>(latest: &mut VecDeque<T>, one: T, most: usize) {
    if latest.len() == most {
        latest.pop_front();
    }
    latest.push_back(one);
}

#[cfg(test)]
#[path = "../tests/unit/recent.rs"]
mod tests;
