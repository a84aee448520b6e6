//! The fixed model: every due time of a sequence is known when it is taken up, and never moves.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Finish, GenRequest, Step};
use crate::clock::Pacer;
use crate::clock::now_ns;
use crate::conditions::Conditions;
use crate::config::Fixed;
use crate::fault::mix;
use crate::metrics::{Metrics, Occupancy};

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
            Some(places) => Place::Waiting(Box::pin(Arc::clone(places).acquire_owned())),
            None => Place::Free,
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
            vocabulary: u64::from(self.vocabulary),
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

type Permit =
    Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>> + Send>>;

enum Place {
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
        if self.jitter <= 0.0 || ns <= 0.0 {
            return ns;
        }
        let z: f64 = StandardNormal.sample(&mut self.rng);
        ns * (self.jitter * z).exp()
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
    vocabulary: u64,
    limit: u32,
    at_limit: Finish,
    seed: u64,
    made: u32,
    scheduled_ns: u64,
    next_due_ns: u64,
    registered: u64,
    place: Place,
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
            Place::Waiting(permit) => match permit.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The semaphore is never closed; if it were, the sequence would run without a place.
                Poll::Ready(permit) => self.admit(permit.ok()),
            },
            Place::Free => self.admit(None),
            Place::Taken { .. } => {}
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
        self.place = Place::Taken { _permit: permit };
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
            let id = mix(self.seed ^ (u64::from(at) << 32)) % self.vocabulary;
            ids.push(u32::try_from(id).unwrap_or(0));
        }
        self.made += tokens;
        let finished = self.made >= self.limit;
        if finished {
            self.place = Place::Taken { _permit: None };
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
