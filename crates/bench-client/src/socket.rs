//! The socket under hyper: every read knows when its bytes reached the kernel.

mod log;
mod look;

pub use log::ReadMark;
pub(crate) use log::{LogPosition, Read, ReadLog};

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::sys;
use crate::sys::{Received, TcpState};
use look::{Piece, Records, look_ahead};

/// A request that is longer than two of these ends with a write of one: `sent` is taken before a call that takes microseconds, however
/// long the prompt.
const LAST_WRITE: usize = 16 << 10;

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

#[cfg(all(test, target_os = "linux"))]
#[path = "../tests/unit/socket.rs"]
pub(crate) mod tests;
