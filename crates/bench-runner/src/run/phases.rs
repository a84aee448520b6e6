//! From a cell to phases: what warms it up (the same load, for a while), plans, requests that are ready before it begins, the load itself.

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Nanos, Phase as PhaseKind};
use bench_workload::{OnBadLine, Plan, PlanSpec, RequestOptions, Seed, Shard};
use parking_lot::Mutex;

use super::cells::{Ends, Tools};
use super::{Run, aside, dry};
use crate::config::{Amount, BadLines, LoadSettings};
use crate::limiter::ConcurrencyLimiter;
use crate::meet::{Place, Step};
use crate::open_record::{Label, RecordSink};
use crate::phase::{Part, Phase, PhaseCounts, Window};
use crate::recent::Stage;
use crate::stop::Ending;
use crate::worker_pool::PhaseReport;
use crate::{Cell, RunError, server};

/// Conversations of each worker of an open loop that are made ahead.
const AHEAD: usize = 256;
/// Those of a closed loop, where it has fewer slots.
const FEWEST_AHEAD: usize = 32;
/// From the order to the first due time of an open loop: for every worker to take it up.
const LEAD: Nanos = Nanos::from_millis(20);

/// What a phase is made of.
pub(super) struct Design<'a> {
    pub(super) cell: &'a Cell,
    pub(super) repeat: u32,
    pub(super) warmup: Option<&'a WarmUp>,
    /// Whether a measurement follows, without a pause.
    pub(super) measure: bool,
}

impl Design<'_> {
    fn step(&self) -> Step {
        if self.measure {
            Step::Measure
        } else {
            Step::WarmUp
        }
    }
}

