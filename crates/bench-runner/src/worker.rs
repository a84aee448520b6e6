//! The life of a request: wait until it is due, have it sent and its answer stamped, record it.
//!
//! A worker is one thread; it takes what is ready and composes, counts and writes nothing itself. What it stands on (clock, timer, client) is
//! a [`WorkerIo`], so that tests can give it a virtual one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bench_client::{PreparedRequest, SchedStat, thread_schedstat};
use bench_schema::{Exchange, Nanos, Outcome, Stamp};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::RunError;
use crate::health::{BackOff, BackOffHint};
use crate::open_record::{Conversation, Ready, Said, leave_unsent};
use crate::phase::{Part, Phase};
use crate::planner::Queue;
use crate::server::LONGEST_ANSWER;
use crate::stop::Ending;

const RUN_ENDED: &str = "the run was ended";
const LEFT_ALONE: &str = "the cell ended while its slot was backing off after failed requests";
/// How long a wait may hold a phase that is over.
const LOOK_UP: Nanos = Nanos::from_millis(500);
const NO_ANSWER_BEFORE: &str = "the previous response, which it depends on, was incomplete";

/// Clock and client of a worker.
pub(crate) trait WorkerIo: 'static {
    fn now(&self) -> Stamp;
    /// Send, and follow the answer to its end.
    fn send(&self, request: &PreparedRequest) -> impl Future<Output = Exchange>;
    /// End everything that is under way.
    fn recall(&self);
}

pub(crate) trait WorkerTimer {
    /// Wait until this instant; never shorter. Dropping the future is safe.
    fn wait_until(&mut self, due: Stamp) -> impl Future<Output = ()>;
}

pub(crate) struct Worker<G> {
    /// Which one of how many.
    pub(crate) index: u32,
    pub(crate) count: u32,
    pub(crate) io: G,
    pub(crate) timer_queue: TimerQueue,
    /// When it first carried a measured request of this phase, and what it had cost by then.
    pub(crate) since: Cell<Option<(Stamp, Option<SchedStat>)>>,
}

impl<G: WorkerIo> Worker<G> {
    /// Carry this worker's share of a phase; when the run's grace is over, what is in flight is called back and keeps what it has.
    pub(crate) async fn carry_out(
        self: &Rc<Self>,
        phase: &Arc<Phase>,
        timer: &mut impl WorkerTimer,
    ) -> Result<(), RunError> {
        let mut under_way = JoinSet::new();
        if phase.load.is_open() {
            self.keep_the_schedule(phase, timer, &mut under_way).await?;
        } else {
            for rank in self.ranks(phase.slots()) {
                under_way.spawn_local(Rc::clone(self).keep_a_slot_busy(Arc::clone(phase), rank));
            }
        }
        self.until_all_are_back(phase, timer, &mut under_way).await
    }

    /// Those of so many slots that are this worker's.
    pub(crate) fn ranks(&self, slots: u32) -> impl Iterator<Item = u32> + use<G> {
        (self.index..slots).step_by(self.count.max(1) as usize)
    }

    /// The open loop: conversations start when they are due, whatever the answers do.
    async fn keep_the_schedule(
        self: &Rc<Self>,
        phase: &Arc<Phase>,
        timer: &mut impl WorkerTimer,
        under_way: &mut JoinSet<Result<(), RunError>>,
    ) -> Result<(), RunError> {
        for (part, begin) in phase.schedule() {
            phase.begin(part, begin);
            while let Some(due) = self.next_due(phase, part, begin).await? {
                self.wait_for(phase, timer, due).await;
                let now = self.io.now();
                let over = phase.is_over(now);
                // of a run that is ended, what was due by now counts as planned; the rest was not reached
                if over && (due > now || !phase.stop.is_draining()) {
                    return Ok(());
                }
                let Some(conversation) = part.take(self.index, now)? else {
                    break;
                };
                if over {
                    conversation.leave_unsent(due, self.index, RUN_ENDED);
                } else if let Some(entered) = phase.enter() {
                    let (worker, phase) = (Rc::clone(self), Arc::clone(phase));
                    under_way.spawn_local(async move {
                        worker.converse(&phase, conversation, due).await;
                        drop(entered);
                        Ok(())
                    });
                } else {
                    conversation.leave_unsent(due, self.index, Outcome::CAP_REACHED);
                }
                while under_way.try_join_next().is_some() {}
            }
        }
        Ok(())
    }

