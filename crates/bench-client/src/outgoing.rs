//! A request's body that tells when it has left.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bench_schema::Stamp;
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use crate::socket::ReadLog;

/// When the last byte of a request was handed to the socket. hyper takes a body long before that: over HTTP/2 before the head is written.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Bytes of the body that are still in buffers above the connection's.
    left: AtomicUsize,
    at: OnceLock<Stamp>,
}

impl Sent {
    /// Of a request with a body of so many bytes.
    pub(crate) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(len),
            at: OnceLock::new(),
        })
    }

    pub(crate) fn at(&self) -> Option<Stamp> {
        self.at.get().copied()
    }

    /// Nothing is left in the connection's buffers, and the last write was at `last_write`: whether that took the last of this request.
    pub(crate) fn flushed(&self, last_write: Stamp) -> bool {
        let out = self.left.load(Ordering::Relaxed) == 0;
        if out {
            self.at.get_or_init(|| last_write);
        }
        out
    }
}

/// A whole request body, handed to hyper.
#[derive(Debug)]
pub(crate) struct Outgoing {
    rest: Bytes,
    log: Rc<ReadLog>,
    sent: Arc<Sent>,
}

/// Bytes on their way through the connection's buffers.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: Bytes,
    sent: Arc<Sent>,
}

impl Outgoing {
    /// `sent` will hold when the last byte was handed to the socket.
    pub(crate) fn new(body: Bytes, log: Rc<ReadLog>, sent: Arc<Sent>) -> Self {
        Self {
            rest: body,
            log,
            sent,
        }
    }
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
        self.log.note_body_taken(&self.sent);
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
