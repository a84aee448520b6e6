//! Server-sent events, as the WHATWG text defines them, from bytes that may be cut anywhere.
//!
//! [`SseSplitter`] is what the client uses. A property test holds it against `eventsource-stream` behind the same trait
//! (`tests/sse_differential.rs`); `docs/adr/0001-sse-decoder.md` says why it is not used alone.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use eventsource_stream::EventStream;
use futures_util::{Stream, stream};

use crate::held::{Held, HeldBytes};

/// One event of a stream, borrowed from the decoder or straight from the bytes that were fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty where the stream did not give one (the standard then says `message`).
    pub event: &'a str,
    /// The `data` lines, joined by line feeds. Bytes, not text: invalid UTF-8 is for the reader to replace.
    pub data: &'a [u8],
    /// Offset just past this event in the bytes that were fed; their length where the decoder cannot tell.
    pub end: usize,
}

/// Turns the bytes of a stream into events.
pub trait SseDecoder {
    /// Takes the next bytes, cut anywhere, and hands each event they complete to `sink`, in order.
    ///
    /// # Errors
    /// [`SseError::TooLarge`] once an event passes the decoder's limit, [`SseError::TooMuchHeld`] once all unfinished ones together pass
    /// theirs; the decoder is of no use afterwards.
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), SseError>;

    /// The stream is over: hands out what still lacks its blank line.
    ///
    /// The standard drops such an event. Servers do end with `data: [DONE]` and no blank line, so the choice is the caller's.
    fn end(&mut self, sink: &mut dyn FnMut(SseEvent<'_>));
}

/// Why a stream cannot be decoded any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event, or one line, is longer than the limit.
    #[error("a stream event is larger than the client's limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// All unfinished events and bodies together are larger than the limit on them.
    #[error(
        "the unfinished events and bodies of all requests together are larger than the client's limit of {limit} bytes; use a lower concurrency or shorter answers"
    )]
    TooMuchHeld {
        /// The limit in bytes.
        limit: usize,
    },
    /// The bytes are not UTF-8. Only the reference decoder stops there.
    #[error("the stream is not UTF-8")]
    Utf8,
}

// Newline-delimited JSON: one document a line.

/// Splits bytes, cut anywhere, into lines; blank ones are dropped, a CR before the LF too.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    line: Held,
}

impl LineSplitter {
    /// A splitter for one stream, which keeps a line that has not ended in `line`.
    pub(crate) fn new(line: Held) -> Self {
        Self { line }
    }

    /// Hands each line that these bytes complete to `sink`, with the offset just past it.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(), SseError> {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let rest = bytes.get(from..end).unwrap_or_default();
            from = end + 1;
            if self.line.is_empty() {
                self.line.check(rest.len())?;
                give(rest, from, sink);
            } else {
                self.line.extend(rest)?;
                give(&self.line, from, sink);
                self.line.clear();
            }
        }
        self.line.extend(bytes.get(from..).unwrap_or_default())
    }

    /// What came after the last line end, if anything.
    pub(crate) fn end(&mut self, sink: &mut dyn FnMut(&[u8], usize)) {
        give(&self.line, 0, sink);
        self.line.clear();
    }
}

fn give(line: &[u8], end: usize, sink: &mut dyn FnMut(&[u8], usize)) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        sink(line, end);
    }
}

// The client's decoder: it finds where an event ends (with `memchr`), and with that its stamp. An event that is one `data` line,
// as nearly all are, is read here; any other one is decoded by `eventsource-stream`, one event at a time.

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The default decoder. Linear in the bytes fed, whatever the cuts; no copy of an event that lies within one read and is one
/// `data` line.
#[derive(Debug)]
pub struct SseSplitter {
    /// What earlier reads brought of the open event.
    frame: Held,
    open: OpenFrame,
    /// The last byte fed was a CR that ended a line: a LF that follows belongs to it.
    after_cr: bool,
    /// Bytes of a byte order mark seen so far; 3 once it can no longer come.
    bom: usize,
}

/// What is known of the open event.
#[derive(Clone, Copy, Debug, Default)]
struct OpenFrame {
    lines: usize,
    /// The line that has not ended has bytes in `frame`.
    line_begun: bool,
    /// A line ended with CR.
    has_cr: bool,
}

impl OpenFrame {
    fn decode(
        self,
        frame: &[u8],
        end: usize,
        sink: &mut dyn FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        let simple = (self.lines == 1 && !self.has_cr)
            .then(|| only_data(frame))
            .flatten();
        match simple {
            Some(data) => sink(SseEvent {
                event: "",
                data,
                end,
            }),
            None if self.lines > 0 => decode_any(frame, end, sink)?,
            None => {}
        }
        Ok(())
    }
}

