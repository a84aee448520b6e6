//! HTTP/2: one task drives a connection for all its streams.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bench_schema::Stamp;
use futures_util::task::AtomicWaker;
use hyper::Request;
use hyper::client::conn::http2;
use tokio::task::JoinSet;

use super::{Awaiting, Step};
use crate::ReadMark;
use crate::request::Outgoing;
use crate::socket::ReadLog;
use crate::transfer::SingleReadIo;

/// The tasks of a client's HTTP/2 connections; they end with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalTasks(Rc<RefCell<JoinSet<()>>>);

impl LocalTasks {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(task);
    }
}

/// Runs what hyper wants to be run for one connection. One of these futures drives the HTTP/2 connection itself.
#[derive(Clone, Debug)]
struct ConnectionTasks {
    tasks: LocalTasks,
    log: Rc<ReadLog>,
}

impl<F: Future + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, future: F) {
        let log = Rc::clone(&self.log);
        self.tasks.spawn(async move {
            let mut future = std::pin::pin!(future);
            // What it comes to is told to every stream by hyper.
            drop(std::future::poll_fn(|cx| poll_driver(future.as_mut(), &log, cx)).await);
        });
    }
}

/// A handle on a shared HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Http2 {
    sender: http2::SendRequest<Outgoing>,
    pub(super) log: Rc<ReadLog>,
    used: Rc<Cell<bool>>,
}

impl Http2 {
    /// Shake hands and start the driver. Must run within a `LocalSet` or a local runtime.
    pub(crate) async fn open(
        io: SingleReadIo,
        log: Rc<ReadLog>,
        tasks: &LocalTasks,
    ) -> Result<Self, hyper::Error> {
        let executor = ConnectionTasks {
            tasks: tasks.clone(),
            log: Rc::clone(&log),
        };
        let (sender, connection) = http2::Builder::new(executor.clone())
            .handshake::<SingleReadIo, Outgoing>(io)
            .await?;
        hyper::rt::Executor::execute(&executor, connection);
        Ok(Self {
            sender,
            log,
            used: Rc::default(),
        })
    }

    pub(crate) fn use_again(&self) -> bool {
        self.used.replace(true)
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Poll a connection with one read; after a read give way, so that the streams it woke take their frames before the next one.
fn poll_driver<F: Future>(
    connection: Pin<&mut F>,
    log: &ReadLog,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    log.permit();
    let over = connection.poll(cx);
    if over.is_pending() && !log.is_permitted() {
        cx.waker().wake_by_ref();
    }
    over
}

/// Wakes a stream's task, and keeps which read of the connection was the first that did. Other streams have reads of their own in between.
struct WokenAt {
    reads: Arc<AtomicU64>,
    first: AtomicU64,
    task: AtomicWaker,
}

impl WokenAt {
    const NOT_YET: u64 = u64::MAX;

    fn forget(&self) {
        self.first.store(Self::NOT_YET, Ordering::Relaxed);
    }
}

impl Wake for WokenAt {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = self.reads.load(Ordering::Relaxed);
        let (unset, kept) = (Ordering::Relaxed, Ordering::Relaxed);
        let _earlier = self.first.compare_exchange(Self::NOT_YET, now, unset, kept);
        self.task.wake();
    }
}

/// The connection's reads when this stream last had nothing to take.
#[derive(Clone, Copy)]
struct Seen {
    reads: u64,
    drained: Stamp,
}

/// An HTTP/2 exchange: one stream of a shared connection.
pub(crate) struct Http2Transfer {
    log: Rc<ReadLog>,
    awaiting: Awaiting,
    seen: Seen,
    woken: Arc<WokenAt>,
}

impl Http2Transfer {
    pub(super) fn new(mut connection: Http2, request: Request<Outgoing>) -> Self {
        let response = Box::pin(connection.sender.send_request(request));
        let log = connection.log;
        let seen = Seen {
            reads: log.reads(),
            drained: log.now(),
        };
        let woken = WokenAt {
            reads: log.shared_reads(),
            first: AtomicU64::new(WokenAt::NOT_YET),
            task: AtomicWaker::new(),
        };
        Self {
            log,
            awaiting: Awaiting::Head(response),
            seen,
            woken: Arc::new(woken),
        }
    }

    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.woken.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(&self.woken));
        let (log, seen, woken) = (&self.log, self.seen, &self.woken);
        let step = self
            .awaiting
            .poll_step(&mut Context::from_waker(&waker), || seen.mark(log, woken));
        if step.is_pending() {
            self.seen = Seen {
                reads: log.reads(),
                drained: log.drained(),
            };
            woken.forget();
        }
        step
    }
}

impl Seen {
    /// The latest read, if it is the first that woke the stream, or the only one since it last looked; else all of them together.
    fn mark(self, log: &ReadLog, woken: &WokenAt) -> ReadMark {
        let latest = log.mark();
        let reads = log.reads();
        let alone = woken.first.load(Ordering::Relaxed) == reads;
        if alone || reads <= self.reads.saturating_add(1) {
            return latest;
        }
        ReadMark {
            previous_return: self.drained.min(latest.previous_return),
            merged: true,
            ..latest
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/http2.rs"]
mod tests;
