//! The socket under hyper: every read knows when its bytes reached the kernel.

mod log;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::ReadBufCursor;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::sys::{self, Received};

pub(crate) use log::{LogPosition, Read, ReadLog};

type Watched = AsyncFd<Arc<OwnedFd>>;

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
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }
}

impl Socket {
    /// Take over a connected, non-blocking descriptor of the current runtime.
    pub(crate) fn new(fd: OwnedFd, log: Rc<ReadLog>) -> io::Result<Self> {
        let watched = sys::watch(Arc::new(fd), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            fd: Rc::new(watched),
            log,
        })
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

    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))?;
            // Before the call: on a loopback the peer is woken inside it, and may have answered before this thread runs again.
            let handed = self.log.now();
            match rustix::net::send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL) {
                Ok(written) => {
                    self.log.note_write(handed);
                    if written < bytes.len() {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(written));
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(self.failed(error.into()))),
            }
        }
    }

    pub(crate) fn shut_down(&self) -> io::Result<()> {
        match rustix::net::shutdown(self.fd.get_ref(), Shutdown::Write) {
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
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
    use crate::outgoing::Sent;

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
        let mut socket = Socket::new(near.into(), Rc::clone(&log)).unwrap();
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