impl Run<'_> {
    /// Make the first requests ready, begin, and wait until every request has come back.
    pub(super) async fn carry_out(
        &self,
        design: &Design<'_>,
        ends: &Ends,
        tools: &mut Tools<'_>,
    ) -> Result<(Arc<Phase>, Vec<PhaseReport>), RunError> {
        let cell = design.cell;
        let load = match design.warmup {
            Some(warmup) if !design.measure => &warmup.load,
            _ => &cell.load,
        };
        let load = self.part(load);
        let (warmup, measure) = self.parts(design, ends, tools).await?;
        let parts = || warmup.iter().chain(&measure);
        let requests = parts().map(|part| part.requests).sum();
        self.show(design, ends.cell, &load, requests);
        for part in parts() {
            tokio::select! {
                () = self.stop.reached(Ending::Draining) => {}
                () = part.primed() => {}
            }
        }
        let ramp_up = self.settings.load.ramp_up.filter(|_| warmup.is_some());
        let ready = parts().map(Part::ready).sum();
        self.connect(&load, ready, tools).await;
        let at = |step| Place::of(ends.cell, design.repeat, step);
        let agreed = tools.meet(at(design.step())).await;
        let now = self.clock.now();
        let alone = now + if load.is_open() { LEAD } else { Nanos::ZERO };
        let start = agreed.map_or(alone, |start| start.max(now));
        let of_all = measure.as_ref().and_then(|part| part.requests).unwrap_or(0);
        let limiter = load.ramp().map(|ramp| {
            let peak = |load: &Load| load.ramp().map_or(1, |ramp| u64::from(ramp.peak()).max(1));
            let own = of_all * peak(&load) / peak(&cell.load);
            ConcurrencyLimiter::new(ramp, start, cell.stop.duration, own)
        });
        let phase = Arc::new(Phase {
            load,
            start,
            ramp_up: ramp_up.unwrap_or(Nanos::ZERO),
            warmup,
            measure,
            limiter,
            enough: Arc::clone(&ends.enough),
            health: Arc::clone(&ends.health),
            stop: self.stop.clone(),
            planner: tools.planner.clone(),
            window: Window::default(),
            counts: PhaseCounts::default(),
        });
        let reports = self.watched(&phase, at(Step::Over), tools).await?;
        Ok((phase, reports))
    }

    /// Show that a phase is about to begin.
    fn show(&self, design: &Design<'_>, index: usize, load: &Load, requests: Option<u64>) {
        let (cell, name) = (design.cell, name(design));
        self.progress.begin(&name, requests);
        if let Some(live) = &self.live {
            let stage = Stage {
                cell: index,
                phase: self.secrets.hidden(&name),
                offered: dry::load(load, cell.rate_unit()),
                open: load.is_open(),
                requests,
                length: lasts(design),
                began: self.clock.now(),
                over_before: self.progress.counters().over(),
            };
            live.begin(&cell.id, stage);
        }
    }

    /// Open the connections of a closed loop's first wave.
    async fn connect(&self, load: &Load, ready: usize, tools: &Tools<'_>) {
        if let Some(slots) = first_wave(load, ready) {
            tokio::select! {
                () = self.stop.reached(Ending::Draining) => {}
                () = tools.pool.connect(slots) => {}
            }
        }
    }

    /// What is not measured, and what is.
    async fn parts(
        &self,
        design: &Design<'_>,
        ends: &Ends,
        tools: &Tools<'_>,
    ) -> Result<(Option<Part>, Option<Part>), RunError> {
        let (cell, repeat) = (design.cell, design.repeat);
        let (mut before, mut measure) = (None, None);
        if let Some(warmup) = design.warmup
            && let Some(plan) = self.opened(self.warmup_spec(cell, repeat, warmup)).await?
        {
            before = Some(self.made_ready(&plan, warmup.length, ends, tools).await?);
        }
        if design.measure {
            let length = cell.stop.duration;
            if let Some(plan) = self.opened(self.spec(cell, repeat)).await? {
                measure = Some(self.made_ready(&plan, length, ends, tools).await?);
            }
        }
        Ok((before, measure))
    }

    /// What of a cell's load this program makes.
    pub(super) fn part(&self, load: &Load) -> Load {
        let (index, count) = self.settings.client.part();
        load.part(index, count)
    }

    /// A plan's requests on their way to the workers: one queue for all slots of a closed loop, one for each worker of an open one.
    async fn made_ready(
        &self,
        plan: &Plan,
        length: Option<Nanos>,
        ends: &Ends,
        tools: &Tools<'_>,
    ) -> Result<Part, RunError> {
        let spec = plan.spec();
        // A warm-up of a time in a closed loop has no end that could be walked to: its lengths are asked for as it goes.
        let has_end = spec.requests.is_some() || spec.load.is_open();
        if self.token_counter.name() == server::TOKENIZE && has_end {
            // every length is asked for now, so that the server is left alone while it is measured
            let plan = plan.clone();
            let walk = move || plan.iter().try_for_each(|planned| planned.map(drop));
            tokio::select! {
                walked = aside("lengths", walk) => walked?.map_err(RunError::Workload)?,
                () = self.stop.reached(Ending::Draining) => {}
            }
        }
        let (queues, depth) = match self.part(&spec.load) {
            Load::Open { .. } => (tools.pool.count(), AHEAD),
            Load::Closed { concurrency, .. } => {
                let slots = usize::try_from(concurrency).unwrap_or(usize::MAX);
                (1, 2 * slots.max(FEWEST_AHEAD))
            }
        };
        let sink = Arc::new(RecordSink {
            recorder: tools.recorder.clone(),
            counters: self.progress.counters(),
            health: Arc::clone(&ends.health),
        });
        let label = Label {
            cell: spec.cell.clone(),
            repeat: spec.repeat,
            kind: spec.phase,
        };
        let queues = usize::try_from(queues).unwrap_or(1);
        Ok(Part {
            queues: tools
                .planner
                .deal(plan.iter(), queues, depth, (label, sink)),
            requests: plan.requests(),
            length,
            not_reached: Mutex::default(),
        })
    }

    /// Have the workers carry a phase out, while the display moves, the number in flight too where it is to, the machines are read when the measurement begins, and
    /// shards confer on whether it is enough; `over` is where they meet next.
    async fn watched(
        &self,
        phase: &Arc<Phase>,
        over: Place,
        tools: &mut Tools<'_>,
    ) -> Result<Vec<PhaseReport>, RunError> {
        let sampler = tools.sampler;
        let conferring = async {
            match &mut tools.meeting {
                Some(meeting) if phase.measure.is_some() => meeting.confer(over).await,
                _ => std::future::pending().await,
            }
        };
        let moving = async {
            match &phase.limiter {
                Some(limiter) => limiter.move_with(&self.clock).await,
                None => std::future::pending().await,
            }
        };
        let reading = async {
            if phase.warmup.is_some() && phase.measure.is_some() {
                phase.window.opened().await;
                Tools::read(sampler);
            }
            std::future::pending::<()>().await;
        };
        let drawing = async {
            let mut ticks = tokio::time::interval(crate::progress::Progress::EVERY);
            loop {
                ticks.tick().await;
                self.progress.tick();
            }
        };
        tokio::select! {
            reports = tools.pool.run(phase) => reports,
            () = moving => Ok(Vec::new()),
            () = reading => Ok(Vec::new()),
            () = drawing => Ok(Vec::new()),
            () = conferring => Ok(Vec::new()),
        }
    }

    fn warmup_spec(&self, cell: &Cell, repeat: u32, warmup: &WarmUp) -> PlanSpec {
        let slots = match &warmup.load {
            Load::Closed { concurrency, .. } => u64::from(*concurrency),
            Load::Open { .. } => 0,
        };
        PlanSpec {
            load: warmup.load.clone(),
            requests: warmup.requests,
            fewest_units: slots,
            // the number ends it where there is one; the length then says when the measurement goes on
            duration: warmup.length.filter(|_| warmup.requests.is_none()),
            phase: PhaseKind::Warmup,
            ..self.spec(cell, repeat)
        }
    }

    /// The plan of one repeat of a cell.
    pub(super) fn plan(&self, cell: &Cell, repeat: u32) -> Result<Plan, RunError> {
        Plan::new(self.spec(cell, repeat), Arc::clone(&self.token_counter))
            .map_err(RunError::Workload)
    }

    /// A plan whose dataset is opened on a thread of its own, for that may take long; nothing where the run is ended meanwhile.
    async fn opened(&self, spec: PlanSpec) -> Result<Option<Plan>, RunError> {
        let counter = Arc::clone(&self.token_counter);
        let open = move || Plan::new(spec, counter).map_err(RunError::Workload);
        tokio::select! {
            () = self.stop.reached(Ending::Draining) => Ok(None),
            plan = aside("dataset", open) => Ok(Some(plan??)),
        }
    }

    pub(super) fn spec(&self, cell: &Cell, repeat: u32) -> PlanSpec {
        let workload = &self.settings.workload;
        let (index, count) = self.settings.client.part();
        PlanSpec {
            dataset: cell.dataset.clone(),
            input: cell.input.clone(),
            output: cell.output.clone(),
            load: cell.load.clone(),
            requests: cell.stop.requests,
            duration: cell.stop.duration,
            seed: Seed::new(self.settings.seed),
            cell: cell.id.clone(),
            phase: PhaseKind::Measure,
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
            wording: workload.wording,
            own_draws: self.settings.load.find_capacity,
            cycle: workload.cycle,
            ..PlanSpec::default()
        }
    }
}

