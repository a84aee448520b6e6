//! From the bytes of one response to timed content events and an outcome.

mod collector;

use std::sync::Arc;

use bench_schema::{EventLog, FailureKind, Nanos, Outcome, ServerTimings, Stage, Usage};

use crate::ReadMark;
use crate::held::{Held, HeldBytes};
use crate::protocol::{Document, Framing, Protocol, shortened};
use crate::sse::{LineSplitter, SseDecoder, SseError, SseSplitter};
use collector::Collector;

// Cuts a body into documents, whatever its framing.

#[derive(Debug)]
enum Framer {
    /// Server-sent events.
    Sse(SseSplitter),
    Lines(LineSplitter),
    /// One document; also a JSON document that came where a stream was asked for.
    Whole(BufferedBody),
    /// Nothing yet of what should be an event stream: its first byte tells whether it is one.
    Unknown(usize, HeldBytes),
}

/// A body that is kept until it is whole.
#[derive(Debug)]
struct BufferedBody {
    body: Held,
    /// A stream was asked for.
    instead_of_a_stream: bool,
}

impl Framer {
    fn new(framing: Framing, limit: usize, all: HeldBytes) -> Self {
        match framing {
            Framing::Sse => Self::Unknown(limit, all),
            Framing::Ndjson => Self::Lines(LineSplitter::new(Held::new(limit, &all))),
            Framing::Json => Self::Whole(BufferedBody {
                body: Held::new(limit, &all),
                instead_of_a_stream: false,
            }),
        }
    }

    /// Hands each document that these bytes complete to `sink`, with the offset just past it.
    fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(Document<'_>, usize),
    ) -> Result<(), SseError> {
        if let Self::Unknown(limit, all) = self {
            let held = Held::new(*limit, all);
            *self = if bytes.first() == Some(&b'{') {
                Self::Whole(BufferedBody {
                    body: held,
                    instead_of_a_stream: true,
                })
            } else {
                Self::Sse(SseSplitter::within(held))
            };
        }
        match self {
            Self::Sse(splitter) => splitter.feed(bytes, &mut |event| sink(event.into(), event.end)),
            Self::Lines(splitter) => splitter.feed(bytes, &mut |line, end| sink(line.into(), end)),
            Self::Whole(whole) => whole.body.extend(bytes),
            Self::Unknown(..) => Ok(()),
        }
    }

    /// The transfer ended properly: what lacks its line end is given if it can be understood.
    fn end(self, collector: &mut Collector) {
        match self {
            Self::Sse(mut splitter) => {
                splitter.end(&mut |event| collector.last_document(event.into()));
            }
            Self::Lines(mut splitter) => {
                splitter.end(&mut |line, _| collector.last_document(line.into()));
            }
            Self::Whole(whole) if whole.instead_of_a_stream => {
                collector.document_instead_of_a_stream(&whole.body);
            }
            Self::Whole(whole) if !whole.body.trim_ascii().is_empty() => {
                collector.whole(&whole.body);
            }
            Self::Whole(_) | Self::Unknown(..) => {}
        }
    }
}

/// The kind of failure of a body that cannot be cut into documents.
const fn failure_of(error: &SseError) -> FailureKind {
    match error {
        SseError::TooLarge { .. } | SseError::TooMuchHeld { .. } => FailureKind::TooLarge,
        SseError::Utf8 => FailureKind::Protocol,
    }
}

/// What one answer may cost.
#[derive(Clone, Debug)]
pub struct AnswerLimits {
    /// Largest event of a stream, and largest body of an answer that is not streamed, in bytes.
    pub max_event_bytes: usize,
    /// What the unfinished events, or the bodies that are not streamed, of all answers may take together.
    pub held: HeldBytes,
    /// Characters of text to keep, all channels in the order of arrival; `None` keeps none.
    pub keep_text: Option<usize>,
    /// Content events, of which each is kept with its time: an answer of more does not end, and has failed.
    pub max_events: usize,
}

