//! One line of `requests.jsonl`.

use serde::{Deserialize, Serialize};

use crate::{Channel, Exchange, Nanos, PromptSize, Stamp, TokenSource};

/// One planned request and everything that is known of it. Every latency is derived from it by `bench-metrics`.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RequestRecord {
    /// Index in the cell's plan, counted over all shards; unique together with `cell`, `repeat` and `phase`.
    pub id: u64,
    /// The cell it belongs to.
    pub cell: String,
    /// Which repeat of the cell, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Label of the kind of request (`short-qa`, `code`, …).
    pub use_case: Option<String>,
    /// Conversation it is part of.
    pub session: Option<u64>,
    /// Turn within the conversation, from 0.
    pub turn: Option<u32>,
    /// Worker thread that carried it.
    pub worker: Option<u32>,
    /// When the schedule wanted it to start; in a closed loop, when its slot became free.
    pub due: Stamp,
    /// When a worker took it up; absent for a request that was never sent.
    pub dispatched: Option<Stamp>,
    /// Prompt length, asked and sent. What the server counted is in `usage`.
    #[serde(default)]
    pub prompt: PromptSize,
    /// Output tokens that were asked for (`max_tokens`).
    pub asked_output_tokens: Option<u64>,
    /// Output tokens, `n`; absent where unknown.
    pub output_tokens: Option<u64>,
    /// How `output_tokens` is known.
    #[serde(default)]
    pub token_source: TokenSource,
    /// What the wire told. Nested, not flattened: serde reads a flattened struct twice, and these lines are many and long.
    pub wire: Exchange,
}

impl RequestRecord {
    /// A measured request of which no more is known: due at the epoch of the run's clock, its lengths absent.
    pub fn bare(id: u64, cell: impl Into<String>, wire: Exchange) -> Self {
        Self {
            id,
            cell: cell.into(),
            repeat: 0,
            phase: Phase::Measure,
            use_case: None,
            session: None,
            turn: None,
            worker: None,
            due: Stamp::EPOCH,
            dispatched: None,
            prompt: PromptSize::default(),
            asked_output_tokens: None,
            output_tokens: None,
            token_source: TokenSource::Unknown,
            wire,
        }
    }

    /// Prompt tokens: the server's count, else the tokenizer's of what was sent.
    pub fn input_tokens(&self) -> Option<u64> {
        let served = self
            .wire
            .usage
            .as_ref()
            .and_then(|usage| usage.prompt_tokens);
        served.or(self.prompt.sent_tokens)
    }

    /// Prompt plus output tokens, where both are known.
    pub fn total_tokens(&self) -> Option<u64> {
        Some(self.input_tokens()?.saturating_add(self.output_tokens?))
    }

    /// Whether it can have been measured: no time is beyond a year, no count beyond what JSON's numbers hold exactly, and events end when they say.
    pub fn is_possible(&self) -> bool {
        const MOST: u64 = 1 << 53;
        const YEAR_NS: u64 = 1 << 55;
        let wire = &self.wire;
        let usage = wire.usage.clone().unwrap_or_default();
        let server = wire.server.clone().unwrap_or_default();
        let counts = [
            self.asked_output_tokens,
            self.output_tokens,
            self.prompt.asked_tokens,
            self.prompt.sent_tokens,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.reasoning_tokens,
            Some(wire.request_bytes.max(wire.response_bytes)),
        ];
        let told = [server.queue, server.prefill, server.decode, server.total];
        let told = told.map(|time| time.map(Nanos::get));
        let instants = [
            Some(self.due),
            self.dispatched,
            wire.connected,
            wire.sent,
            wire.headers,
            wire.events.first(),
            wire.events.last(),
            wire.closed,
        ];
        let mut times = instants
            .map(|at| at.map(Stamp::get))
            .into_iter()
            .chain(told);
        counts.into_iter().flatten().all(|count| count <= MOST)
            && times.all(|ns| ns.is_none_or(|ns| ns.unsigned_abs() <= YEAR_NS))
            && wire.events.ends_as_it_says()
    }

    /// Output tokens that came as content events: all but the reasoning that the server counts and does not send. Where the rest would be less than
    /// one token an event, the reasoning is taken to be no part of the count, and all tokens came.
    pub fn streamed_tokens(&self) -> Option<u64> {
        let all = self.output_tokens?;
        let events = &self.wire.events;
        let told = self
            .wire
            .usage
            .as_ref()
            .and_then(|usage| usage.reasoning_tokens);
        let hidden = told.filter(|_| events.first_on(Channel::Reasoning).is_none());
        let left = hidden.and_then(|hidden| all.checked_sub(hidden));
        Some(
            left.filter(|left| *left >= events.len() as u64)
                .unwrap_or(all),
        )
    }

    /// Output tokens of reasoning that the server counts and does not send: what [`RequestRecord::streamed_tokens`] leaves out.
    pub fn hidden_tokens(&self) -> Option<u64> {
        Some(self.output_tokens?.saturating_sub(self.streamed_tokens()?))
    }

    /// Tokens of each content event, where the stream told them. Where they come to more than the answer is believed to have, or to more than any answer has,
    /// nobody knows which event brought how many.
    pub fn event_tokens(&self) -> Option<&[u32]> {
        const MOST: u64 = 1 << 20;
        let tokens = self.wire.events.tokens()?;
        let sum: u64 = tokens.iter().copied().map(u64::from).sum();
        (sum <= self.output_tokens.unwrap_or(MOST).min(MOST)).then_some(tokens)
    }

    /// Dispatched minus due; absent for a request that was never sent.
    pub fn lateness(&self) -> Option<Nanos> {
        Some(self.dispatched? - self.due)
    }

    /// Moves every stamp by the same amount: onto the clock of another run, whose epoch lies `by` before this one's.
    /// Every latency stays what it was.
    pub fn shift(&mut self, by: Nanos) {
        self.due = self.due + by;
        let wire = &mut self.wire;
        for stamp in [
            &mut self.dispatched,
            &mut wire.connected,
            &mut wire.sent,
            &mut wire.headers,
            &mut wire.closed,
        ] {
            *stamp = stamp.map(|at| at + by);
        }
        wire.events.shift(by);
    }

    /// The last instant that is known of it.
    pub fn last_instant(&self) -> Stamp {
        let wire = &self.wire;
        let known = [
            wire.closed,
            wire.events.last(),
            wire.headers,
            wire.sent,
            wire.connected,
            self.dispatched,
        ];
        known.into_iter().flatten().max().unwrap_or(self.due)
    }
}

names! {
    /// Whether a request counts.
    #[derive(Default)]
    Phase {
        Warmup "warmup" "Before the measurement; counted apart.";
        #[default] Measure "measure" "Measured.";
    }
}
