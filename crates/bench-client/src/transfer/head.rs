//! The heads of an HTTP/1.1 exchange, by hyper over memory: it writes the request and reads the head of the answer. The body it never sees.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::http::response::Parts;
use hyper::rt::ReadBufCursor;
use tokio::task::unconstrained;

use super::Break;
use crate::request::HttpRequest;

type Answer = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// hyper with one request, until it has the head of the answer.
pub(super) struct Heads {
    connection: http1::Connection<End, Full<Bytes>>,
    // hyper ends with the last of those that could ask.
    _sender: http1::SendRequest<Full<Bytes>>,
    answer: Answer,
    pipe: Rc<Pipe>,
    /// Nothing of the latest line has come.
    line_is_empty: bool,
    /// Nothing has come.
    unseen: bool,
    most: usize,
}

/// What hyper has written, and what it has not read yet.
#[derive(Debug, Default)]
struct Pipe {
    written: RefCell<Vec<u8>>,
    unread: RefCell<Vec<u8>>,
}

impl Heads {
    /// hyper and the bytes that it makes of the request. `most` bytes may a head have.
    pub(super) fn begin(request: HttpRequest<'_>, most: usize) -> Result<(Self, Vec<u8>), Break> {
        /// hyper refuses (by panic) a smaller buffer.
        const SMALLEST: usize = 8192;
        let pipe = Rc::<Pipe>::default();
        let shake = http1::Builder::new()
            .max_buf_size(most.max(SMALLEST))
            .handshake(End(Rc::clone(&pipe)))
            .now_or_never();
        // There is nothing to shake hands with: it never waits.
        let (mut sender, connection) = shake.ok_or(Break::Closed)??;
        let answer = Box::pin(sender.send_request(request.over_http1()));
        let mut heads = Self {
            connection,
            _sender: sender,
            answer,
            pipe,
            line_is_empty: true,
            unseen: true,
            most,
        };
        // nothing can have come yet
        let _pending = heads.poll()?;
        let written = heads.pipe.written.take();
        Ok((heads, written))
    }

    /// Whether the answer's head ends within `bytes`, which come next, and how many of them are taken: none beyond its end. Interim heads (1xx)
    /// are passed over.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Parts>), Break> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let (len, may_end) = self.up_to_empty_line(rest);
            taken += len;
            let mut unread = self.pipe.unread.borrow_mut();
            unread.extend_from_slice(rest.get(..len).unwrap_or_default());
            // The first piece shows what is no head at all; one that comes in many is not looked through at each of them.
            let look = may_end || self.unseen || unread.len() > self.most;
            self.unseen = false;
            drop(unread);
            let head = if look { self.poll()? } else { None };
            if head.is_some() {
                return Ok((taken, head));
            }
        }
        Ok((taken, None))
    }

    /// How far it is to the end of an empty line, if there is one. (That each head ends with one is enough: an empty line that ends none
    /// makes hyper look once too often.)
    fn up_to_empty_line(&mut self, bytes: &[u8]) -> (usize, bool) {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.line_is_empty => return (at + 1, true),
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
        }
        (bytes.len(), false)
    }

    fn poll(&mut self) -> Result<Option<Parts>, Break> {
        let mut cx = Context::from_waker(Waker::noop());
        // Nothing waits here, and nobody would poll again: hyper's channels must not be told that the task has had its share of the thread.
        // What ends it is told to the waiting side as well.
        drop(pin!(unconstrained(&mut self.connection)).poll(&mut cx));
        match pin!(unconstrained(self.answer.as_mut())).poll(&mut cx) {
            Poll::Ready(Ok(response)) => Ok(Some(response.into_parts().0)),
            Poll::Ready(Err(error)) => Err(error.into()),
            Poll::Pending => Ok(None),
        }
    }
}

/// hyper's end of the pipe.
#[derive(Debug)]
struct End(Rc<Pipe>);

impl hyper::rt::Read for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut unread = self.0.unread.borrow_mut();
        if unread.is_empty() {
            // No waker is kept: who brings more polls.
            return Poll::Pending;
        }
        let len = unread.len().min(room.remaining());
        room.put_slice(unread.get(..len).unwrap_or_default());
        unread.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut written = self.0.written.borrow_mut();
        let before = written.len();
        for part in parts {
            written.extend_from_slice(part);
        }
        Poll::Ready(Ok(written.len() - before))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
