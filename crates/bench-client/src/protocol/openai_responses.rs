//! `openai-responses`: `POST /v1/responses`, a stream of typed events without `[DONE]`.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, List, Text, parse};
use super::openai::{self, LlamaTimings, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// The responses API of OpenAI and of the servers that copy it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiResponses;

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    delta: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    /// llama-server's, beside the closing event's response.
    timings: Option<LlamaTimings>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
    usage: Option<ResponseUsage>,
    error: ErrorField,
    #[serde(borrow)]
    output: List<Item<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

/// An item of a whole response's `output`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    content: List<Part<'a>>,
    #[serde(borrow)]
    summary: List<Part<'a>>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
}

impl Response<'_> {
    /// The response object of a closing event, or a whole answer: everything but its text.
    fn tell_end(&self, out: &mut Delta) {
        if let Some(usage) = &self.usage {
            let input = usage.input_tokens_details.as_ref();
            let output = usage.output_tokens_details.as_ref();
            out.usage(&Usage {
                prompt_tokens: usage.input_tokens.0,
                completion_tokens: usage.output_tokens.0,
                cached_tokens: input.and_then(|details| details.cached_tokens.0),
                reasoning_tokens: output.and_then(|details| details.reasoning_tokens.0),
            });
        }
        let reason = self
            .incomplete_details
            .as_ref()
            .and_then(|why| why.reason.filled());
        if let Some(reason) = reason.or(self.status.get()) {
            out.finish(reason);
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if self.status.get() == Some("failed") {
            out.error("the response failed without a message");
        }
    }

    fn tell_output(&self, out: &mut Delta) {
        for item in &self.output.0 {
            let channel = match item.kind.get() {
                Some("reasoning") => Channel::Reasoning,
                _ => Channel::Answer,
            };
            for part in item.content.0.iter().chain(&item.summary.0) {
                out.text(channel, part.text.get().unwrap_or_default());
                out.text(Channel::Refusal, part.refusal.get().unwrap_or_default());
            }
            if item.kind.get() == Some("function_call") {
                out.text(Channel::Tool, item.name.get().unwrap_or_default());
                out.text(Channel::Tool, item.arguments.get().unwrap_or_default());
            }
        }
    }
}

impl StreamEvent<'_> {
    fn tell(&self, kind: &str, out: &mut Delta) {
        let channel = match kind {
            "response.output_text.delta" => Some(Channel::Answer),
            "response.reasoning_text.delta"
            | "response.reasoning.delta"
            | "response.reasoning_summary_text.delta" => Some(Channel::Reasoning),
            "response.refusal.delta" => Some(Channel::Refusal),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                Some(Channel::Tool)
            }
            _ => None,
        };
        if let Some(channel) = channel {
            out.text(channel, self.delta.get().unwrap_or_default());
            if channel == Channel::Answer && self.delta.is_empty_string() {
                out.empty_token(channel);
            }
        }
        match kind {
            "response.completed" | "response.incomplete" | "response.failed" => {
                if let Some(response) = &self.response {
                    response.tell_end(out);
                }
                if let Some(timings) = &self.timings {
                    timings.tell(out);
                }
                out.end_marker();
            }
            "error" => {
                let message = self.error.0.as_deref().or(self.message.get());
                out.error(message.unwrap_or("an error without a message"));
            }
            _ => {
                if let Some(message) = &self.error.0 {
                    out.error(message);
                }
            }
        }
    }
}

impl Protocol for OpenAiResponses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/v1/responses".into()
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        match &request.prompt {
            Prompt::Messages(messages) => body.set("input", messages),
            other => body.set("input", &*openai::plain_text(other)),
        }
        body.set("stream", &request.stream);
        body.set_some("max_output_tokens", request.max_tokens);
        body.set_some("temperature", request.sampling.temperature);
        body.set_some("top_p", request.sampling.top_p);
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
            (sampling.top_k.is_some(), "top_k"),
            (sampling.min_p.is_some(), "min_p"),
            (sampling.frequency_penalty.is_some(), "frequency_penalty"),
            (sampling.presence_penalty.is_some(), "presence_penalty"),
            (sampling.repetition_penalty.is_some(), "repetition_penalty"),
            (sampling.seed.is_some(), "seed"),
            (!sampling.stop.is_empty(), "stop"),
        ])
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        let event: StreamEvent<'_> = parse(frame.data)?;
        let kind = event.kind.get().unwrap_or(frame.event);
        event.tell(kind, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        let response: Response<'_> = parse(body)?;
        response.tell_output(out);
        response.tell_end(out);
        Ok(())
    }

    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        openai::header(name, value, out);
    }
}
