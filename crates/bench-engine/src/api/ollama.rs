//! Ollama's `POST /api/chat` and `/api/generate`: one JSON text a line.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::Asked;
use super::{Dialect, Job, Piece, Reply, Whole};
use crate::fault::FaultKind;
use crate::http::{Events, Framing};

pub(super) fn parse(asked: Asked<'_>) -> Result<Job, Reply> {
    let body = asked.body()?;
    let chat = asked.request.path == "/api/chat";
    let prompt = if let Some(messages) = body.get::<Vec<Message>>("/messages")?.filter(|_| chat) {
        encode(asked.text(), &messages)
    } else {
        let prompt: Option<String> = body.get("/prompt")?;
        asked.text().encode(&prompt.unwrap_or_default())
    };
    let mut parameters = body.parameters("/options", "num_predict")?;
    parameters.stream.get_or_insert(true);
    asked.job(&[prompt], &parameters, |_| Ollama {
        model: asked.model().to_owned(),
        chat,
        counts: !asked.faults.has(FaultKind::NoUsage),
    })
}

struct Ollama {
    model: String,
    chat: bool,
    counts: bool,
}

impl Ollama {
    fn line(&self, text: &str, done: bool) -> Value {
        let mut line = json!({"model": self.model, "created_at": now(), "done": done});
        if self.chat {
            line["message"] = json!({"role": "assistant", "content": text});
        } else {
            line["response"] = json!(text);
        }
        line
    }

    fn last(&self, text: &str, whole: &Whole) -> Value {
        let mut line = self.line(text, true);
        line["done_reason"] = json!(whole.finish().openai());
        if self.counts {
            let (queue, prefill, decode) = (
                whole.phases.queue(),
                whole.phases.prefill(),
                whole.phases.decode(),
            );
            for (name, value) in [
                ("total_duration", queue + prefill + decode),
                ("load_duration", 0),
                ("prompt_eval_count", whole.usage.prompt),
                ("prompt_eval_duration", prefill),
                ("eval_count", whole.usage.completion),
                ("eval_duration", decode),
            ] {
                line[name] = json!(value);
            }
        }
        line
    }
}

/// The time of day as RFC 3339 writes it, in UTC, to the second.
fn now() -> String {
    let unix = Duration::from_secs(crate::clock::unix_seconds().unsigned_abs());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + unix).to_string()
}

impl Dialect for Ollama {
    fn framing(&self) -> Framing {
        Framing::NdJson
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        events.json(&self.line(piece.text, false));
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        events.json(&self.last("", whole));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        self.last(whole.first().0, whole)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({ "error": message }));
    }
}
