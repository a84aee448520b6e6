//! The one conclusion of a run: from records, readings and what was asked to cells, figures, targets, trust and findings.
//!
//! A live run concludes each cell as it ends ([`CellConclusion`]) and then itself ([`conclude_run`]); whoever reads a journal pushes
//! every record and then every reading into a [`Conclusion`], which does the same. Nothing else aggregates.

mod asked;
mod machines;
mod stop_rule;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bench_metrics::{CellAccumulator, CellContext, Threshold};
use bench_schema::{
    CellRecord, Finding, Load, Metric, Nanos, Phase, Reading, RequestRecord, RunRecord, SloOutcome,
    Stamp, Window, as_stored,
};

use crate::facts::{CellFacts, FactKeeper, TrustFacts};
use crate::search;
use crate::{CapacityAssumptions, CellSamples, InsightError, Judged, SampleKeeper, SearchAsked};
use machines::Thinned;
use stop_rule::StopRule;

pub use asked::Asked;
pub use stop_rule::{EndedRequest, PooledStop};

/// What single requests and readings of one cell come to, added up as they end.
///
/// Memory: 64 bytes a request, see [`CellAccumulator`]; what is kept of gaps, readings and single requests is bounded.
pub struct CellConclusion {
    accumulator: CellAccumulator,
    readings: Thinned,
    samples: SampleKeeper,
    facts: FactKeeper,
    /// What targets limit here.
    thresholds: Vec<Threshold>,
    stop: StopRule,
    search: Option<SearchAsked>,
    /// Whether it is a stage of a search, or what one begins with.
    is_stage: bool,
    /// Where it is a stage that time is left for.
    left: Option<TimeLeft>,
    measured: usize,
    workers: u32,
    span: Option<(Stamp, Stamp)>,
    pushed: u64,
}

/// The time that a stage may take, with its warm-up and until its last answer.
#[derive(Clone)]
struct TimeLeft {
    seconds: f64,
    load: Load,
}

impl TimeLeft {
    fn of(cell: &CellRecord) -> Option<Self> {
        let seconds = (1.0 + bench_metrics::WARM_UP) * cell.stop.duration?.as_secs_f64();
        let load = cell.load.clone();
        Some(Self { seconds, load })
    }

    /// Whether all of it passes until what was sent is answered, at the pace of the answers so far.
    fn is_used_up(&self, elapsed: f64, answers: f64) -> bool {
        /// Answers from which on that is known.
        const KNOWN: f64 = 16.0;
        let under_way = match &self.load {
            Load::Closed { concurrency, .. } => f64::from(*concurrency),
            Load::Open { rate_per_s, .. } => {
                (rate_per_s.unwrap_or(0.0) * elapsed - answers).max(0.0)
            }
        };
        answers >= KNOWN && elapsed * (1.0 + under_way / answers) >= self.seconds
    }
}

/// What a concluded cell leaves for the findings of the run.
#[derive(Clone, Debug)]
pub struct CellEvidence {
    /// Its single requests.
    pub samples: CellSamples,
    /// What only single requests tell of the measurement.
    pub facts: CellFacts,
    /// The quantiles that targets limit, and how they came out.
    pub thresholds: Vec<(Threshold, SloOutcome)>,
}

impl CellConclusion {
    /// Nothing of this cell yet. Its design is what counts: load, stop rule, id.
    pub fn new(cell: &CellRecord, asked: &Asked) -> Self {
        let slos = asked.all_slos();
        let searched = asked
            .search
            .filter(|_| cell.load.is_open() || asked.search.is_some_and(|s| s.closed));
        let mut stop = StopRule::of(cell);
        if let Some(search) = searched.filter(|_| stop.has_no_rules()) {
            stop.look_at(search.looked_at(&slos, cell.stop.requests));
        }
        let limited = asked.targets.iter().filter_map(|of| of.threshold(cell));
        let thresholds: Vec<Threshold> = limited.collect();
        Self {
            stop,
            is_stage: asked.search.is_some(),
            left: searched.and_then(|_| TimeLeft::of(cell)),
            search: searched,
            accumulator: CellAccumulator::new(CellContext {
                slos,
                thresholds: thresholds.clone(),
                stop: cell.stop.clone(),
                ..CellContext::new(cell.load.clone())
            }),
            readings: Thinned::default(),
            samples: SampleKeeper::new(&cell.id),
            facts: FactKeeper::default(),
            thresholds,
            measured: 0,
            workers: 0,
            span: None,
            pushed: 0,
        }
    }

