//! `POST /v1/messages`: the Anthropic API.

use serde::Deserialize;
use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::{Wish, answer_id, body, check_model};
use super::{Dialect, Piece, Usage, Whole};
use super::{Job, Reply};
use crate::engine::Finish;
use crate::fault::FaultSet;
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Vec<Message>,
    max_tokens: u32,
    stream: Option<bool>,
    temperature: Option<f32>,
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.model.as_deref())?;
    let prompt = encode(&local.server.text, &body.messages);
    let dialect = Messages {
        id: answer_id(local, "msg_"),
        model: local.server.config.model.clone(),
        finish: Finish::Stop,
    };
    let wish = Wish {
        temperature: body.temperature,
        ..Wish::new(prompt, Some(body.max_tokens), body.stream.unwrap_or(false))
    };
    wish.job(local, faults, Box::new(dialect))
}

struct Messages {
    id: String,
    model: String,
    finish: Finish,
}

impl Messages {
    fn message(&self, content: &Value, reason: Option<&str>, usage: &Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": reason, "stop_sequence": null, "usage": usage,
        })
    }
}

fn event(events: &mut Events, name: &str, mut value: Value) {
    value["type"] = json!(name);
    events.named(name, value.to_string().as_bytes());
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "max_tokens",
        Finish::Stop => "end_turn",
    }
}

impl Dialect for Messages {
    fn open(&mut self, events: &mut Events, choice: usize, usage: Usage) {
        let usage = json!({"input_tokens": usage.prompt, "cache_read_input_tokens": usage.cached, "output_tokens": 0});
        event(
            events,
            "message_start",
            json!({"message": self.message(&json!([]), None, &usage)}),
        );
        event(
            events,
            "content_block_start",
            json!({"index": choice, "content_block": {"type": "text", "text": ""}}),
        );
        event(events, "ping", json!({}));
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.finish = piece.finish.unwrap_or(self.finish);
        let delta =
            json!({"index": piece.choice, "delta": {"type": "text_delta", "text": piece.text}});
        event(events, "content_block_delta", delta);
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        event(events, "content_block_stop", json!({"index": 0}));
        let delta = json!({"stop_reason": reason(self.finish), "stop_sequence": null});
        event(
            events,
            "message_delta",
            json!({"delta": delta, "usage": {"output_tokens": whole.usage.completion}}),
        );
        event(events, "message_stop", json!({}));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let usage =
            json!({"input_tokens": whole.usage.prompt, "output_tokens": whole.usage.completion});
        let (text, finish) = whole
            .choices
            .first()
            .map_or(("", Finish::Stop), |(text, _, finish)| (text, *finish));
        self.message(
            &json!([{"type": "text", "text": text}]),
            Some(reason(finish)),
            &usage,
        )
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        event(
            events,
            "error",
            json!({"error": {"type": "api_error", "message": message}}),
        );
    }
}
