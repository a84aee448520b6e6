//! `sglang-generate`: SGLang's own `/generate`. Each event repeats the whole text so far.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Nanos, Prompt, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, Number, Text, parse};
use super::openai;
use super::{DecodeError, Delta, Frame, Protocol};

/// The native API of SGLang.
#[derive(Clone, Copy, Debug, Default)]
pub struct SglangGenerate;

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    meta_info: Meta<'a>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    finish_reason: Option<Finish<'a>>,
    prompt_tokens: Count,
    completion_tokens: Count,
    cached_tokens: Count,
    e2e_latency: Number,
    queue_time: Number,
    forward_entry_time: Number,
    prefill_finished_time: Number,
}

/// `{"type": "length", "length": 4}`, or `{"type": "abort", "message": …}`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Finish<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
}

impl StreamEvent<'_> {
    fn tell(&self, out: &mut Delta) {
        let meta = &self.meta_info;
        out.usage(&Usage {
            prompt_tokens: meta.prompt_tokens.0,
            completion_tokens: meta.completion_tokens.0,
            cached_tokens: meta.cached_tokens.0,
            reasoning_tokens: None,
        });
        let has_more = meta
            .completion_tokens
            .0
            .map(|now| now > out.tokens_so_far());
        let has_text = out.text_so_far(Channel::Answer, self.text.get().unwrap_or_default());
        // The text waits where a token ends within a character; the count goes on.
        let open = meta.finish_reason.is_none() && self.text.get().is_some();
        if !has_text && has_more.unwrap_or(open) {
            out.empty_token(Channel::Answer);
        }
        if let Some(total) = meta.completion_tokens.0 {
            out.total_tokens(total);
        }
        let seconds = |s: f64| Nanos::from_secs_f64(s);
        if let Some(total) = meta.e2e_latency.0 {
            out.server().total = Some(seconds(total));
        }
        if let Some(queue) = meta.queue_time.0 {
            out.server().queue = Some(seconds(queue));
        }
        if let (Some(from), Some(to)) = (meta.forward_entry_time.0, meta.prefill_finished_time.0) {
            // both are of the server's wall clock, which may be set back
            out.server().prefill =
                Some(seconds(to - from)).filter(|prefill| *prefill >= Nanos::ZERO);
        }
        if let Some(finish) = &meta.finish_reason {
            out.finish(finish.kind.get().unwrap_or_default());
            if finish.kind.get() == Some("abort") {
                out.error(
                    finish
                        .message
                        .filled()
                        .unwrap_or("the server aborted the request"),
                );
            }
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        }
    }
}

impl Protocol for SglangGenerate {
    fn name(&self) -> &'static str {
        "sglang-generate"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/generate".into()
    }

    fn body(&self, request: &GenerationRequest, _: &str) -> Vec<u8> {
        let sampling = &request.sampling;
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        match &request.prompt {
            Prompt::TokenIds(ids) => body.set("input_ids", ids),
            other => body.set("text", &*openai::plain_text(other)),
        }
        body.set("stream", &request.stream);
        body.nest("sampling_params", |parameters| {
            parameters.set_some("max_new_tokens", request.max_tokens);
            parameters.set_some("min_new_tokens", request.min_tokens);
            parameters.set_true("ignore_eos", request.ignore_eos);
            parameters.set_some("temperature", sampling.temperature);
            parameters.set_some("top_p", sampling.top_p);
            parameters.set_some("top_k", sampling.top_k);
            parameters.set_some("min_p", sampling.min_p);
            parameters.set_some("frequency_penalty", sampling.frequency_penalty);
            parameters.set_some("presence_penalty", sampling.presence_penalty);
            parameters.set_some("repetition_penalty", sampling.repetition_penalty);
            parameters.set_some("sampling_seed", sampling.seed);
            if !sampling.stop.is_empty() {
                parameters.set("stop", &sampling.stop);
            }
        });
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        openai::conversation_unsupported(request)
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        parse::<StreamEvent<'_>>(frame.data)?.tell(out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<StreamEvent<'_>>(body)?.tell(out);
        Ok(())
    }
}
