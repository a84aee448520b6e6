//! What a protocol must say about a generation. One small module each.

use crate::engine::Finish;
use crate::http::Events;
use crate::http::events::Framing;

/// Tokens so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
    pub(crate) cached: u64,
}

/// One content event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) choice: usize,
    pub(crate) text: &'a str,
    pub(crate) ids: &'a [u32],
    /// Tokens of this choice before this event.
    pub(crate) before: u64,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Usage,
}

/// A generation that is over.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Text, ids and end of each choice.
    pub(crate) choices: Vec<(String, Vec<u32>, Finish)>,
    pub(crate) usage: Usage,
    /// Queue, prefill and decode time, ns, where the protocol has a place for them.
    pub(crate) phases: PhaseTimes,
}

/// Durations of a generation, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseTimes {
    pub(crate) queue: u64,
    pub(crate) prefill: u64,
    pub(crate) decode: u64,
}

/// A protocol's way to write a generation.
pub(crate) trait Dialect {
    /// What separates events.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// What opens a choice; it goes out together with its first token.
    fn open(&mut self, _events: &mut Events, _choice: usize, _usage: Usage) {}

    /// One content event.
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>);

    /// What closes the stream.
    fn close(&mut self, events: &mut Events, whole: &Whole);

    /// The answer in one piece.
    fn whole(&mut self, whole: &Whole) -> serde_json::Value;

    /// An error inside a stream.
    fn error(&mut self, events: &mut Events, message: &str) {
        let error = serde_json::json!({"error": {"message": message, "type": "InternalServerError", "param": null, "code": 500}});
        events.data(error.to_string().as_bytes());
    }
}

impl Finish {
    /// As the OpenAI API calls it.
    pub(crate) fn openai(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
        }
    }
}