    /// The same for one of so many cells of a run: their single requests share its memory.
    #[must_use]
    pub fn among(mut self, cells: usize) -> Self {
        self.samples = self.samples.share_of(cells);
        self
    }

    /// Adds a request, in the order they ended.
    pub fn push(&mut self, record: &RequestRecord) {
        let (from, to) = (record.due, record.last_instant());
        let span = self.span.get_or_insert((from, to));
        *span = (span.0.min(from), span.1.max(to));
        self.pushed += 1;
        let worker = record.worker.map_or(0, |worker| worker.saturating_add(1));
        self.workers = self.workers.max(worker);
        self.accumulator.push(record);
        self.samples.push(record);
        if record.phase == Phase::Warmup {
            return;
        }
        self.measured += 1;
        self.facts.push(record);
        match self.search {
            Some(search) if self.stop.is_due(self.measured) => {
                let is_over = search.is_over(&self.accumulator.objectives());
                self.stop.looked(self.measured, is_over);
            }
            Some(_) if self.is_out_of_time() => self.stop.looked(self.measured, true),
            Some(_) => {}
            None => {
                let values = |metric| self.accumulator.values(metric);
                self.stop.look(self.measured, values);
            }
        }
    }

    fn is_out_of_time(&self) -> bool {
        let elapsed = |(from, to): (Stamp, Stamp)| (to - from).as_secs_f64();
        let told = self.left.as_ref().zip(self.span.map(elapsed));
        told.is_some_and(|(left, elapsed)| left.is_used_up(elapsed, self.pushed as f64))
    }

    /// Adds a reading, in the order they were taken; one beyond the cell and two seconds around it counts for nothing.
    pub fn push_reading(&mut self, reading: Arc<Reading>) {
        self.readings.push(reading);
    }

    /// Whether, when it was last looked at, every rule of `--precision` was met, or the stage of a search was plainly beyond the capacity.
    pub fn is_enough(&self) -> bool {
        self.stop.is_enough()
    }

    /// Whether there was no request, warm-up included.
    pub fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    /// What the rules of `--precision`, or a search, look at in a request that was added last, for whoever decides on those of all shards. Nothing where nobody looks
    /// at it: a warm-up counts only for what a search may spend.
    pub fn ended(&self, last: &RequestRecord) -> Option<EndedRequest> {
        if last.phase == Phase::Warmup && !self.is_stage {
            return None;
        }
        let value = |metric| self.accumulator.latest(metric);
        let mut ended = EndedRequest::of(last.last_instant(), &self.stop, value);
        ended.record = self.is_stage.then(|| {
            let mut record = Box::new(last.clone());
            record.wire.text = None;
            record
        });
        Some(ended)
    }

