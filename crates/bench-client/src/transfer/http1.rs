//! HTTP/1.1: the request is written and the answer read and taken apart by one future; hyper makes and parses the heads.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bench_schema::{ConnectionFacts, Stamp};
use hyper::header::CONNECTION;
use hyper::http::response::Parts;
use hyper::{StatusCode, Version};

use super::body::{Body, Part, listed};
use super::head::Heads;
use super::{Break, Step, Stream, Wire};
use crate::ReadMark;
use crate::request::HttpRequest;
use crate::socket::{Peek, ReadLog};

/// Bytes of one read.
const ROOM: usize = 64 << 10;

/// Room for a read, which the connections of an endpoint lend each other: what a read brought is used up before its request waits
/// again.
pub(crate) type Spare = Rc<Cell<Vec<u8>>>;

/// An HTTP/1.1 connection between two exchanges.
pub(crate) struct Http1 {
    wire: Wire,
    peek: Option<Peek>,
    /// What opening it took, until its first request.
    cost: Option<ConnectionFacts>,
    /// Bytes that the head of an answer may have.
    head_bytes: usize,
    spare: Spare,
}

impl Http1 {
    pub(crate) fn new(
        wire: Wire,
        peek: Option<Peek>,
        cost: ConnectionFacts,
        head_bytes: usize,
        spare: Spare,
    ) -> Self {
        Self {
            wire,
            peek,
            cost: Some(cost),
            head_bytes,
            spare,
        }
    }

    pub(crate) fn log(&self) -> &Rc<ReadLog> {
        &self.wire.log
    }

    pub(super) fn take_cost(&mut self) -> Option<ConnectionFacts> {
        self.cost.take()
    }

    pub(super) fn set_cost(&mut self, cost: Option<ConnectionFacts>) {
        self.cost = cost;
    }

    /// Whether a request may be tried on it: as far as the kernel knows now, the server has neither closed it nor said anything
    /// without having been asked (under TLS it may: tickets).
    pub(crate) fn is_open(&self) -> bool {
        let silent = matches!(self.wire.stream, Stream::Plain(_));
        self.peek.as_ref().is_none_or(|peek| peek.is_open(silent))
    }
}

pub(crate) struct Http1Transfer {
    connection: Http1,
    /// The request, and how much of it is written; empty once all of it is.
    request: Vec<u8>,
    written: usize,
    sent: Option<Stamp>,
    /// The latest read, while it is not used up.
    room: Vec<u8>,
    unused: Range<usize>,
    /// Where the latest piece of the body is in it.
    piece: Range<usize>,
    awaiting: Awaiting,
    /// Whether the answer leaves the connection open.
    keeps: bool,
    nothing_came: bool,
}

enum Awaiting {
    Head(Box<Heads>),
    Body(Body),
    /// The request could not be written.
    Broken(Break),
    Nothing,
}

impl Http1Transfer {
    pub(super) fn new(connection: Http1, request: HttpRequest<'_>) -> Self {
        let (awaiting, request) = match Heads::begin(request, connection.head_bytes) {
            Ok((heads, request)) => (Awaiting::Head(Box::new(heads)), request),
            Err(broken) => (Awaiting::Broken(broken), Vec::new()),
        };
        Self {
            connection,
            request,
            written: 0,
            sent: None,
            room: Vec::new(),
            unused: 0..0,
            piece: 0..0,
            awaiting,
            keeps: false,
            nothing_came: true,
        }
    }