impl SseSplitter {
    /// A decoder for one stream; `limit` is the largest event in bytes, its field names and line ends included.
    pub fn new(limit: usize) -> Self {
        Self::within(Held::new(limit, &HeldBytes::new(limit)))
    }

    /// A decoder for one stream, which keeps an event that has not ended in `frame`.
    pub(crate) fn within(frame: Held) -> Self {
        Self {
            frame,
            open: OpenFrame::default(),
            after_cr: false,
            bom: 0,
        }
    }

    /// Drops a byte order mark at the start of the stream, which may come in pieces; says how many bytes to skip.
    fn skip_bom(&mut self, bytes: &[u8]) -> Result<usize, SseError> {
        let mut at = 0;
        while let (Some(expected), Some(byte)) = (BOM.get(self.bom), bytes.get(at)) {
            if byte != expected {
                // It was the beginning of a line after all.
                return self.keep_partial_bom().map(|()| 0);
            }
            self.bom += 1;
            at += 1;
        }
        Ok(at)
    }

    fn keep_partial_bom(&mut self) -> Result<(), SseError> {
        let seen = BOM.get(..self.bom).unwrap_or_default();
        self.frame.extend(seen)?;
        self.open.line_begun = !self.frame.is_empty();
        self.bom = BOM.len();
        Ok(())
    }

    /// The open event is over; `rest` are its bytes in this read, without the blank line.
    fn dispatch(
        &mut self,
        rest: &[u8],
        end: usize,
        sink: &mut dyn FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        let open = std::mem::take(&mut self.open);
        let frame = if self.frame.is_empty() {
            self.frame.check(rest.len())?;
            rest
        } else {
            self.frame.extend(rest)?;
            &self.frame
        };
        open.decode(frame, end, sink)?;
        self.frame.clear();
        Ok(())
    }
}

impl SseDecoder for SseSplitter {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        let mut line = self.skip_bom(bytes)?;
        let mut frame = line;
        let mut lf_of_crlf = std::mem::take(&mut self.after_cr).then_some(line);
        if bytes.len() == line {
            self.after_cr = lf_of_crlf.is_some();
            return Ok(());
        }
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let is_cr = bytes.get(at) == Some(&b'\r');
            if !is_cr && lf_of_crlf == Some(at) {
                line = at + 1;
                if self.frame.is_empty() && frame == at {
                    frame = line; // of a blank line: no event begins with it
                }
                continue;
            }
            lf_of_crlf = is_cr.then_some(at + 1);
            self.open.has_cr |= is_cr;
            let is_blank = line == at && !self.open.line_begun;
            self.open.line_begun = false;
            if is_blank {
                let rest = bytes.get(frame..at).unwrap_or_default();
                self.dispatch(rest, at + 1, sink)?;
                frame = at + 1;
            } else {
                self.open.lines += 1;
            }
            line = at + 1;
        }
        self.after_cr = lf_of_crlf == Some(bytes.len());
        self.open.line_begun |= line < bytes.len();
        self.frame.extend(bytes.get(frame..).unwrap_or_default())
    }

    fn end(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        // what is no event even with a blank line is none, nor the beginning of a byte order mark where not even that may be kept
        let kept = if self.bom < BOM.len() {
            self.keep_partial_bom()
        } else {
            Ok(())
        };
        let _not_one = kept.and_then(|()| decode_any(&self.frame, 0, sink));
        self.frame.clear();
    }
}

/// One event of any form, if it is one, by `eventsource-stream`. A blank line makes sure that it is taken for whole.
fn decode_any(
    frame: &[u8],
    end: usize,
    sink: &mut dyn FnMut(SseEvent<'_>),
) -> Result<(), SseError> {
    let frame = String::from_utf8_lossy(frame);
    let blank = if frame.ends_with('\n') { "\n" } else { "\n\n" };
    // A comment first: it takes a byte order mark for one only at its very beginning. Line by line, because it copies what is left of
    // its buffer for each line.
    let lines = [":\n"]
        .into_iter()
        .chain(frame.split_inclusive(['\r', '\n']))
        .chain([blank]);
    let lines = stream::iter(lines.map(Ok::<&str, Infallible>));
    let mut events = pin!(EventStream::new(lines));
    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Ready(Some(event)) = events.as_mut().poll_next(&mut context) {
        let event = event.map_err(|_| SseError::Utf8)?;
        let kind = event.event.as_str();
        sink(SseEvent {
            event: if kind == "message" { "" } else { kind },
            data: event.data.as_bytes(),
            end,
        });
    }
    Ok(())
}

/// The data of an event that is one `data` line ending with LF.
fn only_data(frame: &[u8]) -> Option<&[u8]> {
    let value = frame.strip_prefix(b"data:")?.strip_suffix(b"\n")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
