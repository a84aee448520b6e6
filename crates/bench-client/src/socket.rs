//! The socket under hyper: every read knows when its bytes reached the kernel.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bench_schema::{Nanos, Stamp};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::clock::KernelStamps;
use crate::sys;
use crate::sys::{Arrived, Behind, Opening, Received, TcpState};

/// A request that is longer than two of these ends with a write of one: `sent` is taken before a call that takes microseconds, however
/// long the prompt.
const LAST_WRITE: usize = 16 << 10;

/// The kernel delays an acknowledgement that nothing is sent with by no less: 40 ms, on a clock of at most 10.
const DELAY: Nanos = Nanos::from_millis(30);

/// A descriptor of the current runtime.
pub(crate) type Watched = AsyncFd<Arc<OwnedFd>>;

/// A socket for a stream that never blocks.
pub(crate) fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let socket = {
        use rustix::net::SocketFlags;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(family, SocketType::STREAM, flags, None)?
    };
    #[cfg(not(target_os = "linux"))]
    let socket = {
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        socket
    };
    Ok(socket)
}

/// The socket once it is connected. It is given to the runtime once, for that and for all that follows.
///
/// The handshake with a peer on the same machine is over when the call that began it returns, although that call says otherwise: a
/// second one tells. Of many that connect together, each then writes its request at once; one that waited for the runtime would
/// write after all the others had connected, and that time would be in its time to first token as tools count it that begin at the
/// connection.
pub(crate) async fn connected(socket: OwnedFd, to: &impl SocketAddrArg) -> io::Result<Watched> {
    let waits = !begin_or_finish(&socket, to)? && !begin_or_finish(&socket, to)?;
    let watched = sys::watch(Arc::new(socket), Interest::READABLE | Interest::WRITABLE)?;
    if waits {
        let _writable = watched.writable().await?;
        rustix::net::sockopt::socket_error(watched.get_ref())??;
    }
    Ok(watched)
}

/// Whether it is connected now.
fn begin_or_finish(socket: &OwnedFd, to: &impl SocketAddrArg) -> io::Result<bool> {
    match rustix::net::connect(socket, to) {
        Ok(()) | Err(Errno::ISCONN) => Ok(true),
        Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A connected, non-blocking TCP or Unix stream that writes down its reads and writes.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Rc<Watched>,
    log: Rc<ReadLog>,
}

/// A look at a socket whatever is above it.
#[derive(Clone, Debug)]
pub(crate) struct Peek(Rc<Watched>);

impl Peek {
    /// Whether the peer has not closed, by the kernel's newest knowledge (tokio's readiness may be one poll of the driver behind),
    /// nor sent anything if it is to be `silent`.
    pub(crate) fn is_open(&self, silent: bool) -> bool {
        let mut byte = [0_u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.0.get_ref(), &mut byte, flags) {
            Ok((read, _)) => read > 0 && !silent,
            Err(error) => error == Errno::AGAIN || error == Errno::INTR,
        }
    }

    /// Without the usual delay, as on a connection that is new.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn acknowledge_at_once(&self) {
        let asked = rustix::net::sockopt::set_tcp_quickack(self.0.get_ref(), true);
        assert_eq!(asked, Ok(()));
    }

    /// What the kernel knows of the connection; absent where it is not TCP.
    pub(crate) fn kernel(&self) -> Option<TcpState> {
        sys::tcp_state(self.0.get_ref().as_fd())
    }
}

impl Socket {
    /// Take over a connected, non-blocking descriptor.
    pub(crate) fn new(watched: Watched, log: Rc<ReadLog>) -> Self {
        Self {
            fd: Rc::new(watched),
            log,
        }
    }

    pub(crate) fn peek(&self) -> Peek {
        Peek(Rc::clone(&self.fd))
    }

