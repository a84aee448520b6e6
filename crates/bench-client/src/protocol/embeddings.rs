//! `embeddings`: `POST /v1/embeddings`. Nothing is generated: one event when the answer is there.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt};
use serde::Deserialize;

use super::body::Object;
use super::json::{ErrorField, List, parse};
use super::openai::{self, OpenAiUsage, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// The embeddings API of OpenAI and of all servers that copy it. Only E2E has a meaning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embeddings;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    data: List<serde::de::IgnoredAny>,
    usage: Option<OpenAiUsage>,
    error: ErrorField,
}

impl Protocol for Embeddings {
    fn name(&self) -> &'static str {
        "embeddings"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/v1/embeddings".into()
    }

    fn streams(&self) -> bool {
        false
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        match &request.prompt {
            Prompt::TokenIds(ids) => body.set("input", ids),
            other => body.set("input", &*openai::plain_text(other)),
        }
        body.finish()
    }

    /// Everything about an output is: there is none. `max_tokens` is not listed, because every request carries one.
    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let mut found = names([
            (request.stream, "stream"),
            (request.min_tokens.is_some(), "min_tokens"),
            (request.ignore_eos, "ignore_eos"),
        ]);
        found.extend(openai::conversation_unsupported(request));
        found
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        self.decode_whole(frame.data, out)
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        let answer: Answer = parse(body)?;
        if let Some(message) = &answer.error.0 {
            out.error(message);
            return Ok(());
        }
        if answer.data.0.is_empty() {
            return Err(DecodeError::new("`data` holds no embedding"));
        }
        out.empty_token(Channel::Answer);
        if let Some(usage) = &answer.usage {
            usage.tell(out);
        }
        Ok(())
    }
}
