//! Triton's generate extension: `POST /v2/models/NAME/generate_stream` and `/generate`. It tells no usage and no end.

use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{Wish, body, check_model};
use super::{Dialect, Piece, Whole};
use super::{Job, Reply};
use crate::fault::FaultSet;
use crate::http::{Events, Request};
use crate::local::Local;

/// Parameters stand beside the text (TensorRT-LLM) or in an object of their own (vLLM's backend).
#[derive(Deserialize)]
struct Body {
    text_input: String,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    max_tokens: Option<u32>,
    temperature: Option<f32>,
}

/// The model's name in such a path, and whether the answer is a stream.
pub(super) fn matches(path: &str) -> Option<(&str, bool)> {
    let (name, verb) = path.strip_prefix("/v2/models/")?.split_once('/')?;
    match verb {
        "generate_stream" => Some((name, true)),
        "generate" => Some((name, false)),
        _ => None,
    }
}

pub(super) fn parse(
    local: &Local,
    request: &Request,
    faults: &FaultSet,
    (name, stream): (&str, bool),
) -> Result<Job, Reply> {
    check_model(local, Some(name))?;
    let body: Body = body(request)?;
    let prompt = local.server.text.encode(&body.text_input);
    let tokens = body.max_tokens.or(body.parameters.max_tokens);
    let temperature = body.temperature.or(body.parameters.temperature);
    let wish = Wish {
        temperature,
        ..Wish::new(prompt, tokens, stream)
    };
    wish.job(
        local,
        faults,
        Box::new(Triton {
            model: name.to_owned(),
        }),
    )
}

struct Triton {
    model: String,
}

impl Triton {
    fn output(&self, text: &str) -> Value {
        json!({"model_name": self.model, "model_version": "1", "text_output": text})
    }
}

impl Dialect for Triton {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        events.data(self.output(piece.text).to_string().as_bytes());
    }

    fn close(&mut self, _events: &mut Events, _whole: &Whole) {}

    fn whole(&mut self, whole: &Whole) -> Value {
        self.output(whole.choices.first().map_or("", |(text, _, _)| text))
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.data(json!({ "error": message }).to_string().as_bytes());
    }
}