impl AnswerLimits {
    /// The content events that an answer may have of which so many tokens were asked: 16 for each token, as where text comes character by character, but at
    /// least 65,536 and at most 1,048,576; 262,144 where the length is the server's to choose.
    pub fn events_for(asked_tokens: Option<u64>) -> usize {
        let most = asked_tokens.map_or(1 << 18, |asked| {
            asked.saturating_mul(16).clamp(1 << 16, 1 << 20)
        });
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

impl Default for AnswerLimits {
    /// 64 MiB (log probabilities and batches of embeddings are large), no text, and the events of an answer whose length is the server's to choose.
    fn default() -> Self {
        Self {
            max_event_bytes: 64 << 20,
            held: HeldBytes::default(),
            keep_text: None,
            max_events: Self::events_for(None),
        }
    }
}

/// Decodes one response body, fed as it is read.
///
/// It allocates nothing that grows with the answer but the event log (16 bytes an event) and, where asked, the text. An
/// answer that is not streamed is one document, kept until it is whole.
///
/// # Stamps
///
/// A content event has the arrival of the read that completed it. It is exact only if nothing but line ends follows it in that
/// read: the kernel keeps the stamp of the last segment of those it merged, so whatever is followed by more bytes (the next
/// event, half of one, a finish chunk, a comment) may have come earlier, and has as its bound the time since the socket was
/// last seen empty; or none, where the mark says that one segment brought all of it.
#[derive(Debug)]
pub struct AnswerDecoder {
    framer: Framer,
    collector: Collector,
    max_events: usize,
}

/// What some bytes brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Content events that these bytes completed. An answer that is not streamed has its one event at the end.
    pub content_events: usize,
    /// The end marker was seen, now or before: the answer is whole, only the end of the transfer is missing.
    pub done: bool,
    /// The answer has failed: reading on is of no use.
    pub failed: bool,
}

/// How the transfer of the body ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Properly: the last chunk, the promised length, the end of the HTTP/2 stream.
    Eof,
    /// It broke off.
    Cut {
        /// Where in the request's life; [`AnswerDecoder::stage`] knows.
        stage: Stage,
        /// What happened.
        failure: FailureKind,
        /// What happened, for people.
        message: String,
    },
    /// A limit of the client was reached.
    TimedOut(Stage),
    /// The client stopped it on purpose, for this reason.
    Cancelled(String),
}

/// Everything that one response body told.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How the request ended.
    pub outcome: Outcome,
    /// The content events.
    pub events: EventLog,
    /// From the last content event to the read with the closing events, where that was another read and the former's stamp is exact.
    pub closing_delay: Option<Nanos>,
    /// The server's token counts, where it gave any.
    pub usage: Option<Usage>,
    /// The server's finish reason; of several choices, the last one's.
    pub finish_reason: Option<String>,
    /// The server's own timings, where it gave any.
    pub server: Option<ServerTimings>,
    /// Characters of text, all channels.
    pub text_chars: u64,
    /// The text, where it was to be kept.
    pub text: Option<String>,
}

impl StreamEnd {
    /// What it comes to where the answer itself says nothing: `whole` for a transfer that ended properly.
    pub(crate) fn into_outcome(self, whole: impl FnOnce() -> Outcome) -> Outcome {
        match self {
            Self::Eof => whole(),
            Self::Cut {
                stage,
                failure,
                message,
            } => Outcome::Failed {
                stage,
                failure,
                message: shortened(&message, collector::MESSAGE_CHARS),
            },
            Self::TimedOut(stage) => Outcome::TimedOut { stage },
            Self::Cancelled(reason) => Outcome::Cancelled { reason },
        }
    }
}

impl AnswerDecoder {
    /// A decoder for one answer of `protocol`, asked for as a stream or not.
    pub fn new(protocol: Arc<dyn Protocol>, streaming: bool, limits: AnswerLimits) -> Self {
        let framing = protocol.framing(streaming);
        Self {
            max_events: limits.max_events,
            framer: Framer::new(framing, limits.max_event_bytes, limits.held),
            collector: Collector::new(protocol, framing == Framing::Json, limits.keep_text),
        }
    }

    /// A response header; some servers put timings there. `name` is lower case.
    pub fn header(&mut self, name: &str, value: &str) {
        self.collector.header(name, value);
    }

    /// The next bytes of the body and the read that brought them. Several calls with the same mark are one read.
    pub fn push(&mut self, bytes: &[u8], mark: ReadMark) -> Progress {
        let Self {
            framer,
            collector,
            max_events,
        } = self;
        let before = collector.events();
        if !bytes.is_empty() {
            collector.begin(bytes, mark);
            let fed = framer.feed(bytes, &mut |document, end| {
                collector.document(document, end);
            });
            if let Err(error) = fed {
                collector.fail(failure_of(&error), &error.to_string());
            } else if collector.events() > *max_events {
                let why = format!("the answer does not end: more than {max_events} events");
                collector.fail(FailureKind::TooLarge, &why);
            }
            collector.end_of_bytes(bytes);
        }
        Progress {
            content_events: collector.events() - before,
            done: collector.is_done(),
            failed: collector.is_failed(),
        }
    }

    /// Where in its life the answer is: what a failure or a timeout now should be blamed on.
    pub fn stage(&self) -> Stage {
        self.collector.stage()
    }

    /// The transfer is over.
    pub fn finish(self, end: StreamEnd) -> Answer {
        let Self {
            framer,
            mut collector,
            ..
        } = self;
        if end == StreamEnd::Eof {
            framer.end(&mut collector);
        }
        collector.finish(end)
    }
}
