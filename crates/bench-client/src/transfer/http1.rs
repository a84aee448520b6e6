//! HTTP/1.1: connection and body in one future.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use hyper::Request;
use hyper::client::conn::http1;

use super::{Awaiting, Step};
use crate::request::Outgoing;
use crate::socket::{Peek, ReadLog};
use crate::transfer::SingleReadIo;

/// An idle HTTP/1.1 connection.
pub(crate) struct Http1 {
    sender: http1::SendRequest<Outgoing>,
    connection: http1::Connection<SingleReadIo, Outgoing>,
    pub(super) log: Rc<ReadLog>,
    peek: Option<Peek>,
    used: bool,
    quiet: Arc<Quiet>,
    /// A waker of `quiet`, made once; lent out while it polls.
    waker: Waker,
}

impl Http1 {
    pub(crate) async fn open(
        io: SingleReadIo,
        log: Rc<ReadLog>,
        peek: Option<Peek>,
        head_bytes: usize,
    ) -> Result<Self, hyper::Error> {
        /// hyper refuses (by panic) a smaller buffer.
        const SMALLEST: usize = 8192;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(head_bytes.max(SMALLEST))
            .handshake(io)
            .await?;
        let quiet = Arc::<Quiet>::default();
        Ok(Self {
            sender,
            connection,
            log,
            peek,
            used: false,
            waker: Waker::from(Arc::clone(&quiet)),
            quiet,
        })
    }

    pub(crate) fn use_again(&mut self) -> bool {
        std::mem::replace(&mut self.used, true)
    }

    /// Whether a request may be tried on it: neither side has closed, as far as the kernel knows now.
    pub(crate) fn is_open(&mut self) -> bool {
        let closed = self.peek.as_ref().is_some_and(Peek::is_closed_by_peer);
        // hyper takes the first request before the connection was ever polled, and is not "ready" until then.
        !closed && (!self.used || self.is_ready())
    }

    fn is_ready(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(self.sender.poll_ready(&mut cx), Poll::Ready(Ok(())))
    }
}

/// An HTTP/1.1 exchange.
pub(crate) struct Http1Transfer {
    connection: Box<Http1>,
    awaiting: Awaiting,
    connection_over: bool,
}

/// A waker that keeps quiet while its task is being polled.
///
/// Each frame taken from hyper's body channel wakes the connection's side of it, which is the very task that takes it: half of
/// all polls would be for nothing.
#[derive(Debug, Default)]
struct Quiet {
    polling: AtomicBool,
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Quiet {
    fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.polling.store(true, Ordering::Relaxed);
    }

    /// What was asked for up to here is being done.
    fn forget(&self) {
        self.woken.store(false, Ordering::Relaxed);
    }

    /// If the task is going to wait, a wake-up since the last `forget` was meant (hyper or tokio giving way): pass it on.
    fn end(&self, waiting: bool) {
        self.polling.store(false, Ordering::Relaxed);
        if waiting && self.woken.swap(false, Ordering::Relaxed) {
            self.task.wake();
        }
    }
}

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.polling.load(Ordering::Relaxed) {
            self.woken.store(true, Ordering::Relaxed);
        } else {
            self.task.wake();
        }
    }
}

impl Http1Transfer {
    pub(super) fn new(mut connection: Box<Http1>, request: Request<Outgoing>) -> Self {
        let response = Box::pin(connection.sender.send_request(request));
        Self {
            connection,
            awaiting: Awaiting::Head(response),
            connection_over: false,
        }
    }

    /// The next step. Wake-ups that hyper gives itself meanwhile are not passed on: the loop below polls again anyway.
    ///
    /// Take what there is, else let hyper make at most one read, and so on until neither gives anything.
    ///
    /// What is taken here was completed by the latest read: hyper decodes from one read's bytes until they are used up, holds
    /// one frame at most, and reads only where the permit of `SingleReadIo` allows it, which is given when everything has been taken.
    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.connection.quiet.begin(cx.waker());
        let waker = std::mem::replace(&mut self.connection.waker, Waker::noop().clone());
        let step = self.step(&mut Context::from_waker(&waker));
        self.connection.waker = waker;
        self.connection.quiet.end(step.is_pending());
        step
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        /// Reads that give nothing (interim answers, comments between chunks) before others, and the limits on time, have their turn.
        const READS: u32 = 32;
        let mut reads = 0;
        loop {
            if let Some(step) = self.take() {
                return Poll::Ready(step);
            }
            if self.connection_over {
                // hyper tells the waiting side before its connection ends; should it not, nobody is left to wake us.
                self.awaiting = Awaiting::Nothing;
                return Poll::Ready(Step::Lost);
            }
            self.connection.log.permit();
            self.connection.quiet.forget();
            match Pin::new(&mut self.connection.connection).poll(cx) {
                // Its error, if any, has been handed to the waiting side as well.
                Poll::Ready(_) => self.connection_over = true,
                Poll::Pending if self.connection.log.is_permitted() => {
                    return self.take().map_or(Poll::Pending, Poll::Ready);
                }
                Poll::Pending if reads == READS => {
                    cx.waker().wake_by_ref();
                    return self.take().map_or(Poll::Pending, Poll::Ready);
                }
                Poll::Pending => reads += 1,
            }
        }
    }

    /// What hyper has decoded so far. Its wake-ups are not needed: the connection is polled here, and this after it.
    fn take(&mut self) -> Option<Step> {
        let log = &self.connection.log;
        let mut cx = Context::from_waker(Waker::noop());
        match self.awaiting.poll_step(&mut cx, || log.mark()) {
            // A body without a length ends with the connection, whose end has no kernel stamp.
            Poll::Ready(Step::End(at)) => Some(Step::End(log.ended().unwrap_or(at))),
            Poll::Ready(step) => Some(step),
            Poll::Pending => None,
        }
    }

    pub(super) fn into_reusable(mut self) -> Option<Box<Http1>> {
        if !matches!(self.awaiting, Awaiting::Nothing) || self.connection_over {
            return None;
        }
        // Let hyper notice that the exchange is over; without a permit it cannot read into the next one.
        self.connection.log.spend_permit();
        let mut cx = Context::from_waker(Waker::noop());
        let over = Pin::new(&mut self.connection.connection)
            .poll(&mut cx)
            .is_ready();
        // The task of this exchange has nothing more to wait for.
        drop(self.connection.quiet.task.take());
        (!over && self.connection.is_ready()).then_some(self.connection)
    }
}