    /// From here on its bytes are TLS records.
    pub(crate) fn expect_records(&self) {
        self.log.records.set(Some(Records::default()));
    }

    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let fd = self.fd.get_ref().as_fd();
            let started = self.log.now();
            if self.log.acknowledges_too_often(started) {
                sys::acknowledge_less(fd);
            }
            let look = look_ahead(fd, &self.log, started);
            let piece = look.piece.filter(|piece| *piece <= room);
            let wanted = buffer.get_mut(..piece.unwrap_or(room)).unwrap_or_default();
            let received = sys::recv(fd, wanted);
            let returned = self.log.now();
            match received {
                Ok(Received { len: 0, .. }) => {
                    self.log.note_end(returned);
                    return Poll::Ready(Ok(0));
                }
                Ok(received) => {
                    let drained = piece.is_none() && received.len < room;
                    if drained {
                        // A short read emptied the queue; epoll tells of what comes next. Saves the read that would say EAGAIN.
                        ready.clear_ready();
                    }
                    let whole = self
                        .log
                        .follow(buffer.get(..received.len).unwrap_or_default());
                    let kind = piece.map(|_| look.kind);
                    let last = kind == Some(Piece::Last);
                    let asks = !last && (piece.is_some() || (!drained && whole));
                    self.log.note_read(Read {
                        started,
                        returned,
                        // Then it is not that of what came since.
                        realtime_ns: look.seen.filter(|_| last).or(received.realtime_ns),
                        drained,
                        piece: kind,
                        seen: look.seen,
                        behind: asks.then(|| sys::behind(fd)),
                        whole,
                        one_segment: drained && look.segment == Some(received.len),
                        len: received.len,
                        opening: received.opening,
                    });
                    return Poll::Ready(Ok(received.len));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    self.log.note_drained(started);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            }
        }
    }

    /// Write, and only where there is no room wait for it: a connection that was opened just now has not told the runtime of any.
    /// The end of a long request is left to a call of its own, so that the stamp before that call is near the last byte.
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let begin = bytes.len().saturating_sub(LAST_WRITE);
        let bytes = bytes
            .get(..begin)
            .filter(|begin| begin.len() > LAST_WRITE)
            .unwrap_or(bytes);
        loop {
            // Before the call: on a loopback the peer is woken inside it, and may have answered before this thread runs again.
            let handed = self.log.now();
            match rustix::net::send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL) {
                Ok(written) => {
                    self.log.note_write(handed, written);
                    return Poll::Ready(Ok(written));
                }
                Err(Errno::AGAIN) => ready!(self.fd.poll_write_ready(cx))?.clear_ready(),
                Err(Errno::INTR) => {}
                // A server that refuses by a request's head does not read the rest. Its answer is to be read, and then the end.
                Err(Errno::PIPE | Errno::CONNRESET) if self.has_bytes() => {
                    return Poll::Ready(Ok(bytes.len()));
                }
                Err(error) => return Poll::Ready(Err(self.failed(error.into()))),
            }
        }
    }

    fn has_bytes(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self.fd.get_ref(), &mut [0_u8; 1], flags);
        matches!(peeked, Ok((1, _)))
    }

    pub(crate) fn shut_down(&self) -> io::Result<()> {
        match rustix::net::shutdown(self.fd.get_ref(), Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn failed(&self, error: io::Error) -> io::Error {
        self.log.note_fault(&error);
        error
    }
}

/// For the TLS stream above the socket.
impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.poll_recv(cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shut_down())
    }
}

// What a connection's reads and writes were, for whoever decodes its bytes.

/// The reads and writes of one connection. Shared by the socket that fills it and the exchange that reads it; one thread only.
#[derive(Debug)]
pub(crate) struct ReadLog {
    stamps: Rc<KernelStamps>,
    mark: Cell<ReadMark>,
    is_shared: Cell<bool>,
    /// Where its TLS records end, if it has any.
    records: Cell<Option<Records>>,
    /// Whether TLS has more of the latest read than it has given so far.
    is_kept: Cell<bool>,
    /// A moment at which the receive queue was empty.
    drained: Cell<Stamp>,
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
    fn follow(&self, bytes: &[u8]) -> bool {
        let Some(mut records) = self.records.get() else {
            return true;
        };
        records.follow(bytes);
        self.records.set(Some(records));
        records.rest() == 0
    }

