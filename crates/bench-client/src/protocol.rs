//! Protocols: how a generation is asked for, and what each event of the answer means.
//!
//! One small file each: a table (`api.rs`), the documents of its answers and what they say. Adding one is that file, a line in
//! `registry.rs`, its fixtures and a line of `docs/protocols.md`.

mod anthropic_messages;
mod api;
mod body;
mod delta;
mod embeddings;
mod error;
mod json;
mod llamacpp_completion;
mod ollama;
mod openai;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod pointer;
mod registry;
mod sglang_generate;
mod skim;
mod template;
mod tgi_generate;
mod triton_generate;

use std::borrow::Cow;
use std::fmt;

use bench_schema::GenerationRequest;

pub use delta::Delta;
pub use error::{DecodeError, ProtocolError};
pub(crate) use json::page_error;
pub use registry::{
    PROTOCOLS, ProtocolOptions, UsageRequest, protocol_by_name, protocol_with_options,
};
pub use template::{StreamFraming, Template, TemplateConfig};

/// The header of a bearer token.
fn bearer(key: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {key}"))
}

/// How the bytes of an answer are cut into documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON document a line.
    Ndjson,
    /// One JSON document, the whole body.
    Json,
}

impl Framing {
    /// What to put in the request's `accept` header.
    pub fn accept(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson, application/json",
            Self::Json => "application/json",
        }
    }
}

/// One document of a streamed answer: an event of an SSE stream, or a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The event's type; empty where the stream did not give one.
    pub event: &'a str,
    /// The event's data, or the line.
    pub data: &'a [u8],
}

/// One way of talking to a server.
///
/// `decode` and `decode_whole` parse first and touch `out` only when the whole document has been understood, so that a
/// document can be tried again.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// The name in `--api`, in results and in `docs/protocols.md`.
    fn name(&self) -> &'static str;

    /// The path below the base URL.
    fn path(&self, model: &str, streaming: bool) -> Cow<'_, str>;

    /// Whether there is a streamed form at all.
    fn streams(&self) -> bool {
        true
    }

    /// How the answer is cut into documents.
    fn framing(&self, streaming: bool) -> Framing {
        if streaming && self.streams() {
            Framing::Sse
        } else {
            Framing::Json
        }
    }

    /// The request's body. What the API cannot say is left out: ask [`Protocol::unsupported`] first.
    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8>;

    /// The parts of `request` that this API has no words for, by the names of the command line.
    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str>;

    /// Headers that the API wants, beside the content type. Header names are lower case.
    fn extra_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header that carries an API key. The value is a secret: do not print it.
    fn auth_header(&self, key: &str) -> (&'static str, String) {
        bearer(key)
    }

    /// Whether a proper end of the transfer is the end marker, because the API has no other.
    fn ends_with_transfer(&self) -> bool {
        false
    }

    /// Reads one document of a streamed answer. `[DONE]` does not come here: it means the same in every API that has it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the document is not what the API promises. An error that the server reports is not one: it goes
    /// to [`Delta::error`].
    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError>;

    /// Reads an answer that came as one document.
    ///
    /// # Errors
    ///
    /// As for [`Protocol::decode`].
    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError>;

    /// Reads a response header that tells something about the answer (timings, token counts). `name` is lower case.
    fn header(&self, _name: &str, _value: &str, _out: &mut Delta) {}
}
