//! One HTTP exchange on one connection, step by step: head, data with the read that brought it, end.
//!
//! HTTP/1.1: the connection and the body are driven by the one future that wants the answer, so that no wake-up lies between a
//! read and its event. HTTP/2: one task drives the connection for all its streams; it gives way after each read, so that streams
//! normally take what the read brought before the next one, and where they did not the mark says `merged`.

mod http1;
mod http2;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bench_schema::Stamp;
use bytes::Bytes;
use hyper::Request;
use hyper::http::response::Parts;

use crate::ReadMark;
use crate::outgoing::{Outgoing, Sent};
use crate::socket::ReadLog;

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

/// A request under way.
#[derive(Debug)]
pub(crate) enum Transfer {
    Http1(Box<Http1Transfer>),
    Http2(Box<Http2Transfer>),
}

/// A connection that can take a request.
#[derive(Debug)]
pub(crate) enum Connection {
    Http1(Box<Http1>),
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

    /// Whether it has carried a request before; from now on it has.
    pub(crate) fn use_again(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.use_again(),
            Self::Http2(connection) => connection.use_again(),
        }
    }

    /// Begin an exchange with a request whose body was made with the same `sent`.
    pub(crate) fn start(self, request: Request<Outgoing>, sent: Arc<Sent>) -> Transfer {
        match self {
            Self::Http1(connection) => {
                Transfer::Http1(Box::new(Http1Transfer::new(*connection, request, sent)))
            }
            Self::Http2(connection) => {
                Transfer::Http2(Box::new(Http2Transfer::new(connection, request, sent)))
            }
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

    /// When the last byte of the request was handed to the socket.
    pub(crate) fn sent(&self) -> Option<Stamp> {
        match self {
            Self::Http1(transfer) => transfer.sent(),
            Self::Http2(transfer) => transfer.sent(),
        }
    }

    /// After [`Step::End`]: the connection, if it can carry another request. HTTP/2 connections never leave their pool.
    pub(crate) fn into_reusable(self) -> Option<Box<Http1>> {
        match self {
            Self::Http1(transfer) => transfer.into_reusable(),
            Self::Http2(_) => None,
        }
    }
}
