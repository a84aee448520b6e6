//! The cells, one after another: warm-up, repeats, aggregates.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench_hardware::Sampler;
use bench_schema::{
    CellRecord, Load, Metric, Nanos, Phase as PhaseKind, PlanHash, RunRecord, Stamp,
};
use bench_workload::{OnBadLine, Plan, PlanSpec, RequestOptions, Seed, Shard};

use super::Run;
use super::conclude::plan_record;
use crate::cell::Cell;
use crate::config::{Amount, BadLines};
use crate::feed::Feed;
use crate::phase::Phase;
use crate::ramp::Gate;
use crate::recorder::Recorder;
use crate::stop::Ending;
use crate::tally::{self, CellTally, Samples};
use crate::workers::{PhaseReport, Workers};
use crate::{RunError, folder, tokenize};

/// Where what is measured goes, and what reads the machines meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) recorder: &'a Recorder,
    pub(super) sampler: Option<&'a Sampler>,
}

/// How long a phase is held up for the readings that enclose it: as long as the sampler itself waits for a page. One that takes longer
/// encloses it with those of its own ticks.
const PATIENCE: Duration = Duration::from_secs(1);

impl Watch<'_> {
    /// Read every machine between two phases, so that no counter's share in one is guessed from ticks in the other.
    fn read_machines(self) {
        if let Some(sampler) = self.sampler {
            sampler.read_now(PATIENCE);
        }
    }
}

/// What one cell came to, beside its record.
pub(super) type Measured = Result<Vec<Samples>, (Vec<Samples>, RunError)>;

impl Run<'_> {
    /// Run every cell. After each one `run.json` is whole again, so that a later failure loses nothing.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a run that its cells need, each once"
    )]
    pub(super) async fn all_cells(
        &self,
        cells: &[Cell],
        workers: &mut Workers,
        watch: Watch<'_>,
        folder: &Path,
        record: &mut RunRecord,
    ) -> Measured {
        let mut samples = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if self.stop.is_draining() {
                record.cells.truncate(index);
                break;
            }
            self.cool_down(index).await;
            let baseline = baseline(&record.cells);
            let measured = self.one_cell(cell, baseline, workers, watch).await;
            match measured {
                Ok((cell_record, cell_samples)) => {
                    if let Some(place) = record.cells.get_mut(index) {
                        *place = cell_record;
                    }
                    samples.push(cell_samples);
                }
                Err(error) => {
                    record.cells.truncate(index);
                    return Err((samples, error));
                }
            }
            if let Err(error) = folder::write_run(folder, record) {
                crate::console::note(&format!("warning: {error}"));
            }
        }
        Ok(samples)
    }

    async fn cool_down(&self, index: usize) {
        if index > 0 && self.settings.load.cooldown > Nanos::ZERO {
            tokio::select! {
                () = self.stop.reached(Ending::Draining) => {}
                () = tokio::time::sleep(self.settings.load.cooldown.to_duration()) => {}
            }
        }
    }

    async fn one_cell(
        &self,
        cell: &Cell,
        baseline: Option<f64>,
        workers: &mut Workers,
        watch: Watch<'_>,
    ) -> Result<(CellRecord, Samples), RunError> {
        let recorder = watch.recorder;
        let enough = Arc::new(AtomicBool::new(false));
        recorder.begin(CellTally::new(
            cell,
            self.settings,
            baseline,
            Arc::clone(&enough),
        ));
        let mut reports = Vec::new();
        let mut cap_hits = 0;
        let mut hash = PlanHash::default();
        for repeat in 0..cell.repeats {
            if warmup(cell) != Amount::Count(0) {
                self.one_phase(cell, repeat, PhaseKind::Warmup, workers, recorder, &enough)
                    .await?;
            }
            watch.read_machines();
            let (phase, of_phase) = self
                .one_phase(cell, repeat, PhaseKind::Measure, workers, recorder, &enough)
                .await?;
            watch.read_machines();
            reports.extend(of_phase);
            cap_hits += phase.cap_hits.load(Ordering::Relaxed);
            hash += phase.plan_hash();
            if self.stop.is_draining() {
                break;
            }
        }
        let mut blank = tally::blank(cell, plan_record(self, cell));
        blank.client = self.own_facts(&reports, cap_hits, workers.count());
        let (mut record, samples) = recorder.end()?.finish(blank);
        record.plan.hash = hash.to_string();
        record.name_endpoints(&self.server.record.urls);
        record.client.cpu_seconds_per_million_events = per_million_events(&record);
        Ok((record, samples))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a run that a phase needs, each once"
    )]
    async fn one_phase(
        &self,
        cell: &Cell,
        repeat: u32,
        kind: PhaseKind,
        workers: &mut Workers,
        recorder: &Recorder,
        enough: &Arc<AtomicBool>,
    ) -> Result<(Arc<Phase>, Vec<PhaseReport>), RunError> {
        let plan = self.plan(cell, repeat, kind)?;
        if self.sizer.name() == tokenize::NAME {
            // every length is asked for now, so that the server is left alone while it is measured
            plan.iter()
                .try_for_each(|planned| planned.map(drop))
                .map_err(RunError::Workload)?;
        }
        let name = match (kind, cell.repeats) {
            (PhaseKind::Warmup, _) => format!("{} (warm-up)", cell.label),
            (PhaseKind::Measure, 1) => cell.label.clone(),
            (PhaseKind::Measure, of) => format!("{} ({} of {of})", cell.label, repeat + 1),
        };
        self.progress.begin(&name, plan.requests());
        let start = self.clock.now()
            + if cell.load.is_open() {
                OPEN_LEAD
            } else {
                Nanos::ZERO
            };
        let phase = Arc::new(Phase {
            cell: cell.id.clone(),
            repeat,
            kind,
            feed: Mutex::new(Feed::new(plan.iter())),
            gate: self.gate(cell, kind, start, &plan),
            hash: Mutex::default(),
            load: phase_load(cell, kind),
            chat: self.server.chat,
            start,
            until: phase_length(cell, kind).map(|length| start + length),
            in_flight: AtomicU32::new(0),
            cap_hits: AtomicU64::new(0),
            enough: Arc::clone(enough),
            stop: self.stop.clone(),
            clock: self.clock.clone(),
            recorder: recorder.clone(),
            tally: self.progress.tally(),
            plan,
        });
        let moving = async {
            match &phase.gate {
                Some(gate) => gate.move_with(&phase.clock).await,
                None => std::future::pending().await,
            }
        };
        let reports = tokio::select! {
            reports = self.drawing(workers.run(&phase)) => reports?,
            () = moving => Vec::new(),
        };
        Ok((phase, reports))
    }

    /// What moves the number in flight, where it is to move.
    fn gate(&self, cell: &Cell, kind: PhaseKind, start: Stamp, plan: &Plan) -> Option<Gate> {
        let load = phase_load(cell, kind);
        let shards = u64::from(self.settings.client.part().1);
        let requests = plan.requests().unwrap_or(0) / shards.max(1);
        load.ramp()
            .map(|ramp| Gate::new(ramp, start, phase_length(cell, kind), requests))
    }

    /// Await the work while the display moves.
    async fn drawing<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(crate::progress::Progress::EVERY);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => self.progress.tick(),
            }
        }
    }

    /// The plan of one repeat of a cell.
    pub(super) fn plan(&self, cell: &Cell, repeat: u32, kind: PhaseKind) -> Result<Plan, RunError> {
        let workload = &self.settings.workload;
        let (index, count) = self.settings.client.part();
        let (requests, duration) = match kind {
            PhaseKind::Measure => (cell.stop.requests, cell.stop.duration),
            PhaseKind::Warmup => match warmup(cell) {
                Amount::Count(count) => (Some(warmup_requests(cell, count)), None),
                Amount::Time(time) => (None, Some(time)),
            },
        };
        let spec = PlanSpec {
            dataset: cell.ask.dataset.clone(),
            input: cell.ask.input.clone(),
            output: cell.ask.output.clone(),
            load: phase_load(cell, kind),
            requests,
            duration,
            seed: Seed::new(self.settings.seed),
            cell: cell.id.clone(),
            phase: kind,
            repeat,
            shard: Shard {
                index: u64::from(index),
                count: u64::from(count),
            },
            options: RequestOptions {
                sampling: workload.sampling(),
                ignore_eos: workload.ignore_eos,
                min_tokens: workload.min_tokens,
                stream: self.settings.target.stream,
                extra_body: workload.extra_body.clone().map(Arc::new),
            },
            chat: self.server.chat,
            on_bad_line: if workload.bad_lines == BadLines::Skip {
                OnBadLine::Skip
            } else {
                OnBadLine::Stop
            },
            calibration: self.server.calibration.unwrap_or_default(),
            salt: workload.salt,
            cycle: workload.cycle,
            ..PlanSpec::default()
        };
        Plan::new(spec, Arc::clone(&self.sizer)).map_err(RunError::Workload)
    }
}