    /// When this worker's next conversation is due. Where it was due before the planner had it ready, that is counted.
    async fn next_due(
        &self,
        phase: &Phase,
        part: &Part,
        begin: Stamp,
    ) -> Result<Option<Stamp>, RunError> {
        let Some(queue) = part.queue_of(self.index) else {
            return Ok(None);
        };
        let (due, waited) = phase.look(queue, Queue::next_due).await?;
        let due = due.map(|due| begin + due);
        if waited && due.is_some_and(|due| due < self.io.now()) {
            phase.starve(part);
        }
        Ok(due)
    }

    /// The closed loop: a slot has one conversation in flight, and takes the next one when that is over.
    async fn keep_a_slot_busy(
        self: Rc<Self>,
        phase: Arc<Phase>,
        rank: u32,
    ) -> Result<(), RunError> {
        let mut back_off = BackOff::default();
        let mut due = phase.slot_begins(rank);
        let mut pause = None;
        loop {
            self.reaches(&phase, due).await;
            if let Some(limiter) = &phase.limiter
                && limiter.open_for(rank).await
            {
                (due, pause) = (self.io.now(), None);
            }
            let Some(conversation) = phase.next(|| self.io.now()).await? else {
                // A slot that still leaves the server alone when time is up would have asked meanwhile: what it did not send is part of the
                // result, and the window goes on to where it would have been sent.
                if pause.is_some()
                    && let Some((conversation, ended)) = phase.cut_off(due, self.io.now())?
                {
                    conversation.leave_unsent(ended, self.index, LEFT_ALONE);
                }
                break;
            };
            let hint = self.converse(&phase, conversation, due).await;
            pause = back_off.after(hint);
            due = self.io.now() + pause.or(phase.think_time()).unwrap_or(Nanos::ZERO);
        }
        if let Some(limiter) = &phase.limiter {
            limiter.open_for_all();
        }
        Ok(())
    }

    /// A conversation: each turn waits for the answer before it, and is written by the planner while the user thinks. Most have one turn.
    async fn converse(
        &self,
        phase: &Phase,
        conversation: Conversation,
        due: Stamp,
    ) -> Option<BackOffHint> {
        let Conversation {
            first, mut later, ..
        } = conversation;
        let (mut ready, mut due) = (first, due);
        loop {
            let (exchange, hint) = self.one(phase, ready, due).await;
            let Some(next) = later.pop_front() else {
                return hint;
            };
            let Some(exchange) = exchange else {
                let unsent = std::iter::once(next).chain(later);
                leave_unsent(unsent, self.io.now(), self.index, NO_ANSWER_BEFORE);
                return hint;
            };
            due = self.io.now() + next.pause;
            let goes_on = !later.is_empty();
            let written = phase.planner.write_turn(exchange, next, goes_on).await;
            ready = written?; // without a planner what is left is recorded as lost
            if !self.reaches(phase, due).await {
                let later = later.into_iter().map(|later| later.open_record);
                phase.take_back(std::iter::once(ready.open_record).chain(later));
                return hint;
            }
        }
    }

    /// One request's life: it is due, taken up, sent and answered, recorded. Returns what was said and the answer, where somebody goes on from it
    /// and it is whole.
    async fn one(
        &self,
        phase: &Phase,
        ready: Ready,
        due: Stamp,
    ) -> (Option<(Said, String)>, Option<BackOffHint>) {
        let Ready {
            mut open_record,
            request,
            said,
        } = ready;
        let dispatched = self.io.now();
        if phase.measures() && self.since.get().is_none() {
            self.since.set(Some((dispatched, thread_schedstat())));
        }
        open_record.begin(due, dispatched, self.index);
        let wire = self.io.send(&request).await;
        let is_whole = wire.outcome.is_completed() && wire.text_chars <= LONGEST_ANSWER as u64;
        let answer = said
            .filter(|_| is_whole)
            .and_then(|said| Some((said, wire.text.clone()?)));
        let hint = BackOffHint::of(&wire);
        open_record.end(wire);
        (answer, hint)
    }