    /// Writes everything that follows into the cell's record; `before` are the cells that ran earlier. What only a running program knows
    /// (CPU time, plan, cap hits) is left as it is, as is the hardware where there are no readings.
    pub fn finish(
        mut self,
        cell: &mut CellRecord,
        before: &[CellRecord],
        urls: &[String],
    ) -> CellEvidence {
        self.accumulator.set_queue_baseline(baseline(before));
        let precision = self.stop.outcomes(|metric| self.accumulator.values(metric));
        self.accumulator.name_endpoints(urls);
        let mut summary = self.accumulator.finish();
        let thresholds = std::mem::take(&mut summary.thresholds);
        self.readings.retain_around(self.span);
        let samples = self.samples.finish();
        let windows: Vec<Window> = summary.headline_windows.values().copied().collect();
        let planned = summary.counts.planned;
        summary.fill(cell);
        cell.analysis.precision = precision;
        if cell.plan.requests == 0 {
            cell.plan.requests = planned;
        }
        if cell.client.workers == 0 {
            cell.client.workers = self.workers;
        }
        if let Some(hardware) = machines::summary(&self.readings, &windows, cell, &samples) {
            cell.hardware = Some(hardware);
        }
        // What the server itself says of waiting counts more than an estimate, or than nothing.
        if let Some(phases) = crate::server_phases(cell) {
            cell.phases = Some(phases);
        }
        cell.name_endpoints(urls);
        cell.client.cpu_seconds_per_million_events = per_million_events(cell);
        CellEvidence {
            facts: self.facts.finish(&samples),
            samples,
            thresholds: self.thresholds.into_iter().zip(thresholds).collect(),
        }
    }
}

/// Median TTFT of the cell at concurrency 1, where it has run: what a request waits without a queue. Absent where requests differ in that by themselves, as
/// with prompts of other lengths: what one takes beyond the median of all is no queue then.
fn baseline(cells: &[CellRecord]) -> Option<f64> {
    /// P90 over P50 from which on they do.
    const UNEVEN: f64 = 1.25;
    let alone = cells
        .iter()
        .find(|cell| matches!(cell.load, Load::Closed { concurrency: 1, .. }))?;
    let ttft = alone.metrics.get(&Metric::Ttft)?;
    let median = ttft.p50()?;
    ttft.quantile(0.9)
        .filter(|slow| *slow <= UNEVEN * median)
        .map(|_| median)
}

fn per_million_events(cell: &CellRecord) -> Option<f64> {
    let events = cell.client.stamps.as_ref()?.n;
    let seconds = as_stored(cell.client.cpu_seconds?);
    (events > 0).then_some(seconds / (events as f64 / 1e6))
}

/// Everything that follows from the cells together: figures across them, targets, trust, findings. Duration, completeness and what the
/// host is are the caller's.
///
/// # Errors
/// [`InsightError`] where something that was asked cannot be read.
pub fn conclude_run(run: &mut RunRecord, evidence: Vec<CellEvidence>) -> Result<(), InsightError> {
    let asked = Asked::of(&run.config)?;
    let mut samples: Vec<CellSamples> = Vec::with_capacity(evidence.len());
    let mut facts: BTreeMap<String, CellFacts> = BTreeMap::new();
    let mut judged = Judged::new();
    for of in evidence {
        facts.insert(of.samples.cell.clone(), of.facts);
        judged.insert(of.samples.cell.clone(), of.thresholds);
        samples.push(of.samples);
    }
    run.analysis = crate::analyse_run(run, &samples);
    run.analysis.capacity = asked.search.map(|search| {
        if run.part().is_some() {
            search.of_part()
        } else {
            let found = search.found(&asked.all_slos(), &run.cells);
            search::of_one_speed(run, found, &samples)
        }
    });
    if run.analysis.capacity.is_some() {
        run.analysis.scaling.clear();
    }
    run.targets = crate::targets(&asked.targets, run, &judged);
    let quantiles = asked::quantiles(run, &asked.targets);
    let facts = TrustFacts {
        complete: run.complete,
        incomplete_reason: run.incomplete_reason.as_deref(),
        server_kind: run.server.kind.as_deref(),
        program: run.experiment,
        ignore_eos: asked.ignore_eos,
        shared_prefixes: shares_prefixes(run),
        asked_quantiles: &quantiles,
        ..TrustFacts::of(&run.clock, &facts)
    };
    let assumptions = CapacityAssumptions {
        price_per_hour: asked.price_per_hour,
        ..CapacityAssumptions::default()
    };
    let found = run.analysis.capacity.clone();
    let all = found.as_ref().map(|_| run.cells.clone());
    let (rests_on, bounds) = search::judged(found.as_ref(), std::mem::take(&mut run.cells));
    run.cells = rests_on;
    let trust = crate::trust(&facts, &run.cells);
    run.trust = match found {
        Some(_) => search::without_what_it_does(trust),
        None => trust,
    };
    let findings = crate::findings_with(run, &samples, &asked.scenarios, &assumptions);
    let mut stops = Vec::new();
    if let Some((found, all)) = found.zip(all) {
        run.cells = bounds;
        let (reasons, more) = search::stops(run, &samples, crate::trust(&facts, &run.cells));
        run.cells = all;
        let moves = search::doubt_its_speed(run, &found, &samples);
        run.trust.add(moves.into_iter().chain(reasons));
        stops = more;
    }
    crate::trust::doubt_stops_in_warm_ups(run, &samples);
    judge_findings(run, crate::findings::with(findings?, stops));
    Ok(())
}

