//! A worker's client: its connections, and the way from a request to an [`Exchange`].

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench_schema::{ClockKind, Exchange, FailureKind, GenerationRequest, Outcome, Stage};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::clock::KernelStamps;
use crate::connect::Connector;
use crate::execution::{ConnectionFate, RequestExecution};
use crate::fault::Fault;
use crate::pool::Pool;
use crate::read_batching::GapTracker;
use crate::request::{HttpRequest, PreparedRequest, RequestEncoder, Route};
use crate::timer::Recall;
use crate::transfer::LocalTasks;
use crate::{ClientError, Clock, ConnectionPolicy, Endpoint, ReadBatching, Target};

/// How often a request is tried again because a reused connection turned out to be closed. The second try is on a new
/// connection, which cannot be stale; the third covers a server that closes new ones at once.
pub(crate) const REPLACEMENTS: u32 = 2;

/// How long a connection that is opened beforehand is the only one that begins.
const ALONE: Duration = Duration::from_millis(5);

/// Sends requests and times their answers. One for each worker thread: it is neither `Send` nor `Sync`, and takes no locks.
///
/// It lives in a single-threaded tokio runtime with I/O and time enabled; HTTP/2 also needs a `LocalSet` or a local runtime
/// around it. Any number of [`Client::send`] futures may run at once.
pub struct Client {
    target: Arc<Target>,
    connector: Connector,
    encoder: RequestEncoder,
    /// With the way of requests that are not streamed, and of those that are.
    pools: Vec<(Pool, [Route; 2])>,
    next: Cell<usize>,
    gaps: Option<GapTracker>,
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
        let pool = |endpoint: &Endpoint| {
            let route = |streaming| {
                let path = target.protocol.path(&target.model, streaming);
                Route::new(endpoint, &endpoint.path(&path), target.proxy.as_ref())
            };
            let pool = Pool::new(endpoint.clone(), &target, tasks.clone());
            Ok::<_, ClientError>((pool, [route(false)?, route(true)?]))
        };
        let pools = target.endpoints.iter().map(pool);
        let pools = pools.collect::<Result<_, _>>()?;
        Ok(Self {
            connector: Connector::new(&target, stamps)?,
            encoder: RequestEncoder::new(&target)?,
            pools,
            next: Cell::new(0),
            recall: Rc::default(),
            gaps: None,
            target,
        })
    }

    /// The run's clock.
    pub fn clock(&self) -> &Clock {
        self.connector.clock()
    }

    /// Let the next request go to this endpoint; those after it take turns from there. Clients that share a load begin with different
    /// ones, or each endpoint would have their requests in bursts.
    pub fn begin_with(&self, endpoint: usize) {
        self.next.set(endpoint);
    }

    /// Which instant the arrival stamps are, and why they are not the kernel's where they are not.
    pub fn clock_kind(&self) -> (ClockKind, Option<String>) {
        match self.connector.no_stamps_reason() {
            None => (ClockKind::Kernel, None),
            Some(reason) => (ClockKind::ReadReturn, Some(reason)),
        }
    }

    /// Let the pause of `batching` follow this client's token gaps, and bounds of stamps its sleep. There is no pause without kernel
    /// stamps, where a late read is a late stamp.
    pub fn batch_reads(&mut self, batching: &ReadBatching) {
        self.connector.follow(batching.wakes());
        if batching.may_pause() && self.clock_kind().0 == ClockKind::Kernel {
            self.gaps = Some(GapTracker::new(batching.clone()));
        }
    }

    /// Encode a generation and send it: [`RequestEncoder::prepare`] and [`Client::send_prepared`] in one.
    ///
    /// `request_id` goes out as `x-request-id`.
    pub async fn send(&self, request: &GenerationRequest, request_id: &str) -> Exchange {
        match self.encoder.prepare(request, request_id) {
            Ok(prepared) => self.send_prepared(&prepared).await,
            Err(error) => Exchange::nothing(unusable(&error)),
        }
    }

    /// Ask, and follow the answer to its end: take a connection, write, stamp what arrives, decode it. Never fails: what the server
    /// or the network did wrong is in the outcome.
    ///
    /// `due` and `dispatched` are the caller's to know. The first poll asks for the connection, so that a clock read directly before
    /// this call is the instant from which a client without prepared requests would count.
    pub async fn send_prepared(&self, prepared: &PreparedRequest) -> Exchange {
        let Some((index, pool, routes)) = self.pick() else {
            return Exchange::nothing(unusable(&ClientError::NoEndpoint));
        };
        let [whole, streamed] = routes;
        let route = if prepared.is_streaming() {
            streamed
        } else {
            whole
        };
        let request = HttpRequest { prepared, route };
        let recall = Rc::clone(&self.recall);
        let mut execution =
            RequestExecution::new(&self.target, self.clock(), request, index, recall);
        execution.track_gaps(self.gaps.as_ref());
        self.execute(&mut execution, request, pool).await;
        execution.into_exchange()
    }

    /// End every request that is under way, now: each is cancelled and keeps what it has seen. Those that are sent afterwards are
    /// cancelled at once.
    pub fn recall(&self) {
        self.recall.call();
    }

    async fn execute(
        &self,
        execution: &mut RequestExecution<'_>,
        request: HttpRequest<'_>,
        pool: &Pool,
    ) {
        let mut gone = None;
        for replaced in 0..=REPLACEMENTS {
            let stage = Cell::new(Stage::Connect);
            let checkout = pool.checkout(&self.connector, gone.as_ref(), &stage);
            let Some(connection) = execution.connect(checkout, &stage).await else {
                return;
            };
            let replaceable = replaced < REPLACEMENTS;
            match execution
                .exchange(connection, request, pool, replaceable)
                .await
            {
                ConnectionFate::Reusable(connection) => return pool.give_back(connection),
                ConnectionFate::Over => return,
                ConnectionFate::Stale(log) => gone = Some(log),
            }
        }
    }

    /// Open the connections that the next `requests` will need if they are all sent at once. Idle connections count. Does nothing where each
    /// request opens its own.
    ///
    /// Connections are opened one after the other, so that no handshake waits for another one's computation; a slow one lets the next begin
    /// after 5 ms. The first failure ends it: the request that finds no connection will try, and say why.
    pub async fn open(&self, requests: usize) {
        if self.target.connections == ConnectionPolicy::PerRequest {
            return;
        }
        let limit = self.target.timeouts.connect.to_duration();
        let mut opening = FuturesUnordered::new();
        let ends_it = |opened| !matches!(opened, Ok(Ok(())));
        for (turn, (pool, _)) in self.in_turn().enumerate() {
            // the turns that are this endpoint's
            let own = requests.saturating_sub(turn).div_ceil(self.pools.len());
            for _ in 0..pool.missing(own) {
                let one = pool.open_beforehand(&self.connector);
                opening.push(tokio::time::timeout(limit, one));
                let first = tokio::time::timeout(ALONE, opening.next()).await;
                if let Ok(Some(opened)) = first
                    && ends_it(opened)
                {
                    return;
                }
            }
        }
        while let Some(opened) = opening.next().await {
            if ends_it(opened) {
                return;
            }
        }
    }

    /// The endpoints, from the one whose turn it is.
    fn in_turn(&self) -> impl Iterator<Item = &(Pool, [Route; 2])> {
        let first = self.next.get().checked_rem(self.pools.len());
        let pools = self.pools.iter().cycle().skip(first.unwrap_or(0));
        pools.take(self.pools.len())
    }

    /// The endpoints take turns.
    fn pick(&self) -> Option<(u32, &Pool, &[Route; 2])> {
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        let index = turn.checked_rem(self.pools.len())?;
        let (pool, routes) = self.pools.get(index)?;
        Some((u32::try_from(index).ok()?, pool, routes))
    }
}

/// A request that cannot be asked at all.
fn unusable(error: &ClientError) -> Outcome {
    Fault::new(Stage::Send, FailureKind::Other, error.to_string()).into_outcome()
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
