//! OpenAI's own APIs, which most servers copy: `openai-chat`, `openai-completions` and `embeddings`; and what others share with them.

use bench_schema::{Channel, GenerationRequest, Nanos, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::api::{Api, Object, Parameters, PromptForm};
use super::json::{Count, ErrorField, Length, List, Number, Shape, Text, TextOrList};
use super::{DecodeError, Delta, Document, Framing, ProtocolOptions, UsageRequest};

/// The chat API of OpenAI and of all servers that copy it.
pub(crate) const CHAT: Api = Api {
    name: "openai-chat",
    paths: ["/v1/chat/completions"; 2],
    parameters: Parameters {
        // its name is an option
        without: "max_tokens",
        ..Parameters::OPENAI
    },
    more: |body, request, options| {
        let key = if options.max_completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body.set_some(key, request.max_tokens);
        stream_options(body, request, options);
    },
    read: |document, out| read(document, Shape::Chat, out),
    read_header,
    ..Api::COMMON
};

/// The completions API. The only OpenAI API that takes token ids.
pub(crate) const COMPLETIONS: Api = Api {
    name: "openai-completions",
    paths: ["/v1/completions"; 2],
    prompt: PromptForm::TextOrIds("prompt", "prompt"),
    more: stream_options,
    read: |document, out| read(document, Shape::Completions, out),
    read_header,
    ..Api::COMMON
};

/// The embeddings API. Nothing is generated: one event when the answer is there, and only E2E has a meaning.
pub(crate) const EMBEDDINGS: Api = Api {
    name: "embeddings",
    paths: ["/v1/embeddings"; 2],
    framing: Framing::Json,
    stream: false,
    prompt: PromptForm::TextOrIds("input", "input"),
    parameters: Parameters {
        samples: false,
        without: "max_tokens min_tokens ignore_eos",
        ..Parameters::OPENAI
    },
    read: read_embeddings,
    ..Api::COMMON
};

/// `usage`, with the details that some servers add.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenAiUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Option<TokenDetails>,
    completion_tokens_details: Option<TokenDetails>,
}

/// A usage where the API has none; anything else is absent.
fn usage_or_nothing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<OpenAiUsage>, D::Error> {
    Ok(told(&Value::deserialize(from)?))
}

/// The `usage` of a member that the API does not have.
fn usage_within<'de, D: Deserializer<'de>>(from: D) -> Result<Option<OpenAiUsage>, D::Error> {
    Ok(Value::deserialize(from)?.get("usage").and_then(told))
}

fn told(usage: &Value) -> Option<OpenAiUsage> {
    let usage = usage.is_object().then_some(usage)?;
    OpenAiUsage::deserialize(usage).ok()
}

/// What some servers add about the tokens of a prompt, and of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenDetails {
    pub(crate) cached_tokens: Count,
    pub(crate) reasoning_tokens: Count,
}

impl OpenAiUsage {
    /// Said to `out`, as a running total too: servers repeat `usage` in each chunk when asked to.
    pub(crate) fn emit(&self, out: &mut Delta) {
        let cached = self.prompt_tokens_details.as_ref();
        let reasoning = self.completion_tokens_details.as_ref();
        out.usage(&Usage {
            prompt_tokens: self.prompt_tokens.0,
            completion_tokens: self.completion_tokens.0,
            cached_tokens: cached.and_then(|details| details.cached_tokens.0),
            reasoning_tokens: reasoning.and_then(|details| details.reasoning_tokens.0),
        });
        if let Some(total) = self.completion_tokens.0 {
            out.total_tokens(total);
        }
    }
}

/// llama.cpp's own `timings`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LlamaTimings {
    cache_n: Count,
    prompt_ms: Number,
    predicted_ms: Number,
}

impl LlamaTimings {
    pub(crate) fn emit(&self, out: &mut Delta) {
        let millis = |ms: f64| Nanos::from_secs_f64(ms / 1e3);
        if let Some(ms) = self.prompt_ms.0 {
            out.server().prefill = Some(millis(ms));
        }
        if let Some(ms) = self.predicted_ms.0 {
            out.server().decode = Some(millis(ms));
        }
        if self.cache_n.0.is_some() {
            out.usage(&Usage {
                cached_tokens: self.cache_n.0,
                ..Usage::default()
            });
        }
    }
}

/// The `logprobs` of a choice: chat has one entry a token in `content`, completions in `tokens`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Logprobs {
    content: Length,
    tokens: Length,
}

/// The usage that is asked for with a stream.
fn stream_options(body: &mut Object<'_>, request: &GenerationRequest, options: &ProtocolOptions) {
    if !request.stream || options.usage == UsageRequest::None {
        return;
    }
    let continuous = options.usage == UsageRequest::Continuous;
    body.nest("stream_options", |options| {
        options.set("include_usage", &true);
        options.set_some("continuous_usage_stats", continuous.then_some(true));
    });
}

/// `openai-processing-ms`: the server's own total.
pub(crate) fn read_header(name: &str, value: &str, out: &mut Delta) {
    if name == "openai-processing-ms"
        && let Ok(ms) = value.trim().parse::<f64>()
    {
        out.server().total = Some(Nanos::from_secs_f64(ms / 1e3));
    }
}