/// Keeps the findings, without what a search makes itself; else judges the levels of the cells by them.
fn judge_findings(run: &mut RunRecord, mut findings: Vec<Finding>) {
    if run.analysis.capacity.is_some() {
        search::without_what_it_makes(run, &mut findings);
    } else {
        judge_levels(run, &findings);
    }
    run.findings = findings;
}

/// Doubts figures of cells whose speed moved, and holds nothing against them.
fn judge_levels(run: &mut RunRecord, findings: &[Finding]) {
    crate::trust::doubt_mixed_levels(&mut run.trust, findings);
    let rows = std::mem::take(&mut run.analysis.scaling);
    run.analysis.scaling = crate::findings::of_one_speed(rows, findings);
}

/// Whether prompts share their beginnings, or repeat, on purpose.
fn shares_prefixes(run: &RunRecord) -> bool {
    let mut cells = run.cells.iter();
    cells.any(|cell| asked::repeats_prompts(&cell.plan.dataset))
}

/// Whether each prompt began with a random word (`--salt auto`) and none was to share its beginning: then no cache can know one.
pub(crate) fn prompts_differ(run: &RunRecord) -> bool {
    let salt = run.config.get("salt").and_then(serde_json::Value::as_str);
    salt == Some("auto") && !shares_prefixes(run)
}

/// How much later than it began a reading may arrive: a page takes a second at most.
const SLACK: Nanos = Nanos::from_secs(3);

/// The conclusion of a whole run from its journals.
///
/// Cells are concluded one after the other where it is known how many records each has ([`Conclusion::expecting`]), and only one is in memory
/// then (where they overlap, those that do: [`Conclusion::within`]); else all of them are, side by side, until [`Conclusion::finish`].
pub struct Conclusion {
    waiting: VecDeque<CellRecord>,
    cells: BTreeMap<String, CellConclusion>,
    expected: BTreeMap<String, u64>,
    spans: BTreeMap<String, (Stamp, Stamp)>,
    urls: Vec<String>,
    /// Readings that a cell which has not begun may need.
    recent: VecDeque<Arc<Reading>>,
    finished: Vec<CellRecord>,
    done: Concluded,
}

/// What was added up beside the run's own record.
#[derive(Clone, Debug, Default)]
pub struct Concluded {
    /// Single requests and facts, cell by cell.
    pub evidence: Vec<CellEvidence>,
    /// Requests that were added, those of unknown cells left out.
    pub requests: u64,
    /// Cells without a single record; they are taken out of the run.
    pub empty: Vec<String>,
    /// Records of cells that the run does not have, by that name.
    pub unknown: BTreeMap<String, u64>,
}

impl Conclusion {
    /// For the cells of `run`.
    ///
    /// # Errors
    /// [`InsightError`] where something that was asked cannot be read.
    pub fn new(run: &RunRecord) -> Result<Self, InsightError> {
        let asked = Asked::of(&run.config)?;
        let cells = run.cells.iter().map(|cell| {
            let own = CellConclusion::new(cell, &asked).among(run.cells.len());
            (cell.id.clone(), own)
        });
        Ok(Self {
            cells: cells.collect(),
            waiting: run.cells.iter().cloned().collect(),
            expected: BTreeMap::new(),
            spans: BTreeMap::new(),
            urls: run.server.urls.clone(),
            recent: VecDeque::new(),
            finished: Vec::new(),
            done: Concluded::default(),
        })
    }