/// Median TTFT of the cell at concurrency 1, where it has run: what a request waits without a queue.
fn baseline(cells: &[CellRecord]) -> Option<f64> {
    let alone = cells
        .iter()
        .find(|cell| matches!(cell.load, Load::Closed { concurrency: 1, .. }))?;
    alone.metrics.get(&Metric::Ttft)?.p50()
}

fn per_million_events(record: &CellRecord) -> Option<f64> {
    let events = record.client.stamps.as_ref()?.n;
    Some(record.client.cpu_seconds? / (events as f64 / 1e6))
}

/// Between the order and the first due time: for every worker to make its first prompts.
const OPEN_LEAD: Nanos = Nanos::from_millis(250);

/// What goes before each measurement.
fn warmup(cell: &Cell) -> Amount {
    cell.warmup.unwrap_or(Amount::Count(2))
}

/// So many for each slot: every connection has carried a request before it counts.
fn warmup_requests(cell: &Cell, count: u64) -> u64 {
    match cell.load {
        Load::Closed { concurrency, .. } => count.max(u64::from(concurrency)),
        Load::Open { .. } => count,
    }
}

/// Warm-up of an open loop is a closed one of one: it is there to wake the server, not to load it. That of a ramp is at its peak, so that
/// every connection has carried a request.
fn phase_load(cell: &Cell, kind: PhaseKind) -> Load {
    match (&cell.load, kind) {
        (Load::Open { .. }, PhaseKind::Warmup) => Load::closed(1),
        (
            Load::Closed {
                concurrency,
                think_time,
                ..
            },
            PhaseKind::Warmup,
        ) => Load::Closed {
            concurrency: *concurrency,
            think_time: *think_time,
            ramp: None,
        },
        (load, _) => load.clone(),
    }
}

fn phase_length(cell: &Cell, kind: PhaseKind) -> Option<Nanos> {
    match (kind, warmup(cell)) {
        (PhaseKind::Measure, _) => cell.stop.duration,
        (PhaseKind::Warmup, Amount::Time(time)) => Some(time),
        (PhaseKind::Warmup, Amount::Count(_)) => None,
    }
}
