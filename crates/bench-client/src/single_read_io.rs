//! What hyper sees of a connection: one read for each permit, so that frames and reads stay together.
//!
//! hyper may read ahead: after a response head it looks for body bytes at once. [`SingleReadIo`] gives it one read of plaintext for
//! each permit and is "pending" afterwards. The driver takes everything that a poll of the connection has produced before it
//! gives the next permit, so that whatever it takes was completed by the latest read. Under TLS that is the latest read of the
//! *socket*, which completed the record: rustls does not read on while it holds plaintext.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::ReadBufCursor;
use tokio::io::AsyncWrite;
use tokio_rustls::client::TlsStream;

use crate::socket::{ReadLog, Socket};
use crate::sys::poll_tokio_read;

/// A connection's byte stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    #[cfg(test)]
    Scripted(crate::scripted::ScriptedStream),
}

/// The byte stream with hyper's traits.
#[derive(Debug)]
pub(crate) struct SingleReadIo {
    stream: Stream,
    log: Rc<ReadLog>,
}

impl SingleReadIo {
    pub(crate) fn new(stream: Stream, log: Rc<ReadLog>) -> Self {
        Self { stream, log }
    }
}

impl hyper::rt::Read for SingleReadIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.log.is_permitted() {
            // No waker is kept: whoever drives the connection polls again because the permit was spent.
            return Poll::Pending;
        }
        ready!(match &mut self.stream {
            Stream::Plain(socket) => socket.poll_recv_cursor(cx, &mut cursor),
            Stream::Tls(tls) => poll_tokio_read(Pin::new(tls), cx, &mut cursor),
            #[cfg(test)]
            Stream::Scripted(script) => script.poll_recv(cx, &mut cursor),
        })
        .inspect_err(|error| self.log.note_fault(error))?;
        self.log.spend_permit();
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for SingleReadIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.poll_send(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            #[cfg(test)]
            Stream::Scripted(script) => script.poll_send(bytes),
        }
    }

    /// hyper flushes once everything it had buffered was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Tls(tls) = &mut self.stream {
            ready!(Pin::new(tls).poll_flush(cx))?;
        }
        self.log.note_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(socket) => Poll::Ready(socket.shut_down()),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            #[cfg(test)]
            Stream::Scripted(_) => Poll::Ready(Ok(())),
        }
    }
}
