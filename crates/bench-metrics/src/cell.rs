//! From the records of one cell to its aggregates: counts, windows, rates, distributions, objectives.

mod categories;
mod conversations;
mod distributions;
mod open_loop;
mod packed_rows;
mod phases;
mod rates;
mod row;
mod rows;
mod slo;

pub use categories::LengthCategories;

use bench_schema::{
    CellAnalysis, CellRecord, Counts, Distribution, Goodput, GroupRecord, LagRecord, Load, Metric,
    Nanos, Origin, Phase, PhaseShares, RequestRecord, Slo, SloOutcome, Stamp, StampRecord,
    StopRule, Window, WindowRates,
};

use std::collections::BTreeMap;

use crate::counts::CountKeeper;
use crate::gaps::{EXACT, Gap, GapBatch, GapStore, gaps, per_token};
use crate::histogram::{Batch, Histogram, Layout};
use crate::latency::{Instants, Within};
use crate::packed::PackedInts;
use crate::timeline::{TimeCounts, Timeline};

use conversations::Conversations;
use packed_rows::{PackedRows, Traits};
use row::Row;
use rows::{GroupSet, GroupTable, Population};

/// A quantile that a target limits: of all requests of a cell, or of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The metric, the quantile and its limit, for no use case.
    pub slo: Slo,
    /// Label and name of the group, as in [`GroupRecord`]; absent for all requests.
    pub group: Option<(String, String)>,
}

/// What the records alone do not tell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellContext {
    /// How load was offered.
    pub load: Load,
    /// What ends a repeat of it.
    pub stop: StopRule,
    /// Objectives to judge.
    pub slos: Vec<Slo>,
    /// Quantiles that targets limit, judged like objectives; they count for no goodput.
    pub thresholds: Vec<Threshold>,
    /// Length categories to group by.
    pub categories: LengthCategories,
    /// TTFT in nanoseconds of such a prompt at concurrency 1, for a queue time that is marked as an estimate; used only
    /// where responses do not tell their queue time.
    pub queue_baseline: Option<f64>,
    /// Gaps kept exactly before histograms take over; see `docs/metrics.md`.
    pub exact_gaps: usize,
}

impl CellContext {
    /// For this load, without objectives, with the usual categories.
    pub fn new(load: Load) -> Self {
        Self {
            load,
            stop: StopRule::default(),
            slos: Vec::new(),
            thresholds: Vec::new(),
            categories: LengthCategories::default(),
            queue_baseline: None,
            exact_gaps: EXACT,
        }
    }

    /// Of one request's gaps, how many are within each objective on gaps, and of how many: what verdicts rest on once single gaps are no
    /// longer kept.
    fn gaps_within(&self, gaps: impl Iterator<Item = Gap>) -> impl Iterator<Item = [usize; 2]> {
        let gaps: Vec<Gap> = gaps.collect();
        let within = move |slo: &Slo| {
            let values = if slo.metric == Metric::Itl {
                per_token(gaps.iter().copied(), Within::Stamped).0
            } else {
                gaps.iter().map(|gap| gap.length.as_f64()).collect()
            };
            let met = values.iter().filter(|gap| **gap <= slo.limit);
            [met.count(), values.len()]
        };
        self.on_gaps().map(within)
    }

    /// What limits single gaps, in the order in which counts of them are kept.
    fn on_gaps(&self) -> impl Iterator<Item = &Slo> {
        let of_targets = self.thresholds.iter().map(|of| &of.slo);
        let all = self.slos.iter().chain(of_targets);
        all.filter(|slo| slo::is_on_gaps(slo))
    }

    /// The origin of the headline latencies: `due` in an open loop, `sent` in a closed one.
    pub fn headline(&self) -> Origin {
        if self.load.is_open() {
            Origin::Due
        } else {
            Origin::Sent
        }
    }
}