/// How many slots of a closed loop begin at once. With fewer conversations that are `ready` nobody knows which slots take them.
fn first_wave(load: &Load, ready: usize) -> Option<u32> {
    let slots = match load {
        Load::Closed {
            ramp: Some(ramp), ..
        } => ramp.level(0),
        Load::Closed { concurrency, .. } => *concurrency,
        Load::Open { .. } => return None,
    };
    (u64::from(slots) <= ready as u64).then_some(slots)
}

fn name(design: &Design<'_>) -> String {
    let Cell { label, repeats, .. } = design.cell;
    match (design.measure, repeats) {
        (false, _) => format!("{label} (warm-up)"),
        (true, 1) => label.clone(),
        (true, of) => format!("{label} ({} of {of})", design.repeat + 1),
    }
}

/// How long a phase lasts, where its plan says so.
fn lasts(design: &Design<'_>) -> Option<Nanos> {
    if design.measure {
        warmed_and_measured(design.cell, design.warmup)
    } else {
        design.warmup?.length
    }
}

/// How long a repeat of a cell lasts, where its plan says so. A warm-up of a number of requests counts as nothing.
fn warmed_and_measured(cell: &Cell, warmup: Option<&WarmUp>) -> Option<Nanos> {
    let warmup = warmup.and_then(|warmup| warmup.length);
    Some(measured(cell)? + warmup.unwrap_or(Nanos::ZERO))
}

/// How long a repeat of a cell is measured, where its plan says so.
fn measured(cell: &Cell) -> Option<Nanos> {
    let at_this_rate = || match &cell.load {
        Load::Open {
            rate_per_s: Some(rate),
            ..
        } if cell.load.has_one_rate() => {
            Some(Nanos::from_secs_f64(cell.stop.requests? as f64 / rate))
        }
        _ => None,
    };
    cell.stop.duration.into_iter().chain(at_this_rate()).min()
}

