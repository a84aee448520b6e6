//! HTTP/2: one task drives a connection for all its streams.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};

use bench_schema::{ConnectionFacts, Stamp};
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper::rt::ReadBufCursor;
use tokio::task::JoinSet;

use super::{Break, Step, Wire};
use crate::ReadMark;
use crate::request::HttpRequest;
use crate::socket::{LogPosition, Peek, ReadLog};

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
    shared: Rc<Shared>,
}

impl<F: Future + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, future: F) {
        let shared = Rc::clone(&self.shared);
        self.tasks.spawn(async move {
            let mut future = std::pin::pin!(future);
            let mut has_read = false;
            let poll =
                |cx: &mut Context<'_>| poll_driver(future.as_mut(), &shared, &mut has_read, cx);
            // What it comes to is told to every stream by hyper.
            drop(std::future::poll_fn(poll).await);
        });
    }
}

/// What a connection's driver, its byte stream and its exchanges have in common.
#[derive(Debug)]
struct Shared {
    log: Rc<ReadLog>,
    peek: Option<Peek>,
    /// Whether hyper may read: it reads ahead within one poll.
    permit: Cell<bool>,
    /// Requests whose bodies hyper has taken and that are not out yet.
    sending: RefCell<Vec<Arc<Sent>>>,
}

/// A handle on a shared HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Http2 {
    sender: http2::SendRequest<Outgoing>,
    shared: Rc<Shared>,
    /// What opening it took, until its first request.
    cost: Rc<Cell<Option<ConnectionFacts>>>,
}

impl Http2 {
    /// Shake hands and start the driver. Must run within a `LocalSet` or a local runtime.
    pub(crate) async fn open(
        wire: Wire,
        peek: Option<Peek>,
        cost: ConnectionFacts,
        tasks: &LocalTasks,
    ) -> Result<Self, Break> {
        /// Bytes of one read.
        const ROOM: usize = 16 << 10;
        wire.log.share();
        let shared = Rc::new(Shared {
            log: Rc::clone(&wire.log),
            peek,
            permit: Cell::new(true),
            sending: RefCell::default(),
        });
        let executor = ConnectionTasks {
            tasks: tasks.clone(),
            shared: Rc::clone(&shared),
        };
        let io = SingleReadIo {
            wire,
            shared: Rc::clone(&shared),
            room: vec![0; ROOM],
        };
        let (sender, connection) = http2::Builder::new(executor.clone())
            .handshake::<SingleReadIo, Outgoing>(io)
            .await?;
        hyper::rt::Executor::execute(&executor, connection);
        Ok(Self {
            sender,
            shared,
            cost: Rc::new(Cell::new(Some(cost))),
        })
    }

    pub(crate) fn log(&self) -> &Rc<ReadLog> {
        &self.shared.log
    }

    pub(super) fn take_cost(&self) -> Option<ConnectionFacts> {
        self.cost.take()
    }

