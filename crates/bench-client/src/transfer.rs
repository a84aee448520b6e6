//! One HTTP exchange on one connection, step by step: head, data with the read that brought it, end.
//!
//! HTTP/1.1: the connection and the body are driven by the one future that wants the answer, so that no wake-up lies between a
//! read and its event. HTTP/2: one task drives the connection for all its streams; it gives way after each read, so that streams
//! normally take what the read brought before the next one, and where they did not the mark says `merged`.

mod http1;
mod http2;

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bench_schema::Stamp;
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::http::response::Parts;
use hyper::rt::ReadBufCursor;
use hyper::{Request, Response};
use tokio::io::AsyncWrite;
use tokio_rustls::client::TlsStream;

use crate::ReadMark;
use crate::request::{Outgoing, Sent};
use crate::socket::{ReadLog, Socket};
use crate::sys::poll_tokio_read;

pub(crate) use http1::{Http1, Http1Transfer};
pub(crate) use http2::{Http2, Http2Transfer, LocalTasks};

/// What happened next in an exchange.
#[derive(Debug)]
pub(crate) enum Step {
    /// The response's head was complete.
    Head(Box<Parts>, ReadMark),
    /// Bytes of the body. Drop them before the next step: the connection reuses their memory.
    Data(Bytes, ReadMark),
    /// The body ended properly.
    End(Stamp),
    /// The exchange broke.
    Broken(hyper::Error),
    /// The connection ended without a word on this exchange.
    Lost,
}

type ResponseFuture = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// What an exchange waits for.
enum Awaiting {
    Head(ResponseFuture),
    Body(Incoming),
    Nothing,
}

impl Awaiting {
    /// What hyper has decoded next; `mark` is of the read that completed it.
    fn poll_step(&mut self, cx: &mut Context<'_>, mark: impl Fn() -> ReadMark) -> Poll<Step> {
        let last = loop {
            match self {
                Self::Head(response) => match ready!(response.as_mut().poll(cx)) {
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        *self = Self::Body(body);
                        return Poll::Ready(Step::Head(Box::new(head), mark()));
                    }
                    Err(error) => break Step::Broken(error),
                },
                Self::Body(body) => match ready!(Pin::new(body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Poll::Ready(Step::Data(data, mark()));
                        }
                        // Trailers: nothing in them is measured.
                    }
                    Some(Err(error)) => break Step::Broken(error),
                    None => break Step::End(mark().arrival),
                },
                Self::Nothing => return Poll::Pending,
            }
        };
        *self = Self::Nothing;
        Poll::Ready(last)
    }
}

/// A request under way.
pub(crate) struct Transfer {
    sent: Arc<Sent>,
    exchange: HttpExchange,
}

enum HttpExchange {
    Http1(Http1Transfer),
    Http2(Http2Transfer),
}

/// A connection that can take a request.
pub(crate) enum Connection {
    Http1(Box<Http1>),
    Http2(Http2),
}

impl Connection {
    pub(crate) fn log(&self) -> &Rc<ReadLog> {
        match self {
            Self::Http1(connection) => &connection.log,
            Self::Http2(connection) => &connection.log,
        }
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Whether it has carried a request before; from now on it has.
    pub(crate) fn use_again(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.use_again(),
            Self::Http2(connection) => connection.use_again(),
        }
    }

    /// Begin an exchange with a request whose body was made with the same `sent`.
    pub(crate) fn start(self, request: Request<Outgoing>, sent: Arc<Sent>) -> Transfer {
        let exchange = match self {
            Self::Http1(connection) => HttpExchange::Http1(Http1Transfer::new(connection, request)),
            Self::Http2(connection) => HttpExchange::Http2(Http2Transfer::new(connection, request)),
        };
        Transfer { sent, exchange }
    }
}

impl Transfer {
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        match &mut self.exchange {
            HttpExchange::Http1(transfer) => transfer.poll_step(cx),
            HttpExchange::Http2(transfer) => transfer.poll_step(cx),
        }
    }

    /// When the last byte of the request was handed to the socket.
    pub(crate) fn sent(&self) -> Option<Stamp> {
        self.sent.at()
    }

    /// After [`Step::End`]: the connection, if it can carry another request. HTTP/2 connections never leave their pool.
    pub(crate) fn into_reusable(self) -> Option<Box<Http1>> {
        match self.exchange {
            HttpExchange::Http1(transfer) => transfer.into_reusable(),
            HttpExchange::Http2(_) => None,
        }
    }
}

// What hyper sees of a connection: one read for each permit, so that frames and reads stay together.
//
// hyper may read ahead: after a response head it looks for body bytes at once. [`SingleReadIo`] gives it one read of plaintext for
// each permit and is "pending" afterwards. The driver takes everything that a poll of the connection has produced before it
// gives the next permit, so that whatever it takes was completed by the latest read. Under TLS that is the latest read of the
// *socket*, which completed the record: rustls does not read on while it holds plaintext.

/// A connection's byte stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    #[cfg(test)]
    Scripted(crate::scripted::ScriptedStream),
}

/// The byte stream with hyper's traits.
#[derive(Debug)]
pub(crate) struct SingleReadIo {
    stream: Stream,
    log: Rc<ReadLog>,
}

impl SingleReadIo {
    pub(crate) fn new(stream: Stream, log: Rc<ReadLog>) -> Self {
        Self { stream, log }
    }
}

impl hyper::rt::Read for SingleReadIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.log.is_permitted() {
            // No waker is kept: whoever drives the connection polls again because the permit was spent.
            return Poll::Pending;
        }
        ready!(match &mut self.stream {
            Stream::Plain(socket) => socket.poll_recv_cursor(cx, &mut cursor),
            Stream::Tls(tls) => poll_tokio_read(Pin::new(tls), cx, &mut cursor),
            #[cfg(test)]
            Stream::Scripted(script) => script.poll_recv(cx, &mut cursor),
        })
        .inspect_err(|error| self.log.note_fault(error))?;
        self.log.spend_permit();
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for SingleReadIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.poll_send(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            #[cfg(test)]
            Stream::Scripted(script) => script.poll_send(bytes),
        }
    }

    /// hyper flushes once everything it had buffered was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Tls(tls) = &mut self.stream {
            ready!(Pin::new(tls).poll_flush(cx))?;
        }
        self.log.note_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(socket) => Poll::Ready(socket.shut_down()),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            #[cfg(test)]
            Stream::Scripted(_) => Poll::Ready(Ok(())),
        }
    }
}
