//! The open loop: requests start when they are due, whatever the answers do.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bench_client::{Client, Timer};
use bench_schema::Nanos;
use bench_workload::Shard;
use tokio::task::JoinSet;

use super::{Seat, converse};
use crate::RunError;
use crate::feed::{Conversation, Feed};
use crate::phase::Phase;
use crate::stop::Ending;

/// Conversations that are made ahead of time, so that writing prompts never delays one that is due.
const AHEAD: usize = 256;
/// The timer is woken as much before an instant as the kernel is wont to be late, at most this, and spins the rest.
const SPIN: Nanos = Nanos::from_micros(100);
const CAP_REACHED: &str = "the in-flight cap was reached";
const RUN_ENDED: &str = "the run was ended";

/// Carry this worker's share of the plan.
pub(super) async fn run(
    seat: &Seat,
    phase: &Arc<Phase>,
    client: &Rc<Client>,
) -> Result<(), RunError> {
    let mut timer = Timer::new(seat.clock.clone(), SPIN)
        .map_err(|error| RunError::Client(error.to_string()))?;
    if let Some(late) = &seat.late {
        late.give_way_to(&timer);
    }
    let mut share = Share::new(seat, phase)?;
    let mut sending = JoinSet::new();
    while let Some(conversation) = share.next()? {
        let due = conversation.due(phase.start);
        tokio::select! {
            biased;
            () = phase.stop.reached(Ending::Draining) => {}
            _ = timer.wait_until(due) => {}
        }
        let Some(first) = conversation.turns.first() else {
            continue;
        };
        if phase.stop.is_draining() {
            // what was due by now counts as planned; the rest of the plan was not reached
            if due > seat.clock.now() {
                break;
            }
            phase.leave_unsent(first, due, seat.index, RUN_ENDED);
        } else if phase.enter() {
            let (phase, client, worker) = (Arc::clone(phase), Rc::clone(client), seat.index);
            sending.spawn_local(async move {
                converse(&phase, &client, conversation, due, worker).await;
                phase.leave();
            });
        } else {
            phase.leave_unsent(first, due, seat.index, CAP_REACHED);
        }
        while sending.try_join_next().is_some() {}
    }
    while sending.join_next().await.is_some() {}
    Ok(())
}

/// This worker's conversations in order of their due times, some made ahead.
struct Share {
    feed: Feed,
    ready: VecDeque<Conversation>,
}

impl Share {
    /// Worker w of W of shard s of S takes part s + S·w of S·W.
    fn new(seat: &Seat, phase: &Phase) -> Result<Self, RunError> {
        let run = phase.plan.spec().shard;
        let (worker, workers) = (u64::from(seat.index), u64::from(seat.count));
        let part = Shard {
            index: run.index + run.count * worker,
            count: run.count * workers,
        };
        let feed = Feed::new(phase.plan.shard(part).map_err(RunError::Workload)?);
        let mut share = Self {
            feed,
            ready: VecDeque::with_capacity(AHEAD),
        };
        while share.ready.len() < AHEAD && share.make_one()? {}
        Ok(share)
    }

    fn make_one(&mut self) -> Result<bool, RunError> {
        let made = self.feed.next().map_err(RunError::Workload)?;
        let more = made.is_some();
        self.ready.extend(made);
        Ok(more)
    }

    /// The next one; another is made in its place now, since nothing is as far from its due time as the last one made.
    fn next(&mut self) -> Result<Option<Conversation>, RunError> {
        let next = self.ready.pop_front();
        self.make_one()?;
        Ok(next)
    }
}
