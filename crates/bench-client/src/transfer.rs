//! One HTTP exchange on one connection, step by step: head, data with the read that brought it, end.
//!
//! HTTP/1.1: the one future that wants the answer writes the request, reads and takes the answer apart, so that no wake-up lies
//! between a read and its event, and a waiting connection holds no buffer; hyper makes the request and parses the answer's head. HTTP/2 is hyper's: one task drives the connection for
//! all its streams; it gives way after each read, so that streams normally take what the read brought before the next one, and
//! where they did not the mark says `merged`.

mod body;
mod head;
mod http1;
mod http2;

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bench_schema::{ConnectionFacts, Nanos, Stamp};
use hyper::http::response::Parts;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio_rustls::client::TlsStream;

use crate::ReadMark;
use crate::request::HttpRequest;
use crate::socket::{LogPosition, Peek, ReadLog, Socket};

pub(crate) use http1::{Http1, Http1Transfer, Spare};
pub(crate) use http2::{Http2, Http2Transfer, LocalTasks};

/// What happened next in an exchange.
#[derive(Debug)]
pub(crate) enum Step {
    /// The response's head was complete.
    Head(Box<Parts>, ReadMark),
    /// More of the body came: [`Transfer::data`].
    Data(ReadMark),
    /// The body ended properly.
    End(Stamp),
    Broken(Break),
}

/// What broke an exchange, beside the errors of the socket, which its log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The connection ended before the answer did.
    Closed,
    /// The server ends the connection, and said that it did not take this request up.
    NotTaken,
    /// The head is larger than the limit.
    TooLarge,
    /// What came does not begin as an answer does, for this reason.
    NotHttp(String),
    /// What came after an answer's head is against the rules, for this reason.
    Rules(String),
}

impl From<hyper::Error> for Break {
    fn from(error: hyper::Error) -> Self {
        if is_not_taken(&error) {
            return Self::NotTaken;
        }
        if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            return Self::Closed;
        }
        if error.is_parse_too_large() {
            return Self::TooLarge;
        }
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let why = cause.to_string();
            if !text.contains(&why) {
                text = format!("{text}: {why}");
            }
            source = cause.source();
        }
        if error.is_parse() {
            Self::NotHttp(text)
        } else {
            Self::Rules(text)
        }
    }
}

/// Whether a `GOAWAY` without an error came, which names the last stream that the server took up: those up to it go on, and the others end so.
fn is_not_taken(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let error = source.and_then(|source| source.downcast_ref::<h2::Error>());
    error.is_some_and(|error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    })
}

/// A request under way.
pub(crate) enum Transfer {
    Http1(Http1Transfer),
    Http2(Http2Transfer),
}

/// A connection that can take a request.
pub(crate) enum Connection {
    Http1(Http1),
    Http2(Http2),
}

impl Connection {
    pub(crate) fn log(&self) -> &Rc<ReadLog> {
        match self {
            Self::Http1(connection) => connection.log(),
            Self::Http2(connection) => connection.log(),
        }
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// What opening it took, for its first request; the others find nothing.
    pub(crate) fn take_cost(&mut self) -> Option<ConnectionFacts> {
        match self {
            Self::Http1(connection) => connection.take_cost(),
            Self::Http2(connection) => connection.take_cost(),
        }
    }

    /// It was opened before a request needed it.
    pub(crate) fn was_opened_beforehand(&mut self) {
        let cost = self.take_cost().map(|cost| ConnectionFacts {
            beforehand: true,
            ..cost
        });
        match self {
            Self::Http1(connection) => connection.set_cost(cost),
            Self::Http2(connection) => connection.set_cost(cost),
        }
    }

    /// Begin an exchange.
    pub(crate) fn start(self, request: HttpRequest<'_>) -> Transfer {
        match self {
            Self::Http1(connection) => Transfer::Http1(Http1Transfer::new(connection, request)),
            Self::Http2(connection) => Transfer::Http2(Http2Transfer::new(connection, request)),
        }
    }
}

impl Transfer {
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        match self {
            Self::Http1(transfer) => transfer.poll_step(cx),
            Self::Http2(transfer) => transfer.poll_step(cx),
        }
    }

