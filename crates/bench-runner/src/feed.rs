//! A plan as the workers take it: whole conversations, one request long where there are no turns.

use std::iter::Peekable;

use bench_schema::{Nanos, PlanHash, Stamp};
use bench_workload::{PlanIter, Planned, WorkloadError};

/// One request as it was planned, and the hash of that: a later turn's prompt grows by what was said before it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) planned: Planned,
    pub(crate) hash: PlanHash,
}

/// Requests that follow each other: each waits for the answer before it.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// At least one; the first waits for nothing.
    pub(crate) turns: Vec<Turn>,
}

impl Conversation {
    /// When it begins, in a phase that began at `start`. In a closed loop that is for the slot to say.
    pub(crate) fn due(&self, start: Stamp) -> Stamp {
        start
            + self
                .turns
                .first()
                .and_then(|first| first.planned.due)
                .unwrap_or(Nanos::ZERO)
    }
}

/// The conversations of a part of a plan, in order.
#[derive(Debug)]
pub(crate) struct Feed {
    plan: Peekable<PlanIter>,
}

impl Feed {
    pub(crate) fn new(plan: PlanIter) -> Self {
        Self {
            plan: plan.peekable(),
        }
    }

    /// The next one; `None` at the end of the plan.
    pub(crate) fn next(&mut self) -> Result<Option<Conversation>, WorkloadError> {
        let Some(first) = self.plan.next().transpose()? else {
            return Ok(None);
        };
        let mut turns = vec![Turn::new(first)];
        while let Some(turn) = self.plan.next_if(|next| {
            next.as_ref()
                .is_ok_and(|planned| planned.item.after.is_some())
        }) {
            turns.push(Turn::new(turn?));
        }
        Ok(Some(Conversation { turns }))
    }
}

impl Turn {
    fn new(planned: Planned) -> Self {
        let hash = planned.hash();
        Self { planned, hash }
    }
}