    /// The same where it is known how many records of each cell there are.
    #[must_use]
    pub fn expecting(mut self, records: BTreeMap<String, u64>) -> Self {
        self.expected = records;
        self
    }

    /// The same where cells overlap, as those of shards do: first due and last end of each.
    #[must_use]
    pub fn within(mut self, spans: BTreeMap<String, (Stamp, Stamp)>) -> Self {
        self.spans = spans;
        self
    }

    /// Adds a request, in the order they ended.
    pub fn push(&mut self, record: &RequestRecord) {
        if let Some(cell) = self.cells.get_mut(&record.cell) {
            cell.push(record);
            self.done.requests += 1;
        } else {
            *self.done.unknown.entry(record.cell.clone()).or_default() += 1;
        }
    }

    /// Adds a reading, in the order they were taken and not before the requests of its time: only they tell when each cell was.
    pub fn push_reading(&mut self, reading: Reading) {
        let reading = Arc::new(reading);
        for (id, cell) in &mut self.cells {
            let span = self.spans.get(id).copied().or(cell.span);
            if machines::is_near(span, &reading) {
                cell.push_reading(Arc::clone(&reading));
            }
        }
        if self.expected.is_empty() || !self.spans.is_empty() {
            return;
        }
        let since = reading.to - machines::LEAD - machines::LEAD - SLACK;
        self.recent.push_back(reading);
        while self.recent.front().is_some_and(|old| old.to < since) {
            self.recent.pop_front();
        }
    }

    /// The instant up to which readings are needed before [`Conclusion::finish_cell`]; `None` as long as the next cell is not whole.
    pub fn whole_until(&mut self) -> Option<Stamp> {
        while let Some(cell) = self.waiting.front()
            && !self.expected.is_empty()
            && !self.has_records(cell)
        {
            self.finish_cell();
        }
        let id = &self.waiting.front()?.id;
        let cell = self.cells.get(id)?;
        let whole = self.expected.get(id).is_some_and(|n| *n == cell.pushed);
        let (_, to) = cell.span.filter(|_| whole)?;
        Some(to + machines::LEAD + SLACK)
    }

    fn has_records(&self, cell: &CellRecord) -> bool {
        self.expected.get(&cell.id).is_some_and(|n| *n > 0)
    }

    /// Concludes the next cell.
    pub fn finish_cell(&mut self) {
        let Some(mut cell) = self.waiting.pop_front() else {
            return;
        };
        let own = self.cells.remove(&cell.id);
        let Some(own) = own.filter(|own| !own.is_empty()) else {
            // a shard that had no part of it, as at the beginning of a search
            match cell.load {
                Load::Closed { concurrency: 0, .. } => self.finished.push(cell),
                _ => self.done.empty.push(cell.id),
            }
            return;
        };
        let evidence = own.finish(&mut cell, &self.finished, &self.urls);
        self.done.evidence.push(evidence);
        self.finished.push(cell);
        let next = self.waiting.iter().find(|cell| self.has_records(cell));
        let next = next.and_then(|cell| self.cells.get_mut(&cell.id));
        if let Some(next) = next.filter(|next| next.is_empty()) {
            for reading in &self.recent {
                next.push_reading(Arc::clone(reading));
            }
        }
    }

    /// Writes the cells into the run; those without a request are taken out. [`conclude_run`] does the rest, once the run's duration and
    /// completeness are set.
    pub fn finish(mut self, run: &mut RunRecord) -> Concluded {
        while !self.waiting.is_empty() {
            self.finish_cell();
        }
        run.cells = self.finished;
        self.done
    }
}

#[cfg(test)]
#[path = "../tests/unit/conclude.rs"]
mod tests;
