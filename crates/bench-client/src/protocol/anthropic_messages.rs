//! `anthropic-messages`: `POST /v1/messages`, a stream of typed events that ends with `message_stop`.

use bench_schema::{Channel, Usage};
use serde::Deserialize;

use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, List, Text};
use super::{DecodeError, Delta, Document};

/// The API insists on `max_tokens`; what is sent where the request leaves it to the server.
const MAX_TOKENS: u32 = 4096;

/// The messages API of Anthropic and of the servers that copy it.
pub(crate) const API: Api = Api {
    name: "anthropic-messages",
    paths: ["/v1/messages"; 2],
    headers: &[("anthropic-version", "2023-06-01")],
    key_header: Some("x-api-key"),
    prompt: PromptForm::MessagesAndSystem,
    parameters: Parameters {
        // the limit is written below
        without: "max_tokens min_tokens ignore_eos min_p frequency_penalty presence_penalty repetition_penalty seed",
        renamed: "stop=stop_sequences",
        ..Parameters::OPENAI
    },
    more: |body, request, _| body.set("max_tokens", &request.max_tokens.unwrap_or(MAX_TOKENS)),
    read,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    message: Option<Answer<'a>>,
    content_block: Option<Block<'a>>,
    delta: Option<BlockDelta<'a>>,
    usage: Option<AnthropicUsage>,
    error: ErrorField,
}

/// A whole message; in a stream only its usage says something.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Answer<'a> {
    content: List<Block<'a>>,
    stop_reason: Text<'a>,
    usage: Option<AnthropicUsage>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Block<'a> {
    text: Text<'a>,
    thinking: Text<'a>,
    name: Text<'a>,
    input: Option<&'a serde_json::value::RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct BlockDelta<'a> {
    text: Text<'a>,
    thinking: Text<'a>,
    partial_json: Text<'a>,
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
    fn told(&self) -> Usage {
        let cached = self.cache_read.0;
        let written = self.cache_written.0;
        let prompt = self.input.0;
        Usage {
            prompt_tokens: prompt.map(|n| n + cached.unwrap_or(0) + written.unwrap_or(0)),
            completion_tokens: self.output.0,
            cached_tokens: cached,
            reasoning_tokens: None,
        }
    }
}

impl Answer<'_> {
    fn emit(&self, out: &mut Delta) {
        if let Some(usage) = &self.usage {
            out.usage(&usage.told());
        }
        for block in &self.content.0 {
            block.emit(out);
            out.text(Channel::Tool, block.input.map_or("", |raw| raw.get()));
        }
        out.finish(self.stop_reason.get().unwrap_or_default());
        self.error.emit(out);
    }
}

impl Block<'_> {
    fn emit(&self, out: &mut Delta) {
        self.thinking.emit(Channel::Reasoning, out);
        self.name.emit(Channel::Tool, out);
        self.text.emit(Channel::Answer, out);
    }
}

impl StreamEvent<'_> {
    fn emit(&self, kind: &str, out: &mut Delta) {
        // What a message opens with counts no output yet: most servers say 1 there.
        let opening = self.message.as_ref().and_then(|m| m.usage.as_ref());
        let opening = opening.map(|usage| Usage {
            completion_tokens: None,
            ..usage.told()
        });
        let usage = self.usage.as_ref().map(AnthropicUsage::told);
        out.usage(&usage.or(opening).unwrap_or_default());
        if let Some(block) = &self.content_block {
            block.emit(out);
        }
        if let Some(delta) = &self.delta {
            delta.thinking.emit(Channel::Reasoning, out);
            delta.partial_json.emit(Channel::Tool, out);
            delta.text.emit(Channel::Answer, out);
            if delta.text.is_empty_string() {
                out.empty_token(Channel::Answer);
            }
            out.finish(delta.stop_reason.get().unwrap_or_default());
        }
        if kind == "message_stop" {
            out.end_marker();
        }
        if kind == "error" {
            out.error("an error without a message");
        }
        self.error.emit(out);
    }
}

fn read(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    if document.whole {
        document.parse::<Answer<'_>>()?.emit(out);
    } else {
        let event: StreamEvent<'_> = document.parse()?;
        event.emit(event.kind.get().unwrap_or(document.event), out);
    }
    Ok(())
}
