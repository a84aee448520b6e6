//! `llamacpp-completion`: llama-server's own `/completion`, with its own timings.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, Text, parse};
use super::openai::{self, LlamaTimings, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// The native API of llama.cpp's server.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlamaCppCompletion;

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    stop: bool,
    #[serde(borrow)]
    stop_type: Text<'a>,
    tokens_predicted: Count,
    tokens_evaluated: Count,
    timings: Option<LlamaTimings>,
    error: ErrorField,
}

impl StreamEvent<'_> {
    fn tell(&self, whole: bool, out: &mut Delta) {
        out.text(Channel::Answer, self.content.get().unwrap_or_default());
        // An empty content is a token if the count grew: with `return_progress` the prompt's progress looks like one. The
        // last event closes the answer, whatever it counts.
        let grew = self
            .tokens_predicted
            .0
            .is_none_or(|now| now > out.tokens_so_far());
        if grew && (whole || !self.stop) && self.content.is_empty_string() {
            out.empty_token(Channel::Answer);
        }
        if self.tokens_predicted.0.is_some() || self.tokens_evaluated.0.is_some() {
            out.usage(&Usage {
                prompt_tokens: self.tokens_evaluated.0,
                completion_tokens: self.tokens_predicted.0,
                ..Usage::default()
            });
        }
        if let Some(total) = self.tokens_predicted.0 {
            out.total_tokens(total);
        }
        if let Some(timings) = &self.timings {
            timings.tell(out);
        }
        if self.stop {
            out.finish(self.stop_type.filled().unwrap_or("stop"));
            out.end_marker();
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        }
    }
}

impl Protocol for LlamaCppCompletion {
    fn name(&self) -> &'static str {
        "llamacpp-completion"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/completion".into()
    }

    fn body(&self, request: &GenerationRequest, _: &str) -> Vec<u8> {
        let sampling = &request.sampling;
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        match &request.prompt {
            Prompt::TokenIds(ids) => body.set("prompt", ids),
            other => body.set("prompt", &*openai::plain_text(other)),
        }
        body.set("stream", &request.stream);
        body.set_some("n_predict", request.max_tokens);
        body.set_true("ignore_eos", request.ignore_eos);
        body.set_some("temperature", sampling.temperature);
        body.set_some("top_p", sampling.top_p);
        body.set_some("top_k", sampling.top_k);
        body.set_some("min_p", sampling.min_p);
        body.set_some("frequency_penalty", sampling.frequency_penalty);
        body.set_some("presence_penalty", sampling.presence_penalty);
        body.set_some("repeat_penalty", sampling.repetition_penalty);
        body.set_some("seed", sampling.seed);
        if !sampling.stop.is_empty() {
            body.set("stop", &sampling.stop);
        }
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let mut found = names([(request.min_tokens.is_some(), "min_tokens")]);
        found.extend(openai::conversation_unsupported(request));
        found
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        parse::<StreamEvent<'_>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<StreamEvent<'_>>(body)?.tell(true, out);
        Ok(())
    }
}
