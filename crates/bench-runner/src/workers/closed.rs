//! The closed loop: a fixed number of slots, each with one request in flight.

use std::rc::Rc;
use std::sync::Arc;

use bench_client::{Client, Timer};
use bench_schema::{Load, Nanos, Stamp};
use tokio::task::JoinSet;

use super::{Seat, converse};
use crate::RunError;
use crate::feed::Conversation;
use crate::phase::Phase;
use crate::stop::Ending;

/// Carry this worker's share of the slots.
pub(super) async fn run(
    seat: &Seat,
    phase: &Arc<Phase>,
    client: &Rc<Client>,
) -> Result<(), RunError> {
    let mut slots = JoinSet::new();
    for number in 0..slots_of(seat, phase) {
        let slot = Slot {
            rank: number * seat.count + seat.index,
            phase: Arc::clone(phase),
            client: Rc::clone(client),
            worker: seat.index,
        };
        slots.spawn_local(slot.run());
    }
    let mut first_error = Ok(());
    while let Some(ended) = slots.join_next().await {
        let result = ended.unwrap_or(Err(RunError::WorkerGone));
        first_error = first_error.and(result);
    }
    first_error
}

/// Concurrency over workers, the first ones taking one more where it does not divide.
fn slots_of(seat: &Seat, phase: &Phase) -> u32 {
    let Load::Closed { concurrency, .. } = phase.load else {
        return 0;
    };
    concurrency / seat.count + u32::from(seat.index < concurrency % seat.count)
}

struct Slot {
    /// Among the slots of all workers, which are dealt in turn.
    rank: u32,
    phase: Arc<Phase>,
    client: Rc<Client>,
    worker: u32,
}

impl Slot {
    async fn run(self) -> Result<(), RunError> {
        let Load::Closed { think_time, .. } = self.phase.load else {
            return Ok(());
        };
        let mut due = self.when_wanted(self.phase.start).await;
        let mut upcoming = self.phase.take()?;
        while let Some(conversation) = upcoming.take() {
            if self.phase.is_over(self.phase.clock.now()) {
                break;
            }
            self.phase.enter();
            let carried = converse(&self.phase, &self.client, conversation, due, self.worker);
            let (made, ()) = tokio::join!(self.make_next(), carried);
            self.phase.leave();
            upcoming = made?;
            due = self.phase.clock.now();
            if self.phase.gate.is_some() {
                due = self.when_wanted(due).await;
                upcoming = self.phase.take()?;
            }
            if let Some(pause) = think_time.filter(|_| upcoming.is_some()) {
                due = self.think(due, pause).await?;
            }
        }
        if let Some(gate) = &self.phase.gate {
            gate.open_for_all();
        }
        Ok(())
    }

    /// Where the number in flight moves: wait until this slot is among it. Returns when its next request is due.
    async fn when_wanted(&self, due: Stamp) -> Stamp {
        let Some(gate) = &self.phase.gate else {
            return due;
        };
        if gate.open_for(self.rank).await {
            self.phase.clock.now()
        } else {
            due
        }
    }

    /// The next prompt is written while this answer is under way, so that it delays nobody: after a yield, which lets the request out first.
    async fn make_next(&self) -> Result<Option<Conversation>, RunError> {
        tokio::task::yield_now().await;
        if self.phase.gate.is_some() {
            return Ok(None); // a slot that has to wait must not keep a request from the others
        }
        self.phase.take()
    }

    async fn think(&self, from: Stamp, pause: Nanos) -> Result<Stamp, RunError> {
        let clock = self.phase.clock.clone();
        let mut timer =
            Timer::new(clock, Nanos::ZERO).map_err(|error| RunError::Client(error.to_string()))?;
        tokio::select! {
            () = self.phase.stop.reached(Ending::Draining) => {}
            _ = timer.wait_until(from + pause) => {}
        }
        Ok(from + pause)
    }
}
