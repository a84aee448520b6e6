//! `llamacpp-completion`: llama-server's own `/completion`, with its own timings.

use bench_schema::{Channel, Usage};
use serde::Deserialize;

use super::Delta;
use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, Text};
use super::openai::LlamaTimings;

/// The native API of llama.cpp's server.
pub(crate) const API: Api = Api {
    name: "llamacpp-completion",
    paths: ["/completion"; 2],
    model: false,
    prompt: PromptForm::TextOrIds("prompt", "prompt"),
    parameters: Parameters {
        without: "min_tokens",
        renamed: "max_tokens=n_predict repetition_penalty=repeat_penalty",
        ..Parameters::OPENAI
    },
    read: |document, out| document.read(|event: StreamEvent<'_>| event.emit(document.whole, out)),
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    content: Text<'a>,
    stop: bool,
    stop_type: Text<'a>,
    tokens_predicted: Count,
    tokens_evaluated: Count,
    timings: Option<LlamaTimings>,
    error: ErrorField,
}

impl StreamEvent<'_> {
    fn emit(&self, whole: bool, out: &mut Delta) {
        self.content.emit(Channel::Answer, out);
        // An empty content is a token if the count grew: with `return_progress` the prompt's progress looks like one. The
        // last event closes the answer, whatever it counts.
        let grew = self
            .tokens_predicted
            .0
            .is_none_or(|now| now > out.tokens_so_far());
        if grew && (whole || !self.stop) && self.content.is_empty_string() {
            out.empty_token(Channel::Answer);
        }
        out.usage(&Usage {
            prompt_tokens: self.tokens_evaluated.0,
            completion_tokens: self.tokens_predicted.0,
            ..Usage::default()
        });
        if let Some(total) = self.tokens_predicted.0 {
            out.total_tokens(total);
        }
        if let Some(timings) = &self.timings {
            timings.emit(out);
        }
        if self.stop {
            out.finish(self.stop_type.filled().unwrap_or("stop"));
            out.end_marker();
        }
        self.error.emit(out);
    }
}