/// How long a cell lasts with all its repeats, where its plan says so.
pub(super) fn whole_cell(cell: &Cell, settings: &LoadSettings) -> Option<Nanos> {
    let warmup = WarmUp::of(cell, settings);
    let once = warmed_and_measured(cell, warmup.as_ref())? + settings.cooldown;
    Some((0..cell.repeats).map(|_| once).sum())
}

/// Requests that warm a closed loop up, where nothing is said: at least these, and a conversation for each slot.
const FEWEST: u64 = 2;
/// Time that an open loop is warmed up, where nothing is said: most answers have ended by then.
const OPEN: Nanos = Nanos::from_secs(2);

/// A load that is not measured yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    pub(super) load: Load,
    pub(super) requests: Option<u64>,
    pub(super) length: Option<Nanos>,
    /// Whether it ends before the measurement begins.
    pub(super) drains: bool,
}

impl WarmUp {
    /// What `cell` is to be warmed up with, if at all.
    pub(super) fn of(cell: &Cell, settings: &LoadSettings) -> Option<Self> {
        let amount = cell.warmup.unwrap_or(if cell.load.is_open() {
            Amount::Time(OPEN)
        } else {
            Amount::Count(FEWEST)
        });
        // slots that begin one after the other are no load to measure before the last of them has
        let ramp_up = settings.ramp_up.filter(|_| !cell.load.is_open());
        let is_nothing = matches!(amount, Amount::Count(0) | Amount::Time(Nanos::ZERO));
        if is_nothing && ramp_up.is_none_or(|time| time == Nanos::ZERO) {
            return None;
        }
        let drains = settings.warmup_drain;
        Some(match &cell.load {
            Load::Closed {
                concurrency,
                think_time,
                ramp,
            } => Self {
                // that of a ramp is at its peak, so that every connection has carried a request; its beginning is another load
                load: Load::Closed {
                    concurrency: *concurrency,
                    think_time: *think_time,
                    ramp: None,
                },
                drains: drains || ramp.is_some(),
                ..closed(amount, *concurrency, ramp_up)
            },
            Load::Open { .. } if drains => Self {
                drains,
                ..closed(amount, 1, None)
            },
            open @ Load::Open { .. } => steady(open, amount),
        })
    }
}

/// The plan has a conversation for each slot, so that every connection has carried a request before it counts. Slots that begin one after
/// the other have all begun.
fn closed(amount: Amount, concurrency: u32, ramp_up: Option<Nanos>) -> WarmUp {
    let ramp_up = ramp_up.unwrap_or(Nanos::ZERO);
    let (requests, length) = match amount {
        Amount::Time(time) => (None, Some(time.max(ramp_up))),
        Amount::Count(_) if ramp_up > Nanos::ZERO => (None, Some(ramp_up)),
        Amount::Count(count) => (Some(count), None),
    };
    WarmUp {
        load: Load::closed(concurrency),
        requests,
        length,
        drains: false,
    }
}

/// The rate at which the measurement begins, by the same process.
fn steady(open: &Load, amount: Amount) -> WarmUp {
    let (rate, arrival) = match open {
        Load::Open {
            rate_per_s,
            arrival,
            ..
        } => match arrival {
            ArrivalKind::Ramp { from_per_s, .. } => (Some(*from_per_s), ArrivalKind::Poisson),
            ArrivalKind::Steps { rates_per_s } => {
                (rates_per_s.first().copied(), ArrivalKind::Poisson)
            }
            _ => (*rate_per_s, arrival.clone()),
        },
        Load::Closed { .. } => (None, ArrivalKind::Poisson),
    };
    let (requests, length) = match amount {
        Amount::Time(time) => (None, Some(time)),
        Amount::Count(count) => {
            let seconds = rate.map(|rate| count as f64 / rate);
            (Some(count), seconds.map(Nanos::from_secs_f64))
        }
    };
    let mut load = open.clone();
    if let Load::Open {
        rate_per_s,
        arrival: process,
        ..
    } = &mut load
    {
        (*rate_per_s, *process) = (rate, arrival);
    }
    WarmUp {
        load,
        requests,
        // without an instant at which the measurement can go on, it waits
        drains: length.is_none(),
        length,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/warmup.rs"]
mod tests;
