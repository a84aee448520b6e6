//! Server-sent events, as the WHATWG text defines them, from bytes that may be cut anywhere.
//!
//! [`SseSplitter`] is what the client uses. A property test holds it against `eventsource-stream` behind the same trait
//! (`tests/sse_differential.rs`); `docs/adr/0001-sse-decoder.md` says why it is not used alone.

mod lines;
mod splitter;

pub(crate) use lines::LineSplitter;
pub use splitter::SseSplitter;

/// One event of a stream, borrowed from the decoder or straight from the bytes that were fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty where the stream did not give one (the standard then says `message`).
    pub event: &'a str,
    /// The `data` lines, joined by line feeds. Bytes, not text: invalid UTF-8 is for the reader to replace.
    pub data: &'a [u8],
    /// The last event id that the stream gave so far.
    pub id: &'a str,
    /// Offset just past this event in the bytes that were fed; their length where the decoder cannot tell.
    pub end: usize,
    /// Whether its blank line was seen. Only [`SseDecoder::end`] hands out an event without one.
    pub terminated: bool,
}

/// Turns the bytes of a stream into events.
pub trait SseDecoder {
    /// Takes the next bytes, cut anywhere, and hands each event they complete to `sink`, in order.
    ///
    /// # Errors
    ///
    /// [`SseError::TooLarge`] once an event passes the decoder's limit; the decoder is of no use afterwards.
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), SseError>;

    /// The stream is over: hands out what still lacks its blank line, marked as not `terminated`.
    ///
    /// The standard drops such an event. Servers do end with `data: [DONE]` and no blank line, so the choice is the caller's.
    fn end(&mut self, sink: &mut dyn FnMut(SseEvent<'_>));
}

/// Why a stream cannot be decoded any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event, or one line, is longer than the limit.
    #[error(
        "an event of the stream is larger than the limit of {limit} bytes; raise the limit if the server means it"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The bytes are not UTF-8. Only the reference decoder stops there.
    #[error("the stream is not UTF-8")]
    Utf8,
}
