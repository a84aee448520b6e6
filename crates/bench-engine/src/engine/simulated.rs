//! The simulated engines: the fixed model, whose due times are known when a sequence is taken up and never move, and the scheduler in
//! real time, whose steps compute nothing and take as long as computing would.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use super::batch::Batch;
use super::scheduler::{Id, Plan};
use super::{Finish, GenRequest, Step, Submission, lognormal, token};
use crate::clock::{Pacer, now_ns};
use crate::conditions::Conditions;
use crate::config::{Fixed, Simulation};
use crate::metrics::{Metrics, Occupancy};
use crate::server::Local;

/// The model and its places.
#[derive(Debug)]
pub(crate) struct FixedEngine {
    config: Fixed,
    places: Option<Arc<Semaphore>>,
    vocabulary: u32,
    conditions: Arc<Conditions>,
}

impl FixedEngine {
    pub(crate) fn new(config: Fixed, vocabulary: u32, conditions: Arc<Conditions>) -> Self {
        let places = config.max_num_seqs.map(|n| Arc::new(Semaphore::new(n)));
        Self {
            config,
            places,
            vocabulary,
            conditions,
        }
    }

    pub(crate) fn begin(&self, request: &GenRequest, metrics: &Arc<Metrics>) -> Timetable {
        // The semaphore is fair: places are given in the order they were asked for.
        let place = match &self.places {
            Some(places) => Slot::Waiting(Box::pin(Arc::clone(places).acquire_owned())),
            None => Slot::Free,
        };
        Timetable {
            times: Times {
                rng: ChaCha12Rng::seed_from_u64(request.seed),
                jitter: self.config.jitter,
                itl_ns: self.config.itl_ms * 1e6,
            },
            conditions: Arc::clone(&self.conditions),
            ttft_ns: self.config.ttft_ms * 1e6,
            prefill_ns: self.config.prefill_us_per_token * 1e3 * request.prompt.len() as f64,
            chunk: request
                .tokens_per_chunk
                .unwrap_or(self.config.tokens_per_chunk)
                .max(1),
            vocabulary: self.vocabulary,
            limit: request.limit,
            at_limit: request.at_limit,
            seed: request.seed,
            made: 0,
            scheduled_ns: 0,
            next_due_ns: 0,
            registered: 0,
            place,
            occupancy: Occupancy::waiting(metrics),
        }
    }
}

type Permit = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

enum Slot {
    Waiting(Permit),
    Free,
    Taken {
        _permit: Option<OwnedSemaphorePermit>,
    },
}

struct Times {
    rng: ChaCha12Rng,
    jitter: f64,
    itl_ns: f64,
}

impl Times {
    /// A time whose median is `ns`.
    fn draw(&mut self, ns: f64) -> f64 {
        if ns <= 0.0 {
            return ns;
        }
        lognormal(ns, self.jitter, &mut self.rng)
    }

    fn gaps(&mut self, tokens: u32) -> f64 {
        (0..tokens).map(|_| self.draw(self.itl_ns).round()).sum()
    }
}

/// One sequence of the fixed model.
pub(crate) struct Timetable {
    times: Times,
    conditions: Arc<Conditions>,
    ttft_ns: f64,
    prefill_ns: f64,
    chunk: u32,
    vocabulary: u32,
    limit: u32,
    at_limit: Finish,
    seed: u64,
    made: u32,
    scheduled_ns: u64,
    next_due_ns: u64,
    registered: u64,
    place: Slot,
    occupancy: Occupancy,
}

impl Timetable {
    pub(crate) fn poll_next(
        &mut self,
        pacer: &Pacer,
        ids: &mut Vec<u32>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Step>> {
        if self.made >= self.limit {
            return Poll::Ready(None);
        }
        match &mut self.place {
            Slot::Waiting(permit) => match permit.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The semaphore is never closed; if it were, the sequence would run without a place.
                Poll::Ready(permit) => self.admit(permit.ok()),
            },
            Slot::Free => self.admit(None),
            Slot::Taken { .. } => {}
        }
        if pacer
            .poll_until(self.next_due_ns, &mut self.registered, cx)
            .is_pending()
        {
            return Poll::Pending;
        }
        Poll::Ready(Some(self.step(ids)))
    }

