//! The cells of a search as its stages: what each says of the objectives, what it cost, and why one says nothing of the server.

use std::collections::BTreeMap;

use bench_metrics::{Estimate, Stage, share_interval};
use bench_schema::{
    CellRecord, FailureKind, Load, Metric, Origin, Share, Slo, SloOutcome, counted,
};

use super::SearchAsked;
use crate::text;
use crate::trust;
use crate::view;

/// The part of a time limit that may be the client's own lateness.
const LATE: f64 = 0.1;

impl SearchAsked {
    /// Whether requests sent one at a time plainly miss an objective, so that no rate can meet it. One of a few misses it by chance.
    pub(super) fn is_missed_alone(&self, cells: &[CellRecord]) -> bool {
        let alone = cells
            .first()
            .filter(|cell| !self.closed && !cell.load.is_open());
        let missed = |cell: &CellRecord| {
            let shares = cell.slos.iter().filter_map(|outcome| outcome.within);
            let most = shares.map(|share| 1.0 - share.value).fold(0.0, f64::max);
            most * cell.counts.planned as f64
        };
        alone.is_some_and(|cell| is_plainly_missed(cell) && missed(cell) > 1.5)
    }

    /// Every cell, the one that tells where to begin too: it tells of no objective, and costs.
    pub(super) fn stages(&self, cells: &[CellRecord]) -> Vec<Stage> {
        let mut end = None;
        let alone = cells.first().and_then(one_by_one);
        let alone = alone.map_or(0.0, |rate| 1.0 / rate);
        let mut stage = |cell: &CellRecord| {
            let whole = cell.windows.whole.as_ref()?;
            let from = end.unwrap_or(whole.window.from);
            end = Some(whole.window.to);
            let load = self.load_of(cell);
            let tells = load.is_some() && self.says_nothing(cell).is_none();
            let present = if self.closed { present(cell) } else { 1.0 };
            let share = |outcome: &SloOutcome| {
                let within = outcome.within.filter(|_| tells)?;
                let value = within.value * present;
                Some(Share { value, ..within })
            };
            Some(Stage {
                load: load.unwrap_or(1.0),
                shares: cell.slos.iter().map(share).collect(),
                requests: cell.counts.planned,
                cost: cell.counts.planned + cell.counts.warmup,
                seconds: (whole.window.to - from).as_secs_f64(),
                served: load
                    .filter(|_| tells)
                    .and_then(|load| fell_behind(cell, load, alone)),
            })
        };
        cells.iter().filter_map(&mut stage).collect()
    }

    pub(super) fn load_of(&self, cell: &CellRecord) -> Option<f64> {
        load_of(cell, self.closed)
    }

    pub(super) fn loads<'a>(
        &self,
        cells: &'a [CellRecord],
    ) -> impl Iterator<Item = (f64, &'a CellRecord)> {
        let closed = self.closed;
        let all = cells.iter();
        all.filter_map(move |cell| Some((load_of(cell, closed)?, cell)))
    }

    /// Why a stage says nothing of the server, by its cell; each of them is left out.
    pub(super) fn left_out(&self, cells: &[CellRecord]) -> BTreeMap<String, String> {
        let why = |cell: &CellRecord| Some((cell.id.clone(), self.says_nothing(cell)?));
        cells.iter().filter_map(why).collect()
    }

    /// Why a stage's figures are those of no load.
    pub(super) fn says_nothing(&self, cell: &CellRecord) -> Option<String> {
        let client = self.client_limit(cell);
        let client = client.map(|why| format!("the client was the limit: {why}"));
        client.or_else(|| {
            let refused = away(cell).filter(|_| self.load_of(cell).is_some())?;
            let planned = counted(cell.counts.planned, "request");
            Some(format!(
                "the server was away: {refused} of {planned} could not connect to it"
            ))
        })
    }

    /// What kept the client from offering a stage's load, or what of its times is the client's own; `None` where nothing of that matters.
    pub(super) fn client_limit(&self, cell: &CellRecord) -> Option<String> {
        self.load_of(cell)?;
        let slos = cell.slos.iter().map(|outcome| &outcome.slo);
        let mut of_time = slos.filter(|slo| cell.load.is_open() && from_due(slo.metric));
        let own = of_time.find_map(|slo| {
            let late = view::quantile(cell, Metric::Lateness, slo.q);
            let late = late.or_else(|| view::quantile(cell, Metric::Lateness, 0.99))?;
            (late > LATE * slo.limit).then(|| {
                format!(
                    "requests were sent up to {} late, more than {} of the limit of {}",
                    text::time(late),
                    text::percent(LATE),
                    text::time(slo.limit)
                )
            })
        });
        own.or_else(|| trust::client_limit(cell))
    }

    /// The objectives that a cell misses, also if so much more were within.
    pub(super) fn missed_by(cell: &CellRecord, more: f64) -> Vec<&SloOutcome> {
        let short = |o: &&SloOutcome| o.within.is_some_and(|w| w.value + more < o.slo.q);
        cell.slos.iter().filter(short).collect()
    }

    pub(super) fn is_missed_by_failures(cell: &CellRecord) -> bool {
        let (lost, planned) = (cell.counts.lost(), cell.counts.planned.max(1));
        lost > 0 && Self::missed_by(cell, lost as f64 / planned as f64).is_empty()
    }
}

