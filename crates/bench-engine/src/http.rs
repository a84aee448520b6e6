//! The wire: HTTP/1.1 written here, so that every byte and its time are known and every fault can be played; HTTP/2 by hyper.
//!
//! hyper's own server frames correctly, and therefore cannot frame wrongly on purpose.

pub(crate) mod h1;
pub(crate) mod h2;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Weak;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use crate::clock::now_ns;
use crate::fault::{FaultKind, FaultSet};
use h2::{Piece, Unflushed};

pub(crate) use h1::{Conn, Io, Request};

// Events on their way to the wire: SSE or NDJSON, inside HTTP chunks or not.

/// What separates events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON text a line.
    NdJson,
}

impl Framing {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream; charset=utf-8",
            Self::NdJson => "application/x-ndjson",
        }
    }
}

/// Bytes that wait to be written, framed.
#[derive(Debug)]
pub(crate) struct Events {
    /// What goes to the socket.
    pub(crate) wire: Vec<u8>,
    scratch: Vec<u8>,
    framing: Framing,
    chunked: bool,
    style: Style,
    count: u64,
}

/// The legal ways to write the same event.
#[derive(Debug)]
struct Style {
    end: &'static [u8],
    field: &'static [u8],
    extra_fields: bool,
    two_lines: bool,
}

impl Events {
    pub(crate) fn new(framing: Framing, chunked: bool, faults: &FaultSet) -> Self {
        let end: &[u8] = match (faults.has(FaultKind::Crlf), faults.has(FaultKind::Cr)) {
            (true, _) => b"\r\n",
            (false, true) => b"\r",
            _ => b"\n",
        };
        let style = Style {
            end,
            field: if faults.has(FaultKind::NoSpace) {
                b"data:"
            } else {
                b"data: "
            },
            extra_fields: faults.has(FaultKind::Fields),
            two_lines: faults.has(FaultKind::MultiData),
        };
        Self {
            wire: Vec::with_capacity(1024),
            scratch: Vec::with_capacity(512),
            framing,
            chunked,
            style,
            count: 0,
        }
    }

    pub(crate) fn json(&mut self, value: &serde_json::Value) {
        self.data(value.to_string().as_bytes());
    }

    pub(crate) fn data(&mut self, payload: &[u8]) {
        self.named("", payload);
    }

    /// One event with a name, where the protocol names its events.
    pub(crate) fn named(&mut self, name: &str, payload: &[u8]) {
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        if self.framing == Framing::NdJson {
            out.extend_from_slice(payload);
            out.extend_from_slice(b"\n");
        } else {
            self.frame(&mut out, name, payload);
        }
        self.chunk(&out);
        self.scratch = out;
        self.count += 1;
    }

    fn frame(&self, out: &mut Vec<u8>, name: &str, payload: &[u8]) {
        let end = self.style.end;
        if !name.is_empty() || self.style.extra_fields {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(if name.is_empty() {
                b"message"
            } else {
                name.as_bytes()
            });
            out.extend_from_slice(end);
        }
        if self.style.extra_fields {
            write!(out, "id: {}", self.count).ok();
            out.extend_from_slice(end);
            out.extend_from_slice(b"retry: 3000");
            out.extend_from_slice(end);
        }
        // A line may only be cut where JSON allows white space: after the opening brace.
        let cut = usize::from(self.style.two_lines && payload.first() == Some(&b'{'));
        if cut == 1 {
            out.extend_from_slice(self.style.field);
            out.extend_from_slice(b"{");
            out.extend_from_slice(end);
        }
        out.extend_from_slice(self.style.field);
        out.extend_from_slice(&payload[cut..]);
        out.extend_from_slice(end);
        out.extend_from_slice(end);
    }

    /// A comment, which is no event.
    pub(crate) fn comment(&mut self, text: &str) {
        let end = self.style.end;
        let mut line = format!(": {text}").into_bytes();
        line.extend_from_slice(end);
        line.extend_from_slice(end);
        self.chunk(&line);
    }

    /// Bytes as they are, inside the body's framing.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) {
        if !self.chunked {
            self.wire.extend_from_slice(bytes);
            return;
        }
        // Writing to memory cannot fail.
        write!(self.wire, "{:x}\r\n", bytes.len()).ok();
        self.wire.extend_from_slice(bytes);
        self.wire.extend_from_slice(b"\r\n");
    }

    pub(crate) fn end(&mut self) {
        if self.chunked {
            self.wire.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Appends text as the inside of a JSON string.
pub(crate) fn escape(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else if let Ok(quoted) = serde_json::to_vec(text) {
        out.extend_from_slice(&quoted[1..quoted.len() - 1]);
    }
}

// Who is being answered: an HTTP/1 connection, written here, or an HTTP/2 stream of hyper's.

/// The client is gone: closed, reset, or its stream cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// When a piece was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) before_ns: u64,
    pub(crate) after_ns: u64,
}

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
