//! What requests share: one part for the whole server, one for each serving thread.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::now_ns;
use crate::config::{EngineConfig, PauseOf};
use crate::engine::Engine;
use crate::fault::{FaultKind, FaultSet};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::pacer::Pacer;
use crate::text::Text;

/// One server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) text: Text,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ledger: Ledger,
    /// Unix seconds.
    pub(crate) started: i64,
    requests: AtomicU64,
    sequences: AtomicU64,
    connections: AtomicU64,
    /// When the first connection was accepted; 0 before.
    first_ns: AtomicU64,
}

/// One serving thread of it.
pub(crate) struct Local {
    pub(crate) server: Arc<Shared>,
    pub(crate) pacer: Rc<Pacer>,
}

impl Shared {
    pub(crate) fn new(
        config: EngineConfig,
        text: Text,
        engine: Engine,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            ledger: Ledger::new(config.ledger_capacity),
            config,
            text,
            engine,
            metrics,
            started: crate::clock::unix_seconds(),
            requests: AtomicU64::new(0),
            sequences: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            first_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequences.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_connection(&self) -> u64 {
        // Only the first one succeeds; the others find the time set.
        let _first = self
            .first_ns
            .compare_exchange(0, now_ns(), Relaxed, Relaxed);
        self.connections.fetch_add(1, Relaxed)
    }

    /// The planned faults that strike a request, or a connection at its accepting.
    pub(crate) fn planned(&self, number: u64, at_accept: bool, into: &mut FaultSet) {
        for (at, plan) in self.config.faults.iter().enumerate() {
            let seed = self.config.seed ^ crate::fault::mix(at as u64);
            if plan.fault.kind.is_connection_level() == at_accept && plan.strikes(number, seed) {
                into.add(plan.fault);
            }
        }
    }

    /// When a pause that holds now is over.
    pub(crate) fn paused_until(&self, what: PauseOf) -> Option<u64> {
        let first = self.first_ns.load(Relaxed);
        if first == 0 {
            return None;
        }
        let now = now_ns();
        let ms = |ms: u64| ms.saturating_mul(1_000_000);
        self.config
            .pauses
            .iter()
            .filter(|pause| pause.what == what)
            .map(|pause| (first.saturating_add(ms(pause.after_ms)), ms(pause.for_ms)))
            .filter(|(from, length)| now >= *from && now < from.saturating_add(*length))
            .map(|(from, length)| from.saturating_add(length))
            .max()
    }
}

/// Whether a fault takes the place of the whole answer.
pub(crate) fn replaces_answer(faults: &FaultSet) -> bool {
    use FaultKind as K;
    [
        K::ResetHead,
        K::CloseHead,
        K::StallHead,
        K::EndlessHeader,
        K::TooMany,
        K::Internal,
        K::Unavailable,
        K::Redirect,
        K::Html,
        K::EmptyBody,
    ]
    .iter()
    .any(|kind| faults.has(*kind))
}