    /// Bytes to the end of the TLS record (or of its head) that a read has begun; 0 where it has begun none.
    fn rest_of_record(&self) -> usize {
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
    fn may_hold_several(&self, now: Stamp) -> bool {
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
    fn acknowledges_too_often(&self, now: Stamp) -> bool {
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
    fn waiting(&self, arrived: Arrived) -> (usize, Option<u32>) {
        let before = self.arrived.replace(arrived);
        let read = self.bytes_read.get();
        let queued = usize::try_from(arrived.bytes.saturating_sub(read)).unwrap_or(usize::MAX);
        let known = before.bytes == read;
        let segments = known.then(|| arrived.segments.wrapping_sub(before.segments));
        (queued, segments)
    }

    /// Whether so many queued bytes may be more than one event.
    fn is_unusual(&self, queued: usize) -> bool {
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

// Events that waited together are read one by one: the kernel keeps a stamp for each segment in its queue, and gives that of the last
// one which a read touches. A read that ends where an event ends, and where its segment ends too, has that event's own stamp.

/// Bytes that are looked at for the end of the first event.
const LOOK: usize = 2048;

/// What waited with an event when it was decided to read no more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More, or nobody looked.
    #[default]
    OfSeveral,
    /// Nothing behind it.
    Last,
}

/// What is known of a read before it is made.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// Its bytes, where they are one segment's.
    segment: Option<usize>,
    /// Bytes to the end of the first of several events that wait; `None` where everything is to be read at once.
    piece: Option<usize>,
    kind: Piece,
    /// The stamp of the last that was seen waiting.
    seen: Option<i64>,
}

fn look_ahead(fd: BorrowedFd<'_>, log: &ReadLog, now: Stamp) -> Look {
    if log.is_shared.get() {
        return next_of_shared(fd, log);
    }
    let piecewise = log.may_hold_several(now);
    let nothing = Look::default();
    if !piecewise && !log.stamps.expects_several() {
        return nothing;
    }
    let Some(arrived) = sys::arrived(fd) else {
        return nothing;
    };
    let (queued, segments) = log.waiting(arrived);
    if segments == Some(1) {
        let segment = Some(queued);
        return Look { segment, ..nothing };
    }
    let unusual = piecewise && log.is_unusual(queued);
    let begun = Some(log.rest_of_record()).filter(|rest| *rest > 0);
    let first = |bytes: &[u8]| begun.or_else(|| end_of_first(bytes));
    let found = unusual.then(|| peek(fd, first)).flatten();
    let Some((piece, seen)) = found.filter(|found| found.0 < queued) else {
        return nothing;
    };
    let piece = Some(piece);
    Look {
        piece,
        seen,
        ..nothing
    }
}

/// What waits on a connection that several exchanges share is of several answers, and each needs its own stamp: a read takes one event or
/// one TLS record, or a part of one that is longer than the look. Where there is no end of either, nobody knows what ends with the read.
fn next_of_shared(fd: BorrowedFd<'_>, log: &ReadLog) -> Look {
    let begun = Some(log.rest_of_record()).filter(|rest| *rest > 0);
    let found = peek(fd, |bytes| {
        let end = begun.or_else(|| next_end(bytes))?;
        Some((end, bytes.len()))
    });
    let Some(((end, waiting), seen)) = found else {
        return Look::default();
    };
    Look {
        piece: Some(end.min(waiting)),
        kind: if end >= waiting && waiting < LOOK {
            Piece::Last
        } else {
            Piece::OfSeveral
        },
        seen,
        segment: None,
    }
}

/// Where the first event or record ends, or how much of it may be read without its end: not the first half of an empty line, since the other
/// half would not be known for one.
fn next_end(bytes: &[u8]) -> Option<usize> {
    let half_a_line = match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    };
    let within = || {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let last = bytes.iter().rposition(|byte| !is_end(byte))?;
        (bytes.len() == LOOK).then_some(last + 1)
    };
    half_a_line.or_else(|| end_of_first(bytes)).or_else(within)
}

/// What is to be found in the first bytes that wait, where any do, and the stamp of the last of them.
fn peek<T>(fd: BorrowedFd<'_>, find: impl FnOnce(&[u8]) -> Option<T>) -> Option<(T, Option<i64>)> {
    let mut room = [0_u8; LOOK];
    let Received {
        len, realtime_ns, ..
    } = sys::peek(fd, &mut room).ok()?;
    let found = find(room.get(..len).filter(|bytes| !bytes.is_empty())?)?;
    Some((found, realtime_ns))
}

/// Where the first event, with its chunk, or the first TLS record ends.
fn end_of_first(bytes: &[u8]) -> Option<usize> {
    /// Content types of TLS records: from `change_cipher_spec` to `application_data`.
    const RECORDS: std::ops::RangeInclusive<u8> = 20..=23;
    if let [kind, 3, 0..=4, high, low, ..] = *bytes
        && RECORDS.contains(&kind)
    {
        return Some(RECORD_HEAD + usize::from(u16::from_be_bytes([high, low])));
    }
    // An event ends with an empty line; a chunk that ends with a line's end has one too.
    let end = memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..)? {
        [b'\r', b'\n', ..] => Some(at + 3),
        [b'\n', ..] => Some(at + 2),
        _ => None,
    })?;
    let chunk = bytes.get(end..)?.starts_with(b"\r\n");
    Some(if chunk { end + 2 } else { end })
}

/// Bytes of a TLS record's head; the last two say how many follow.
const RECORD_HEAD: usize = 5;

/// Where the TLS records of a connection end, in the bytes as they are read.
#[derive(Clone, Copy, Debug, Default)]
struct Records {
    /// Bytes of the head that were read.
    head: usize,
    /// Bytes that follow it; while it is not whole, as far as it says so.
    left: usize,
}

impl Records {
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.head < RECORD_HEAD {
                self.head += 1;
                self.left = (self.left << 8 | usize::from(byte)) & 0xffff;
                bytes = rest;
            } else {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = bytes.get(taken..).unwrap_or_default();
            }
            if self.head == RECORD_HEAD && self.left == 0 {
                self.head = 0;
            }
        }
    }

    /// Bytes to the end of the record, or of its head, that has begun.
    fn rest(self) -> usize {
        match self.head {
            0 => 0,
            RECORD_HEAD => self.left,
            part => RECORD_HEAD - part,
        }
    }
}

// When the bytes of a read reached this machine.

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

#[cfg(all(test, target_os = "linux"))]
#[path = "../tests/unit/socket.rs"]
pub(crate) mod tests;
