//! `openai-chat`: `POST /v1/chat/completions`.

use bench_schema::Channel;
use serde::Deserialize;

use super::api::{Api, Document, Parameters};
use super::json::{Length, List, Text};
use super::openai::{self, Choice, Chunk, Content, Logprobs};
use super::skim::{Shape, skim};
use super::{DecodeError, Delta};

/// The chat API of OpenAI and of all servers that copy it.
pub(crate) const API: Api = Api {
    name: "openai-chat",
    paths: ["/v1/chat/completions"; 2],
    parameters: Parameters {
        // its name is an option
        max_tokens: None,
        ..Parameters::OPENAI
    },
    more: |body, request, options| {
        body.set_some(options.max_tokens_key(), request.max_tokens);
        openai::stream_options(body, request, options);
    },
    read,
    read_header: openai::read_header,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatChoice<'a> {
    #[serde(borrow)]
    delta: Option<Piece<'a>>,
    #[serde(borrow)]
    message: Option<Piece<'a>>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    token_ids: Length,
    logprobs: Option<Logprobs>,
}

/// A `delta` or a `message`. Servers send `reasoning` and `reasoning_content` both, with the same text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Content<'a>,
    #[serde(borrow)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
    #[serde(borrow)]
    tool_calls: List<ToolCall<'a>>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
}

impl Piece<'_> {
    fn emit(&self, out: &mut Delta) {
        let reasoning = self.reasoning.filled().or(self.reasoning_content.filled());
        out.text(Channel::Reasoning, reasoning.unwrap_or_default());
        let calls = self
            .tool_calls
            .0
            .iter()
            .filter_map(|call| call.function.as_ref());
        for function in calls.chain(&self.function_call) {
            function.name.emit(Channel::Tool, out);
            function.arguments.emit(Channel::Tool, out);
        }
        self.refusal.emit(Channel::Refusal, out);
        self.content.text.emit(Channel::Answer, out);
        for part in &self.content.list {
            part.emit(Channel::Answer, out);
        }
    }

    /// Whether it carries nothing but an empty `content`.
    fn is_empty_content(&self) -> bool {
        self.content.text.is_empty_string()
            && self.reasoning.filled().is_none()
            && self.reasoning_content.filled().is_none()
            && self.refusal.filled().is_none()
            && self.tool_calls.0.is_empty()
            && self.function_call.is_none()
    }
}

impl Choice for ChatChoice<'_> {
    fn emit_text(&self, whole: bool, generated: bool, out: &mut Delta) {
        for piece in self.delta.iter().chain(&self.message) {
            piece.emit(out);
            // With a role it opens the answer; without, it is a token that detokenises to nothing. A whole answer
            // always has a role: there the server's count decides.
            let is_token = if whole {
                generated
            } else {
                piece.role.get().is_none()
            };
            if is_token && piece.is_empty_content() {
                out.empty_token(Channel::Answer);
            }
        }
    }

    fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.get()
    }

    fn counted(&self) -> (Length, Option<&Logprobs>) {
        (self.token_ids, self.logprobs.as_ref())
    }
}

fn read(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    if !document.whole
        && let Some(common) = skim(document.data, Shape::Chat)
    {
        out.text(Channel::Answer, common.text);
        return Ok(());
    }
    let chunk: Chunk<'_, ChatChoice<'_>> = document.parse()?;
    chunk.emit(document.whole, out);
    Ok(())
}

#[cfg(test)]
mod tests;
