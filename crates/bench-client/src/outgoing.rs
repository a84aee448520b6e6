//! A request's body that tells when it has left.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bench_schema::Stamp;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::socket::ReadLog;

/// HTTP/2 takes a body in pieces, so that each waits for room in the peer's window and the last one leaves last.
const HTTP2_PIECE: usize = 16 << 10;

/// A whole request body, handed to hyper.
#[derive(Debug)]
pub(crate) struct Outgoing {
    rest: Bytes,
    piece: usize,
    log: Rc<ReadLog>,
    sent: Rc<Cell<Option<Stamp>>>,
}

impl Outgoing {
    /// `sent` will hold when the last byte was handed to the socket.
    pub(crate) fn new(
        body: Bytes,
        http2: bool,
        log: Rc<ReadLog>,
        sent: Rc<Cell<Option<Stamp>>>,
    ) -> Self {
        Self {
            rest: body,
            piece: if http2 { HTTP2_PIECE } else { usize::MAX },
            log,
            sent,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let n = self.piece.min(self.rest.len());
        let piece = self.rest.split_to(n);
        if self.rest.is_empty() {
            self.log.note_body_taken(&self.sent);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}
