//! Starting and stopping a server: its threads, its listener, its engine.

mod accept;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use crate::EngineError;
use crate::clock::{Pacer, now_ns};
use crate::conditions::Conditions;
use crate::config::{EngineConfig, EngineKind, Simulation};
use crate::engine::simulated::{self, FixedEngine};
use crate::engine::{Engine, Submission};
use crate::fault::FaultSet;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::text::Text;
use crate::transformer::drive;
use accept::Listener;

/// Ids of the vocabulary that needs no file.
const VOCABULARY: u32 = 8192;

/// A running engine. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: Option<SocketAddr>,
    unix: Option<PathBuf>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Binds, loads the model if there is one, and serves on threads of its own. When it returns, connections succeed.
    ///
    /// # Errors
    /// [`EngineError`]: a value that cannot work, an address that cannot be bound, a file that cannot be used.
    pub fn start(config: EngineConfig) -> Result<Self, EngineError> {
        config.check()?;
        let tls = config.tls.as_ref().map(accept::tls).transpose()?;
        let listener = Listener::bind(&config)?;
        let (stop, stopped) = watch::channel(false);
        let mut config = config;
        let mut start = Start {
            simulation: None,
            stopped,
            threads: Vec::new(),
        };
        let metrics = Arc::new(Metrics::default());
        let conditions = Arc::new(Conditions::new(&config));
        let (text, engine) = start.engine(&mut config, &metrics, &conditions)?;
        let (address, unix) = (listener.address, config.unix.clone());
        let shared = Arc::new(Shared {
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
        });
        start.serve(&shared, listener)?;
        Ok(Self {
            address,
            unix,
            shared,
            stop,
            threads: start.threads,
        })
    }

    /// The address that is listened on; `None` for a Unix socket.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The base URL, without a path; for a Unix socket `unix:PATH`.
    pub fn url(&self) -> String {
        let secure = self.shared.tls.is_some();
        let scheme = if secure { "https" } else { "http" };
        match (&self.address, &self.unix) {
            (Some(address), _) => format!("{scheme}://{address}"),
            (None, path) => format!("unix:{}", path.clone().unwrap_or_default().display()),
        }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.shared.config.model
    }

    /// The truth about the requests that are over.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Requests that each connection carried, in the order of accepting.
    pub fn connections(&self) -> Vec<u64> {
        self.shared.carried()
    }

    /// Stops: open answers are cut off, their entries reach the ledger as they are. Returns the ledger's entries.
    pub fn shutdown(mut self) -> Vec<crate::Entry> {
        self.end();
        self.shared.ledger.take()
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say here.
            thread.join().ok();
        }
        if let Some(path) = &self.unix {
            // Gone already is as good.
            std::fs::remove_file(path).ok();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is being put together.
struct Start {
    stopped: watch::Receiver<bool>,
    threads: Vec<JoinHandle<()>>,
    simulation: Option<(Simulation, mpsc::Receiver<Submission>)>,
}

impl Start {
    /// The engine that the configuration asks for; what it runs on is started here or later, on the first serving thread.
    fn engine(
        &mut self,
        config: &mut EngineConfig,
        metrics: &Arc<Metrics>,
        conditions: &Arc<Conditions>,
    ) -> Result<(Text, Engine), EngineError> {
        let (limits, text) = match &config.engine {
            EngineKind::Fixed(fixed) => {
                let engine = FixedEngine::new(fixed.clone(), VOCABULARY, Arc::clone(conditions));
                return Ok((Text::words(VOCABULARY), Engine::Fixed(Arc::new(engine))));
            }
            EngineKind::Scheduler(simulation) => {
                let (engine, inbox) = Engine::queue(&simulation.scheduler);
                self.simulation = Some((simulation.clone(), inbox));
                (
                    simulation.scheduler.clone(),
                    (Text::words(VOCABULARY), engine),
                )
            }
            EngineKind::Transformer(transformer) => {
                let loaded = crate::transformer::load(transformer, config.seed)?;
                let positions = u32::try_from(loaded.model.shape().positions).unwrap_or(u32::MAX);
                config.max_model_len = config.max_model_len.min(positions);
                let limits = transformer.scheduler.clone();
                let (engine, inbox) = Engine::queue(&limits);
                let text = loaded.text.clone();
                let inlet = drive::Inlet {
                    inbox,
                    stopped: self.stopped.clone(),
                };
                let thread = drive::start(loaded, limits.clone(), inlet, Arc::clone(metrics))?;
                self.threads.push(thread);
                (limits, (text, engine))
            }
        };
        // What no amount of waiting could fit is refused at the door.
        let fits = limits.num_blocks.saturating_mul(limits.block_size);
        config.max_model_len = config
            .max_model_len
            .min(u32::try_from(fits).unwrap_or(u32::MAX));
        Ok(text)
    }

    fn serve(&mut self, shared: &Arc<Shared>, listener: Listener) -> Result<(), EngineError> {
        let mut others = Vec::new();
        for _ in 1..shared.config.io_threads {
            let (give, take) = mpsc::channel(1024);
            others.push(give);
            self.thread("serving thread", shared, move |local, tasks| {
                tasks.spawn_local(accept::receive(local, take));
            })?;
        }
        let simulation = self.simulation.take();
        self.thread("serving thread", shared, move |local, tasks| {
            if let Some((simulation, inbox)) = simulation {
                let driver = simulated::Driver::new(simulation, VOCABULARY, &local);
                tasks.spawn_local(driver.run(inbox));
            }
            tasks.spawn_local(accept::accept(local, listener, others));
        })
    }

    /// A thread with a runtime, a pacer and the tasks that `first` starts, until the server stops.
    fn thread(
        &mut self,
        what: &'static str,
        shared: &Arc<Shared>,
        first: impl FnOnce(Rc<Local>, &LocalSet) + Send + 'static,
    ) -> Result<(), EngineError> {
        let failed = move |source| EngineError::Start { what, source };
        // Sockets and timers are looked at after each round of tasks, however many are ready.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(1)
            .build();
        let runtime = runtime.map_err(failed)?;
        let mut stopped = self.stopped.clone();
        let server = Arc::clone(shared);
        // Made here, so that a failure is the caller's to hear of; the timer is moved with its runtime.
        let body = move || {
            let tasks = LocalSet::new();
            let _inside = runtime.enter();
            let Ok(pacer) = Pacer::new() else { return };
            tasks.spawn_local(Rc::clone(&pacer).drive());
            first(Rc::new(Local { server, pacer }), &tasks);
            // Either a stop or the end of the sender ends it.
            tasks
                .block_on(&runtime, stopped.wait_for(|stop| *stop))
                .ok();
        };
        let thread = std::thread::Builder::new()
            .name("engine".into())
            .spawn(body)
            .map_err(failed)?;
        self.threads.push(thread);
        Ok(())
    }
}

// What requests share: one part for the whole server, one for each serving thread.

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
    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequences.fetch_add(1, Relaxed)
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.conditions.connected();
        let mut accepted = self.accepted.lock();
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
        let mut accepted = self.accepted.lock();
        let connection = accepted.get_mut(at)?;
        connection.carried += 1;
        Some(connection.accepted_ns)
    }

    /// Requests that each connection carried, in the order of accepting.
    pub(crate) fn carried(&self) -> Vec<u64> {
        self.accepted.lock().iter().map(|one| one.carried).collect()
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
