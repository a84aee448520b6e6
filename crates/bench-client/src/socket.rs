//! The socket under hyper: every read knows when its bytes reached the kernel.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bench_schema::{Nanos, Stamp};
use hyper::rt::ReadBufCursor;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::clock::KernelStamps;
use crate::request::Sent;
use crate::sys;
use crate::sys::{Opening, Received};

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

/// The socket once it is connected. It is given to the runtime once and waits only for a peer that is far away: on a loopback the
/// handshake is over when the first call returns, which a second one tells.
pub(crate) async fn connected(socket: OwnedFd, to: &impl SocketAddrArg) -> io::Result<Watched> {
    let mut answer = rustix::net::connect(&socket, to);
    if answer == Err(Errno::INPROGRESS) {
        answer = rustix::net::connect(&socket, to);
    }
    let waits = match answer {
        Ok(()) | Err(Errno::ISCONN) => false,
        Err(Errno::ALREADY | Errno::INPROGRESS | Errno::INTR) => true,
        Err(error) => return Err(error.into()),
    };
    let watched = sys::watch(Arc::new(socket), Interest::READABLE | Interest::WRITABLE)?;
    if waits {
        let _writable = watched.writable().await?;
        rustix::net::sockopt::socket_error(watched.get_ref())??;
    }
    Ok(watched)
}

/// A connected, non-blocking TCP or Unix stream that writes down its reads and writes.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Rc<Watched>,
    log: Rc<ReadLog>,
}

/// A look at a socket that hyper owns.
#[derive(Debug)]
pub(crate) struct Peek(Rc<Watched>);

impl Peek {
    /// Whether the peer has closed, by the kernel's newest knowledge (tokio's readiness may be one poll of the driver behind).
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        let mut byte = [0_u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.0.get_ref(), &mut byte, flags) {
            Ok((read, _)) => read == 0,
            Err(error) => error != Errno::AGAIN && error != Errno::INTR,
        }
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

    /// Read once with `recv`, which is told the descriptor; `room` is what it can take.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut recv: impl FnMut(&Watched) -> io::Result<Received>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let started = self.log.now();
            let received = recv(&self.fd);
            let returned = self.log.now();
            match received {
                Ok(Received { len: 0, .. }) => {
                    self.log.note_end(returned);
                    return Poll::Ready(Ok(0));
                }
                Ok(received) => {
                    let drained = received.len < room;
                    if drained {
                        // A short read emptied the queue; epoll tells of what comes next. Saves the read that would say EAGAIN.
                        ready.clear_ready();
                    }
                    self.log.note_read(Read {
                        started,
                        returned,
                        realtime_ns: received.realtime_ns,
                        drained,
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

    pub(crate) fn poll_recv_cursor(
        &self,
        cx: &mut Context<'_>,
        cursor: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<usize>> {
        let room = cursor.remaining();
        self.poll_recv(cx, room, |fd| {
            sys::recv_into_cursor(fd.get_ref().as_fd(), cursor)
        })
    }

    /// Write, and only where there is no room wait for it: a connection that was opened just now has not told the runtime of any.
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            // Before the call: on a loopback the peer is woken inside it, and may have answered before this thread runs again.
            let handed = self.log.now();
            match rustix::net::send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL) {
                Ok(written) => {
                    self.log.note_write(handed);
                    return Poll::Ready(Ok(written));
                }
                Err(Errno::AGAIN) => ready!(self.fd.poll_write_ready(cx))?.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(self.failed(error.into()))),
            }
        }
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
        let spare = buffer.initialize_unfilled();
        let room = spare.len();
        let read = ready!(self.poll_recv(cx, room, |fd| {
            sys::recv_into_slice(fd.get_ref().as_fd(), spare)
        }))?;
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

// When the bytes of a read reached this machine.

/// The socket read that brought some bytes of an answer.
///
/// An event that is completed by the last byte of a read has `arrival` as its stamp, exactly (unless `merged`). Every
/// other event that the same read completed arrived somewhere in `previous_return ..= arrival`, because the kernel keeps one
/// stamp, the last, for segments that waited together. Where nothing but closing events (usage, `[DONE]`) followed it, it arrived
/// in `last_token_from ..= arrival`: a server closes an answer right after its last token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMark {
    /// Kernel arrival of the last segment that the read took; the same as `returned` where the kernel gave no stamp.
    pub arrival: Stamp,
    /// When the read returned to this program.
    pub returned: Stamp,
    /// A moment at which the socket was seen empty: no byte of this read had arrived then. Normally the read before this one.
    pub previous_return: Stamp,
    /// From when on a last token can have arrived that was read together with the closing events of its answer, by how long after their
    /// last tokens such events have lately come (in nineteen of twenty answers that were read apart; else by how long this thread takes
    /// to be woken). Between `previous_return` and `arrival`; the former where nothing is known yet.
    pub last_token_from: Stamp,
    /// Whether the bytes may come from an earlier read than the one described (HTTP/2 reads ahead for all its streams): then
    /// even the last event is known only to have arrived in `previous_return ..= arrival`.
    pub merged: bool,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use bench_schema::Nanos;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::Clock;
    use crate::clock::KernelStamps;
    use crate::request::Sent;

    /// What it says of the instant: within the call, and nearer to its beginning, where the stamp is taken, than to its end.
    #[tokio::test]
    async fn the_kernel_hands_a_request_on_within_the_call_and_nearer_to_sent_than_to_its_return() {
        const REQUESTS: usize = 300;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        near.set_nodelay(true).unwrap();
        let mut far = listener.accept().unwrap().0;
        // A server that waits in its read: the call wakes it, as that of a real request does.
        let server = std::thread::spawn(move || {
            let mut request = [0; 1000];
            while far.read_exact(&mut request).is_ok() && far.write_all(b"x").is_ok() {}
        });
        let clock = Clock::start();
        let stamps = Rc::new(KernelStamps::new(clock.clone()));
        let log = ReadLog::new(Rc::clone(&stamps));
        sys::sending::ask_for_stamps(near.as_fd()).unwrap();
        let watched = sys::watch(
            Arc::new(near.into()),
            Interest::READABLE | Interest::WRITABLE,
        );
        let mut socket = Socket::new(watched.unwrap(), Rc::clone(&log));
        let (mut after_sent, mut before_return) = (Vec::new(), Vec::new());
        for _ in 0..REQUESTS {
            let sent = Sent::new(0);
            log.note_body_taken(&sent);
            let written = poll_fn(|cx| socket.poll_send(cx, &[b'x'; 1000])).await;
            let returned = clock.now();
            assert_eq!(written.unwrap(), 1000);
            log.note_flush();
            let handed = sys::sending::take_stamp(socket.fd.get_ref().as_fd());
            let handed = stamps.arrival(handed.expect("a stamp for each segment"), returned);
            after_sent.push(handed - sent.at().unwrap());
            before_return.push(returned - handed);
            assert_eq!(socket.read(&mut [0; 8]).await.unwrap(), 1);
        }
        drop(socket);
        server.join().unwrap();
        // The two clocks are read one after the other: a conversion is wrong by less than this.
        let slack = Nanos::new(50_000);
        assert!(after_sent.iter().all(|late| *late > Nanos::ZERO - slack));
        let median = |times: &mut Vec<Nanos>| {
            times.sort();
            times[REQUESTS / 2]
        };
        let (begun, left) = (median(&mut after_sent), median(&mut before_return));
        assert!(begun < left, "{begun} from the stamp, {left} to the return");
    }
}
