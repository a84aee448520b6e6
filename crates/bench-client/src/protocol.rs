//! Protocols: how a generation is asked for, and what each event of the answer means.
//!
//! One small file each: a table (`api.rs`), the documents of its answers and what they say. Adding one is that file, a line in
//! `APIS`, its fixtures and a line of `docs/protocols.md`.

mod anthropic_messages;
mod api;
mod delta;
mod json;
mod llamacpp_completion;
mod ollama;
mod openai;
mod openai_responses;
mod sglang_generate;
mod template;
mod tgi_generate;
mod triton_generate;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bench_schema::GenerationRequest;
use serde::Deserialize;

use crate::sse::SseEvent;
use api::{Api, ApiProtocol};

pub use delta::Delta;
pub use json::CUT;
pub(crate) use json::{page_error, shortened};
pub use template::{Template, TemplateConfig};

/// The header of a bearer token.
fn bearer(key: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {key}"))
}

/// How the bytes of an answer are cut into documents; those of a stream, as a template's file says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON document a line.
    Ndjson,
    /// One JSON document, the whole body.
    #[serde(skip)]
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

/// One document of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// The event's type; empty where the stream did not give one.
    pub event: &'a str,
    /// The event's data, the line, or the body.
    pub data: &'a [u8],
    /// Whether it is the whole answer, rather than an event or a line of a stream.
    pub whole: bool,
}

impl<'a> Document<'a> {
    pub(crate) fn parse<T: Deserialize<'a>>(self) -> Result<T, DecodeError> {
        json::parse(self.data)
    }

    pub(crate) fn read<T: Deserialize<'a>>(self, emit: impl FnOnce(T)) -> Result<(), DecodeError> {
        self.parse().map(emit)
    }
}

impl<'a> From<SseEvent<'a>> for Document<'a> {
    fn from(SseEvent { event, data, .. }: SseEvent<'a>) -> Self {
        Self {
            event,
            ..data.into()
        }
    }
}

impl<'a> From<&'a [u8]> for Document<'a> {
    fn from(data: &'a [u8]) -> Self {
        Self {
            event: "",
            data,
            whole: false,
        }
    }
}

/// One way of talking to a server.
///
/// `decode` parses first and touches `out` only when the whole document has been understood, so that a document can be tried again.
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

    /// Reads one document of an answer. `[DONE]` does not come here: it means the same in every API that has it.
    ///
    /// # Errors
    /// [`DecodeError`] if the document is not what the API promises. An error that the server reports is not one: it goes
    /// to [`Delta::error`].
    fn decode(&self, document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError>;

    /// Reads a response header that tells something about the answer (timings, token counts). `name` is lower case.
    fn header(&self, _name: &str, _value: &str, _out: &mut Delta) {}
}

// The protocols by name.

/// Whether the OpenAI protocols ask the server for its token counts in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UsageRequest {
    /// Not at all, for servers that reject `stream_options`.
    None,
    /// Once, at the end (`include_usage`).
    #[default]
    Final,
    /// In every chunk (`continuous_usage_stats`): tokens per event become known, for a little more work in the server.
    Continuous,
}

/// What can be chosen about a protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// How the server's token counts are asked for.
    pub usage: UsageRequest,
    /// Say `max_completion_tokens` instead of `max_tokens` in a chat: OpenAI's newer models insist on it, and older servers
    /// do not know it.
    pub max_completion_tokens: bool,
}

const APIS: [&Api; 12] = [
    &openai::CHAT,
    &openai::COMPLETIONS,
    &openai_responses::API,
    &anthropic_messages::API,
    &tgi_generate::API,
    &sglang_generate::API,
    &llamacpp_completion::API,
    &ollama::CHAT,
    &ollama::GENERATE,
    &triton_generate::TENSORRT_LLM,
    &triton_generate::VLLM,
    &openai::EMBEDDINGS,
];

/// The names that [`protocol_by_name`] knows, `template:FILE` excepted.
pub const PROTOCOLS: [&str; APIS.len()] = {
    let mut names = [""; APIS.len()];
    let mut at = 0;
    while at < APIS.len() {
        names[at] = APIS[at].name;
        at += 1;
    }
    names
};

/// The protocol called `name`, with the usual options.
///
/// # Errors
/// As for [`protocol_with_options`].
pub fn protocol_by_name(name: &str) -> Result<Arc<dyn Protocol>, ProtocolError> {
    protocol_with_options(name, &ProtocolOptions::default())
}

/// The protocol called `name`; `template:FILE` reads the file.
///
/// # Errors
/// [`ProtocolError`] if there is none of that name, with the names there are; or if a template cannot be read or used.
pub fn protocol_with_options(
    name: &str,
    options: &ProtocolOptions,
) -> Result<Arc<dyn Protocol>, ProtocolError> {
    if name == "template" {
        return Err(ProtocolError::TemplateWithoutFile);
    }
    if let Some(path) = name.strip_prefix("template:") {
        return Ok(Arc::new(Template::from_file(path)?));
    }
    let api = APIS.iter().find(|api| api.name == name);
    let api = api.ok_or_else(|| ProtocolError::Unknown {
        name: name.to_owned(),
        known: PROTOCOLS.join(", "),
    })?;
    Ok(Arc::new(ApiProtocol {
        api,
        options: options.clone(),
    }))
}

// What can be wrong with a document, and with the choice of a protocol.

/// A document of the answer that is not what the protocol promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    what: String,
}

impl DecodeError {
    /// Says what was wrong, for people.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Why there is no such protocol.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ProtocolError {
    /// The name is not known.
    #[error(
        "unknown protocol `{name}`; known protocols: {known}; for any other protocol use `template:FILE`"
    )]
    Unknown { name: String, known: String },
    /// `template` was asked for without the file that describes it.
    #[error(
        "the protocol `template` needs a file: use `template:FILE` (docs/protocols.md has an example)"
    )]
    TemplateWithoutFile,
    /// The template's file cannot be read.
    #[error("the template `{path}` cannot be read; check the path")]
    TemplateFile {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// The template's file is not a template.
    #[error("the template `{path}` is invalid: {source}; docs/protocols.md lists its keys")]
    TemplateSyntax {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    /// A path of the template is not a JSON pointer.
    #[error(
        "`{pointer}` in the template's `{key}` is not a JSON pointer; start it with `/`, as in `/choices/0/text`"
    )]
    Pointer { key: &'static str, pointer: String },
    /// The template's body uses a placeholder that does not exist.
    #[error(
        "the template's body has the unknown placeholder `{{{{{name}}}}}`; known placeholders: {known}"
    )]
    Placeholder { name: String, known: String },
}
