//! `POST /generate_stream` and `/generate` of text-generation-inference.

use serde_json::{Value, json};

use super::parameters::{Asked, Body};
use super::{Dialect, Job, Piece, Reply, Whole};
use crate::engine::Finish;
use crate::http::Events;

pub(super) fn parse(asked: Asked<'_>, body: &Body) -> Result<Job, Reply> {
    let prompt = asked.text().encode(&body.need::<String>("/inputs")?);
    let mut parameters = body.parameters("/parameters", "max_new_tokens")?;
    parameters.stream = Some(asked.request.path == "/generate_stream");
    asked.job(&[prompt], &parameters, |_| Tgi::default())
}

#[derive(Default)]
struct Tgi {
    text: String,
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "eos_token",
    }
}

impl Dialect for Tgi {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        let details = piece.finish.map(|finish| {
            json!({
                "finish_reason": reason(finish), "generated_tokens": piece.usage.completion, "seed": null,
                "input_length": piece.usage.prompt,
            })
        });
        let text = piece.finish.map(|_| self.text.as_str());
        events.json(&json!({
            "index": piece.before + piece.ids.len() as u64,
            "token": {"id": piece.ids.last(), "text": piece.text, "logprob": null, "special": false},
            "generated_text": text, "details": details,
        }));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let (text, _, finish) = whole.first();
        json!({
            "generated_text": text,
            "details": {
                "finish_reason": reason(finish), "generated_tokens": whole.usage.completion, "seed": null,
                "prefill": [], "tokens": [],
            },
        })
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({"error": message, "error_type": "generation"}));
    }
}
