//! `sglang-generate`: SGLang's own `/generate`. Each event repeats the whole text so far.

use bench_schema::{Channel, Nanos, Usage};
use serde::Deserialize;

use super::Delta;
use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, Number, Text};

/// The native API of SGLang.
pub(crate) const API: Api = Api {
    name: "sglang-generate",
    paths: ["/generate"; 2],
    model: false,
    prompt: PromptForm::TextOrIds("text", "input_ids"),
    parameters: Parameters {
        within: Some("sampling_params"),
        renamed: "max_tokens=max_new_tokens min_tokens=min_new_tokens seed=sampling_seed",
        ..Parameters::OPENAI
    },
    read: |document, out| document.read(|event: StreamEvent<'_>| event.emit(out)),
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    text: Text<'a>,
    meta_info: Meta<'a>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Meta<'a> {
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
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Finish<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    message: Text<'a>,
}

impl StreamEvent<'_> {
    fn emit(&self, out: &mut Delta) {
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
        self.error.emit(out);
    }
}
