//! From sequences to bytes: the stream's loop, the answer in one piece, and what faults do to both.

mod instead;
mod stream;
pub(crate) mod wire;

use std::task::{Context, Poll};

pub(crate) use instead::instead;

use crate::api::dialect::{PhaseTimes, Usage, Whole};
use crate::api::{Job, Reply};
use crate::engine::{Finish, Gen, Step};
use crate::fault::{FaultKind, FaultSet};
use crate::http::Peer;
use crate::ledger::{Entry, Outcome};
use crate::local::Local;
use crate::metrics::Phases;
use crate::serve::{Left, send};
use crate::text::Decoder;
use std::sync::atomic::Ordering::Relaxed;

/// Generates, and answers in the way that was asked for.
pub(crate) async fn run(
    local: &Local,
    job: Job,
    faults: &FaultSet,
    peer: Peer,
    entry: &mut Entry,
) -> Left {
    entry.stream = job.stream;
    entry.prompt_tokens = job.prompt_tokens;
    let Job {
        sequences,
        prompt_tokens,
        stream,
        mut dialect,
    } = job;
    let mut choices = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let Ok(generation) = local.server.engine.submit(sequence, &local.server.metrics) else {
            entry.outcome = Outcome::Refused;
            let full = Reply::error(503, "the engine's queue is full", None);
            return send(local, full, faults, peer, entry).await;
        };
        choices.push(Choice::new(generation, local.server.text.decoder()));
    }
    let mut generation = Generation::new(local, choices, prompt_tokens, entry.body_ns);
    if stream {
        stream::run(&mut generation, dialect.as_mut(), faults, peer, entry).await
    } else {
        whole(&mut generation, dialect.as_mut(), faults, peer, entry).await
    }
}

async fn whole(
    generation: &mut Generation<'_>,
    dialect: &mut dyn crate::api::Dialect,
    faults: &FaultSet,
    mut peer: Peer,
    entry: &mut Entry,
) -> Left {
    loop {
        match generation.next(&mut peer).await {
            Next::Step { choice, step } => generation.account(choice, &step, entry),
            Next::Gone => {
                entry.outcome = Outcome::ClientGone;
                return None;
            }
            Next::Over => break,
        }
    }
    let body = dialect.whole(&generation.summary(faults));
    let reply = Reply::json(200, &body);
    send(generation.local, reply, faults, peer, entry).await
}

/// One sequence of an answer.
pub(crate) struct Choice {
    generation: Option<Gen>,
    decoder: Decoder,
    text: String,
    ids: Vec<u32>,
    finish: Option<Finish>,
    last_ns: u64,
    /// Tokens before the current step.
    before: u64,
    /// Where the current step's text and ids begin.
    new_text: usize,
    new_ids: usize,
}

impl Choice {
    fn new(generation: Gen, decoder: Decoder) -> Self {
        Self {
            generation: Some(generation),
            decoder,
            text: String::new(),
            ids: Vec::new(),
            finish: None,
            last_ns: 0,
            before: 0,
            new_text: 0,
            new_ids: 0,
        }
    }
}

/// All sequences of an answer, and what is known about them.
pub(crate) struct Generation<'a> {
    pub(crate) local: &'a Local,
    choices: Vec<Choice>,
    usage: Usage,
    phases: Phases,
    /// Whether the texts are kept: not for a stream, whose memory must not grow.
    keep: bool,
}

/// What comes next.
pub(crate) enum Next {
    Step {
        choice: usize,
        step: Step,
    },
    /// All choices are over.
    Over,
    Gone,
}

impl<'a> Generation<'a> {
    fn new(local: &'a Local, choices: Vec<Choice>, prompt: u64, arrived_ns: u64) -> Self {
        let usage = Usage {
            prompt,
            completion: 0,
            cached: 0,
        };
        let phases = Phases {
            arrived_ns,
            scheduled_ns: arrived_ns,
            first_ns: 0,
            last_ns: 0,
        };
        Self {
            local,
            choices,
            usage,
            phases,
            keep: true,
        }
    }