/// The longest that a request may wait within the objectives, in seconds; those on the time per token limit no wait.
pub(super) fn patience(slos: &[Slo]) -> f64 {
    let waits = slos.iter().filter(|slo| from_due(slo.metric));
    waits.map(|slo| slo.limit / 1e9).fold(0.0, f64::max)
}

pub(super) fn is_plainly_missed(cell: &CellRecord) -> bool {
    let mut all = cell.slos.iter();
    all.any(|o| o.within.is_some_and(|w| share_interval(&w).high < o.slo.q))
}

/// The part of the users of a closed loop that had a request under way: whoever was turned away and waits to ask again is not within an objective.
pub(super) fn present(cell: &CellRecord) -> f64 {
    /// Of the slots: fewer at any time is no beginning and no end of a stage.
    const FEW: f64 = 0.5;
    let Some(slots) = view::busy_slots(cell) else {
        return 1.0;
    };
    let whole = cell.windows.whole.as_ref();
    let most = whole.map_or(0, |whole| whole.peak_in_flight) as f64 / slots;
    if most > 0.0 && most < FEW {
        return most;
    }
    let asleep = trust::asleep(cell, 0.0, 0.0);
    1.0 - asleep.unwrap_or(0.0).clamp(0.0, 1.0)
}

/// How many connections were refused, where they alone miss an objective: nobody was there, whatever the load.
pub(super) fn away(cell: &CellRecord) -> Option<u64> {
    let gone = [FailureKind::Refused, FailureKind::Unreachable];
    let refused = cell.counts.failures.iter();
    let refused = refused.filter(|(_, kind, _)| gone.contains(kind));
    let refused: u64 = refused.map(|(.., n)| n).sum();
    let planned = cell.counts.planned;
    let mut objectives = cell.slos.iter();
    let misses = |o: &SloOutcome| refused as f64 > (1.0 - o.slo.q) * planned as f64;
    (refused > 0 && objectives.any(misses)).then_some(refused)
}

/// Requests per second of a cell that sends one after the other; all may end early, as `--cancel-after` asks.
pub(super) fn one_by_one(alone: &CellRecord) -> Option<f64> {
    if let Some(e2e) = alone.metrics.get(&Metric::E2e) {
        return Some(1e9 / view::positive(e2e.mean)?);
    }
    let whole = alone.windows.whole.as_ref()?;
    (alone.counts.cancelled > 0)
        .then_some(alone.counts.planned as f64 / view::positive(whole.seconds)?)
}

/// The load of a stage of a search for a concurrency, or else for a rate; of a cell that is none, nothing.
pub(super) fn load_of(cell: &CellRecord, closed: bool) -> Option<f64> {
    match &cell.load {
        Load::Open { rate_per_s, .. } if !closed => *rate_per_s,
        Load::Closed { concurrency, .. } if closed => Some(f64::from(*concurrency)),
        _ => None,
    }
}

/// Answers per second of an open loop in which they fell behind this rate: where the queue is known to grow; and where requests took longer than half of the time
/// in which they came, of which one alone takes so many seconds: then by the line on which waits grow.
pub(super) fn fell_behind(cell: &CellRecord, rate: f64, alone: f64) -> Option<Estimate> {
    const SHORT: f64 = 0.93;
    let whole = cell
        .windows
        .whole
        .as_ref()
        .filter(|_| cell.load.is_open())?;
    let planned = cell.counts.planned as f64;
    let told = |value, low, high| Estimate {
        value,
        low: Some(low),
        high: Some(high),
        level: 0.95,
    };
    let completed = 1.0 - cell.counts.lost() as f64 / planned;
    let of_a_queue = whole
        .served_requests_per_s
        .zip(whole.requests_per_s_interval);
    let of_a_queue = of_a_queue.map(|(served, interval)| {
        let [value, low, high] = [served, interval.low, interval.high].map(|x| x / completed);
        told(value, low, high)
    });
    let took = cell.metrics.get(&Metric::E2eDue).map(|e2e| e2e.mean / 1e9);
    let waits = took.map(|took| (took / (planned / rate), (took - alone) / (planned / rate)));
    let by_waits = waits.filter(|(took, _)| *took > 0.5);
    let by_waits = by_waits.map(|(_, waited)| rate / (1.0 + 2.0 * waited.max(0.0)));
    let of_a_queue = of_a_queue.filter(|served| served.value < SHORT * rate);
    of_a_queue.or(by_waits.map(|served| told(served, 0.0, 2.0 * served)))
}

/// Whether a time can be from when its request was due.
pub(super) fn from_due(metric: Metric) -> bool {
    metric.from_origin(Origin::Due) != metric.from_origin(Origin::Sent)
}
