//! Cuts a body into documents, whatever its framing.

use bench_schema::FailureKind;

use super::collector::{Collector, Document};
use crate::protocol::{Frame, Framing};
use crate::sse::{LineSplitter, SseDecoder, SseError, SseSplitter};

#[derive(Debug)]
pub(super) enum Framer {
    /// Server-sent events.
    Sse(SseSplitter),
    /// A line each.
    Lines(LineSplitter),
    /// One document; also a JSON document that came where a stream was asked for.
    Whole(Whole),
    /// Nothing yet of what should be an event stream: its first byte tells whether it is one.
    Unknown(usize),
}

/// A body that is kept until it is whole.
#[derive(Debug)]
pub(super) struct Whole {
    body: Vec<u8>,
    limit: usize,
    /// A stream was asked for.
    instead_of_a_stream: bool,
}

impl Framer {
    pub(super) fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Sse => Self::Unknown(limit),
            Framing::Ndjson => Self::Lines(LineSplitter::new(limit)),
            Framing::Json => Self::Whole(Whole {
                body: Vec::new(),
                limit,
                instead_of_a_stream: false,
            }),
        }
    }

    /// Hands each document that these bytes complete to `sink`.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(Document<'_>),
    ) -> Result<(), SseError> {
        if let Self::Unknown(limit) = *self {
            *self = if bytes.first() == Some(&b'{') {
                Self::Whole(Whole {
                    body: Vec::new(),
                    limit,
                    instead_of_a_stream: true,
                })
            } else {
                Self::Sse(SseSplitter::new(limit))
            };
        }
        match self {
            Self::Sse(splitter) => splitter.feed(bytes, &mut |event| {
                let frame = Frame {
                    event: event.event,
                    data: event.data,
                };
                sink(Document {
                    frame,
                    end: event.end,
                });
            }),
            Self::Lines(splitter) => splitter.feed(bytes, &mut |line, end| {
                sink(Document {
                    frame: Frame {
                        event: "",
                        data: line,
                    },
                    end,
                });
            }),
            Self::Whole(whole) => whole.feed(bytes),
            Self::Unknown(_) => Ok(()),
        }
    }

    /// The transfer ended properly: what lacks its line end is given if it can be understood.
    pub(super) fn end(self, collector: &mut Collector) {
        match self {
            Self::Sse(mut splitter) => splitter.end(&mut |event| {
                collector.last_document(Frame {
                    event: event.event,
                    data: event.data,
                });
            }),
            Self::Lines(mut splitter) => splitter.end(&mut |line, _| {
                collector.last_document(Frame {
                    event: "",
                    data: line,
                });
            }),
            Self::Whole(whole) if whole.instead_of_a_stream => {
                collector.document_instead_of_a_stream(&whole.body);
            }
            Self::Whole(whole) if !whole.body.trim_ascii().is_empty() => {
                collector.whole(&whole.body);
            }
            Self::Whole(_) | Self::Unknown(_) => {}
        }
    }
}

impl Whole {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.body.len() + bytes.len() > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }
}

/// The kind of failure of a body that cannot be cut into documents.
pub(super) const fn failure_of(error: &SseError) -> FailureKind {
    match error {
        SseError::TooLarge { .. } => FailureKind::TooLarge,
        SseError::Utf8 => FailureKind::Protocol,
    }
}
