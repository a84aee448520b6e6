//! The wire: HTTP/1.1 written here, so that every byte and its time are known and every fault can be played; HTTP/2 by hyper.
//!
//! hyper's own server frames correctly, and therefore cannot frame wrongly on purpose.

pub(crate) mod conn;
pub(crate) mod h2;
pub(crate) mod peer;
pub(crate) mod request;

use std::io::Write as _;

use crate::fault::{FaultKind, FaultSet};

pub(crate) use conn::Conn;
pub(crate) use peer::{Gone, Peer, Written};
pub(crate) use request::Request;

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

    /// One event of JSON.
    pub(crate) fn json(&mut self, value: &serde_json::Value) {
        self.data(value.to_string().as_bytes());
    }

    /// One event of data.
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

    /// The end of the body.
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
