//! `triton-generate`: Triton's generate extension, `/v2/models/MODEL/generate_stream` and `/generate`.
//!
//! It has neither an end marker nor a finish reason: the proper end of the transfer ends an answer.

use bench_schema::{Channel, Usage};
use serde::Deserialize;

use super::Delta;
use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, Text};

/// TensorRT-LLM's ensemble: members of the body are the model's inputs.
pub(crate) const TENSORRT_LLM: Api = Api {
    name: "triton-generate",
    paths: [
        "/v2/models/{model}/generate",
        "/v2/models/{model}/generate_stream",
    ],
    ends_with_transfer: true,
    model: false,
    prompt: PromptForm::Text("text_input"),
    parameters: Parameters {
        without: "ignore_eos min_p",
        renamed: "min_tokens=min_length seed=random_seed stop=stop_words",
        ..Parameters::OPENAI
    },
    read: |document, out| document.read(|event: StreamEvent<'_>| event.emit(out)),
    ..Api::COMMON
};

/// The vLLM backend: parameters in an object of their own.
pub(crate) const VLLM: Api = Api {
    name: "triton-generate-vllm",
    stream: false,
    parameters: Parameters {
        within: Some("parameters"),
        without: "stop",
        more: |parameters, request| parameters.set("stream", &request.stream),
        ..Parameters::OPENAI
    },
    more: |body, _, _| {
        body.set("exclude_input_in_output", &true);
        body.set("return_num_output_tokens", &true);
        body.set("return_num_input_tokens", &true);
    },
    ..TENSORRT_LLM
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    text_output: Text<'a>,
    num_input_tokens: Count,
    num_output_tokens: Count,
    finish_reason: Text<'a>,
    error: ErrorField,
}

impl StreamEvent<'_> {
    fn emit(&self, out: &mut Delta) {
        self.text_output.emit(Channel::Answer, out);
        if self.text_output.is_empty_string() && self.num_output_tokens.0 != Some(0) {
            out.empty_token(Channel::Answer);
        }
        // Per event, not a running total.
        if let Some(tokens) = self.num_output_tokens.0 {
            out.tokens(usize::try_from(tokens).unwrap_or(usize::MAX));
        }
        out.usage(&Usage {
            prompt_tokens: self.num_input_tokens.0,
            ..Usage::default()
        });
        // The vLLM backend says so in text where there is none yet.
        let reason = self.finish_reason.get().filter(|&reason| reason != "None");
        out.finish(reason.unwrap_or_default());
        self.error.emit(out);
    }
}