    /// Take what there is, else read once, and so on until neither gives anything: what is taken was completed by the latest read.
    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        /// Reads that give nothing (interim answers, the ends of chunks) before others, and the limits on time, have their turn.
        const READS: u32 = 32;
        for _ in 0..READS {
            let step = match self.take() {
                Ok(None) => match ready!(self.poll_more(cx)) {
                    Ok(None) => continue,
                    step => step,
                },
                step => step,
            };
            let step = step.unwrap_or_else(|broken| Some(Step::Broken(broken)));
            if let Some(step) = step {
                return Poll::Ready(step);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// What the bytes at hand say next.
    fn take(&mut self) -> Result<Option<Step>, Break> {
        let mark = self.connection.wire.log.mark();
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        match &mut self.awaiting {
            Awaiting::Head(heads) => {
                let bytes = self.room.get(self.unused.clone()).unwrap_or_default();
                let (used, head) = heads.read(bytes)?;
                self.unused.start += used;
                let Some(head) = head else { return Ok(None) };
                self.keeps = keeps_connection(&head);
                self.awaiting = Awaiting::Body(Body::after(&head).map_err(Break::NotHttp)?);
                Ok(Some(Step::Head(Box::new(head), mark)))
            }
            Awaiting::Broken(broken) => Err(broken.clone()),
            Awaiting::Body(body) => {
                let from = self.unused.start;
                let bytes = self.room.get(self.unused.clone()).unwrap_or_default();
                let (used, part) = body.next(bytes).map_err(Break::Rules)?;
                self.unused.start += used;
                Ok(match part {
                    Part::Nothing => None,
                    Part::Piece(piece) => {
                        self.piece = from + piece.start..from + piece.end;
                        let rest = self.room.get(self.unused.clone()).unwrap_or_default();
                        Some(Step::Data(ReadMark {
                            // the head of a chunk, or the end of the body, may have come later
                            continues: mark.continues || !rest.iter().all(is_line_end),
                            ..mark
                        }))
                    }
                    Part::End => {
                        self.awaiting = Awaiting::Nothing;
                        Some(Step::End(mark.arrival))
                    }
                })
            }
            Awaiting::Nothing => Ok(None),
        }
    }

    /// Write what is left of the request, and read once.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Step>, Break>> {
        // the socket's log has the error
        let closed = |_: io::Error| Break::Closed;
        self.write(cx).map_err(closed)?;
        let mut room = std::mem::take(&mut self.room);
        if room.is_empty() {
            room = self.connection.spare.take();
        }
        if room.is_empty() {
            room = vec![0; ROOM];
        }
        let read = self.connection.wire.poll_read(cx, &mut room);
        if let Poll::Ready(Ok(len @ 1..)) = read {
            (self.room, self.unused) = (room, 0..len);
            self.nothing_came = false;
            return Poll::Ready(Ok(None));
        }
        self.connection.spare.set(room);
        ready!(read).map_err(closed)?;
        if !matches!(self.awaiting, Awaiting::Body(Body::Rest)) {
            return Poll::Ready(Err(Break::Closed));
        }
        // Such a body ends with its connection, whose end has no kernel stamp.
        self.awaiting = Awaiting::Nothing;
        self.keeps = false;
        let log = &self.connection.wire.log;
        let at = log.ended().unwrap_or(log.mark().arrival);
        Poll::Ready(Ok(Some(Step::End(at))))
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Http1 { wire, .. } = &mut self.connection;
        while self.sent.is_none() {
            let rest = self.request.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                if wire.poll_flush(cx)?.is_pending() {
                    return Ok(());
                }
                self.sent = Some(wire.log.last_write());
                self.request = Vec::new();
            } else {
                match wire.poll_write(cx, rest)? {
                    Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(len) => self.written += len,
                    Poll::Pending => return Ok(()),
                }
            }
        }
        Ok(())
    }

    pub(super) fn data(&self) -> &[u8] {
        self.room.get(self.piece.clone()).unwrap_or_default()
    }

    pub(super) fn sent(&self) -> Option<Stamp> {
        self.sent
    }

    /// Where to look for why it broke, and whether that was before a byte of the answer.
    pub(super) fn at_break(&self) -> (&ReadLog, Option<&Peek>, bool) {
        let Http1 { wire, peek, .. } = &self.connection;
        (&wire.log, peek.as_ref(), self.nothing_came)
    }

    /// Not where the server said more than the answer: it would pass for the next one's.
    pub(super) fn into_reusable(self) -> Option<Http1> {
        let over = matches!(self.awaiting, Awaiting::Nothing) && self.sent.is_some();
        let used_up = self.unused.is_empty();
        if !self.room.is_empty() {
            self.connection.spare.set(self.room);
        }
        (over && used_up && self.keeps).then_some(self.connection)
    }
}

fn keeps_connection(head: &Parts) -> bool {
    let says = |word| listed(&head.headers, CONNECTION).any(|said| said.eq_ignore_ascii_case(word));
    // from a 101 on it speaks another protocol
    head.status != StatusCode::SWITCHING_PROTOCOLS
        && !says("close")
        && (head.version == Version::HTTP_11 || says("keep-alive"))
}