/// Everything that follows from the records of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Origin of the headline latencies.
    pub headline: Origin,
    /// What became of the planned requests.
    pub counts: Counts,
    /// Windows and the rates over them.
    pub windows: WindowRates,
    /// The headline's window of each repeat: the steady part where there is one, else the whole.
    pub headline_windows: BTreeMap<u32, Window>,
    /// Distributions of the completed requests that were sent in the headline window.
    pub metrics: BTreeMap<Metric, Distribution>,
    /// The same by use case, category, endpoint, turn.
    pub groups: Vec<GroupRecord>,
    /// Where the time goes.
    pub phases: Option<PhaseShares>,
    /// Checks and derived figures.
    pub analysis: CellAnalysis,
    /// Read-return minus arrival of content events.
    pub lag: Option<LagRecord>,
    /// How long something that had arrived waited to be read, where that was long and nothing was read meanwhile.
    pub behind: Option<Nanos>,
    /// How exact the stamps are.
    pub stamps: Option<StampRecord>,
    /// Requests that the load's cap on those in flight left out.
    pub cap_hits: u64,
    /// Objectives.
    pub slos: Vec<SloOutcome>,
    /// How each of [`CellContext::thresholds`] came out.
    pub thresholds: Vec<SloOutcome>,
    /// Requests that met every objective.
    pub goodput: Option<Goodput>,
    /// Rate at which requests were really sent.
    pub offered_rate_per_s: Option<f64>,
    /// KS distance between planned and real gaps between requests; absent in a closed loop.
    pub gaps_ks: Option<f64>,
}

impl CellSummary {
    /// Writes the aggregates into a cell's record; what the runner knows (id, plan, hardware, CPU) is left alone.
    pub fn fill(self, cell: &mut CellRecord) {
        cell.headline = self.headline;
        cell.counts = self.counts;
        cell.windows = self.windows;
        cell.metrics = self.metrics;
        cell.groups = self.groups;
        cell.phases = self.phases;
        cell.analysis = self.analysis;
        cell.client.lag = self.lag;
        cell.client.behind = self.behind;
        cell.client.stamps = self.stamps;
        cell.client.cap_hits = self.cap_hits;
        cell.slos = self.slos;
        cell.goodput = self.goodput;
        cell.plan.offered_rate_per_s = self.offered_rate_per_s;
        cell.plan.gaps_ks = self.gaps_ks;
    }
}

/// Summarises all records of a cell; shorthand for pushing each into a [`CellAccumulator`].
pub fn summarise_cell<'a>(
    records: impl IntoIterator<Item = &'a RequestRecord>,
    context: CellContext,
) -> CellSummary {
    let mut cell = CellAccumulator::new(context);
    for record in records {
        cell.push(record);
    }
    cell.finish()
}

/// Takes records one by one, in the order they ended, and forgets their events.
///
/// Memory: some twenty bytes a request, and a few for each of the first four million gaps. A whole run is measured in `docs/reliability.md`.
#[derive(Clone, Debug)]
pub struct CellAccumulator {
    context: CellContext,
    counts: CountKeeper,
    groups: GroupTable,
    rows: PackedRows,
    /// What requests have in place of their gaps, once those are in histograms: two numbers for each objective on gaps.
    within: PackedInts,
    warm: Vec<rates::Carried>,
    conversations: Conversations,
    gaps: GapStore,
    timeline: Timeline,
    lag: Histogram,
    behind: Spells,
    /// When it read what had waited so long.
    at_work: Spells,
    widths: Histogram,
    events: u64,
    /// Refusals after which a slot of a closed loop left the server alone.
    backed_off: u64,
    cap_hits: u64,
}

/// Lag from which on the client was behind, and not only woken late.
const BEHIND: Nanos = Nanos::from_millis(20);
/// How long after something was read the client is taken to have worked on it: a stream that never ends is read without a pause, and late all the same.
const AT_WORK: Nanos = Nanos::from_millis(5);

/// Spans of time, each instant once: by their starts, apart from each other.
#[derive(Clone, Debug, Default)]
struct Spells(BTreeMap<Stamp, Stamp>);

impl Spells {
    fn add(&mut self, mut from: Stamp, mut to: Stamp) {
        // those that it touches become one with it
        while let Some((&start, &end)) = self.0.range(..=to).next_back()
            && end >= from
        {
            (from, to) = (from.min(start), to.max(end));
            self.0.remove(&start);
        }
        self.0.insert(from, to);
    }

