//! What a connection's reads and writes were, for whoever decodes its bytes.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_schema::{Nanos, Stamp};

use super::look::{Piece, Records};
use crate::clock::KernelStamps;
use crate::sys::{Arrived, Behind, Opening};

/// The kernel delays an acknowledgement that nothing is sent with by no less: 40 ms, on a clock of at most 10.
const DELAY: Nanos = Nanos::from_millis(30);

/// The reads and writes of one connection. Shared by the socket that fills it and the exchange that reads it; one thread only.
#[derive(Debug)]
pub(crate) struct ReadLog {
    pub(super) stamps: Rc<KernelStamps>,
    mark: Cell<ReadMark>,
    pub(super) is_shared: Cell<bool>,
    /// Where its TLS records end, if it has any.
    pub(super) records: Cell<Option<Records>>,
    /// Whether TLS has more of the latest read than it has given so far.
    is_kept: Cell<bool>,
    /// A moment at which the receive queue was empty.
    pub(super) drained: Cell<Stamp>,
    reads: Arc<AtomicU64>,
    bytes_read: Cell<u64>,
    /// What had arrived when that was last looked at.
    arrived: Cell<Arrived>,
    /// Content events of the latest read.
    events: Cell<usize>,
    ended: Cell<Option<Stamp>>,
    last_write: Cell<Stamp>,
    bytes_written: Cell<u64>,
    opening: Cell<Option<Opening>>,
    /// Bytes of the latest read that took everything there was.
    usual_len: Cell<usize>,
    /// Between the arrivals of two reads of an exchange, a moving mean over about eight.
    usual_gap: Cell<Nanos>,
    /// Reads before this exchange.
    begun_at: Cell<u64>,
    /// Pieces in a row whose stamps said nothing.
    in_vain: Cell<u32>,
    /// Whether so many events come that acknowledgements are to be saved.
    is_busy: Cell<bool>,
    /// When the kernel was asked to send fewer, unless it has waited in vain since for something to send them with.
    fewer_since: Cell<Option<Stamp>>,
    /// Whether the server waits for them, once that is known.
    awaits_them: Cell<Option<bool>>,
    fault: RefCell<Option<io::Error>>,
}

/// Counters of a connection at the beginning of an exchange, to tell this exchange's share from the earlier ones'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) at: Stamp,
    pub(crate) reads: u64,
    pub(crate) bytes_read: u64,
    pub(crate) written: u64,
}

impl ReadLog {
    pub(crate) fn new(stamps: Rc<KernelStamps>) -> Rc<Self> {
        let now = stamps.clock().now();
        Rc::new(Self {
            stamps,
            mark: Cell::default(),
            is_shared: Cell::new(false),
            records: Cell::new(None),
            is_kept: Cell::new(false),
            drained: Cell::new(now),
            reads: Arc::default(),
            bytes_read: Cell::new(0),
            arrived: Cell::default(),
            events: Cell::new(0),
            ended: Cell::new(None),
            last_write: Cell::new(now),
            bytes_written: Cell::new(0),
            opening: Cell::new(None),
            usual_len: Cell::new(0),
            usual_gap: Cell::new(Nanos::ZERO),
            begun_at: Cell::new(0),
            in_vain: Cell::new(0),
            is_busy: Cell::new(false),
            fewer_since: Cell::new(None),
            awaits_them: Cell::new(None),
            fault: RefCell::default(),
        })
    }

    pub(crate) fn now(&self) -> Stamp {
        self.stamps.clock().now()
    }

    /// Several exchanges share the connection.
    pub(crate) fn share(&self) {
        self.is_shared.set(true);
    }

    /// These bytes came next: whether they end where a TLS record does, or there are none.
    pub(super) fn follow(&self, bytes: &[u8]) -> bool {
        let Some(mut records) = self.records.get() else {
            return true;
        };
        records.follow(bytes);
        self.records.set(Some(records));
        records.rest() == 0
    }

