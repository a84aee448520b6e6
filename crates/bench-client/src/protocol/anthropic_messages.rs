//! `anthropic-messages`: `POST /v1/messages`, a stream of typed events that ends with `message_stop`.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Message, Prompt, Role, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, List, Text, parse};
use super::openai::{self, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// The API insists on `max_tokens`; what is sent where the request leaves it to the server.
const MAX_TOKENS: u32 = 4096;

/// The messages API of Anthropic and of the servers that copy it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnthropicMessages;

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    message: Option<Answer<'a>>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<BlockDelta<'a>>,
    usage: Option<AnthropicUsage>,
    error: ErrorField,
}

/// A whole message; in a stream only its usage says something.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<'a> {
    #[serde(borrow)]
    content: List<Block<'a>>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
    usage: Option<AnthropicUsage>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    thinking: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    input: Option<&'a serde_json::value::RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockDelta<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    thinking: Text<'a>,
    #[serde(borrow)]
    partial_json: Text<'a>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    #[serde(rename = "input_tokens")]
    input: Count,
    #[serde(rename = "output_tokens")]
    output: Count,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Count,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_written: Count,
}

impl AnthropicUsage {
    /// `input_tokens` leaves out what the cache took part in; a prompt's length is the sum.
    fn tell(&self, out: &mut Delta) {
        let cached = self.cache_read.0;
        let written = self.cache_written.0;
        let prompt = self.input.0;
        out.usage(&Usage {
            prompt_tokens: prompt.map(|n| n + cached.unwrap_or(0) + written.unwrap_or(0)),
            completion_tokens: self.output.0,
            cached_tokens: cached,
            reasoning_tokens: None,
        });
    }
}

impl Block<'_> {
    fn tell(&self, out: &mut Delta) {
        out.text(Channel::Reasoning, self.thinking.get().unwrap_or_default());
        out.text(Channel::Tool, self.name.get().unwrap_or_default());
        out.text(Channel::Answer, self.text.get().unwrap_or_default());
    }
}

impl StreamEvent<'_> {
    fn tell(&self, kind: &str, out: &mut Delta) {
        let usage = self
            .message
            .as_ref()
            .and_then(|message| message.usage.as_ref());
        if let Some(usage) = self.usage.as_ref().or(usage) {
            usage.tell(out);
        }
        if let Some(block) = &self.content_block {
            block.tell(out);
        }
        if let Some(delta) = &self.delta {
            out.text(Channel::Reasoning, delta.thinking.get().unwrap_or_default());
            out.text(Channel::Tool, delta.partial_json.get().unwrap_or_default());
            out.text(Channel::Answer, delta.text.get().unwrap_or_default());
            if delta.text.is_empty_string() {
                out.empty_token(Channel::Answer);
            }
            out.finish(delta.stop_reason.get().unwrap_or_default());
        }
        if kind == "message_stop" {
            out.end_marker();
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if kind == "error" {
            out.error("an error without a message");
        }
    }
}

impl Protocol for AnthropicMessages {
    fn name(&self) -> &'static str {
        "anthropic-messages"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/v1/messages".into()
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let (system, turns): (Vec<Message>, Vec<Message>) = openai::messages(&request.prompt)
            .iter()
            .cloned()
            .partition(|message| message.role == Role::System);
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        body.set("max_tokens", &request.max_tokens.unwrap_or(MAX_TOKENS));
        if !system.is_empty() {
            body.set("system", &*openai::plain_text(&Prompt::Messages(system)));
        }
        body.set("messages", &turns);
        body.set("stream", &request.stream);
        body.set_some("temperature", request.sampling.temperature);
        body.set_some("top_p", request.sampling.top_p);
        body.set_some("top_k", request.sampling.top_k);
        if !request.sampling.stop.is_empty() {
            body.set("stop_sequences", &request.sampling.stop);
        }
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let sampling = &request.sampling;
        names([
            (
                matches!(request.prompt, Prompt::TokenIds(_)),
                "token-id prompts",
            ),
            (request.min_tokens.is_some(), "min_tokens"),
            (request.ignore_eos, "ignore_eos"),
            (sampling.min_p.is_some(), "min_p"),
            (sampling.frequency_penalty.is_some(), "frequency_penalty"),
            (sampling.presence_penalty.is_some(), "presence_penalty"),
            (sampling.repetition_penalty.is_some(), "repetition_penalty"),
            (sampling.seed.is_some(), "seed"),
        ])
    }

    fn extra_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn auth_header(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        let event: StreamEvent<'_> = parse(frame.data)?;
        let kind = event.kind.get().unwrap_or(frame.event);
        event.tell(kind, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        let answer: Answer<'_> = parse(body)?;
        if let Some(usage) = &answer.usage {
            usage.tell(out);
        }
        for block in &answer.content.0 {
            block.tell(out);
            if let Some(input) = block.input {
                out.text(Channel::Tool, input.get());
            }
        }
        out.finish(answer.stop_reason.get().unwrap_or_default());
        if let Some(message) = &answer.error.0 {
            out.error(message);
        }
        Ok(())
    }
}