    fn length(&self) -> Nanos {
        self.0.iter().map(|(from, to)| *to - *from).sum()
    }

    /// The length of what lies in none of `others`.
    fn length_without(&self, others: &Self) -> Nanos {
        let mut both = others.clone();
        for (from, to) in &self.0 {
            both.add(*from, *to);
        }
        both.length() - others.length()
    }
}

impl CellAccumulator {
    /// An empty one.
    pub fn new(context: CellContext) -> Self {
        let exact_to_a_thousandth = Layout::with_bits(9);
        Self {
            context,
            counts: CountKeeper::default(),
            groups: GroupTable::default(),
            rows: PackedRows::default(),
            within: PackedInts::default(),
            warm: Vec::new(),
            conversations: Conversations::default(),
            gaps: GapStore::default(),
            timeline: Timeline::default(),
            lag: Histogram::new(exact_to_a_thousandth),
            behind: Spells::default(),
            at_work: Spells::default(),
            widths: Histogram::new(exact_to_a_thousandth),
            events: 0,
            backed_off: 0,
            cap_hits: 0,
        }
    }

    /// Sets [`CellContext::queue_baseline`] after the fact: where cells are read side by side, the cell at concurrency 1 is
    /// only known once all have been read.
    pub fn set_queue_baseline(&mut self, ttft_ns: Option<f64>) {
        self.context.queue_baseline = ttft_ns;
    }

    /// Endpoints are numbers in records: thresholds of a server at one of these URLs are about its number.
    pub fn name_endpoints(&mut self, urls: &[String]) {
        let groups = self.context.thresholds.iter_mut();
        for (by, name) in groups.filter_map(|of| of.group.as_mut()) {
            let number = urls.iter().position(|url| url == name);
            if let Some(number) = number.filter(|_| by == "endpoint") {
                *name = number.to_string();
            }
        }
    }

    /// Adds a request. Warm-up is counted apart; of it, what is in flight as the measurement begins is load, and its tokens are output.
    /// Cost: O(events).
    pub fn push(&mut self, record: &RequestRecord) {
        self.counts.push(record);
        let instants = Instants::of(record);
        if record.phase == Phase::Warmup {
            self.carry_over(record, &instants);
            return;
        }
        self.watch_client(record);
        self.cap_hits += u64::from(record.wire.outcome.is_capped());
        let closed = !self.context.load.is_open();
        self.backed_off += u64::from(closed && record.wire.asks_to_wait());
        self.place_in_time(record, &instants);
        self.conversations.push(record, &instants);
        let groups = self.groups.place(record, &self.context.categories);
        let kept = instants
            .completed
            .then(|| self.count_gaps(record, &instants, groups));
        self.rows.push(&instants, &Traits::of(record, kept, groups));
        if self.gaps.is_full(self.context.exact_gaps) {
            self.coarsen();
        }
    }

    /// From now on gaps are counted in histograms.
    fn coarsen(&mut self) {
        let GapStore::Exact(exact) = &self.gaps else {
            return;
        };
        let held = || {
            self.rows.iter().filter_map(|(instants, traits)| {
                let range = traits.gaps(instants.events)?;
                Some((range, traits, started(&instants)))
            })
        };
        for (range, traits, _) in held() {
            self.groups
                .record_gaps(traits.groups, &GapBatch::of(exact.of(range)));
        }
        let ranges: Vec<_> = held()
            .map(|(range, traits, started)| (range, u32::from(traits.repeat), started))
            .collect();
        let mut rows = PackedRows::default();
        for (instants, mut traits) in std::mem::take(&mut self.rows).into_requests() {
            if let Some(range) = traits.gaps(instants.events) {
                let counts = self.context.gaps_within(exact.of(range));
                traits.kept = Some(keep_counts(&mut self.within, counts));
            }
            rows.push(&instants, &traits);
        }
        self.rows = rows;
        self.gaps.coarsen(&ranges);
    }