    pub(super) fn set_cost(&self, cost: Option<ConnectionFacts>) {
        self.cost.set(cost);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Poll a connection with one read; after a read give way, so that the streams it woke take their frames before the next one. Of an answer's
/// head hyper tells another task first, and that one the stream: both have their turn.
fn poll_driver<F: Future>(
    connection: Pin<&mut F>,
    shared: &Shared,
    has_read: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    if std::mem::take(has_read) {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    shared.permit.set(true);
    let over = connection.poll(cx);
    if over.is_pending() && !shared.permit.get() {
        *has_read = true;
        cx.waker().wake_by_ref();
    }
    over
}

/// What hyper sees of the connection: one read for each permit, so that frames and reads stay together.
#[derive(Debug)]
struct SingleReadIo {
    wire: Wire,
    shared: Rc<Shared>,
    room: Vec<u8>,
}

impl hyper::rt::Read for SingleReadIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { wire, shared, room } = &mut *self;
        if !shared.permit.get() {
            // No waker is kept: whoever drives the connection polls again because the permit was spent.
            return Poll::Pending;
        }
        let most = room.len().min(cursor.remaining());
        let room = room.get_mut(..most).unwrap_or_default();
        let read = ready!(wire.poll_read(cx, room))?;
        cursor.put_slice(room.get(..read).unwrap_or_default());
        shared.permit.set(false);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for SingleReadIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wire.poll_write(cx, bytes)
    }

    /// hyper flushes once everything it had buffered was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.wire.poll_flush(cx))?;
        let last_write = self.shared.log.last_write();
        // One that was given up is held by nobody else.
        self.shared
            .sending
            .borrow_mut()
            .retain(|sent| !sent.flushed(last_write) && Arc::strong_count(sent) > 1);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_shutdown(cx)
    }
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

/// The connection's reads when this stream last had nothing to take, and a moment before any byte of it that came since.
#[derive(Clone, Copy)]
struct LastRead {
    reads: u64,
    drained: Stamp,
}

/// What an exchange waits for.
enum Awaiting {
    Head(ResponseFuture),
    Body(Incoming),
    Nothing,
}

type ResponseFuture = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// An HTTP/2 exchange: one stream of a shared connection.
pub(crate) struct Http2Transfer {
    shared: Rc<Shared>,
    sent: Arc<Sent>,
    awaiting: Awaiting,
    data: Bytes,
    seen: LastRead,
    woken: Arc<WokenAt>,
}

impl Http2Transfer {
    pub(super) fn new(mut connection: Http2, request: HttpRequest<'_>) -> Self {
        let shared = connection.shared;
        let sent = Sent::new(request.prepared.body().len());
        let outgoing = Outgoing {
            rest: request.prepared.body().clone(),
            shared: Rc::clone(&shared),
            sent: Arc::clone(&sent),
        };
        let response = connection.sender.send_request(request.over_http2(outgoing));
        let seen = LastRead {
            reads: shared.log.reads(),
            drained: shared.log.now(),
        };
        let woken = WokenAt {
            reads: shared.log.shared_reads(),
            first: AtomicU64::new(WokenAt::NOT_YET),
            task: AtomicWaker::new(),
        };
        Self {
            shared,
            sent,
            awaiting: Awaiting::Head(Box::pin(response)),
            data: Bytes::new(),
            seen,
            woken: Arc::new(woken),
        }
    }

    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.woken.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(&self.woken));
        let step = self.take(&mut Context::from_waker(&waker));
        if step.is_pending() {
            self.seen = LastRead {
                reads: self.shared.log.reads(),
                drained: self.seen.drained.max(self.shared.log.drained()),
            };
            self.woken.forget();
        }
        step
    }

    /// What hyper has decoded next.
    fn take(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let mark = || self.seen.mark(&self.shared.log, &self.woken);
        let last = loop {
            match &mut self.awaiting {
                Awaiting::Head(response) => match ready!(response.as_mut().poll(cx)) {
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        self.awaiting = Awaiting::Body(body);
                        return Poll::Ready(Step::Head(Box::new(head), mark()));
                    }
                    Err(error) => break Step::Broken(error.into()),
                },
                Awaiting::Body(body) => match ready!(Pin::new(body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            self.data = data;
                            return Poll::Ready(Step::Data(mark()));
                        }
                        // Trailers: nothing in them is measured.
                    }
                    Some(Err(error)) => break Step::Broken(error.into()),
                    None => break Step::End(mark().arrival),
                },
                Awaiting::Nothing => return Poll::Pending,
            }
        };
        self.awaiting = Awaiting::Nothing;
        Poll::Ready(last)
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn sent(&self) -> Option<Stamp> {
        self.sent.at()
    }

    /// Where to look for why it broke, and whether that was before a byte came to any exchange since `begin`.
    pub(super) fn at_break(&self, begin: LogPosition) -> (&ReadLog, Option<&Peek>, bool) {
        let Shared { log, peek, .. } = &*self.shared;
        let nothing_came = log.position().bytes_read == begin.bytes_read;
        (log, peek.as_ref(), nothing_came)
    }
}

impl LastRead {
    /// The latest read, if it is the first that woke the stream, or the only one since it last looked; else all of them together. Others' bytes may
    /// have come before this stream looked or was asked for; its own did not.
    fn mark(self, log: &ReadLog, woken: &WokenAt) -> ReadMark {
        let latest = log.mark();
        let reads = log.reads();
        let first = woken.first.load(Ordering::Relaxed) == reads;
        let alone = first || reads <= self.reads.saturating_add(1);
        let seen_empty = if alone {
            latest.previous_return.max(self.drained)
        } else {
            self.drained
        };
        let previous_return = seen_empty.min(latest.arrival);
        ReadMark {
            previous_return,
            arrived_from: latest.arrived_from.max(previous_return),
            merged: latest.merged || !alone,
            ..latest
        }
    }
}

// A request's body that tells when it has left.

/// When the last byte of a request was handed to the socket. hyper takes a body long before that: over HTTP/2 before the head is written.
#[derive(Debug)]
struct Sent {
    /// Bytes of the body that are still in buffers above the connection's.
    left: AtomicUsize,
    at: OnceLock<Stamp>,
}

impl Sent {
    /// Of a request with a body of so many bytes.
    fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(len),
            at: OnceLock::new(),
        })
    }

    fn at(&self) -> Option<Stamp> {
        self.at.get().copied()
    }

    /// Nothing is left in the connection's buffers, and the last write was at `last_write`: whether that took the last of this request.
    fn flushed(&self, last_write: Stamp) -> bool {
        let out = self.left.load(Ordering::Relaxed) == 0;
        if out {
            self.at.get_or_init(|| last_write);
        }
        out
    }
}

/// A whole request body, handed to hyper.
#[derive(Debug)]
struct Outgoing {
    rest: Bytes,
    shared: Rc<Shared>,
    sent: Arc<Sent>,
}

/// Bytes on their way through the connection's buffers.
#[derive(Debug)]
struct Counted {
    bytes: Bytes,
    sent: Arc<Sent>,
}

impl Body for Outgoing {
    type Data = Counted;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Counted>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.shared
            .sending
            .borrow_mut()
            .push(Arc::clone(&self.sent));
        let counted = Counted {
            bytes: std::mem::take(&mut self.rest),
            sent: Arc::clone(&self.sent),
        };
        Poll::Ready(Some(Ok(Frame::data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}

impl Buf for Counted {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.sent.left.store(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/http2.rs"]
mod tests;
