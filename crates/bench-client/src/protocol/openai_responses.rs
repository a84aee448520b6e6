//! `openai-responses`: `POST /v1/responses`, a stream of typed events without `[DONE]`.

use bench_schema::{Channel, Usage};
use serde::Deserialize;

use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, List, Text};
use super::openai::{self, LlamaTimings, TokenDetails};
use super::{DecodeError, Delta, Document};

/// The responses API of OpenAI and of the servers that copy it.
pub(crate) const API: Api = Api {
    name: "openai-responses",
    paths: ["/v1/responses"; 2],
    prompt: PromptForm::MessagesOrText("input"),
    parameters: Parameters {
        without: "min_tokens ignore_eos top_k min_p frequency_penalty presence_penalty repetition_penalty seed stop",
        renamed: "max_tokens=max_output_tokens",
        ..Parameters::OPENAI
    },
    read,
    read_header: openai::read_header,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    delta: Text<'a>,
    message: Text<'a>,
    response: Option<Response<'a>>,
    /// llama-server's, beside the closing event's response.
    timings: Option<LlamaTimings>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    status: Text<'a>,
    incomplete_details: Option<Incomplete<'a>>,
    usage: Option<ResponseUsage>,
    error: ErrorField,
    output: List<Item<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Incomplete<'a> {
    reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Option<TokenDetails>,
    output_tokens_details: Option<TokenDetails>,
}

/// An item of a whole response's `output`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    content: List<Part<'a>>,
    summary: List<Part<'a>>,
    name: Text<'a>,
    arguments: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    refusal: Text<'a>,
}

impl Response<'_> {
    /// The response object of a closing event, or a whole answer: everything but its text.
    fn emit_end(&self, out: &mut Delta) {
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
        if self.status.get() == Some("failed") {
            out.error("the response failed without a message");
        }
        self.error.emit(out);
    }

    fn emit_output(&self, out: &mut Delta) {
        for item in &self.output.0 {
            let channel = match item.kind.get() {
                Some("reasoning") => Channel::Reasoning,
                _ => Channel::Answer,
            };
            for part in item.content.0.iter().chain(&item.summary.0) {
                part.text.emit(channel, out);
                part.refusal.emit(Channel::Refusal, out);
            }
            if item.kind.get() == Some("function_call") {
                item.name.emit(Channel::Tool, out);
                item.arguments.emit(Channel::Tool, out);
            }
        }
    }
}

impl StreamEvent<'_> {
    fn emit(&self, kind: &str, out: &mut Delta) {
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
            self.delta.emit(channel, out);
            if channel == Channel::Answer && self.delta.is_empty_string() {
                out.empty_token(channel);
            }
        }
        match kind {
            "response.completed" | "response.incomplete" | "response.failed" => {
                if let Some(response) = &self.response {
                    response.emit_end(out);
                }
                if let Some(timings) = &self.timings {
                    timings.emit(out);
                }
                out.end_marker();
            }
            "error" => {
                let message = self.error.0.as_deref().or(self.message.get());
                out.error(message.unwrap_or("an error without a message"));
            }
            _ => self.error.emit(out),
        }
    }
}

fn read(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    if document.whole {
        let response: Response<'_> = document.parse()?;
        response.emit_output(out);
        response.emit_end(out);
    } else {
        let event: StreamEvent<'_> = document.parse()?;
        event.emit(event.kind.get().unwrap_or(document.event), out);
    }
    Ok(())
}
