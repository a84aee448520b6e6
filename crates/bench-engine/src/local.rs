//! What requests share: one part for the whole server, one for each serving thread.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::clock::Pacer;
use crate::clock::now_ns;
use crate::conditions::Conditions;
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::fault::FaultSet;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::text::Text;

/// One server.
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) text: Text,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ledger: Ledger,
    pub(crate) conditions: Arc<Conditions>,
    /// What connections are accepted with, where TLS is spoken.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Whether the server is gone: connections end.
    pub(crate) gone: watch::Sender<bool>,
    /// Unix seconds.
    pub(crate) started: i64,
    requests: AtomicU64,
    sequences: AtomicU64,
    connections: AtomicU64,
    /// In the order of accepting; as many as the ledger keeps entries.
    accepted: Mutex<Vec<Connection>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// What is known of a connection.
#[derive(Debug)]
struct Connection {
    accepted_ns: u64,
    /// Requests read on it.
    carried: u64,
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
        (metrics, conditions): (Arc<Metrics>, Arc<Conditions>),
        tls: Option<TlsAcceptor>,
    ) -> Self {
        Self {
            ledger: Ledger::new(config.ledger_capacity),
            conditions,
            tls,
            gone: watch::Sender::new(false),
            config,
            text,
            engine,
            metrics,
            started: crate::clock::unix_seconds(),
            requests: AtomicU64::new(0),
            sequences: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            accepted: Mutex::default(),
        }
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequences.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.conditions.connected();
        let mut accepted = self.accepted();
        if accepted.len() < self.config.ledger_capacity {
            accepted.push(Connection {
                accepted_ns: now_ns(),
                carried: 0,
            });
        }
        self.connections.fetch_add(1, Relaxed)
    }

    /// A request was read on a connection; gives when that was accepted.
    pub(crate) fn carried_one(&self, connection: u64) -> Option<u64> {
        let at = usize::try_from(connection).ok()?;
        let mut accepted = self.accepted();
        let connection = accepted.get_mut(at)?;
        connection.carried += 1;
        Some(connection.accepted_ns)
    }

    /// Requests that each connection carried, in the order of accepting.
    pub(crate) fn carried(&self) -> Vec<u64> {
        self.accepted().iter().map(|one| one.carried).collect()
    }

    fn accepted(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
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
}
