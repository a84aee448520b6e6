//! The sequences of a scheduler and the clients that wait for them; the simulated engine and the transformer share it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::mpsc;

use super::scheduler::{Id, Item, Plan, Scheduler};
use super::{Fed, Finish, GenRequest, Step, Submission};
use crate::config::Limits;
use crate::metrics::{Metrics, Occupancy};

/// A scheduler with the clients' ends of its sequences.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) scheduler: Scheduler,
    live: HashMap<Id, Live>,
    metrics: Arc<Metrics>,
    next: Id,
}

#[derive(Debug)]
struct Live {
    request: GenRequest,
    out: mpsc::Sender<Fed>,
    occupancy: Occupancy,
    made: u32,
    scheduled_ns: u64,
    cached: u32,
    /// Tokens that wait for their event to be full.
    held: Vec<u32>,
}

impl Batch {
    pub(crate) fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        Self {
            scheduler: Scheduler::new(limits),
            live: HashMap::new(),
            metrics,
            next: 0,
        }
    }

    pub(crate) fn add(&mut self, submission: Submission) {
        let Submission { mut request, out } = submission;
        let id = self.next;
        self.next += 1;
        self.scheduler.add(id, std::mem::take(&mut request.prompt));
        let occupancy = Occupancy::waiting(&self.metrics);
        let live = Live {
            request,
            out,
            occupancy,
            made: 0,
            scheduled_ns: 0,
            cached: 0,
            held: Vec::new(),
        };
        self.live.insert(id, live);
    }

    /// Forgets the sequences whose clients are gone, and says which.
    pub(crate) fn reap(&mut self) -> Vec<Id> {
        let gone: Vec<Id> = self
            .live
            .iter()
            .filter(|(_, live)| live.out.is_closed())
            .map(|(id, _)| *id)
            .collect();
        for id in &gone {
            self.remove(*id);
        }
        gone
    }

    /// The next step, begun at `now`.
    pub(crate) fn plan(&mut self, now: u64) -> Plan {
        let plan = self.scheduler.plan();
        for (id, known) in &plan.admitted {
            if let Some(live) = self.live.get_mut(id) {
                live.scheduled_ns = now;
                live.cached = u32::try_from(*known).unwrap_or(u32::MAX);
                self.metrics
                    .prefix_queries
                    .fetch_add(self.scheduler.tokens(*id).len() as u64, Relaxed);
                self.metrics.prefix_hits.fetch_add(*known as u64, Relaxed);
            }
        }
        for id in &plan.preempted {
            self.metrics.preemptions.fetch_add(1, Relaxed);
            if let Some(live) = self.live.get_mut(id) {
                live.occupancy.wait();
            }
        }
        for item in &plan.items {
            if let Some(live) = self.live.get_mut(&item.id) {
                live.occupancy.run();
            }
        }
        for id in &plan.starved {
            self.give_up(*id, now);
        }
        self.metrics
            .set_kv_use(self.scheduler.pool().used(), self.scheduler.pool().size());
        plan
    }

    /// What a sequence was asked to be, and how many tokens it has made.
    pub(crate) fn request(&self, id: Id) -> Option<(&GenRequest, u32)> {
        self.live.get(&id).map(|live| (&live.request, live.made))
    }

    /// An item was computed and its token, if one came of it, is due at `due_ns`. True when the sequence is over.
    pub(crate) fn deliver(
        &mut self,
        item: &Item,
        token: Option<u32>,
        due_ns: u64,
        is_end: bool,
    ) -> bool {
        self.scheduler.advance(item, token);
        let (Some(token), Some(live)) = (token, self.live.get_mut(&item.id)) else {
            return false;
        };
        live.made += 1;
        live.held.push(token);
        let ended = is_end && !live.request.ignore_eos && live.made >= live.request.min_tokens;
        let finish = if ended {
            Some(Finish::Stop)
        } else {
            (live.made >= live.request.limit).then_some(live.request.at_limit)
        };
        let full = live.request.tokens_per_chunk.unwrap_or(1).max(1) as usize;
        if live.held.len() >= full || live.made == 1 || finish.is_some() {
            live.send(due_ns, finish);
        }
        if finish.is_some() {
            self.remove(item.id);
        }
        finish.is_some()
    }

    fn give_up(&mut self, id: Id, now: u64) {
        if let Some(live) = self.live.get_mut(&id) {
            live.send(now, Some(Finish::Length));
        }
        self.remove(id);
    }

    fn remove(&mut self, id: Id) {
        self.scheduler.remove(id);
        self.live.remove(&id);
        self.metrics
            .set_kv_use(self.scheduler.pool().used(), self.scheduler.pool().size());
    }
}

impl Live {
    fn send(&mut self, due_ns: u64, finish: Option<Finish>) {
        let step = Step {
            due_ns,
            scheduled_ns: self.scheduled_ns,
            cached_tokens: self.cached,
            finish,
        };
        // The channel holds the longest answer; if it is closed the client is gone, which the next reaping sees.
        self.out
            .try_send(Fed {
                step,
                ids: std::mem::take(&mut self.held),
            })
            .ok();
    }
}
