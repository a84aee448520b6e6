//! Turns documents into events with stamps, and knows how the answer ended.

use std::borrow::Cow;
use std::sync::Arc;

use bench_schema::{Channel, Event, EventLog, FailureKind, Outcome, Stage, Stamp};

use crate::ReadMark;
use crate::answer::{Answer, StreamEnd};
use crate::protocol::{CUT, DecodeError, Delta, Document, Protocol, shortened};

/// Characters of a message that are kept.
pub(super) const MESSAGE_CHARS: usize = 300;

/// A content event whose stamp may still turn out to be a bound: more bytes of its read may come.
#[derive(Clone, Copy, Debug)]
struct Pending {
    mark: ReadMark,
    channel: Channel,
    tokens: Option<u32>,
    /// Where it ended in the bytes being fed; 0 for an event of an earlier call.
    end: usize,
    exact: bool,
}

#[derive(Debug)]
pub(super) struct Collector {
    protocol: Arc<dyn Protocol>,
    delta: Delta,
    log: EventLog,
    pending: Option<Pending>,
    mark: ReadMark,
    /// Content events of the read that is being decoded.
    events_of_read: usize,
    /// The last content event's arrival, where that is exact.
    last_exact: Option<Stamp>,
    documents: u64,
    /// A document before this one brought the end marker.
    ended: bool,
    bytes: u64,
    /// The first bytes of the body, to show what came instead of events.
    head: Vec<u8>,
    whole: bool,
    failure: Option<(Stage, FailureKind, String)>,
}

impl Collector {
    pub(super) fn new(protocol: Arc<dyn Protocol>, whole: bool, keep_text: Option<usize>) -> Self {
        Self {
            protocol,
            delta: Delta::new(keep_text),
            log: EventLog::default(),
            pending: None,
            mark: ReadMark::default(),
            events_of_read: 0,
            last_exact: None,
            documents: 0,
            ended: false,
            bytes: 0,
            head: Vec::new(),
            whole,
            failure: None,
        }
    }

    pub(super) fn header(&mut self, name: &str, value: &str) {
        self.protocol.header(name, value, &mut self.delta);
    }

    pub(super) fn events(&self) -> usize {
        self.log.len() + usize::from(self.pending.is_some())
    }

    pub(super) fn is_done(&self) -> bool {
        self.delta.has_end_marker()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(super) fn stage(&self) -> Stage {
        if self.delta.is_finished() {
            Stage::Tail
        } else if self.events() > 0 {
            Stage::Stream
        } else {
            Stage::FirstToken
        }
    }

    /// Some bytes of a read are about to be decoded.
    pub(super) fn begin(&mut self, bytes: &[u8], mark: ReadMark) {
        if self.mark != mark && !self.mark.continues {
            self.flush();
            self.events_of_read = 0;
        } else if let Some(pending) = &mut self.pending {
            pending.end = 0;
        }
        self.mark = mark;
        self.bytes += bytes.len() as u64;
        let room = 64_usize.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(room));
    }

    /// The bytes were decoded: whatever follows the last content event makes its stamp a bound.
    pub(super) fn end_of_bytes(&mut self, bytes: &[u8]) {
        if let Some(pending) = &mut self.pending {
            let rest = bytes.get(pending.end..).unwrap_or_default();
            pending.exact &= rest.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            pending.end = bytes.len();
        }
    }

    /// One document of a stream, and where it ended in the bytes being fed.
    pub(super) fn document(&mut self, document: Document<'_>, end: usize) {
        if self.failure.is_some() || document.data.trim_ascii().is_empty() {
            return;
        }
        match self.decode(document) {
            Ok(()) => self.take(end),
            Err(error) => {
                let message = format!(
                    "cannot parse event {} of the {} stream: {error}; the event begins with `{}`",
                    self.documents + 1,
                    self.protocol.name(),
                    excerpt(document.data),
                );
                self.fail(FailureKind::Protocol, &message);
            }
        }
    }

    /// A document that the end of the transfer left without its line end: dropped unless it is whole.
    pub(super) fn last_document(&mut self, document: Document<'_>) {
        let usable = self.failure.is_none() && !document.data.trim_ascii().is_empty();
        if usable && self.decode(document).is_ok() {
            self.take(0);
        }
    }