    /// A warm-up request may end within the measured window: its stay and its tokens are part of what happened there.
    fn carry_over(&mut self, record: &RequestRecord, instants: &Instants) {
        if let (Some(sent), Some(ended)) = (instants.sent, instants.ended()) {
            self.place_in_time(record, instants);
            self.warm.push(rates::Carried {
                repeat: record.repeat,
                sent,
                ended,
                answered: instants.answered(),
            });
        }
    }

    /// Keeps the gaps one by one, or counts them in the histograms of the cell and of the request's groups. Returns where what is kept of them
    /// begins.
    fn count_gaps(&mut self, record: &RequestRecord, instants: &Instants, groups: GroupSet) -> u32 {
        match &mut self.gaps {
            GapStore::Exact(exact) => exact.push(gaps(record)),
            GapStore::Coarse(coarse) => {
                let request = GapBatch::of_record(record);
                coarse.push(record.repeat, started(instants), &request);
                self.groups.record_gaps(groups, &request);
                keep_counts(&mut self.within, self.context.gaps_within(gaps(record)))
            }
        }
    }

    /// How the objectives stand with the requests that have ended so far, in the order they ended. Those that take longest are not among them, so that
    /// a miss is one, and what holds need not. Cost: as of that part of [`CellAccumulator::finish`].
    pub fn objectives(&self) -> Vec<SloOutcome> {
        slo::Judge::new(self, &self.rows.rows()).outcomes()
    }

    /// The values of a request metric so far, completed requests in the order they ended: what a precision rule looks at.
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        let completed = self.rows.iter().filter(|(i, _)| i.completed);
        completed.filter_map(|(i, _)| i.value(metric)).collect()
    }

    /// The value of the measured request that was added last, where it completed and has one.
    pub fn latest(&self, metric: Metric) -> Option<f64> {
        let newest = self.rows.newest().filter(|i| i.completed)?;
        newest.value(metric)
    }

    /// Client lag and the exactness of stamps.
    fn watch_client(&mut self, record: &RequestRecord) {
        let events = &record.wire.events;
        self.lag
            .add(&Batch::of(self.lag.layout(), events.lags().map(whole_ns)));
        for (at, lag) in events.stamps().zip(events.lags()) {
            if lag >= BEHIND {
                self.behind.add(at, at + lag);
                self.at_work.add(at + lag, at + lag + AT_WORK);
            }
        }
        for (_, width) in events.bounds() {
            self.widths.record(whole_ns(*width));
        }
        self.events += events.len() as u64;
    }

    /// Adds the request's events to the timeline.
    fn place_in_time(&mut self, record: &RequestRecord, instants: &Instants) {
        let events = &record.wire.events;
        self.timeline.cover(Some(instants.due));
        self.timeline.cover(instants.sent);
        self.timeline.cover(instants.ended());
        let counts = record.event_tokens();
        let share = instants
            .tokens
            .map(|n| n as f64 / (events.len().max(1)) as f64);
        let known = counts.is_some() || share.is_some();
        // Neighbouring events mostly fall into the same bin: count them here and look the bin up once.
        let mut run = TimeCounts::default();
        let mut run_at: Option<Stamp> = None;
        for (i, at) in events.stamps().enumerate() {
            if let Some(before) = run_at.filter(|before| !self.timeline.same_bin(*before, at)) {
                self.timeline.bin(before, record.phase).add(&run);
                run = TimeCounts::default();
            }
            run_at = Some(at);
            run.events += 1;
            run.uncounted_events += u64::from(!known);
            run.tokens += counts
                .and_then(|c| c.get(i))
                .map_or(share.unwrap_or(0.0), |&k| f64::from(k));
        }
        if let Some(at) = run_at {
            self.timeline.bin(at, record.phase).add(&run);
        }
        if let Some(first) = instants.first {
            let bin = self.timeline.bin(first, record.phase);
            bin.input_tokens += instants.input_tokens.unwrap_or(0);
        }
        let measured = record.phase == Phase::Measure;
        if let Some(end) = instants.answered().filter(|_| measured) {
            self.timeline.at(end).completed += 1;
        }
    }

    /// Computes everything. Cost: O(n log n) in requests and kept gaps.
    pub fn finish(mut self) -> CellSummary {
        let mut rows = std::mem::take(&mut self.rows).into_rows();
        rows.sort_by_key(|row| (row.repeat(), row.started()));
        // A schedule of conversations starts one at its rate; how many requests that makes is the conversations' and the answers' doing.
        let begun_per_s = match &mut self.context.load {
            Load::Open { rate_per_s, .. } if self.groups.tell("turn") => rate_per_s.take(),
            _ => None,
        };
        let load = &self.context.load;
        let beside = (self.warm.as_slice(), &self.conversations, begun_per_s);
        let repeats = rates::repeats(&rows, beside, &self.context, &self.timeline);
        let steady = rates::steady_windows(&repeats);
        let windows = rates::window_rates(&repeats, &steady, load, &self.timeline);
        let within = |w: &Window, row: &Row| w.contains(row.started());
        let inside = |row: &Row| {
            steady.is_empty() || steady.get(&row.repeat()).is_some_and(|w| within(w, row))
        };
        let chosen: Vec<&Row> = rows.iter().filter(|row| inside(row)).collect();
        let metrics = distributions::of_rows(&chosen, &self.gaps, &steady, |_| true);
        let headline = self.context.headline();
        // Objectives are about everything that was planned, from the first due to the last end.
        let judge = slo::Judge::new(&self, &rows);
        let slos = judge.outcomes();
        let thresholds = judge.thresholds();
        let goodput = judge.goodput(rates::seconds_of(&repeats, &windows), &slos);
        let counts = Counts {
            backed_off: self.backed_off,
            ..self.counts.finish()
        };
        let population = Population {
            rows: &chosen,
            gaps: &self.gaps,
            counts: &counts,
            headline,
        };
        let groups = self.groups.records(&population, &slos);
        let analysis = phases::analysis(&chosen, &metrics, &windows, headline);
        // One request at a time has no queue of its own making: where its TTFT is above another cell's, its prompts are longer.
        let alone = matches!(load, Load::Closed { concurrency: 1, .. });
        let baseline = self.context.queue_baseline.filter(|_| !alone);
        CellSummary {
            headline,
            counts,
            phases: phases::shares(&chosen, headline, baseline),
            analysis,
            lag: lag_record(&self.lag),
            behind: Some(self.behind.length_without(&self.at_work))
                .filter(|all| *all > Nanos::ZERO),
            stamps: stamp_record(&self.widths, self.events),
            cap_hits: self.cap_hits,
            offered_rate_per_s: open_loop::sent(repeats.iter()),
            gaps_ks: rates::gaps_ks(&rows).filter(|_| load.is_open()),
            headline_windows: if steady.is_empty() {
                repeats.iter().map(|r| (r.index, r.whole)).collect()
            } else {
                steady
            },
            windows,
            metrics,
            groups,
            slos,
            thresholds,
            goodput,
        }
    }
}