    /// Bytes to the end of the TLS record (or of its head) that a read has begun; 0 where it has begun none.
    pub(super) fn rest_of_record(&self) -> usize {
        self.records.get().map_or(0, Records::rest)
    }

    /// Whether TLS has more of the latest read than it has given.
    pub(crate) fn note_kept(&self, is_kept: bool) {
        self.is_kept.set(is_kept && !self.is_shared.get());
    }

    /// Begin an exchange at `now`: no byte of its answer can have arrived before. On a shared connection bytes of others' may.
    pub(crate) fn begin(&self, now: Stamp) -> LogPosition {
        if !self.is_shared.get() {
            self.drained.set(self.drained.get().max(now));
        }
        self.opening.set(None);
        self.in_vain.set(0);
        self.fewer_since.set(None);
        self.begun_at.set(self.reads());
        self.position()
    }

    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            at: self.now(),
            reads: self.reads(),
            bytes_read: self.bytes_read.get(),
            written: self.bytes_written.get(),
        }
    }

    /// A read began at `started`, returned at `returned` and left the queue empty if `drained`.
    pub(crate) fn note_read(&self, read: Read) {
        let stamped = read.realtime_ns.is_some();
        let arrival = read
            .realtime_ns
            .map_or(read.returned, |at| self.stamps.arrival(at, read.returned));
        let lag = stamped.then(|| read.returned - arrival);
        let (nothing_before, is_known) = if read.one_segment && stamped {
            // a segment arrives as a whole
            (arrival, true)
        } else {
            self.nothing_before(lag, read.returned)
        };
        let previous_return = nothing_before.min(arrival);
        match lag {
            Some(lag) => self.stamps.note_lag(arrival, lag),
            None => self.stamps.note_unstamped(),
        }
        let gap = arrival - self.mark.get().arrival;
        if self.opening.get().is_some() {
            let usual = self.usual_gap.get();
            let step = Nanos::new((gap - usual).get() / 8);
            self.usual_gap.set(usual + step);
        }
        self.note_wait(self.mark.get().arrival, arrival);
        if self.events.replace(0) < 2 {
            self.stamps.note_single();
        }
        let closing = self.stamps.closing().map(|delay| arrival - delay);
        let shared = self.is_shared.get();
        let ends = read.ends_a_segment();
        // Of several segments the stamp is the last one's, and of whose answer that is nobody knows.
        let own = read.one_segment || (ends && (read.piece.is_some() || !shared));
        self.is_kept.set(false);
        self.mark.set(ReadMark {
            arrival,
            returned: read.returned,
            stamped,
            previous_return,
            // Nobody knows by how much the read was late where nobody knows when the thread was woken.
            arrived_from: if is_known && !stamped {
                previous_return
            } else {
                arrival
            },
            last_token_from: closing.map_or(previous_return, |at| at.max(previous_return)),
            merged: shared && stamped && !own,
            continues: !shared && stamped && !(own && (read.whole || read.one_segment)),
        });
        self.note_queue(&read, ends, arrival);
        self.reads.fetch_add(1, Ordering::Relaxed);
        let len = u64::try_from(read.len).unwrap_or(u64::MAX);
        self.bytes_read
            .set(self.bytes_read.get().saturating_add(len));
        if self.opening.get().is_none() {
            self.opening.set(Some(read.opening));
        }
    }

    /// A moment before which no byte of a read had arrived, and whether the scheduler said when the thread was woken for it.
    fn nothing_before(&self, lag: Option<Nanos>, returned: Stamp) -> (Stamp, bool) {
        let scheduled = self.stamps.scheduled(returned);
        let woken = self.stamps.nothing_before(lag, scheduled);
        let seen_empty = self.drained.get();
        let latest = woken.map_or(seen_empty, |woken| woken.max(seen_empty));
        (latest, scheduled.is_some())
    }

    /// What a read says of the queue behind it.
    fn note_queue(&self, read: &Read, ends_a_segment: bool, arrival: Stamp) {
        if read.drained {
            self.drained.set(read.started);
            self.usual_len.set(read.len);
        } else if ends_a_segment {
            // What is left came with later segments.
            self.note_drained(arrival);
        }
        if read.piece.is_some() {
            let in_vain = self.in_vain.get() + 1;
            self.in_vain.set(if ends_a_segment { 0 } else { in_vain });
        }
    }

    /// Whether a read that begins `now` may find more than one event: the latest arrived longer ago than they usually are apart, or the
    /// answer is short so far, so that its only tokens may wait with what closes it.
    pub(super) fn may_hold_several(&self, now: Stamp) -> bool {
        /// Pieces in vain after which the rest of the exchange is read as it comes.
        const PATIENCE: u32 = 8;
        /// Reads of an exchange that are all looked at.
        const SHORT: u64 = 8;
        let mark = self.mark.get();
        let stamped = mark.arrival < mark.returned;
        let usual = self.usual_gap.get();
        let late = now - mark.arrival > usual + Nanos::new(usual.get() / 4);
        let short = self.reads() - self.begun_at.get() < SHORT;
        (late || short) && stamped && self.in_vain.get() < PATIENCE
    }

    /// Whether the kernel is to be asked at `now` to acknowledge no more than every second segment. It does so by itself while a connection
    /// is used by turns; once it has waited for the next turn in vain, it sends an acknowledgement with each read, which takes longer than the
    /// read.
    pub(super) fn acknowledges_too_often(&self, now: Stamp) -> bool {
        let gap = now - self.mark.get().arrival;
        let often = gap + gap < DELAY;
        let may =
            self.is_busy.get() && !self.is_shared.get() && self.awaits_them.get() != Some(true);
        let asks = may && often && self.fewer_since.get().is_none() && self.stamps.may_spare(now);
        if asks {
            self.fewer_since.set(Some(now));
        }
        asks
    }

    /// Bytes arrived after those that had arrived at `before`. A server that sends nothing until that was acknowledged (Nagle's algorithm) is
    /// held up for as long as the kernel waits: once, and no more on this connection.
    fn note_wait(&self, before: Stamp, arrival: Stamp) {
        let waited = arrival - before >= DELAY;
        let fewer = self
            .fewer_since
            .get()
            .filter(|_| self.awaits_them.get().is_none());
        if fewer.is_some_and(|since| waited || before > since) {
            self.awaits_them.set(Some(waited));
            self.stamps.note_spared(waited);
        }
        if waited {
            self.fewer_since.set(None);
        }
    }

    /// Whether so many events come that the client batches its reads.
    pub(crate) fn note_busy(&self, is_busy: bool) {
        self.is_busy.set(is_busy);
    }

    /// The latest read brought so many content events more.
    pub(crate) fn note_events(&self, more: usize) {
        self.events.set(self.events.get().saturating_add(more));
        if self.events.get() > 1 {
            self.stamps.note_several(self.mark.get().returned);
        }
    }

    /// The bytes that wait of what has `arrived`; and, where everything before them was looked at, in how many segments they came.
    pub(super) fn waiting(&self, arrived: Arrived) -> (usize, Option<u32>) {
        let before = self.arrived.replace(arrived);
        let read = self.bytes_read.get();
        let queued = usize::try_from(arrived.bytes.saturating_sub(read)).unwrap_or(usize::MAX);
        let known = before.bytes == read;
        let segments = known.then(|| arrived.segments.wrapping_sub(before.segments));
        (queued, segments)
    }

    /// Whether so many queued bytes may be more than one event.
    pub(super) fn is_unusual(&self, queued: usize) -> bool {
        let usual = self.usual_len.get();
        queued > usual.saturating_add(usual / 2)
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

    /// A write that began at `at` took so many bytes.
    pub(crate) fn note_write(&self, at: Stamp, len: usize) {
        self.last_write.set(at);
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        self.bytes_written
            .set(self.bytes_written.get().saturating_add(len));
    }

    /// When the latest write began.
    pub(crate) fn last_write(&self) -> Stamp {
        self.last_write.get()
    }

    /// Keep the first error of the connection; hyper wraps what it passes on.
    pub(crate) fn note_fault(&self, error: &io::Error) {
        let mut fault = self.fault.borrow_mut();
        if fault.is_none() {
            *fault = Some(copy_of(error));
        }
    }

    pub(crate) fn mark(&self) -> ReadMark {
        let mark = self.mark.get();
        ReadMark {
            continues: mark.continues || self.is_kept.get(),
            ..mark
        }
    }

    /// A moment at which the receive queue was seen empty, the latest.
    pub(crate) fn drained(&self) -> Stamp {
        self.drained.get()
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The same, for a waker.
    pub(crate) fn shared_reads(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.reads)
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
}

/// One successful read, as the socket saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) started: Stamp,
    pub(crate) returned: Stamp,
    pub(crate) realtime_ns: Option<i64>,
    pub(crate) drained: bool,
    /// Where it was to take no more than one event.
    pub(crate) piece: Option<Piece>,
    /// The stamp of the last that was seen waiting then, as `realtime_ns`.
    pub(crate) seen: Option<i64>,
    /// What waits behind it, where somebody looked.
    pub(crate) behind: Option<Behind>,
    /// Whether no TLS record has begun in it that has not ended.
    pub(crate) whole: bool,
    /// Whether all of it came in one segment.
    pub(crate) one_segment: bool,
    pub(crate) len: usize,
    pub(crate) opening: Opening,
}

