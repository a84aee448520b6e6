//! `tgi-generate`: text-generation-inference's own `/generate_stream` and `/generate`. One event is one token.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Nanos, Prompt, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, List, Text, parse};
use super::openai::{self, names};
use super::{DecodeError, Delta, Frame, Protocol};

/// The native API of text-generation-inference.
#[derive(Clone, Copy, Debug, Default)]
pub struct TgiGenerate;

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(borrow)]
    token: Option<Token<'a>>,
    #[serde(borrow)]
    details: Option<Details<'a>>,
    #[serde(borrow)]
    generated_text: Text<'a>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Token<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    special: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    finish_reason: Text<'a>,
    generated_tokens: Count,
    input_length: Count,
    prefill: List<serde::de::IgnoredAny>,
}

impl Details<'_> {
    fn tell(&self, out: &mut Delta) {
        let prefill = Some(self.prefill.0.len() as u64).filter(|&length| length > 0);
        out.usage(&Usage {
            prompt_tokens: self.input_length.0.or(prefill),
            completion_tokens: self.generated_tokens.0,
            ..Usage::default()
        });
        out.finish(self.finish_reason.get().unwrap_or_default());
    }
}

impl Protocol for TgiGenerate {
    fn name(&self) -> &'static str {
        "tgi-generate"
    }

    fn path(&self, _: &str, streaming: bool) -> Cow<'_, str> {
        if streaming {
            "/generate_stream".into()
        } else {
            "/generate".into()
        }
    }

    fn body(&self, request: &GenerationRequest, _: &str) -> Vec<u8> {
        let sampling = &request.sampling;
        // It rejects a temperature of 0: greedy is what it does when not told to sample.
        let temperature = sampling
            .temperature
            .filter(|&temperature| temperature > 0.0);
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("inputs", &*openai::plain_text(&request.prompt));
        body.nest("parameters", |parameters| {
            parameters.set("details", &true);
            parameters.set_some("max_new_tokens", request.max_tokens);
            parameters.set_true("do_sample", temperature.is_some());
            parameters.set_some("temperature", temperature);
            parameters.set_some("top_p", sampling.top_p);
            parameters.set_some("top_k", sampling.top_k);
            parameters.set_some("repetition_penalty", sampling.repetition_penalty);
            parameters.set_some("frequency_penalty", sampling.frequency_penalty);
            parameters.set_some("seed", sampling.seed);
            if !sampling.stop.is_empty() {
                parameters.set("stop", &sampling.stop);
            }
        });
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let several = openai::conversation_unsupported(request);
        let mut found = names([
            (
                matches!(request.prompt, Prompt::TokenIds(_)),
                "token-id prompts",
            ),
            (request.min_tokens.is_some(), "min_tokens"),
            (request.ignore_eos, "ignore_eos"),
            (request.sampling.min_p.is_some(), "min_p"),
            (
                request.sampling.presence_penalty.is_some(),
                "presence_penalty",
            ),
        ]);
        found.extend(several);
        found
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        let event: StreamEvent<'_> = parse(frame.data)?;
        if let Some(token) = &event.token {
            out.tokens(1);
            // A special token (the end token, say) is generated, and is no text.
            let text = token
                .text
                .get()
                .filter(|_| !token.special)
                .unwrap_or_default();
            out.text(Channel::Answer, text);
            out.empty_token(Channel::Answer);
        }
        if let Some(details) = &event.details {
            details.tell(out);
        }
        if event.generated_text.get().is_some() {
            out.end_marker();
        }
        if let Some(message) = &event.error.0 {
            out.error(message);
        }
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        let answer: StreamEvent<'_> = parse(body)?;
        out.text(
            Channel::Answer,
            answer.generated_text.get().unwrap_or_default(),
        );
        if let Some(details) = &answer.details {
            details.tell(out);
        }
        if let Some(message) = &answer.error.0 {
            out.error(message);
        }
        Ok(())
    }

    /// A whole answer has its timings in headers, in milliseconds.
    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        let Ok(number) = value.trim().parse::<u64>() else {
            return;
        };
        let millis = Some(Nanos::from_millis(
            i64::try_from(number).unwrap_or(i64::MAX),
        ));
        match name {
            "x-queue-time" => out.server().queue = millis,
            "x-total-time" => out.server().total = millis,
            "x-prompt-tokens" => {
                out.usage(&Usage {
                    prompt_tokens: Some(number),
                    ..Usage::default()
                });
            }
            "x-generated-tokens" => {
                out.usage(&Usage {
                    completion_tokens: Some(number),
                    ..Usage::default()
                });
            }
            _ => {}
        }
    }
}
