//! One stretch of load: a warm-up, a measurement, or both without a pause between them; what is started when, and when nothing is any more.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bench_schema::{Load, Nanos, Phase as PhaseKind, PlanHash, Stamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::RunError;
use crate::health::Health;
use crate::limiter::ConcurrencyLimiter;
use crate::open_record::{Conversation, OpenRecord};
use crate::planner::{Next, PlannerHandle, Queue};
use crate::stop::{Ending, Stop};

/// What the workers need to know of the phase they are in; shared by all of them.
pub(crate) struct Phase {
    /// How requests are started.
    pub(crate) load: Load,
    /// When it begins.
    pub(crate) start: Stamp,
    /// Time over which the slots of a closed loop begin.
    pub(crate) ramp_up: Nanos,
    /// What is not measured yet, and then what is.
    pub(crate) warmup: Option<Part>,
    pub(crate) measure: Option<Part>,
    /// Moves the number in flight of a closed loop, where it is to move.
    pub(crate) limiter: Option<ConcurrencyLimiter>,
    /// Set when the asked precision is reached.
    pub(crate) enough: Arc<AtomicBool>,
    /// Whether going on is of any use.
    pub(crate) health: Arc<Health>,
    /// The run's end.
    pub(crate) stop: Stop,
    /// Who writes the turns of conversations.
    pub(crate) planner: PlannerHandle,
    /// When the measured part begins.
    pub(crate) window: Window,
    pub(crate) counts: PhaseCounts,
}

/// Ready requests, and how long they are for.
pub(crate) struct Part {
    /// One for all slots of a closed loop, for any of them may be free next; one for each worker of an open loop.
    pub(crate) queues: Vec<Arc<Queue>>,
    /// How many requests its plan has, all shards, where it says.
    pub(crate) requests: Option<u64>,
    /// How long it lasts, where time ends it.
    pub(crate) length: Option<Nanos>,
    /// Of what was handed out, the turns that were not due before the load was over.
    pub(crate) not_reached: Mutex<(u64, PlanHash)>,
}

/// The queue that all slots of a closed loop share.
const SHARED: u32 = 0;

/// The instant at which measured requests begin.
#[derive(Default)]
pub(crate) struct Window {
    opened: OnceLock<Stamp>,
    change: Notify,
}

/// What the workers count together.
#[derive(Default)]
pub(crate) struct PhaseCounts {
    in_flight: AtomicU32,
    starved: AtomicU64,
}

impl Part {
    /// The queue of one worker of an open loop.
    pub(crate) fn queue_of(&self, worker: u32) -> Option<&Queue> {
        self.queues.get(worker as usize).map(AsRef::as_ref)
    }

    /// The next conversation of a queue, where one is ready.
    pub(crate) fn take(&self, queue: u32, now: Stamp) -> Result<Option<Conversation>, RunError> {
        let queue = self.queue_of(queue);
        match queue.map(|queue| queue.take(now)).transpose()? {
            Some(Next::Ready(conversation)) => Ok(Some(conversation)),
            _ => Ok(None),
        }
    }

    /// Wait until the first wave is ready.
    pub(crate) async fn primed(&self) {
        for queue in &self.queues {
            queue.primed().await;
        }
    }

    /// How many conversations wait.
    pub(crate) fn ready(&self) -> usize {
        self.queues.iter().map(|queue| queue.len()).sum()
    }

    /// How many requests were planned, and the sum of their hashes: those that were handed out, without the turns that the load did not reach.
    pub(crate) fn planned(&self) -> (u64, PlanHash) {
        let mut sum = (0, PlanHash::default());
        for queue in &self.queues {
            let (requests, hash) = queue.handed_out();
            sum.0 += requests;
            sum.1 += hash;
        }
        let (requests, hash) = *self.not_reached.lock();
        sum.0 -= requests;
        sum.1 -= hash;
        sum
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.close();
        }
    }
}

impl Window {
    /// Measured requests begin now, unless they have begun before.
    fn open(&self, now: Stamp) {
        if self.opened.set(now).is_ok() {
            self.change.notify_one();
        }
    }

    /// Wait for it.
    pub(crate) async fn opened(&self) {
        while self.opened.get().is_none() {
            self.change.notified().await;
        }
    }
}

impl PhaseCounts {
    pub(crate) fn starved(&self) -> u64 {
        self.starved.load(Ordering::Relaxed)
    }
}

impl Phase {
    /// Whether nothing more may be started: the run or the phase's time is over, the precision is reached, or it is of no use.
    pub(crate) fn is_over(&self, now: Stamp) -> bool {
        self.stop.is_draining()
            || self.enough.load(Ordering::Relaxed)
            || self.health.verdict().is_some()
            || self.ends_at().is_some_and(|end| now >= end)
    }

    /// When time ends it. In an open loop the plan itself ends.
    fn ends_at(&self) -> Option<Stamp> {
        if self.load.is_open() {
            return None;
        }
        match &self.measure {
            Some(measure) => Some(*self.window.opened.get()? + measure.length?),
            None => Some(self.start + self.warmup.as_ref()?.length?),
        }
    }

    /// How many slots a closed loop has.
    pub(crate) fn slots(&self) -> u32 {
        match self.load {
            Load::Closed { concurrency, .. } => concurrency,
            Load::Open { .. } => 0,
        }
    }

    /// How long a slot of a closed loop waits after an answer.
    pub(crate) fn think_time(&self) -> Option<Nanos> {
        match self.load {
            Load::Closed { think_time, .. } => think_time,
            Load::Open { .. } => None,
        }
    }

