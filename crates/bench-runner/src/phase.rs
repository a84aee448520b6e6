//! One stretch of load: a warm-up, or one repeat of a cell.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bench_client::Clock;
use bench_schema::{
    Exchange, Load, Outcome, Phase as PhaseKind, PlanHash, RequestRecord, Stamp, TokenSource,
};
use bench_workload::Plan;

use crate::RunError;
use crate::feed::{Conversation, Feed, Turn};
use crate::progress::Tally;
use crate::ramp::Gate;
use crate::recorder::Recorder;
use crate::stop::Stop;

/// What the workers need to know of the phase they are in; shared by all of them.
pub(crate) struct Phase {
    /// Cell it belongs to.
    pub(crate) cell: String,
    /// Repeat of the cell.
    pub(crate) repeat: u32,
    /// Warm-up or measured.
    pub(crate) kind: PhaseKind,
    /// What to ask. An open loop is split between the workers by the plan itself.
    pub(crate) plan: Plan,
    /// What the slots of a closed loop take from, whichever is free. Taken while an answer is under way, never between a read
    /// and its stamp.
    pub(crate) feed: Mutex<Feed>,
    /// How.
    pub(crate) load: Load,
    /// Moves the number in flight of a closed loop, where it is to move.
    pub(crate) gate: Option<Gate>,
    /// Of all requests that were recorded so far.
    pub(crate) hash: Mutex<PlanHash>,
    /// Whether requests are chats: how a conversation goes on.
    pub(crate) chat: bool,
    /// When it begins: due times count from here.
    pub(crate) start: Stamp,
    /// When it ends, if time ends it.
    pub(crate) until: Option<Stamp>,
    /// Requests in flight, over all workers.
    pub(crate) in_flight: AtomicU32,
    /// Requests that the in-flight cap refused.
    pub(crate) cap_hits: AtomicU64,
    /// Set when the asked precision is reached.
    pub(crate) enough: Arc<AtomicBool>,
    /// The run's end.
    pub(crate) stop: Stop,
    /// The run's clock.
    pub(crate) clock: Clock,
    /// Where records go.
    pub(crate) recorder: Recorder,
    /// What the display shows.
    pub(crate) tally: Arc<Tally>,
}

impl Phase {
    /// Whether nothing more may be started: the run or the phase's time is over, or the precision is reached.
    pub(crate) fn is_over(&self, now: Stamp) -> bool {
        self.stop.is_draining()
            || self.enough.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| now >= until)
    }

    /// The next conversation of a closed loop.
    pub(crate) fn take(&self) -> Result<Option<Conversation>, RunError> {
        let mut feed = self.feed.lock().map_err(|_| RunError::WorkerGone)?;
        let taken = feed.next().map_err(RunError::Workload)?;
        if let (Some(gate), Some(conversation)) = (&self.gate, &taken) {
            gate.taken(conversation.turns.len() as u64);
        }
        Ok(taken)
    }

    /// The hash of what was recorded.
    pub(crate) fn plan_hash(&self) -> PlanHash {
        self.hash
            .lock()
            .map_or_else(|_| PlanHash::default(), |hash| *hash)
    }

    /// Count one more in flight, unless the cap is reached.
    pub(crate) fn enter(&self) -> bool {
        let cap = match self.load {
            Load::Open { in_flight_cap, .. } => in_flight_cap,
            Load::Closed { .. } => None,
        };
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let admitted = cap.is_none_or(|cap| before < cap);
        if !admitted {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            self.cap_hits.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// One less in flight.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Record a request that was due and is not sent.
    pub(crate) fn leave_unsent(&self, turn: &Turn, due: Stamp, worker: u32, reason: &str) {
        let wire = Exchange::nothing(Outcome::Unsent {
            reason: reason.to_owned(),
        });
        self.tally.started();
        self.record(
            turn,
            Times {
                due,
                dispatched: None,
                worker,
            },
            wire,
        );
    }

    /// Hand a finished request to the recorder.
    pub(crate) fn record(&self, turn: &Turn, times: Times, wire: Exchange) {
        let (output_tokens, token_source) = output_tokens(&wire);
        if let Ok(mut hash) = self.hash.lock() {
            *hash += turn.hash;
        }
        let item = &turn.planned.item;
        let record = RequestRecord {
            id: turn.planned.index,
            cell: self.cell.clone(),
            repeat: self.repeat,
            phase: self.kind,
            use_case: item.use_case.clone(),
            session: item.session,
            turn: item.turn,
            worker: Some(times.worker),
            due: times.due,
            dispatched: times.dispatched,
            prompt: item.size.clone(),
            asked_output_tokens: item.request.max_tokens.map(u64::from),
            output_tokens,
            token_source,
            wire,
        };
        self.tally.ended(&record);
        self.recorder.request(record);
    }
}

/// The runner's own instants of a request.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) due: Stamp,
    pub(crate) dispatched: Option<Stamp>,
    pub(crate) worker: u32,
}

/// Output tokens and how they are known: the server's usage, else counts in the stream.
fn output_tokens(wire: &Exchange) -> (Option<u64>, TokenSource) {
    if let Some(count) = wire
        .usage
        .as_ref()
        .and_then(|usage| usage.completion_tokens)
    {
        return (Some(count), TokenSource::Usage);
    }
    match wire.events.tokens() {
        Some(tokens) => (
            Some(tokens.iter().copied().map(u64::from).sum()),
            TokenSource::Stream,
        ),
        None => (None, TokenSource::Unknown),
    }
}
