//! Triton's generate extension: `POST /v2/models/NAME/generate_stream` and `/generate`. It tells no usage and no end.

use serde_json::{Value, json};

use super::parameters::Asked;
use super::{Dialect, Job, Piece, Reply, Whole};
use crate::http::Events;

/// The model's name in such a path, and whether the answer is a stream.
pub(super) fn matches(path: &str) -> Option<(&str, bool)> {
    let (name, verb) = path.strip_prefix("/v2/models/")?.split_once('/')?;
    match verb {
        "generate_stream" => Some((name, true)),
        "generate" => Some((name, false)),
        _ => None,
    }
}

/// Parameters stand beside the text (TensorRT-LLM) or in an object of their own (vLLM's backend).
pub(super) fn parse(asked: Asked<'_>, (name, stream): (&str, bool)) -> Result<Job, Reply> {
    asked.check_model(Some(name))?;
    let body = asked.body()?;
    let prompt = asked.text().encode(&body.need::<String>("/text_input")?);
    let within = ["", "/parameters"][usize::from(body.has("/parameters"))];
    let mut parameters = body.parameters(within, "max_tokens")?;
    parameters.stream = Some(stream);
    asked.job(&[prompt], &parameters, |_| Triton {
        model: name.to_owned(),
    })
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
        events.json(&self.output(piece.text));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        self.output(whole.first().0)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({ "error": message }));
    }
}