impl Read {
    /// Whether its stamp is that of its last byte: it ended where its segment does. The kernel may have put later segments together with that
    /// one: then what waits behind has the same stamp, or that of something that came after the queue was looked at.
    fn ends_a_segment(&self) -> bool {
        match (self.piece, self.behind) {
            (Some(Piece::Last), _) => self.seen.is_some(),
            (_, None) => self.drained,
            (_, Some(Behind::Nothing)) => true,
            (_, Some(Behind::Segment(behind))) => {
                let was_seen = behind.is_some() && behind <= self.seen;
                was_seen && behind != self.realtime_ns
            }
        }
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The socket read that brought some bytes of an answer.
///
/// An event that is completed by the last byte of a read has `arrival` as its stamp, exactly (unless `merged` or `continues`). Every
/// other event that the same read completed arrived somewhere in `previous_return ..= arrival`, because the kernel keeps one
/// stamp, the last, for segments that waited together. Where nothing but closing events (usage, `[DONE]`) followed it, it arrived
/// in `last_token_from ..= arrival`: a server closes an answer right after its last token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMark {
    /// Kernel arrival of the last segment that the read took; the same as `returned` where the kernel gave no stamp.
    pub arrival: Stamp,
    /// When the read returned to this program.
    pub returned: Stamp,
    /// Whether `arrival` is the kernel's. Where it is not, how late the read was is not known.
    pub stamped: bool,
    /// No byte of this read had arrived then: the socket was seen empty at the read before this one, and if the thread slept since, it was
    /// woken for this one. The same as `arrival` where one segment brought all of it.
    pub previous_return: Stamp,
    /// From when on the last byte can have arrived: the same as `arrival` where that is the kernel's stamp, and where nothing tells how late
    /// the read was.
    pub arrived_from: Stamp,
    /// From when on a last token can have arrived that was read together with the closing events of its answer, by how long after their
    /// last tokens such events have lately come (in nineteen of twenty answers that were read apart; else by how long this thread takes
    /// to be woken). Between `previous_return` and `arrival`; the former where nothing is known yet.
    pub last_token_from: Stamp,
    /// Whether the bytes may have come before the segment that is described: on a connection that several answers share it may be another
    /// answer's, or the read an earlier one. Then even the last event is known only to have arrived in `previous_return ..= arrival`.
    pub merged: bool,
    /// Whether the stamp may be that of bytes behind those that are described: others of this read, of a TLS record that is not whole, or what
    /// the read left of its segment. These bytes and those that come next are to be judged as one read.
    pub continues: bool,
}