    /// When the slot of this rank begins.
    pub(crate) fn slot_begins(&self, rank: u32) -> Stamp {
        let share = f64::from(rank) / f64::from(self.slots().max(1));
        self.start + Nanos::from_secs_f64(self.ramp_up.as_secs_f64() * share)
    }

    /// The next conversation for a slot of a closed loop that is free: of the warm-up until that is over, then of the measurement.
    pub(crate) async fn next(
        &self,
        now: impl Fn() -> Stamp,
    ) -> Result<Option<Conversation>, RunError> {
        if self.is_over(now()) {
            return Ok(None);
        }
        if let Some(warmup) = self.warmup.as_ref().filter(|_| !self.is_measuring()) {
            let ends = warmup.length.map(|length| self.start + length);
            if ends.is_none_or(|end| now() < end)
                && let Some(taken) = self.take(warmup, &now).await?
            {
                return Ok(Some(taken));
            }
        }
        let Some(measure) = &self.measure else {
            return Ok(None);
        };
        self.window.open(now());
        let taken = self.take(measure, &now).await?;
        if let (Some(limiter), Some(conversation)) = (&self.limiter, &taken) {
            limiter.taken(1 + conversation.later.len() as u64);
        }
        Ok(taken)
    }

    /// The conversation that a slot would have taken at `due`, handed out all the same, where time, or whoever ended the run, cut the measurement off
    /// before; and when that was.
    pub(crate) fn cut_off(
        &self,
        due: Stamp,
        now: Stamp,
    ) -> Result<Option<(Conversation, Stamp)>, RunError> {
        let by_time = self.ends_at().filter(|end| now >= *end);
        let ended = by_time.or_else(|| self.stop.is_draining().then_some(now));
        let ended = ended.filter(|ended| due > *ended && self.is_measuring());
        let Some((part, ended)) = self.measure.as_ref().zip(ended) else {
            return Ok(None);
        };
        Ok(part.take(SHARED, ended)?.map(|taken| (taken, ended)))
    }

    fn is_measuring(&self) -> bool {
        self.window.opened.get().is_some()
    }

    /// Take the next one; where the planner has none ready, that is counted and waited for.
    async fn take(
        &self,
        part: &Part,
        now: &impl Fn() -> Stamp,
    ) -> Result<Option<Conversation>, RunError> {
        let Some(queue) = part.queue_of(SHARED) else {
            return Ok(None);
        };
        let (taken, waited) = self.look(queue, |queue| queue.take(now())).await?;
        if waited {
            self.starve(part);
        }
        Ok(taken)
    }

    /// What a queue has, waited for until there is something, nothing comes any more, or the run is ended; and whether that was a wait.
    pub(crate) async fn look<T>(
        &self,
        queue: &Queue,
        look: impl Fn(&Queue) -> Result<Next<T>, RunError>,
    ) -> Result<(Option<T>, bool), RunError> {
        let mut waited = false;
        loop {
            let change = queue.change();
            match look(queue)? {
                Next::Ready(found) => return Ok((Some(found), waited)),
                Next::Over => return Ok((None, waited)),
                Next::Later => waited = true,
            }
            tokio::select! {
                () = self.stop.reached(Ending::Draining) => return Ok((None, waited)),
                () = change => {}
            }
        }
    }

    /// A request was due when none was ready. Of the warm-up that is no figure's business.
    pub(crate) fn starve(&self, part: &Part) {
        if self.is_measured(part) {
            self.counts.starved.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_measured(&self, part: &Part) -> bool {
        let measure = self.measure.as_ref();
        measure.is_some_and(|measure| std::ptr::eq(measure, part))
    }

    /// The parts of an open loop with the instant from which each one's due times count. The measurement goes on where the warm-up ends.
    pub(crate) fn schedule(&self) -> impl Iterator<Item = (&Part, Stamp)> {
        let warmup = self.warmup.as_ref().map(|part| (part, self.start));
        let length = self.warmup.as_ref().and_then(|part| part.length);
        let opens = self.start + length.unwrap_or(Nanos::ZERO);
        let measure = self.measure.as_ref().map(|part| (part, opens));
        warmup.into_iter().chain(measure)
    }

    /// The schedule has come to this part.
    pub(crate) fn begin(&self, part: &Part, at: Stamp) {
        if self.is_measured(part) {
            self.window.open(at);
        }
    }

    /// Whether it is the measured one.
    pub(crate) fn measures(&self) -> bool {
        self.measure.is_some() && self.is_measuring()
    }

    /// How many measured requests were planned, and the sum of their hashes.
    pub(crate) fn planned(&self) -> (u64, PlanHash) {
        self.measure
            .as_ref()
            .map_or((0, PlanHash::default()), Part::planned)
    }

    /// The load was over before these turns were due. Like conversations that no slot took any more, they were not planned.
    pub(crate) fn take_back(&self, turns: impl Iterator<Item = OpenRecord>) {
        for turn in turns {
            let (kind, hash) = turn.take_back();
            let part = match kind {
                Some(PhaseKind::Warmup) => &self.warmup,
                _ => &self.measure,
            };
            if let Some(part) = part {
                let mut not_reached = part.not_reached.lock();
                not_reached.0 += 1;
                not_reached.1 += hash;
            }
        }
    }

    /// Count one more in flight, unless the cap is reached. It is one less when what this returns is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<InFlight> {
        let cap = match self.load {
            Load::Open { in_flight_cap, .. } => in_flight_cap,
            Load::Closed { .. } => None,
        };
        let before = self.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        let entered = InFlight(Arc::clone(self));
        cap.is_none_or(|cap| before < cap).then_some(entered)
    }
}

/// One conversation among those in flight.
pub(crate) struct InFlight(Arc<Phase>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
