//! The connections of one endpoint.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bench_schema::{ConnectionFacts, Stage, Stamp};

use crate::connect::Connector;
use crate::fault::Fault;
use crate::socket::ReadLog;
use crate::target::ConnectionPolicy;
use crate::transfer::{Connection, Http1, Http2, LocalTasks, Spare};
use crate::{Endpoint, HttpVersion, Target};

/// An endpoint with its idle connections. One for each worker thread and endpoint, so that nothing is shared.
pub(crate) struct Pool {
    endpoint: Endpoint,
    policy: ConnectionPolicy,
    head_bytes: usize,
    idle: RefCell<Vec<Http1>>,
    spare: Spare,
    /// The connection that HTTP/2 requests share. The lock is held while it is opened, so that it is opened once.
    shared: tokio::sync::Mutex<Option<Http2>>,
    /// Whether requests share one connection.
    shares: bool,
    /// Whether the server answered on a connection that had carried another request.
    keeps: Cell<bool>,
    tasks: LocalTasks,
}

/// A connection for one request, and what it took to get it.
pub(crate) struct Checkout {
    pub(crate) connection: Connection,
    pub(crate) facts: ConnectionFacts,
    pub(crate) ready: Stamp,
}

impl Pool {
    pub(crate) fn new(endpoint: Endpoint, target: &Target, tasks: LocalTasks) -> Self {
        Self {
            endpoint,
            policy: target.connections,
            head_bytes: target.limits.head_bytes,
            idle: RefCell::default(),
            spare: Spare::default(),
            shared: tokio::sync::Mutex::default(),
            shares: target.http == HttpVersion::Http2,
            keeps: Cell::new(false),
            tasks,
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// A connection: an idle one, else a new one; a new one too instead of one that is `gone`, by its log. Idle ones that the server has closed are
    /// counted as replaced.
    pub(crate) async fn checkout(
        &self,
        connector: &Connector,
        gone: Option<&Rc<ReadLog>>,
        stage: &Cell<Stage>,
    ) -> Result<Checkout, Fault> {
        let mut replaced = 0;
        let reuse = gone.is_none() && self.policy != ConnectionPolicy::PerRequest;
        if reuse {
            while let Some(connection) = self.take_idle() {
                if connection.is_open() {
                    return Ok(checked_out(
                        Connection::Http1(connection),
                        replaced,
                        connector,
                    ));
                }
                replaced += 1;
            }
        }
        // Boxed: a request that has its connection does not carry the room of a name look-up and a TLS handshake to its end.
        let (connection, closed) = if self.shares && self.policy != ConnectionPolicy::PerRequest {
            Box::pin(self.share(connector, gone, stage)).await?
        } else {
            (Box::pin(self.open(connector, stage)).await?, 0)
        };
        Ok(checked_out(connection, replaced + closed, connector))
    }

    /// Keep a connection that has finished its exchange.
    pub(crate) fn give_back(&self, connection: Http1) {
        if self.policy != ConnectionPolicy::PerRequest {
            self.idle.borrow_mut().push(connection);
        }
    }

    /// Whether the server is known to keep connections.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.get()
    }

    /// A head came on a connection that may have been used before.
    pub(crate) fn note_answer(&self, reused: bool) {
        self.keeps.set(self.keeps.get() || reused);
    }

    /// How many connections are missing so that as many requests at once have one. Idle ones that the server has closed are dropped.
    pub(crate) fn missing(&self, requests: usize) -> usize {
        if self.shares {
            return requests.min(1);
        }
        let mut idle = self.idle.borrow_mut();
        idle.retain(Http1::is_open);
        requests.saturating_sub(idle.len())
    }

    /// Open a connection before a request needs it; over HTTP/2 there is only one.
    pub(crate) async fn open_beforehand(&self, connector: &Connector) -> Result<(), Fault> {
        let stage = Cell::new(Stage::Connect);
        let mut opened = if self.shares {
            self.share(connector, None, &stage).await?.0
        } else {
            self.open(connector, &stage).await?
        };
        opened.was_opened_beforehand();
        // what is shared is kept already
        if let Connection::Http1(connection) = opened {
            self.idle.borrow_mut().push(connection);
        }
        Ok(())
    }

    /// The newest idle connection: the older ones are left to be closed by the server when fewer are needed.
    fn take_idle(&self) -> Option<Http1> {
        self.idle.borrow_mut().pop()
    }

    /// The connection that requests share, and how many were found closed before.
    async fn share(
        &self,
        connector: &Connector,
        gone: Option<&Rc<ReadLog>>,
        stage: &Cell<Stage>,
    ) -> Result<(Connection, u32), Fault> {
        let mut shared = self.shared.lock().await;
        let mut replaced = 0;
        if let Some(connection) = shared.as_ref() {
            let is_stale = gone.is_some_and(|log| Rc::ptr_eq(log, connection.log()));
            if connection.is_open() && !is_stale {
                return Ok((Connection::Http2(connection.clone()), 0));
            }
            // who knows it to be gone has counted that
            replaced = u32::from(!is_stale);
        }
        let opened = self.open(connector, stage).await?;
        if let Connection::Http2(connection) = &opened {
            *shared = Some(connection.clone());
        }
        Ok((opened, replaced))
    }

    async fn open(&self, connector: &Connector, stage: &Cell<Stage>) -> Result<Connection, Fault> {
        let raw = connector.connect(&self.endpoint, stage).await?;
        Ok(if raw.http2 {
            let log = Rc::clone(&raw.log);
            let opened = Http2::open(raw.wire, Some(raw.peek), raw.cost, &self.tasks).await;
            let peer = self.endpoint.to_string();
            let broken = |broken| Fault::broken(Stage::Connect, broken, &log, &peer);
            Connection::Http2(opened.map_err(broken)?)
        } else {
            let spare = Spare::clone(&self.spare);
            let opened = Http1::new(raw.wire, Some(raw.peek), raw.cost, self.head_bytes, spare);
            Connection::Http1(opened)
        })
    }
}

/// A connection for a request. The first one on it has what opening it took.
fn checked_out(mut connection: Connection, replaced: u32, connector: &Connector) -> Checkout {
    let cost = connection.take_cost();
    Checkout {
        facts: ConnectionFacts {
            reused: cost.is_none(),
            replaced,
            ..cost.unwrap_or_default()
        },
        connection,
        ready: connector.clock().now(),
    }
}
