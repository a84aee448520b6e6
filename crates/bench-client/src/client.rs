//! A worker's client: its connections, and the way from a request to an [`Exchange`].

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bench_schema::{ClockKind, Exchange, FailureKind, GenerationRequest, Stage};

use crate::clock::KernelStamps;
use crate::deadline::Recall;
use crate::dial::Dialer;
use crate::fault::Fault;
use crate::flight::{Flight, Landing};
use crate::late::Rhythm;
use crate::pool::Pool;
use crate::question::{Question, Questions};
use crate::transfer::LocalTasks;
use crate::{ClientError, Clock, ConnectionPolicy, LateReading, Target};

/// How often a request is tried again because a reused connection turned out to be closed. The second try is on a new
/// connection, which cannot be stale; the third covers a server that closes new ones at once.
const REPLACEMENTS: u32 = 2;

/// Sends requests and times their answers. One for each worker thread: it is neither `Send` nor `Sync`, and takes no locks.
///
/// It lives in a single-threaded tokio runtime with I/O and time enabled; HTTP/2 also needs a `LocalSet` or a local runtime
/// around it. Any number of [`Client::send`] futures may run at once.
pub struct Client {
    target: Arc<Target>,
    dialer: Dialer,
    questions: Questions,
    pools: Vec<Pool>,
    next: Cell<usize>,
    rhythm: Option<Rhythm>,
    recall: Rc<Recall>,
}

impl Client {
    /// A client without connections. Reads certificate files; opens nothing.
    ///
    /// # Errors
    /// [`ClientError`] where the target cannot be used: no URL, an unreadable certificate, a header that is not allowed.
    pub fn new(target: Arc<Target>, clock: Clock) -> Result<Self, ClientError> {
        if target.endpoints.is_empty() {
            return Err(ClientError::NoEndpoint);
        }
        let stamps = Rc::new(KernelStamps::new(clock));
        let tasks = LocalTasks::default();
        let pools = target
            .endpoints
            .iter()
            .map(|endpoint| Pool::new(endpoint.clone(), &target, tasks.clone()))
            .collect();
        Ok(Self {
            dialer: Dialer::new(&target, stamps)?,
            questions: Questions::new(&target)?,
            pools,
            next: Cell::new(0),
            recall: Rc::default(),
            rhythm: None,
            target,
        })
    }

    /// What is measured.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The run's clock.
    pub fn clock(&self) -> &Clock {
        self.dialer.clock()
    }

    /// Which instant the arrival stamps are, and why they are not the kernel's where they are not.
    pub fn clock_kind(&self) -> (ClockKind, Option<String>) {
        match self.dialer.no_stamps_reason() {
            None => (ClockKind::Kernel, None),
            Some(reason) => (ClockKind::ReadReturn, Some(reason)),
        }
    }

    /// Let the pause of `late` follow this client's token gaps. Has no effect without kernel stamps, where reading late would
    /// stamp late.
    pub fn read_late(&mut self, late: &LateReading) {
        if self.clock_kind().0 == ClockKind::Kernel {
            self.rhythm = Some(Rhythm::new(late.clone()));
        }
    }

    /// Ask, and follow the answer to its end. Never fails: what the server or the network did wrong is in the outcome.
    ///
    /// `request_id` goes out as `x-request-id`. `due` and `dispatched` are the caller's to know.
    pub async fn send(&self, request: &GenerationRequest, request_id: &str) -> Exchange {
        let Some((index, pool)) = self.pick() else {
            return Exchange::nothing(no_endpoint().into_outcome());
        };
        let question = match self.questions.ask(request, request_id, pool.endpoint()) {
            Ok(question) => question,
            Err(fault) => return Exchange::nothing(fault.into_outcome()),
        };
        let mut flight = Flight::new(
            &self.target,
            self.clock(),
            &question,
            index,
            Rc::clone(&self.recall),
        );
        flight.keep_rhythm(self.rhythm.as_ref());
        self.fly(&mut flight, &question, pool).await;
        flight.into_exchange()
    }

    /// End every request that is under way, now: each is cancelled and keeps what it has seen. Those that are sent afterwards are
    /// cancelled at once.
    pub fn recall(&self) {
        self.recall.call();
    }

    async fn fly(&self, flight: &mut Flight<'_>, question: &Question, pool: &Pool) {
        for replaced in 0..=REPLACEMENTS {
            let stage = Cell::new(Stage::Connect);
            let checkout = pool.checkout(&self.dialer, replaced > 0, &stage);
            let Some(connection) = flight.board(checkout, &stage).await else {
                return;
            };
            let may_replace = replaced < REPLACEMENTS;
            match flight.cross(connection, question, may_replace).await {
                Landing::Reusable(connection) => return pool.give_back(connection),
                Landing::Over => return,
                Landing::Stale => {}
            }
        }
    }

    /// Open the connections that [`ConnectionPolicy::Prewarm`] asks for, on every endpoint. Does nothing for other policies.
    ///
    /// # Errors
    /// [`ClientError::Fetch`] where an endpoint cannot be reached.
    pub async fn prewarm(&self) -> Result<(), ClientError> {
        let ConnectionPolicy::Prewarm(count) = self.target.connections else {
            return Ok(());
        };
        let connect = self.target.timeouts.connect.to_duration();
        for pool in &self.pools {
            for _ in 0..count {
                let stage = Cell::new(Stage::Connect);
                let opened = tokio::time::timeout(connect, pool.prewarm(&self.dialer, &stage));
                let message = match opened.await {
                    Ok(Ok(())) => continue,
                    Ok(Err(fault)) => fault.message,
                    Err(_) => format!("no connection after {connect:?} ({} stage)", stage.get()),
                };
                return Err(ClientError::Fetch {
                    url: pool.endpoint().to_string(),
                    message,
                });
            }
        }
        Ok(())
    }

    /// The endpoints take turns.
    fn pick(&self) -> Option<(u32, &Pool)> {
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        let index = turn.checked_rem(self.pools.len())?;
        Some((u32::try_from(index).ok()?, self.pools.get(index)?))
    }
}

/// `Client::new` refuses a target without endpoints, so that this is never seen.
fn no_endpoint() -> Fault {
    Fault::new(
        Stage::Connect,
        FailureKind::Other,
        ClientError::NoEndpoint.to_string(),
    )
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
