//! What the OpenAI-compatible protocols share: parameters, usage, timings.

use std::borrow::Cow;
use std::sync::Arc;

use bench_schema::{GenerationRequest, Message, Nanos, Prompt, Role, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, Length, Number};
use super::{Delta, UsageRequest};

/// `usage`, with the details that some servers add.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl OpenAiUsage {
    pub(crate) fn completion_tokens(&self) -> Option<u64> {
        self.completion_tokens.0
    }

    /// Tells `out`, as a running total too: servers repeat `usage` in each chunk when asked to.
    pub(crate) fn tell(&self, out: &mut Delta) {
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
    pub(crate) fn tell(&self, out: &mut Delta) {
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

/// The parameters that vLLM, SGLang, llama-server and OpenAI itself (the standard ones) take in the same place.
pub(crate) fn parameters(
    body: &mut Object<'_>,
    request: &GenerationRequest,
    max_tokens_key: &'static str,
) {
    let sampling = &request.sampling;
    body.set_some(max_tokens_key, request.max_tokens);
    body.set_some("min_tokens", request.min_tokens);
    body.set_true("ignore_eos", request.ignore_eos);
    body.set_some("temperature", sampling.temperature);
    body.set_some("top_p", sampling.top_p);
    body.set_some("top_k", sampling.top_k);
    body.set_some("min_p", sampling.min_p);
    body.set_some("frequency_penalty", sampling.frequency_penalty);
    body.set_some("presence_penalty", sampling.presence_penalty);
    body.set_some("repetition_penalty", sampling.repetition_penalty);
    body.set_some("seed", sampling.seed);
    if !sampling.stop.is_empty() {
        body.set("stop", &sampling.stop);
    }
}

/// `stream`, and the usage that is asked for with it.
pub(crate) fn streaming(body: &mut Object<'_>, request: &GenerationRequest, usage: UsageRequest) {
    body.set("stream", &request.stream);
    if !request.stream || usage == UsageRequest::None {
        return;
    }
    body.nest("stream_options", |options| {
        options.set("include_usage", &true);
        options.set_true("continuous_usage_stats", usage == UsageRequest::Continuous);
    });
}

/// The prompt as a conversation. Token ids have no place in one: they are reported by `unsupported`.
pub(crate) fn messages(prompt: &Prompt) -> Cow<'_, [Message]> {
    let content = match prompt {
        Prompt::Messages(messages) => return Cow::Borrowed(messages),
        Prompt::Text(text) => Arc::clone(text),
        Prompt::TokenIds(_) => plain_text(prompt).into(),
    };
    Cow::Owned(vec![Message {
        role: Role::User,
        content,
    }])
}

/// The prompt as one text: a conversation's turns on lines of their own, token ids as decimal numbers (which no one wants:
/// they are reported by `unsupported`).
pub(crate) fn plain_text(prompt: &Prompt) -> Cow<'_, str> {
    match prompt {
        Prompt::Text(text) => Cow::Borrowed(text),
        Prompt::Messages(messages) => {
            let turns: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
            turns.join("\n").into()
        }
        Prompt::TokenIds(ids) => {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            ids.join(" ").into()
        }
    }
}

/// Room for a body with this prompt, so that it is written without growing.
pub(crate) fn room(prompt: &Prompt) -> usize {
    let prompt = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Messages(messages) => messages.iter().map(|m| m.content.len() + 40).sum(),
        Prompt::TokenIds(ids) => ids.len() * 7,
    };
    prompt + prompt / 8 + 512
}

/// `openai-processing-ms`: the server's own total.
pub(crate) fn header(name: &str, value: &str, out: &mut Delta) {
    if name == "openai-processing-ms"
        && let Ok(ms) = value.trim().parse::<f64>()
    {
        out.server().total = Some(Nanos::from_secs_f64(ms / 1e3));
    }
}

/// What a list of conditions found: the names whose condition holds.
pub(crate) fn names<const N: usize>(found: [(bool, &'static str); N]) -> Vec<&'static str> {
    found
        .into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, name)| name)
        .collect()
}

/// For an API that takes one text: a conversation of several turns has no form there.
pub(crate) fn conversation_unsupported(request: &GenerationRequest) -> Vec<&'static str> {
    let several = matches!(&request.prompt, Prompt::Messages(messages) if messages.len() > 1);
    names([(several, "conversations")])
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