    /// The bytes of the latest [`Step::Data`].
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Http1(transfer) => transfer.data(),
            Self::Http2(transfer) => transfer.data(),
        }
    }

    /// When the last byte of the request was handed to the socket.
    pub(crate) fn sent(&self) -> Option<Stamp> {
        match self {
            Self::Http1(transfer) => transfer.sent(),
            Self::Http2(transfer) => transfer.sent(),
        }
    }

    /// After a break at `now`: whether the server closed the connection without having read the request, which was begun at `begin`. What a server that
    /// `keeps` connections may have worked on is its failure, however soon it hangs up: to ask again in silence would hide it. One that was never seen to
    /// answer twice on a connection may close them after each answer, in order, also while the next request is on its way.
    pub(crate) async fn was_closed_before(
        &self,
        begin: LogPosition,
        now: Stamp,
        keeps: bool,
    ) -> bool {
        /// Who closes with something unread resets the connection as soon as it runs again.
        const RESETS: Duration = Duration::from_millis(5);
        let (log, peek, nothing_came) = match self {
            Self::Http1(transfer) => transfer.at_break(),
            Self::Http2(transfer) => transfer.at_break(begin),
        };
        if !nothing_came {
            return false;
        }
        let state = || peek.and_then(Peek::kernel);
        let has_ended = log.ended().is_some();
        let untaken = || has_ended && state().is_some_and(|k| k.threw_away(begin.written));
        let round_trip = state().and_then(|kernel| kernel.round_trip);
        let took = now - self.sent().unwrap_or(begin.at);
        let rested = begin.at - log.mark().returned;
        let may_be_habit = if has_ended { !keeps } else { rested >= RESTED };
        if untaken() || may_be_habit && may_be_on_its_way(took, round_trip) {
            return true;
        }
        if has_ended {
            tokio::time::sleep(RESETS).await;
        }
        untaken()
    }

    /// After [`Step::End`]: the connection, if it can carry another request. HTTP/2 connections never leave their pool.
    pub(crate) fn into_reusable(self) -> Option<Http1> {
        match self {
            Self::Http1(transfer) => transfer.into_reusable(),
            Self::Http2(_) => None,
        }
    }
}

/// No server gives up a connection that it keeps sooner. A reset alone is also what comes of that when the request arrives at the same moment.
const RESTED: Nanos = Nanos::from_secs(1);

/// Whether a connection that ended `took` after a request was sent on it may have been closed before: what ends later than that had been taken.
fn may_be_on_its_way(took: Nanos, round_trip: Option<Nanos>) -> bool {
    /// For those who close, who may not run at once. The way of the close is one round trip; as much again, since it varies.
    const GRACE: Nanos = Nanos::from_millis(5);
    let round_trip = round_trip.unwrap_or_default();
    took <= round_trip + round_trip + GRACE
}

/// What the bytes travel through.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    #[cfg(test)]
    Scripted(Box<crate::scripted::ScriptedStream>),
}

/// A connection's byte stream.
///
/// Whoever reads uses up what a read brought before the next one, so that all of it was completed by the latest read. Under TLS
/// that is the latest read of the *socket*, which completed the record: rustls does not read on while it holds plaintext.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    log: Rc<ReadLog>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, log: Rc<ReadLog>) -> Self {
        Self { stream, log }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = match &mut self.stream {
            Stream::Plain(socket) => ready!(socket.poll_recv(cx, room)),
            Stream::Tls(tls) => {
                // Its `poll_read` would read on from the socket while there is room.
                let mut tls = Pin::new(tls);
                let plain = ready!(tls.as_mut().poll_fill_buf(cx));
                let read = plain.and_then(|mut plain| io::Read::read(&mut plain, room));
                if let Ok(len) = read {
                    tls.as_mut().consume(len);
                    self.log.note_kept(!tls.get_ref().1.wants_read());
                }
                read
            }
            #[cfg(test)]
            Stream::Scripted(script) => ready!(script.poll_recv(cx, room)),
        };
        Poll::Ready(read.inspect_err(|error| self.log.note_fault(error)))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.poll_send(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            #[cfg(test)]
            Stream::Scripted(script) => script.poll_send(bytes),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Tls(tls) = &mut self.stream {
            return Pin::new(tls).poll_flush(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(socket) => Poll::Ready(socket.shut_down()),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            #[cfg(test)]
            Stream::Scripted(_) => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
#[path = "../tests/unit/transfer.rs"]
mod tests;
