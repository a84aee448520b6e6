//! `tgi-generate`: text-generation-inference's own `/generate_stream` and `/generate`. One event is one token.

use bench_schema::{Channel, Nanos, Usage};
use serde::Deserialize;

use super::Delta;
use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, List, Text};

/// The native API of text-generation-inference.
pub(crate) const API: Api = Api {
    name: "tgi-generate",
    paths: ["/generate", "/generate_stream"],
    model: false,
    stream: false,
    prompt: PromptForm::Text("inputs"),
    parameters: Parameters {
        within: Some("parameters"),
        greedy_is_unsaid: true,
        without: "min_tokens ignore_eos min_p presence_penalty",
        renamed: "max_tokens=max_new_tokens",
        more: |parameters, request| {
            parameters.set("details", &true);
            let samples = request.sampling.temperature > Some(0.0);
            parameters.set_some("do_sample", samples.then_some(true));
        },
        ..Parameters::OPENAI
    },
    read: |document, out| document.read(|event: StreamEvent<'_>| event.emit(document.whole, out)),
    read_header,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    token: Option<Token<'a>>,
    details: Option<Details<'a>>,
    generated_text: Text<'a>,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Token<'a> {
    text: Text<'a>,
    special: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Details<'a> {
    finish_reason: Text<'a>,
    generated_tokens: Count,
    input_length: Count,
    prefill: List<serde::de::IgnoredAny>,
}

impl Details<'_> {
    fn emit(&self, out: &mut Delta) {
        let prefill = Some(self.prefill.0.len() as u64).filter(|&length| length > 0);
        out.usage(&Usage {
            prompt_tokens: self.input_length.0.or(prefill),
            completion_tokens: self.generated_tokens.0,
            ..Usage::default()
        });
        out.finish(self.finish_reason.get().unwrap_or_default());
    }
}

impl StreamEvent<'_> {
    fn emit(&self, whole: bool, out: &mut Delta) {
        if whole {
            self.generated_text.emit(Channel::Answer, out);
        } else if let Some(token) = &self.token {
            out.tokens(1);
            // A special token (the end token, say) is generated, and is no text.
            if !token.special {
                token.text.emit(Channel::Answer, out);
            }
            out.empty_token(Channel::Answer);
        }
        if let Some(details) = &self.details {
            details.emit(out);
        }
        if !whole && self.generated_text.get().is_some() {
            out.end_marker();
        }
        self.error.emit(out);
    }
}

/// A whole answer has its timings in headers, in milliseconds.
fn read_header(name: &str, value: &str, out: &mut Delta) {
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