    /// Wait on the worker's one timer, beside others, until this instant; whether it comes before the phase is over. A long wait looks up now and then
    /// whether it is.
    async fn reaches(&self, phase: &Phase, due: Stamp) -> bool {
        loop {
            let now = self.io.now();
            if phase.is_over(now.min(due)) {
                return false;
            }
            if now >= due {
                return true;
            }
            tokio::select! {
                () = phase.stop.reached(Ending::Draining) => return false,
                () = self.timer_queue.wait_until(due.min(now + LOOK_UP)) => {}
            }
        }
    }

    /// Wait until a conversation of the schedule is due, or the run is ended; whoever else waits meanwhile is woken in time.
    async fn wait_for(&self, phase: &Phase, timer: &mut impl WorkerTimer, due: Stamp) {
        while self.io.now() < due {
            let wake = self.timer_queue.next().map_or(due, |next| next.min(due));
            tokio::select! {
                biased;
                () = phase.stop.reached(Ending::Draining) => return,
                () = self.timer_queue.changed() => {}
                () = timer.wait_until(wake) => {}
            }
            self.timer_queue.ring(self.io.now());
        }
    }

    /// Nothing more is started from here: slots work until they find nothing, and conversations of an open loop go on to their ends.
    async fn until_all_are_back(
        &self,
        phase: &Phase,
        timer: &mut impl WorkerTimer,
        under_way: &mut JoinSet<Result<(), RunError>>,
    ) -> Result<(), RunError> {
        let mut first_error = Ok(());
        let mut recalled = false;
        loop {
            let wake = self.timer_queue.next();
            tokio::select! {
                biased;
                ended = under_way.join_next() => match ended {
                    None => return first_error,
                    Some(Ok(ended)) => first_error = first_error.and(ended),
                    // a conversation that panicked has been recorded as lost; a slot that did is missing from the load
                    Some(Err(_)) if phase.load.is_open() => {}
                    Some(Err(_)) => first_error = first_error.and(Err(RunError::WorkerGone)),
                },
                () = phase.stop.reached(Ending::Cutting), if !recalled => {
                    self.io.recall();
                    recalled = true;
                }
                () = self.timer_queue.changed() => {}
                () = timer.wait_until(wake.unwrap_or(Stamp::EPOCH)), if wake.is_some() => {}
            }
            self.timer_queue.ring(self.io.now());
        }
    }
}

/// The instants that tasks of one worker wait for beside each other, on the worker's one timer.
#[derive(Default)]
pub(crate) struct TimerQueue {
    waiting: RefCell<BTreeMap<Stamp, Vec<oneshot::Sender<()>>>>,
    earlier: Notify,
}

impl TimerQueue {
    /// Wait until `at` has come and the worker has rung.
    pub(crate) async fn wait_until(&self, at: Stamp) {
        let (wake, woken) = oneshot::channel();
        let is_earliest = self.next().is_none_or(|next| at < next);
        self.waiting.borrow_mut().entry(at).or_default().push(wake);
        if is_earliest {
            self.earlier.notify_one();
        }
        // a worker that is gone has nothing to do later
        woken.await.ok();
    }

    pub(crate) fn next(&self) -> Option<Stamp> {
        let waiting = self.waiting.borrow();
        waiting.first_key_value().map(|(at, _)| *at)
    }

    /// Resolves when there is an earlier one than before.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }

    /// Wake everybody whose instant has come.
    pub(crate) fn ring(&self, now: Stamp) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= now) {
            for wake in first.remove() {
                // one that gave up waiting is not there any more
                wake.send(()).ok();
            }
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/worker.rs"]
mod tests;