    /// An answer that was not streamed.
    pub(super) fn whole(&mut self, body: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match self.read(whole(body)) {
            Ok(()) => self.take(0),
            Err(error) => {
                let name = self.protocol.name();
                let head = excerpt(body);
                let message =
                    format!("cannot parse the {name} response: {error}; it begins with `{head}`");
                self.fail(FailureKind::Protocol, &message);
            }
        }
    }

    /// One JSON document where a stream was asked for: an error, or a server that does not stream. Its arrival would pass for
    /// the first token's.
    pub(super) fn document_instead_of_a_stream(&mut self, body: &[u8]) {
        let mut said = Delta::default();
        let understood = self.protocol.decode(whole(body), &mut said);
        if let (Ok(()), Some(message)) = (understood, said.take().error) {
            self.fail(FailureKind::ServerError, &message);
        } else {
            let head = excerpt(body);
            let message = format!(
                "expected a stream, but got a single JSON document that begins with `{head}`; use --no-stream"
            );
            self.fail(FailureKind::ContentType, &message);
        }
    }

    pub(super) fn fail(&mut self, kind: FailureKind, message: &str) {
        let stage = self.stage();
        self.failure
            .get_or_insert((stage, kind, shortened(message, MESSAGE_CHARS)));
    }

    pub(super) fn finish(mut self, end: StreamEnd) -> Answer {
        self.flush();
        let outcome = self.outcome(end);
        let said = self.delta.into_whole();
        // The read that is described last brought the closing events, unless it brought the last token.
        let apart = |at: &Stamp| self.mark.arrival > *at && !self.mark.merged;
        let whole = outcome == Outcome::Completed;
        let closing = self.last_exact.filter(|_| whole).filter(apart);
        Answer {
            closing_delay: closing.map(|at| self.mark.arrival - at),
            outcome,
            events: self.log,
            usage: said.usage,
            finish_reason: said.finish_reason,
            server: said.server,
            text_chars: said.chars,
            text: said.text,
        }
    }

    /// A document of a stream.
    fn decode(&mut self, document: Document<'_>) -> Result<(), DecodeError> {
        // No JSON, and the end of an answer in every dialect that has it: also where an API's own documentation does not.
        if document.data.trim_ascii() == b"[DONE]" {
            self.delta.end_marker();
            return Ok(());
        }
        let decoded = self.read(document);
        // whatever shape the error has
        if document.event == "error" && !self.delta.has_error() {
            self.delta.error(excerpt(document.data));
            return Ok(());
        }
        decoded
    }

    /// The protocol's reading of a document; what no JSON may hold is replaced when it gets in the way.
    fn read(&mut self, document: Document<'_>) -> Result<(), DecodeError> {
        let first = self.protocol.decode(document, &mut self.delta);
        match first.is_err().then(|| repaired(document.data)).flatten() {
            Some(data) => {
                let data = data.as_slice();
                self.protocol
                    .decode(Document { data, ..document }, &mut self.delta)
            }
            None => first,
        }
    }

    /// A document was understood.
    fn take(&mut self, end: usize) {
        self.documents += 1;
        let taken = self.delta.take();
        // what follows the end marker is of no answer; in some protocols the last content brings it
        let content = taken.content.filter(|_| !self.ended);
        self.ended = self.is_done();
        if let Some((channel, tokens)) = content {
            self.events_of_read += 1;
            if let Some(earlier) = &mut self.pending {
                earlier.exact = false;
            }
            self.flush();
            let mark = self.mark;
            self.pending = Some(Pending {
                mark,
                channel,
                tokens,
                end,
                exact: !mark.merged && !mark.continues,
            });
        }
        if let Some(message) = taken.error {
            self.fail(FailureKind::ServerError, &message);
        }
    }

    /// Nothing more can come of the read of the pending event.
    fn flush(&mut self) {
        let Some(event) = self.pending.take() else {
            return;
        };
        let mark = event.mark;
        // Alone among closing events it came right before them; among others, whenever the socket was not seen empty.
        let alone = self.events_of_read == 1 && self.delta.is_finished() && !mark.merged;
        let earliest = match (event.exact, alone) {
            (true, _) => mark.arrived_from,
            (false, true) => mark.last_token_from.min(mark.arrived_from),
            (false, false) => mark.previous_return,
        };
        self.last_exact = event.exact.then_some(mark.arrival);
        self.log.push(Event {
            at: mark.arrival,
            lag: mark
                .stamped
                .then(|| (mark.returned - mark.arrival).or_zero()),
            bound: (mark.arrival - earliest).or_zero(),
            tokens: event.tokens,
            channel: event.channel,
        });
    }

