//! `openai-chat`: `POST /v1/chat/completions`.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt};
use serde::Deserialize;

use super::body::Object;
use super::json::{Length, List, Text, parse};
use super::openai::{self, Logprobs};
use super::openai_chunk::{Choice, Chunk};
use super::openai_content::Content;
use super::skim::{Shape, skim};
use super::{DecodeError, Delta, Frame, Protocol, ProtocolOptions};

/// The chat API of OpenAI and of all servers that copy it.
#[derive(Clone, Debug, Default)]
pub struct OpenAiChat {
    /// What to ask for beside the answer.
    pub options: ProtocolOptions,
}

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
    fn tell(&self, out: &mut Delta) {
        let reasoning = self.reasoning.filled().or(self.reasoning_content.filled());
        out.text(Channel::Reasoning, reasoning.unwrap_or_default());
        let calls = self
            .tool_calls
            .0
            .iter()
            .filter_map(|call| call.function.as_ref());
        for function in calls.chain(&self.function_call) {
            out.text(Channel::Tool, function.name.get().unwrap_or_default());
            out.text(Channel::Tool, function.arguments.get().unwrap_or_default());
        }
        out.text(Channel::Refusal, self.refusal.get().unwrap_or_default());
        out.text(Channel::Answer, self.content.text.get().unwrap_or_default());
        for part in &self.content.parts {
            part.tell(Channel::Answer, out);
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
    fn tell_text(&self, whole: bool, generated: bool, out: &mut Delta) {
        for piece in self.delta.iter().chain(&self.message) {
            piece.tell(out);
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

impl Protocol for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/v1/chat/completions".into()
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let room = openai::room(&request.prompt);
        let mut body = Object::new(request.extra_body.as_deref(), room);
        body.set("model", model);
        body.set("messages", &openai::messages(&request.prompt));
        openai::parameters(&mut body, request, self.options.max_tokens_key());
        openai::streaming(&mut body, request, self.options.usage);
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let ids = matches!(request.prompt, Prompt::TokenIds(_));
        ids.then_some("token-id prompts").into_iter().collect()
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        if let Some(common) = skim(frame.data, Shape::Chat) {
            out.text(Channel::Answer, common.text);
            return Ok(());
        }
        parse::<Chunk<'_, ChatChoice<'_>>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Chunk<'_, ChatChoice<'_>>>(body)?.tell(true, out);
        Ok(())
    }

    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        openai::header(name, value, out);
    }
}

#[cfg(test)]
mod tests;
