//! The cells, one after another: repeats of warm-up and measurement, aggregates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench_hardware::Sampler;
use bench_insight::{Asked, CellConclusion, CellEvidence, NextStage, SearchAsked};
use bench_schema::{CellRecord, Nanos, PlanHash, RunRecord, Stamp, whole};

use super::cells_file::CellsFile;
use super::meeting::compare_clocks;
use super::phases::{Design, WarmUp};
use super::{Run, reset};
use crate::config::{Amount, Concurrency};
use crate::folder::RunDirectory;
use crate::health::Health;
use crate::meet::{Meeting, Place, Step};
use crate::phase::Phase;
use crate::planner::PlannerHandle;
use crate::recorder::{CellAggregator, EndOfCell, Recorder};
use crate::stop::{Ending, Signals};
use crate::worker_pool::{PhaseReport, WorkerPool};
use crate::{Cell, RunError};

/// What makes the load, what keeps what is measured, and what reads the machines meanwhile.
pub(super) struct Tools<'a> {
    pub(super) pool: &'a mut WorkerPool,
    pub(super) planner: &'a PlannerHandle,
    pub(super) recorder: &'a Recorder,
    pub(super) sampler: Option<&'a Sampler>,
    /// Where shards wait for each other.
    pub(super) meeting: Option<&'a mut Meeting>,
    /// How many cells there are.
    pub(super) cells: usize,
    /// What the results are held against.
    pub(super) asked: Asked,
    /// The signals since the last cell was measured. Its figures are made without a pause in which anybody else could hear them.
    pub(super) signals: &'a mut Option<Signals>,
}

/// How long a phase is held up for the readings that enclose it: as long as the sampler itself waits for a page. One that takes longer
/// encloses it with those of its own ticks.
const PATIENCE: Duration = Duration::from_secs(1);

impl Tools<'_> {
    /// When all shards begin this phase together, where they meet and it is known.
    pub(super) async fn meet(&mut self, place: Place) -> Option<Stamp> {
        self.meeting.as_mut()?.at(place).await
    }

    /// Read every machine where a measurement begins or ends, so that no counter's share in it is guessed from ticks beside it.
    pub(super) fn read(sampler: Option<&Sampler>) {
        if let Some(sampler) = sampler {
            sampler.read_now(PATIENCE);
        }
    }
}

/// Least time between two writings of `run.json`: it holds all cells, and a run may have a thousand.
const WRITE_EVERY: Nanos = Nanos::from_secs(10);

/// What one cell came to, beside its record.
pub(super) type Measured = Result<Vec<CellEvidence>, (Vec<CellEvidence>, RunError)>;

/// What ends a cell before its plan does.
pub(super) struct Ends {
    pub(super) enough: Arc<AtomicBool>,
    pub(super) health: Arc<Health>,
    /// Which cell it is, of all.
    pub(super) cell: usize,
}

/// What the phases of a cell add up to.
#[derive(Default)]
struct Sums {
    reports: Vec<PhaseReport>,
    planned: u64,
    hash: PlanHash,
    starved: u64,
}

impl Sums {
    fn add(&mut self, phase: &Phase, reports: Vec<PhaseReport>) {
        self.reports.extend(reports);
        let (planned, hash) = phase.planned();
        self.planned += planned;
        self.hash += hash;
        self.starved += phase.counts.starved();
    }
}

/// Whether its server was dead before anything of it was measured.
fn ended_in_its_warmup(cell: &CellRecord) -> bool {
    cell.ended_early.is_some() && cell.counts.planned == 0
}