/// Keeps how many gaps of a request are within each objective, and returns where.
fn keep_counts(within: &mut PackedInts, counts: impl Iterator<Item = [usize; 2]>) -> u32 {
    let place = u32::try_from(within.bytes()).unwrap_or(u32::MAX);
    for count in counts.flatten() {
        within.push(count as u64);
    }
    place
}

fn whole_ns(length: Nanos) -> u64 {
    u64::try_from(length.get()).unwrap_or(0)
}

fn lag_record(lag: &Histogram) -> Option<LagRecord> {
    let at = |q: f64| lag.quantile(q).map(Nanos::from_f64);
    Some(LagRecord {
        n: lag.len(),
        p50: at(0.5)?,
        p99: at(0.99)?,
        max: Nanos::new(i64::try_from(lag.max()?).unwrap_or(i64::MAX)),
    })
}

fn stamp_record(widths: &Histogram, events: u64) -> Option<StampRecord> {
    let at = |q: f64| widths.quantile(q).map(Nanos::from_f64);
    (events > 0).then(|| StampRecord {
        n: events,
        bounded: widths.len(),
        width_p50: at(0.5),
        width_p99: at(0.99),
    })
}

/// When a request began, for sorting and windows: sent, or due where it never was.
fn started(instants: &Instants) -> Stamp {
    instants.sent.unwrap_or(instants.due)
}