    /// Waits for the next step of any choice, or for the client to go.
    async fn next(&mut self, peer: &mut Peer) -> Next {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(next) = self.poll_step(cx) {
                return Poll::Ready(next);
            }
            peer.poll_gone(cx).map(|()| Next::Gone)
        })
        .await
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut open = false;
        for (at, choice) in self.choices.iter_mut().enumerate() {
            let Some(generation) = &mut choice.generation else {
                continue;
            };
            if !self.keep {
                choice.text.clear();
                choice.ids.clear();
            }
            choice.new_ids = choice.ids.len();
            choice.new_text = choice.text.len();
            match generation.poll_next(&self.local.pacer, &mut choice.ids, cx) {
                Poll::Pending => open = true,
                Poll::Ready(None) => choice.generation = None,
                Poll::Ready(Some(step)) => {
                    if step.finish.is_some() {
                        choice.generation = None;
                        choice.finish = step.finish;
                    }
                    return Poll::Ready(Next::Step { choice: at, step });
                }
            }
        }
        if open {
            Poll::Pending
        } else {
            Poll::Ready(Next::Over)
        }
    }

    /// Counts a step, and decodes it.
    fn account(&mut self, at: usize, step: &Step, entry: &mut Entry) {
        let choice = &mut self.choices[at];
        let new = choice.ids.len() - choice.new_ids;
        let tokens = u32::try_from(new).unwrap_or(u32::MAX);
        choice
            .decoder
            .push(&choice.ids[choice.new_ids..], &mut choice.text);
        self.usage.completion += u64::from(tokens);
        entry.completion_tokens = self.usage.completion;
        let metrics = &self.local.server.metrics;
        metrics
            .generation_tokens
            .fetch_add(u64::from(tokens), Relaxed);
        if choice.last_ns == 0 {
            choice.before = 0;
            metrics.first_token(step.due_ns.saturating_sub(self.phases.arrived_ns) as f64 / 1e9);
            self.usage.cached += u64::from(step.cached_tokens);
            entry.cached_tokens = self.usage.cached;
            if self.phases.first_ns == 0 {
                self.phases.first_ns = step.due_ns;
                self.phases.scheduled_ns = step.scheduled_ns;
                entry.scheduled_ns = Some(step.scheduled_ns);
                metrics.prompt_tokens.fetch_add(self.usage.prompt, Relaxed);
            }
        } else {
            metrics.gap(step.due_ns.saturating_sub(choice.last_ns), tokens);
        }
        choice.last_ns = step.due_ns;
        self.phases.last_ns = self.phases.last_ns.max(step.due_ns);
    }

    fn summary(&mut self, faults: &FaultSet) -> Whole {
        let mut usage = self.usage;
        usage.completion += usage.completion * faults.get(FaultKind::UsageLies).unwrap_or(0) / 100;
        let phases = PhaseTimes {
            queue: self
                .phases
                .scheduled_ns
                .saturating_sub(self.phases.arrived_ns),
            prefill: self
                .phases
                .first_ns
                .saturating_sub(self.phases.scheduled_ns),
            decode: self.phases.last_ns.saturating_sub(self.phases.first_ns),
        };
        let take = |choice: &mut Choice| {
            (
                std::mem::take(&mut choice.text),
                std::mem::take(&mut choice.ids),
                choice.finish.unwrap_or(Finish::Stop),
            )
        };
        Whole {
            choices: self.choices.iter_mut().map(take).collect(),
            usage,
            phases,
        }
    }
}

impl Drop for Generation<'_> {
    fn drop(&mut self) {
        let finish = self
            .choices
            .iter()
            .map(|choice| choice.finish)
            .next()
            .flatten();
        self.local.server.metrics.request_over(self.phases, finish);
    }
}