impl Run<'_> {
    /// Run every cell, those of the design, or those that a search asks for one by one. `run.json` is written again after one of them, every ten
    /// seconds at most: the journal has what came since. Of a search it is written before each stage, since nobody else knows of that.
    pub(super) async fn all_cells(
        &self,
        cells: &[Cell],
        mut tools: Tools<'_>,
        directory: &RunDirectory,
        record: &mut RunRecord,
    ) -> Measured {
        let mut evidence = Vec::new();
        let mut begun = CellsFile::new(directory);
        let mut written: Option<Stamp> = None;
        let mut last = false;
        for index in 0.. {
            if last || self.stop.is_draining() {
                record.cells.truncate(index);
                break;
            }
            let found = match tools.asked.search {
                Some(search) => {
                    let so_far = record.cells.get(..index).unwrap_or_default();
                    self.next_stage(&search, so_far, &mut tools).await
                }
                None => cells.get(index).cloned(),
            };
            let Some(cell) = found else { break };
            if record.cells.len() == index {
                record.cells.push(self.blank_cell(&cell));
                self.warn(directory.begin_cell(record));
            }
            if index > 0 {
                self.cool_down().await;
            }
            self.warn(begun.begin(&cell.id, self.clock.now()));
            let before = record.cells.get(..index).unwrap_or_default();
            let measured = match self.reset(&cell).await {
                Ok(()) => self.one_cell(&cell, before, &mut tools).await,
                Err(error) => Err(error),
            };
            match measured {
                Ok((cell_record, cell_evidence)) => {
                    self.warn(begun.end(&cell_record, self.clock.now()));
                    // a search would ask for this stage again and again
                    let is_dead = tools.asked.search.is_some() && ended_in_its_warmup(&cell_record);
                    last = last || is_dead;
                    if let Some(place) = record.cells.get_mut(index) {
                        *place = cell_record;
                    }
                    evidence.push(cell_evidence);
                    if let Some(live) = &self.live {
                        live.cell_ended();
                    }
                }
                Err(error) => {
                    record.cells.truncate(index);
                    return Err((evidence, error));
                }
            }
            let now = self.clock.now();
            if written.is_none_or(|before| now - before >= WRITE_EVERY) {
                written = Some(now);
                compare_clocks(&mut record.clock, tools.meeting.as_deref());
                self.warn(directory.write_run(record));
            }
        }
        Ok(evidence)
    }

    /// What cannot be written does not end a run.
    fn warn(&self, written: Result<(), RunError>) {
        if let Err(error) = written {
            self.progress.note(&format!("warning: {error}"));
        }
    }

    /// The stage that a search asks for after these cells. Of shards the first one asks, by what all of them measured.
    async fn next_stage(
        &self,
        search: &SearchAsked,
        so_far: &[CellRecord],
        tools: &mut Tools<'_>,
    ) -> Option<Cell> {
        let slos = tools.asked.all_slos();
        let choose = |cells: &[CellRecord]| search.next(&slos, cells);
        let next = match &mut tools.meeting {
            Some(meeting) => {
                let client = so_far.last().map(|cell| &cell.client);
                meeting.next_stage(so_far.len(), client, choose).await
            }
            None => choose(so_far),
        };
        self.stage(search, next?, so_far.len())
    }

    /// The cell that the design has for a stage, the one after so many.
    pub(super) fn stage(
        &self,
        search: &SearchAsked,
        next: NextStage,
        so_far: usize,
    ) -> Option<Cell> {
        let mut settings = self.settings.clone();
        let load = &mut settings.load;
        load.find_capacity = false;
        let (level, warmup) = match next {
            NextStage::Alone(requests) => {
                load.requests = Some(requests);
                load.concurrency = vec![Concurrency::from(1)];
                (None, None)
            }
            NextStage::Measure(next) => {
                let (level, warmup) = (next.load, next.warmup);
                load.requests = Some(next.requests);
                load.duration = next.seconds.map(Nanos::from_secs_f64);
                let warmup = if search.closed {
                    let level = u32::try_from(whole(level.round().max(1.0))).unwrap_or(u32::MAX);
                    load.concurrency = vec![Concurrency::from(level)];
                    Amount::Count(warmup)
                } else {
                    load.rate = vec![level];
                    Amount::Time(Nanos::from_secs_f64(warmup as f64 / level))
                };
                (Some(level), Some(warmup))
            }
        };
        let cells = (self.program.design)(&settings, self.server.context());
        let mut cell = cells.into_iter().next()?;
        cell.warmup = self.settings.load.warmup.or(warmup);
        if level.is_none() {
            // it is no point of the curve
            cell.factors.clear();
            "alone".clone_into(&mut cell.id);
            "one at a time".clone_into(&mut cell.label);
        } else {
            cell.id = format!("s{so_far}-{}", cell.id);
        }
        Some(cell)
    }

    /// Resets the server as `--reset` says.
    async fn reset(&self, cell: &Cell) -> Result<(), RunError> {
        let Some(reset) = &self.settings.load.reset else {
            return Ok(());
        };
        for url in &self.urls {
            let fetcher = self.server.fetcher.clone();
            let done = tokio::select! {
                done = reset::carry_out(reset, url.trim_end_matches('/'), fetcher) => done,
                () = self.stop.reached(Ending::Draining) => return Ok(()),
            };
            done.map_err(|what| RunError::Server {
                what: format!("--reset failed before {}: {what}", cell.label),
                help: "try it by hand; {url} stands for the server's address".to_owned(),
            })?;
        }
        Ok(())
    }

    async fn cool_down(&self) {
        if self.settings.load.cooldown > Nanos::ZERO {
            tokio::select! {
                () = self.stop.reached(Ending::Draining) => {}
                () = tokio::time::sleep(self.settings.load.cooldown.to_duration()) => {}
            }
        }
    }

    async fn one_cell(
        &self,
        cell: &Cell,
        before: &[CellRecord],
        tools: &mut Tools<'_>,
    ) -> Result<(CellRecord, CellEvidence), RunError> {
        let ends = Ends {
            enough: Arc::default(),
            health: Arc::new(Health::new(
                self.settings.limits.keep_going,
                self.secrets.clone(),
            )),
            cell: before.len(),
        };
        let _steps_before_it = self.clock.take_largest_step();
        *tools.signals = None;
        let mut record = self.blank_cell(cell);
        let conclusion = CellConclusion::new(&record, &tools.asked).among(tools.cells);
        let meeting = tools.meeting.as_mut();
        let pooled = meeting.and_then(|meeting| {
            let of_all = self.cell_of_all(cell);
            meeting.pool((&of_all, &tools.asked), ends.cell, &ends.enough)
        });
        let end = pooled.map_or_else(
            || EndOfCell::Own(Arc::clone(&ends.enough)),
            EndOfCell::Pooled,
        );
        tools.recorder.begin(CellAggregator::new(conclusion, end));
        let mut sums = Sums::default();
        for repeat in 0..cell.repeats {
            if repeat > 0 {
                self.cool_down().await;
            }
            self.one_repeat(cell, repeat, &ends, tools, &mut sums)
                .await?;
            if self.stop.is_draining() || ends.health.verdict().is_some() {
                break;
            }
            let (done, all) = (repeat + 1, cell.repeats);
            if ends.enough.load(Ordering::Relaxed) && done < all {
                let label = &cell.label;
                self.progress.note(&format!(
                    "{label}: the requested precision was reached after {done} of {all} repeats; the cell ends"
                ));
                break;
            }
        }
        record.client = self.own_facts(&sums.reports, tools.pool.count());
        record.client.starved = Some(sums.starved);
        self.ended_early(&mut record, &ends.health, sums.planned);
        *tools.signals = Some(Signals::listen());
        let conclusion = tools.recorder.end()?.into_conclusion();
        let evidence = conclusion.finish(&mut record, before, &self.server.record.urls);
        record.plan.hash = Some(sums.hash.to_string());
        // what the planner handed out, whatever came back: a record that is missing is one that the counts do not add up to
        record.plan.requests = sums.planned;
        record.counts.planned = sums.planned;
        Ok((record, evidence))
    }

    /// Keeps, and tells, why a cell of so many measured requests ended early, where it did.
    fn ended_early(&self, record: &mut CellRecord, health: &Health, planned: u64) {
        let in_vain = || health.all_failed().filter(|_| planned == 0);
        record.ended_early = health.verdict().map(str::to_owned).or_else(in_vain);
        if let Some(why) = &record.ended_early {
            record.ended_by = health.ended_by();
            let label = &record.label;
            self.progress.note(&format!("{label}: ended early: {why}"));
        }
    }

    /// A warm-up, if there is one, and a measurement; without a pause between them unless that is what is wanted.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a cell that a repeat needs, each once"
    )]
    async fn one_repeat(
        &self,
        cell: &Cell,
        repeat: u32,
        ends: &Ends,
        tools: &mut Tools<'_>,
        sums: &mut Sums,
    ) -> Result<(), RunError> {
        let warmup = WarmUp::of(cell, &self.settings.load);
        let design = |warmup, measure| Design {
            cell,
            repeat,
            warmup,
            measure,
        };
        let apart = warmup.as_ref().filter(|warmup| warmup.drains);
        if apart.is_some() {
            self.carry_out(&design(apart, false), ends, tools).await?;
        }
        let handed_over = warmup.as_ref().filter(|warmup| !warmup.drains);
        if handed_over.is_none() {
            Tools::read(tools.sampler);
        }
        let measured = design(handed_over, true);
        let (phase, reports) = self.carry_out(&measured, ends, tools).await?;
        Tools::read(tools.sampler);
        sums.add(&phase, reports);
        // the clocks are compared before and after, and all shards hear the same of whether it is enough
        tools.meet(Place::of(ends.cell, repeat, Step::Over)).await;
        Ok(())
    }
}
