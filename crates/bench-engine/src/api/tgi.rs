//! `POST /generate_stream` and `/generate` of text-generation-inference.

use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{Wish, body};
use super::{Dialect, Piece, Whole};
use super::{Job, Reply};
use crate::fault::FaultSet;
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    inputs: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    max_new_tokens: Option<u32>,
    temperature: Option<f32>,
    seed: Option<i64>,
}

pub(super) fn parse(
    local: &Local,
    request: &Request,
    faults: &FaultSet,
    stream: bool,
) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    let prompt = local.server.text.encode(&body.inputs);
    let Parameters {
        max_new_tokens,
        temperature,
        seed,
    } = body.parameters;
    let wish = Wish {
        temperature,
        seed,
        ..Wish::new(prompt, max_new_tokens, stream)
    };
    wish.job(local, faults, Box::new(Tgi::default()))
}

#[derive(Default)]
struct Tgi {
    text: String,
}

impl Dialect for Tgi {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        let details = piece.finish.map(|finish| {
            json!({
                "finish_reason": if finish.openai() == "stop" { "eos_token" } else { "length" },
                "generated_tokens": piece.usage.completion, "seed": null, "input_length": piece.usage.prompt,
            })
        });
        let text = piece.finish.map(|_| self.text.as_str());
        let event = json!({
            "index": piece.before + piece.ids.len() as u64,
            "token": {"id": piece.ids.last(), "text": piece.text, "logprob": null, "special": false},
            "generated_text": text, "details": details,
        });
        events.data(event.to_string().as_bytes());
    }

    fn close(&mut self, _events: &mut Events, _whole: &Whole) {}

    fn whole(&mut self, whole: &Whole) -> Value {
        let (text, finish) = whole
            .choices
            .first()
            .map_or(("", "length"), |(text, _, finish)| (text, finish.openai()));
        json!({
            "generated_text": text,
            "details": {
                "finish_reason": if finish == "stop" { "eos_token" } else { "length" },
                "generated_tokens": whole.usage.completion, "seed": null, "prefill": [], "tokens": [],
            },
        })
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.data(
            json!({"error": message, "error_type": "generation"})
                .to_string()
                .as_bytes(),
        );
    }
}
