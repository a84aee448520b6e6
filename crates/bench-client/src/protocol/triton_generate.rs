//! `triton-generate`: Triton's generate extension, `/v2/models/MODEL/generate_stream` and `/generate`.
//!
//! It has neither an end marker nor a finish reason: the proper end of the transfer ends an answer.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, Text, parse};
use super::openai::{self, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// Triton Inference Server in front of a language model.
#[derive(Clone, Copy, Debug, Default)]
pub struct TritonGenerate {
    /// Which backend's names the parameters have.
    pub dialect: TritonDialect,
}

/// Whose parameters: Triton passes them on to the model as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TritonDialect {
    /// TensorRT-LLM's ensemble: members of the body are the model's inputs.
    #[default]
    TensorRtLlm,
    /// The vLLM backend: parameters in an object of their own.
    Vllm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow)]
    text_output: Text<'a>,
    num_input_tokens: Count,
    num_output_tokens: Count,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    error: ErrorField,
}

impl StreamEvent<'_> {
    fn tell(&self, out: &mut Delta) {
        out.text(Channel::Answer, self.text_output.get().unwrap_or_default());
        if self.text_output.is_empty_string() && self.num_output_tokens.0 != Some(0) {
            out.empty_token(Channel::Answer);
        }
        // Per event, not a running total.
        if let Some(tokens) = self.num_output_tokens.0 {
            out.tokens(usize::try_from(tokens).unwrap_or(usize::MAX));
        }
        if self.num_input_tokens.0.is_some() {
            out.usage(&Usage {
                prompt_tokens: self.num_input_tokens.0,
                ..Usage::default()
            });
        }
        // The vLLM backend says so in text where there is none yet.
        let reason = self.finish_reason.get().filter(|&reason| reason != "None");
        out.finish(reason.unwrap_or_default());
        if let Some(message) = &self.error.0 {
            out.error(message);
        }
    }
}

impl TritonGenerate {
    fn tensorrt_llm(body: &mut Object<'_>, request: &GenerationRequest) {
        let sampling = &request.sampling;
        body.set("stream", &request.stream);
        body.set_some("max_tokens", request.max_tokens);
        body.set_some("min_length", request.min_tokens);
        body.set_some("temperature", sampling.temperature);
        body.set_some("top_p", sampling.top_p);
        body.set_some("top_k", sampling.top_k);
        body.set_some("frequency_penalty", sampling.frequency_penalty);
        body.set_some("presence_penalty", sampling.presence_penalty);
        body.set_some("repetition_penalty", sampling.repetition_penalty);
        body.set_some("random_seed", sampling.seed);
        if !sampling.stop.is_empty() {
            body.set("stop_words", &sampling.stop);
        }
    }

    fn vllm(body: &mut Object<'_>, request: &GenerationRequest) {
        let sampling = &request.sampling;
        body.set("exclude_input_in_output", &true);
        body.set("return_num_output_tokens", &true);
        body.set("return_num_input_tokens", &true);
        body.nest("parameters", |parameters| {
            parameters.set("stream", &request.stream);
            parameters.set_some("max_tokens", request.max_tokens);
            parameters.set_some("min_tokens", request.min_tokens);
            parameters.set_true("ignore_eos", request.ignore_eos);
            parameters.set_some("temperature", sampling.temperature);
            parameters.set_some("top_p", sampling.top_p);
            parameters.set_some("top_k", sampling.top_k);
            parameters.set_some("min_p", sampling.min_p);
            parameters.set_some("frequency_penalty", sampling.frequency_penalty);
            parameters.set_some("presence_penalty", sampling.presence_penalty);
            parameters.set_some("repetition_penalty", sampling.repetition_penalty);
            parameters.set_some("seed", sampling.seed);
        });
    }
}

impl Protocol for TritonGenerate {
    fn name(&self) -> &'static str {
        match self.dialect {
            TritonDialect::TensorRtLlm => "triton-generate",
            TritonDialect::Vllm => "triton-generate-vllm",
        }
    }

    fn path(&self, model: &str, streaming: bool) -> Cow<'_, str> {
        let verb = if streaming {
            "generate_stream"
        } else {
            "generate"
        };
        format!("/v2/models/{model}/{verb}").into()
    }

    fn body(&self, request: &GenerationRequest, _: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("text_input", &*openai::plain_text(&request.prompt));
        match self.dialect {
            TritonDialect::TensorRtLlm => Self::tensorrt_llm(&mut body, request),
            TritonDialect::Vllm => Self::vllm(&mut body, request),
        }
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let trt = self.dialect == TritonDialect::TensorRtLlm;
        let mut found = names([
            (
                matches!(request.prompt, Prompt::TokenIds(_)),
                "token-id prompts",
            ),
            (trt && request.ignore_eos, "ignore_eos"),
            (trt && request.sampling.min_p.is_some(), "min_p"),
            (!trt && !request.sampling.stop.is_empty(), "stop"),
        ]);
        found.extend(openai::conversation_unsupported(request));
        found
    }

    fn ends_with_transfer(&self) -> bool {
        true
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
