//! What the OpenAI-compatible protocols share: usage, token counts, timings, and what an event looks like around its choices.

use bench_schema::{Channel, GenerationRequest, Nanos, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, Length, List, Number, Text, TextOrList};
use super::{Delta, ProtocolOptions, UsageRequest};

/// `usage`, with the details that some servers add.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Option<TokenDetails>,
    completion_tokens_details: Option<TokenDetails>,
}

/// What some servers add about the tokens of a prompt, and of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenDetails {
    pub(crate) cached_tokens: Count,
    pub(crate) reasoning_tokens: Count,
}

impl OpenAiUsage {
    pub(crate) fn completion_tokens(&self) -> Option<u64> {
        self.completion_tokens.0
    }

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
pub(crate) struct Logprobs {
    content: Length,
    tokens: Length,
}

/// Tokens of a choice, where the chunk tells: by ids, else by log probabilities.
pub(crate) fn tokens_of(ids: Length, logprobs: Option<&Logprobs>) -> Option<usize> {
    let logged = logprobs.and_then(|logged| logged.content.0.or(logged.tokens.0));
    ids.0
        .filter(|&count| count > 0)
        .or(logged.filter(|&count| count > 0))
}

/// The usage that is asked for with a stream.
pub(crate) fn stream_options(
    body: &mut Object<'_>,
    request: &GenerationRequest,
    options: &ProtocolOptions,
) {
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

/// A choice's finish reason. vLLM and gateways say `abort` and `error` where an answer did not come to its end.
pub(crate) fn finish(reason: Option<&str>, out: &mut Delta) {
    let Some(reason) = reason else { return };
    out.finish(reason);
    if matches!(reason, "abort" | "error") {
        out.error(format!(
            "the server gave up: its finish reason is `{reason}`"
        ));
    }
}

/// An event or a whole answer; `C` is the API's choice.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "C: Deserialize<'de> + Default"))]
pub(crate) struct Chunk<'a, C> {
    choices: List<C>,
    usage: Option<OpenAiUsage>,
    timings: Option<LlamaTimings>,
    error: ErrorField,
    #[serde(borrow)]
    object: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
}

/// What both APIs' choices have.
pub(crate) trait Choice {
    /// Its text, on every channel that it has. `whole` is for an answer that is not streamed; `generated` for one in which the server
    /// counted tokens.
    fn emit_text(&self, whole: bool, generated: bool, out: &mut Delta);

    /// Why it ended, where it did.
    fn finish_reason(&self) -> Option<&str>;

    /// What its tokens can be counted by.
    fn counted(&self) -> (Length, Option<&Logprobs>);
}

impl<C: Choice> Chunk<'_, C> {
    pub(crate) fn emit(&self, whole: bool, out: &mut Delta) {
        if let Some(usage) = &self.usage {
            usage.emit(out);
        }
        if let Some(timings) = &self.timings {
            timings.emit(out);
        }
        let generated = self.usage.as_ref().and_then(OpenAiUsage::completion_tokens) > Some(0);
        for choice in &self.choices.0 {
            choice.emit_text(whole, generated, out);
            let (ids, logprobs) = choice.counted();
            if let Some(tokens) = tokens_of(ids, logprobs) {
                out.tokens(tokens);
            }
            finish(choice.finish_reason(), out);
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if self.object.get() == Some("error") {
            out.error(self.message.get().unwrap_or("an error without a message"));
        }
    }
}

/// A chat's `content`: a text, or parts (Mistral, and servers that think in parts).
pub(crate) type Content<'a> = TextOrList<'a, Part<'a>>;

/// `{"type": "text", "text": …}` or `{"type": "thinking", "thinking": [parts]}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    thinking: List<Part<'a>>,
}

impl Part<'_> {
    pub(crate) fn emit(&self, channel: Channel, out: &mut Delta) {
        self.text.emit(channel, out);
        for thought in &self.thinking.0 {
            thought.emit(Channel::Reasoning, out);
        }
    }
}