    fn outcome(&mut self, end: StreamEnd) -> Outcome {
        if let Some((stage, failure, message)) = self.failure.take() {
            return Outcome::Failed {
                stage,
                failure,
                message,
            };
        }
        end.into_outcome(|| self.outcome_of_a_whole_transfer())
    }

    fn outcome_of_a_whole_transfer(&self) -> Outcome {
        let over = self.delta.is_finished()
            || ((self.whole || self.protocol.ends_with_transfer()) && self.documents > 0);
        let nothing_said = self.log.is_empty() && !self.delta.says_something();
        // an answer that had begun and was cut is truncated; one that ends in order and says nothing is none
        if nothing_said && (over || !self.is_opened()) {
            return self.nothing_came();
        }
        if over {
            return Outcome::Completed;
        }
        let events = self.log.len();
        Outcome::Truncated {
            message: format!(
                "the stream ended after {events} content events without a finish reason or end marker"
            ),
        }
    }

    /// Whether at least one document other than an end marker came.
    fn is_opened(&self) -> bool {
        self.documents > u64::from(self.delta.has_end_marker())
    }

    /// A body without a single event that says anything.
    fn nothing_came(&self) -> Outcome {
        let mut head = excerpt(&self.head);
        if self.bytes > self.head.len() as u64 {
            head.push_str(CUT);
        }
        let looks_like_a_stream = self.head.is_empty()
            || self.documents > 0
            || self.head.starts_with(b":")
            || self.head.starts_with(b"data")
            || self.head.starts_with(b"event");
        let (failure, message) = if self.is_opened() {
            let bytes = self.bytes;
            let message = format!(
                "the response ({bytes} bytes) has no content, finish reason or usage; it begins with `{head}`"
            );
            (FailureKind::Empty, message)
        } else if self.bytes == 0 {
            (FailureKind::Empty, "the response has no body".to_owned())
        } else if looks_like_a_stream || self.head.trim_ascii().is_empty() {
            (
                FailureKind::Empty,
                format!("the response ({} bytes) is empty", self.bytes),
            )
        } else {
            let bytes = self.bytes;
            let message =
                format!("the response ({bytes} bytes) has no events; it begins with `{head}`");
            (FailureKind::Protocol, message)
        };
        Outcome::Failed {
            stage: Stage::FirstToken,
            failure,
            message,
        }
    }
}

fn whole(body: &[u8]) -> Document<'_> {
    Document {
        whole: true,
        ..body.into()
    }
}

/// The beginning of some bytes, for a message.
fn excerpt(bytes: &[u8]) -> String {
    const BYTES: usize = 120;
    const CHARS: usize = 80;
    let head = String::from_utf8_lossy(bytes.get(..bytes.len().min(BYTES)).unwrap_or_default());
    let escaped: String = head.chars().flat_map(char::escape_debug).collect();
    let cut = if bytes.len() > BYTES { CUT } else { "" };
    shortened(&(escaped + cut), CHARS)
}

// What servers put into JSON although it may not be there.

/// A document in which what no JSON reader takes is replaced by U+FFFD: bytes that are not UTF-8, and halves of surrogate pairs
/// (`\ud83d` alone, from a server that cuts an emoji between two tokens). `None` where there is nothing to replace.
pub(super) fn repaired(data: &[u8]) -> Option<Vec<u8>> {
    let mut text = match String::from_utf8_lossy(data) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text.into_bytes()),
    };
    let halves = lone_surrogates(text.as_deref().unwrap_or(data));
    if !halves.is_empty() {
        let bytes = text.get_or_insert_with(|| data.to_vec());
        for at in halves {
            if let Some(escape) = bytes.get_mut(at..at + 6) {
                escape.copy_from_slice(b"\\ufffd");
            }
        }
    }
    text
}

/// Where the escapes of surrogates without their other half begin.
fn lone_surrogates(json: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += next;
        at += match surrogate(json, at) {
            Some(true) if surrogate(json, at + 6) == Some(false) => 12,
            Some(_) => {
                found.push(at);
                6
            }
            None => 2,
        };
    }
    found
}

/// Whether a surrogate is escaped at this place, and whether it is the first half of a pair.
fn surrogate(json: &[u8], at: usize) -> Option<bool> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/collector.rs"]
mod tests;
