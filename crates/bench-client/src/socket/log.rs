//! What a connection's reads and writes were, for whoever decodes its bytes.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bench_schema::{Nanos, Stamp};

use crate::ReadMark;
use crate::clock::KernelStamps;
use crate::outgoing::Sent;
use crate::sys::Opening;

/// The reads and writes of one connection. Shared by the socket that fills it and the exchange that reads it; one thread only.
#[derive(Debug)]
pub(crate) struct ReadLog {
    stamps: Rc<KernelStamps>,
    mark: Cell<ReadMark>,
    /// A moment at which the receive queue was empty.
    drained: Cell<Stamp>,
    reads: Cell<u64>,
    bytes_read: Cell<u64>,
    ended: Cell<Option<Stamp>>,
    last_write: Cell<Stamp>,
    /// Requests whose bodies hyper has taken and that are not out yet.
    sending: RefCell<Vec<Arc<Sent>>>,
    opening: Cell<Option<Opening>>,
    fault: RefCell<Option<io::Error>>,
    permit: Cell<bool>,
}

/// Counters of a connection at the beginning of an exchange, to tell this exchange's share from the earlier ones'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) reads: u64,
    pub(crate) bytes_read: u64,
}

impl ReadLog {
    pub(crate) fn new(stamps: Rc<KernelStamps>) -> Rc<Self> {
        let now = stamps.clock().now();
        Rc::new(Self {
            stamps,
            mark: Cell::default(),
            drained: Cell::new(now),
            reads: Cell::new(0),
            bytes_read: Cell::new(0),
            ended: Cell::new(None),
            last_write: Cell::new(now),
            sending: RefCell::default(),
            opening: Cell::new(None),
            fault: RefCell::default(),
            permit: Cell::new(true),
        })
    }

    pub(crate) fn now(&self) -> Stamp {
        self.stamps.clock().now()
    }

    /// Begin an exchange at `now`: no byte of its answer can have arrived before.
    pub(crate) fn begin(&self, now: Stamp) -> LogPosition {
        self.drained.set(self.drained.get().max(now));
        self.opening.set(None);
        self.position()
    }

    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            reads: self.reads.get(),
            bytes_read: self.bytes_read.get(),
        }
    }

    /// A read began at `started`, returned at `returned` and left the queue empty if `drained`.
    pub(crate) fn note_read(&self, read: Read) {
        let arrival = read.realtime_ns.map_or(read.returned, |at| {
            let arrival = self.stamps.arrival(at, read.returned);
            self.stamps.note_lag(read.returned - arrival);
            arrival
        });
        let previous_return = self.drained.get().min(arrival);
        let closing = self.stamps.closing().map(|delay| arrival - delay);
        self.mark.set(ReadMark {
            arrival,
            returned: read.returned,
            previous_return,
            last_token_from: closing.map_or(previous_return, |at| at.max(previous_return)),
            merged: false,
        });
        if read.drained {
            self.drained.set(read.started);
        }
        self.reads.set(self.reads.get() + 1);
        let len = u64::try_from(read.len).unwrap_or(u64::MAX);
        self.bytes_read
            .set(self.bytes_read.get().saturating_add(len));
        if self.opening.get().is_none() {
            self.opening.set(Some(read.opening));
        }
    }

    /// The closing events of an answer came this long after its last token, which had been read before them.
    pub(crate) fn note_closing(&self, delay: Nanos) {
        self.stamps.note_closing(delay);
    }

    /// The queue was seen empty by a call that began at `started`.
    pub(crate) fn note_drained(&self, started: Stamp) {
        self.drained.set(self.drained.get().max(started));
    }

    pub(crate) fn note_end(&self, at: Stamp) {
        self.ended.set(Some(at));
    }

    pub(crate) fn note_write(&self, at: Stamp) {
        self.last_write.set(at);
    }

    /// hyper has just taken a request's body, and now moves it through its buffers to the socket.
    pub(crate) fn note_body_taken(&self, sent: &Arc<Sent>) {
        self.sending.borrow_mut().push(Arc::clone(sent));
    }

    /// Nothing is left in the buffers above the socket.
    pub(crate) fn note_flush(&self) {
        let last_write = self.last_write.get();
        // One that was given up is held by nobody else.
        self.sending
            .borrow_mut()
            .retain(|sent| !sent.flushed(last_write) && Arc::strong_count(sent) > 1);
    }

    /// Keep the first error of the connection; hyper wraps what it passes on.
    pub(crate) fn note_fault(&self, error: &io::Error) {
        let mut fault = self.fault.borrow_mut();
        if fault.is_none() {
            *fault = Some(copy_of(error));
        }
    }

    /// The latest read.
    pub(crate) fn mark(&self) -> ReadMark {
        self.mark.get()
    }

    /// A moment at which the receive queue was seen empty, the latest.
    pub(crate) fn drained(&self) -> Stamp {
        self.drained.get()
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// When the peer's end of stream was read.
    pub(crate) fn ended(&self) -> Option<Stamp> {
        self.ended.get()
    }

    /// The first bytes of this exchange's first read, to tell what else may be listening on that port.
    pub(crate) fn opening(&self) -> Option<Opening> {
        self.opening.get()
    }

    pub(crate) fn fault(&self) -> Option<io::Error> {
        self.fault.borrow().as_ref().map(copy_of)
    }

    /// Allow one read. hyper may read ahead within one poll; a permit for each read keeps what it hands out and the latest mark together.
    pub(crate) fn permit(&self) {
        self.permit.set(true);
    }

    pub(crate) fn is_permitted(&self) -> bool {
        self.permit.get()
    }

    pub(crate) fn spend_permit(&self) {
        self.permit.set(false);
    }
}

/// One successful read, as the socket saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) started: Stamp,
    pub(crate) returned: Stamp,
    pub(crate) realtime_ns: Option<i64>,
    pub(crate) drained: bool,
    pub(crate) len: usize,
    pub(crate) opening: Opening,
}

fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