    fn admit(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.place = Slot::Taken { _permit: permit };
        self.occupancy.run();
        self.scheduled_ns = now_ns();
        let ns = self.times.draw(self.ttft_ns).round() + self.prefill_ns.round();
        let cold = self.conditions.cold_request_ns()
            + self.conditions.cold_shape_ns(self.occupancy.running());
        self.next_due_ns = self.conditions.done(self.scheduled_ns, ns) + cold;
    }

    /// The first event carries one token, as the real servers' do whatever their stream interval is.
    fn step(&mut self, ids: &mut Vec<u32>) -> Step {
        let due_ns = self.next_due_ns;
        let tokens = if self.made == 0 {
            1
        } else {
            self.chunk.min(self.limit - self.made)
        };
        for at in self.made..self.made + tokens {
            ids.push(token(self.seed, at, self.vocabulary));
        }
        self.made += tokens;
        let finished = self.made >= self.limit;
        if finished {
            self.place = Slot::Taken { _permit: None };
        } else {
            let ns = self.times.gaps(self.chunk.min(self.limit - self.made));
            self.next_due_ns = self.conditions.done(due_ns, ns);
        }
        Step {
            due_ns,
            scheduled_ns: self.scheduled_ns,
            cached_tokens: 0,
            finish: finished.then_some(self.at_limit),
        }
    }
}

/// The loop of the simulated scheduler.
pub(crate) struct Driver {
    config: Simulation,
    vocabulary: u32,
    batch: Batch,
    rng: ChaCha12Rng,
    conditions: Arc<Conditions>,
    pacer: Rc<Pacer>,
}

impl Driver {
    pub(crate) fn new(config: Simulation, vocabulary: u32, local: &Local) -> Self {
        Self {
            batch: Batch::new(config.scheduler.clone(), Arc::clone(&local.server.metrics)),
            rng: ChaCha12Rng::seed_from_u64(local.server.config.seed),
            conditions: Arc::clone(&local.server.conditions),
            pacer: Rc::clone(&local.pacer),
            config,
            vocabulary,
        }
    }

    /// Runs until nobody can submit any more.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Submission>) {
        let mut begin = 0;
        loop {
            if self.batch.scheduler.is_idle() {
                let Some(first) = inbox.recv().await else {
                    return;
                };
                self.batch.add(first);
                begin = now_ns();
            }
            while let Ok(more) = inbox.try_recv() {
                self.batch.add(more);
            }
            self.batch.reap();
            let plan = self.batch.plan(begin);
            // The end follows from the beginning, not from when this thread woke: steps do not drift.
            let end = self.end_of(&plan, begin);
            self.pacer.until(end).await;
            for item in &plan.items {
                let token = item.sample.then(|| self.token(item.id));
                self.batch.deliver(item, token, end, false);
            }
            begin = end;
        }
    }

    fn end_of(&mut self, plan: &Plan, begin: u64) -> u64 {
        let ns = step_ns(&self.config, plan, &mut self.rng);
        let cold: u64 = plan
            .admitted
            .iter()
            .map(|_| self.conditions.cold_request_ns())
            .sum();
        let cold = cold + self.conditions.cold_shape_ns(plan.items.len());
        self.conditions.done(begin, ns) + cold
    }

    fn token(&self, id: Id) -> u32 {
        let (seed, made) = self
            .batch
            .request(id)
            .map_or((0, 0), |(request, made)| (request.seed, made));
        token(seed, made, self.vocabulary)
    }
}

/// How long a step takes: its fixed part, its decodes, what they attend to, and the prompts beside them.
fn step_ns(config: &Simulation, plan: &Plan, rng: &mut ChaCha12Rng) -> f64 {
    if plan.items.is_empty() {
        return 0.0;
    }
    let decodes = plan
        .items
        .iter()
        .filter(|item| item.count == 1 && item.sample);
    let context: usize = decodes.clone().map(|item| item.from).sum();
    let decoding = decodes.count();
    let tokens: usize = plan.items.iter().map(|item| item.count).sum();
    let prefill =
        (tokens - decoding) as f64 / config.prefill_tokens_per_s.max(f64::MIN_POSITIVE) * 1e9;
    let fixed = config.step_ms * 1e6;
    let batch = config.step_ms_per_sequence * 1e6 * decoding as f64;
    let attention = config.step_us_per_context_token * 1e3 * context as f64;
    lognormal(fixed + batch + attention + prefill, config.jitter, rng)
}

#[cfg(test)]
#[path = "../../tests/unit/engine_simulated.rs"]
mod tests;