/// A choice's finish reason. vLLM and gateways say `abort`, `cancelled` and `error` where an answer did not come to its end.
fn finish(reason: Option<&str>, out: &mut Delta) {
    let Some(reason) = reason else { return };
    out.finish(reason);
    if matches!(reason, "abort" | "cancelled" | "error") {
        out.error(format!(
            "the server aborted the response: its finish reason is `{reason}`"
        ));
    }
}

/// An event or a whole answer of chat and completions.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Chunk<'a> {
    choices: List<Choice<'a>>,
    usage: Option<OpenAiUsage>,
    /// Groq's, with the usage of a stream.
    #[serde(deserialize_with = "usage_within")]
    x_groq: Option<OpenAiUsage>,
    timings: Option<LlamaTimings>,
    error: ErrorField,
    object: Text<'a>,
    message: Text<'a>,
}

/// A chat's choice has a `delta`, or a `message` where it is whole; that of completions a `text`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    delta: Option<Piece<'a>>,
    message: Option<Piece<'a>>,
    text: Text<'a>,
    finish_reason: Text<'a>,
    token_ids: Length,
    logprobs: Option<Logprobs>,
    /// Moonshot's, at the end of a stream.
    #[serde(deserialize_with = "usage_or_nothing")]
    usage: Option<OpenAiUsage>,
}

/// A `delta` or a `message`. Servers send `reasoning` and `reasoning_content` both, with the same text.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Piece<'a> {
    role: Text<'a>,
    /// A text, or parts (Mistral, and servers that think in parts).
    content: TextOrList<'a, Part<'a>>,
    reasoning: Text<'a>,
    reasoning_content: Text<'a>,
    refusal: Text<'a>,
    tool_calls: List<ToolCall<'a>>,
    function_call: Option<Function<'a>>,
}

/// `{"type": "text", "text": …}` or `{"type": "thinking", "thinking": [parts]}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    thinking: List<Part<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCall<'a> {
    function: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Text<'a>,
    arguments: Text<'a>,
}

impl Chunk<'_> {
    fn emit(&self, shape: Shape, whole: bool, out: &mut Delta) {
        let usage = self.usage();
        if let Some(usage) = usage {
            usage.emit(out);
        }
        if let Some(timings) = &self.timings {
            timings.emit(out);
        }
        let generated = usage.and_then(|usage| usage.completion_tokens.0) > Some(0);
        for choice in &self.choices.0 {
            match shape {
                Shape::Chat => choice.emit_chat(whole, generated, out),
                Shape::Completions => choice.emit_text(whole, generated, out),
            }
            if let Some(tokens) = choice.tokens() {
                out.tokens(tokens);
            }
            finish(choice.finish_reason.get(), out);
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if self.object.get() == Some("error") {
            out.error(self.message.get().unwrap_or("an error without a message"));
        }
    }

    /// In its place, else elsewhere. Where several choices have one each, nobody knows whether they add up.
    fn usage(&self) -> Option<&OpenAiUsage> {
        let in_choice = || match self.choices.0.as_slice() {
            [only] => only.usage.as_ref(),
            _ => None,
        };
        let usage = self.usage.as_ref().or(self.x_groq.as_ref());
        usage.or_else(in_choice)
    }
}

impl Choice<'_> {
    /// `whole` is for an answer that is not streamed; `generated` for one in which the server counted tokens.
    fn emit_chat(&self, whole: bool, generated: bool, out: &mut Delta) {
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

    fn emit_text(&self, whole: bool, generated: bool, out: &mut Delta) {
        self.text.emit(Channel::Answer, out);
        // Beside a finish reason an empty text only closes the answer.
        let is_token = if whole {
            generated
        } else {
            self.finish_reason.filled().is_none()
        };
        if is_token && self.text.is_empty_string() {
            out.empty_token(Channel::Answer);
        }
    }

    /// Its tokens, where the chunk tells: by ids, else by log probabilities.
    fn tokens(&self) -> Option<usize> {
        let logged = self.logprobs.as_ref();
        let logged = logged.and_then(|logged| logged.content.0.or(logged.tokens.0));
        let told = |count: &usize| *count > 0;
        self.token_ids.0.filter(told).or(logged.filter(told))
    }
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

impl Part<'_> {
    fn emit(&self, channel: Channel, out: &mut Delta) {
        self.text.emit(channel, out);
        for thought in &self.thinking.0 {
            thought.emit(Channel::Reasoning, out);
        }
    }
}

fn read(document: Document<'_>, shape: Shape, out: &mut Delta) -> Result<(), DecodeError> {
    if !document.whole
        && let Some(chunk) = out.mould().skim(document.data, shape)
    {
        let [prompt, completion] = chunk.usage.map(Count);
        let usage = OpenAiUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            ..OpenAiUsage::default()
        };
        usage.emit(out);
        out.text(Channel::Answer, chunk.text);
        finish(Some(chunk.finish_reason), out);
        return Ok(());
    }
    let chunk: Chunk<'_> = document.parse()?;
    chunk.emit(shape, document.whole, out);
    Ok(())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Embeddings {
    data: List<serde::de::IgnoredAny>,
    usage: Option<OpenAiUsage>,
    error: ErrorField,
}

fn read_embeddings(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    let answer: Embeddings = document.parse()?;
    if let Some(message) = &answer.error.0 {
        out.error(message);
        return Ok(());
    }
    if answer.data.0.is_empty() {
        return Err(DecodeError::new("`data` contains no embedding"));
    }
    out.empty_token(Channel::Answer);
    if let Some(usage) = &answer.usage {
        usage.emit(out);
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/openai.rs"]
mod tests;
