//! Where tokens come from: one face for the fixed model, the simulated scheduler and the transformer.

pub(crate) mod batch;
pub(crate) mod scheduler;
pub(crate) mod simulated;

use std::sync::Arc;
use std::task::{Context, Poll};

use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use tokio::sync::mpsc;

use crate::clock::Pacer;
use crate::config::Limits;
use crate::fault::mix;
use crate::metrics::Metrics;

/// One sequence that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct GenRequest {
    /// Prompt, in ids.
    pub(crate) prompt: Vec<u32>,
    /// Tokens after which it ends.
    pub(crate) limit: u32,
    /// What the end at the limit is called.
    pub(crate) at_limit: Finish,
    /// Tokens before which an end token does not count.
    pub(crate) min_tokens: u32,
    /// Whether end tokens count at all.
    pub(crate) ignore_eos: bool,
    /// 0 takes the likeliest token.
    pub(crate) temperature: f32,
    /// Seed of what is drawn for it.
    pub(crate) seed: u64,
    /// Tokens in an event, where a fault asks for another number than the engine's.
    pub(crate) tokens_per_chunk: Option<u32>,
}

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The limit was reached.
    Length,
    /// An end token, real or drawn.
    Stop,
}

/// One or more tokens of a sequence, whose ids are handed over beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// When they should be written.
    pub(crate) due_ns: u64,
    /// When the sequence was first taken up.
    pub(crate) scheduled_ns: u64,
    /// Prompt tokens that were not computed, because a prefix was known.
    pub(crate) cached_tokens: u32,
    /// Set on the last step.
    pub(crate) finish: Option<Finish>,
}

/// A step as it crosses from the scheduler to the connection.
#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) step: Step,
    pub(crate) ids: Vec<u32>,
}

/// A request as it crosses from the connection to the scheduler.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: GenRequest,
    /// Closed by the receiver when the client is gone.
    pub(crate) out: mpsc::Sender<Fed>,
}

/// A source of tokens.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// Times are known when the sequence is taken up.
    Fixed(Arc<simulated::FixedEngine>),
    /// A scheduler elsewhere hands tokens over.
    Queue {
        queue: mpsc::Sender<Submission>,
        max_waiting: usize,
    },
}

/// The engine takes no more requests now.
#[derive(Debug)]
pub(crate) struct Full;

impl Engine {
    /// One that is fed through a queue, and the end from which a scheduler takes.
    pub(crate) fn queue(limits: &Limits) -> (Self, mpsc::Receiver<Submission>) {
        let max_waiting = limits.max_waiting;
        let (queue, inbox) = mpsc::channel(max_waiting.clamp(1, 1 << 20));
        (Self::Queue { queue, max_waiting }, inbox)
    }

    pub(crate) fn submit(&self, request: GenRequest, metrics: &Arc<Metrics>) -> Result<Gen, Full> {
        match self {
            Self::Fixed(engine) => Ok(Gen::Fixed(Box::new(engine.begin(&request, metrics)))),
            Self::Queue { queue, max_waiting } => {
                if metrics.waiting() >= *max_waiting {
                    return Err(Full);
                }
                let room = request.limit as usize + 1;
                let (out, steps) = mpsc::channel(room.min(1 << 20));
                queue
                    .try_send(Submission { request, out })
                    .map_err(|_| Full)?;
                Ok(Gen::Fed(steps))
            }
        }
    }
}

/// A running sequence. Dropping it gives its place up.
pub(crate) enum Gen {
    Fixed(Box<simulated::Timetable>),
    Fed(mpsc::Receiver<Fed>),
}

impl Gen {
    /// The next step when it is due; its ids are appended. `None` after the last, or if the engine gave up.
    pub(crate) fn poll_next(
        &mut self,
        pacer: &Pacer,
        ids: &mut Vec<u32>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Step>> {
        match self {
            Self::Fixed(table) => table.poll_next(pacer, ids, cx),
            Self::Fed(steps) => steps.poll_recv(cx).map(|fed| {
                fed.map(|fed| {
                    ids.extend_from_slice(&fed.ids);
                    fed.step
                })
            }),
        }
    }
}

/// The token that a simulated sequence has at this place.
fn token(seed: u64, at: u32, vocabulary: u32) -> u32 {
    let id = mix(seed ^ (u64::from(at) << 32)) % u64::from(vocabulary);
    u32::try_from(id).unwrap_or(0)
}

/// A time whose median is `median`, with this standard deviation of its logarithm; nothing is drawn where there is none.
fn lognormal(median: f64, deviation: f64, rng: &mut ChaCha12Rng) -> f64 {
    if deviation <= 0.0 {
        return median;
    }
    let z: f64 = StandardNormal.sample(rng);
    median * (deviation * z).exp()
}
