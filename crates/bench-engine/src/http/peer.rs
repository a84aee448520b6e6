//! Who is being answered: an HTTP/1 connection, written here, or an HTTP/2 stream of hyper's.

use std::fmt::Write as _;
use std::sync::Weak;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use super::conn::Conn;
use super::h2::{Piece, Unflushed};
use crate::clock::now_ns;

/// The client is gone: closed, reset, or its stream cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// When a piece was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) before_ns: u64,
    pub(crate) after_ns: u64,
}

/// A response head.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Absent: a stream.
    pub(crate) length: Option<u64>,
}

impl Head {
    pub(crate) fn new(status: u16, content_type: &str, length: Option<u64>) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            length,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The head as HTTP/1.1 writes it.
    pub(crate) fn bytes(&self, chunked: bool, announce_close: bool) -> Vec<u8> {
        let reason = hyper::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|s| s.canonical_reason())
            .unwrap_or("");
        let mut out = format!(
            "HTTP/1.1 {} {reason}\r\nserver: bench-engine\r\n",
            self.status
        );
        // Writing to memory cannot fail.
        write!(out, "content-type: {}\r\n", self.content_type).ok();
        for (name, value) in &self.headers {
            write!(out, "{name}: {value}\r\n").ok();
        }
        if let Some(length) = self.length {
            write!(out, "content-length: {length}\r\n").ok();
        } else if chunked {
            out.push_str("transfer-encoding: chunked\r\n");
        }
        if announce_close {
            out.push_str("connection: close\r\n");
        }
        out.push_str("\r\n");
        out.into_bytes()
    }
}

/// What an HTTP/2 body is fed with; an error resets the stream.
pub(crate) type Frame = Result<Piece, std::io::Error>;

/// The way back to a client.
pub(crate) enum Peer {
    H1 {
        conn: Conn,
        chunked: bool,
        keep_alive: bool,
    },
    H2 {
        head: Option<oneshot::Sender<Head>>,
        body: mpsc::Sender<Frame>,
        unflushed: Weak<Unflushed>,
    },
}

impl Peer {
    pub(crate) fn is_chunked(&self) -> bool {
        matches!(self, Self::H1 { chunked: true, .. })
    }

    pub(crate) async fn head(&mut self, head: &Head) -> Result<Written, Gone> {
        let before_ns = now_ns();
        match self {
            Self::H1 {
                conn,
                chunked,
                keep_alive,
            } => {
                let announce = !*keep_alive || (head.length.is_none() && !*chunked);
                conn.write(&head.bytes(*chunked, announce))
                    .await
                    .map_err(|_| Gone)?;
            }
            Self::H2 { head: slot, .. } => {
                if let Some(slot) = slot.take() {
                    slot.send(head.clone()).map_err(|_| Gone)?;
                }
            }
        }
        Ok(Written {
            before_ns,
            after_ns: now_ns(),
        })
    }

    /// Writes bytes that are framed already.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<Written, Gone> {
        let before_ns = now_ns();
        let after_ns = match self {
            Self::H1 { conn, .. } => {
                conn.write(bytes).await.map_err(|_| Gone)?;
                now_ns()
            }
            Self::H2 { .. } if bytes.is_empty() => before_ns,
            Self::H2 {
                body, unflushed, ..
            } => {
                let (piece, written) = Piece::new(bytes, unflushed);
                body.send(Ok(piece)).await.map_err(|_| Gone)?;
                written.await.map_err(|_| Gone)?
            }
        };
        Ok(Written {
            before_ns,
            after_ns,
        })
    }

    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::H1 { conn, .. } => conn.poll_gone(cx),
            Self::H2 { body, .. } => {
                // Checked at every wake; the next write notices it in any case.
                if body.is_closed() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }
        }
    }

    pub(crate) async fn gone(&mut self) {
        match self {
            Self::H1 { conn, .. } => conn.gone().await,
            Self::H2 { body, .. } => body.closed().await,
        }
    }

    /// Cuts the answer off: a reset of the connection, or of the HTTP/2 stream.
    pub(crate) async fn reset(self) {
        match self {
            Self::H1 { conn, .. } => conn.reset(),
            Self::H2 { body, .. } => {
                body.send(Err(std::io::ErrorKind::ConnectionReset.into()))
                    .await
                    .ok();
            }
        }
    }

    /// Closes in order, whatever was announced.
    pub(crate) async fn close(self) {
        if let Self::H1 { conn, .. } = self {
            conn.close().await;
        }
    }
}
