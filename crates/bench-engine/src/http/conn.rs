//! A connection and what has been read from it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// The transports that requests come over.
pub(crate) enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().stream()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream()).poll_shutdown(cx)
    }
}

impl Io {
    fn stream(&mut self) -> &mut dyn Duplex {
        match self {
            Self::Tcp(io) => io,
            Self::Unix(io) => io,
            Self::Tls(io) => io.as_mut(),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(io) => io.as_fd(),
            Self::Unix(io) => io.as_fd(),
            Self::Tls(io) => io.get_ref().0.as_fd(),
        }
    }
}

/// Bytes read ahead of what a client may send while it is being answered.
const READ_AHEAD: usize = 1 << 20;

/// One HTTP/1 connection.
pub(crate) struct Conn {
    pub(crate) io: Io,
    /// Read and not yet used.
    pub(crate) input: Vec<u8>,
    pub(crate) number: u64,
}

impl Conn {
    pub(crate) fn new(io: Io, number: u64) -> Self {
        Self {
            io,
            input: Vec::new(),
            number,
        }
    }

    /// Reads some more; 0 is the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [0u8; 16 * 1024];
        let mut buf = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf))?;
        self.input.extend_from_slice(buf.filled());
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Ready when the other side has closed or reset; what it sends meanwhile is kept for the next request.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.input.len() < READ_AHEAD {
            match ready!(self.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    pub(crate) async fn gone(&mut self) {
        std::future::poll_fn(|cx| self.poll_gone(cx)).await;
    }

    /// Writes all of it and hands it to the socket.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io.write_all(bytes).await?;
        match &mut self.io {
            // TLS keeps a record back until it is flushed; a plain socket has nothing to flush.
            Io::Tls(io) => io.flush().await,
            Io::Tcp(_) | Io::Unix(_) => Ok(()),
        }
    }

    /// Closes with a reset instead of in order (a Unix socket has no reset: it is just closed).
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.io.fd(), Some(Duration::ZERO)).ok();
    }

    /// Ends the sending side.
    pub(crate) async fn shut(&mut self) {
        self.io.shutdown().await.ok();
    }

    /// Ends in order: sends the end, then reads what still comes, so that the last bytes are not lost to a reset.
    pub(crate) async fn close(mut self) {
        self.shut().await;
        let rest = async {
            while self.fill().await.is_ok_and(|n| n > 0) {
                self.input.clear();
            }
        };
        // A client that never closes must not hold the task for ever.
        tokio::time::timeout(Duration::from_secs(2), rest)
            .await
            .ok();
    }
}
