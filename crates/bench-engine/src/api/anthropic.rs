//! `POST /v1/messages`: the Anthropic API.

use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::ApiCall;
use super::{Dialect, Job, Piece, Reply, Usage, Whole};
use crate::engine::Finish;
use crate::http::Events;

pub(super) fn parse(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let body = asked.body()?;
    let prompt = encode(asked.text(), &body.need::<Vec<Message>>("/messages")?);
    body.need::<u32>("/max_tokens")?;
    let parameters = body.parameters("", "max_tokens")?;
    asked.job(&[prompt], &parameters, |digits| Messages {
        id: format!("msg_{digits}"),
        model: asked.model().to_owned(),
    })
}

struct Messages {
    id: String,
    model: String,
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
        let message = self.message(&json!([]), None, &usage);
        event(events, "message_start", json!({ "message": message }));
        let block = json!({"index": choice, "content_block": {"type": "text", "text": ""}});
        event(events, "content_block_start", block);
        event(events, "ping", json!({}));
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        let delta = json!({"type": "text_delta", "text": piece.text});
        let delta = json!({"index": piece.choice, "delta": delta});
        event(events, "content_block_delta", delta);
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        event(events, "content_block_stop", json!({"index": 0}));
        let delta = json!({"stop_reason": reason(whole.finish()), "stop_sequence": null});
        let usage = json!({"output_tokens": whole.usage.completion});
        event(
            events,
            "message_delta",
            json!({"delta": delta, "usage": usage}),
        );
        event(events, "message_stop", json!({}));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let usage = whole.usage;
        let usage = json!({"input_tokens": usage.prompt, "output_tokens": usage.completion});
        let (text, _, finish) = whole.first();
        let content = json!([{"type": "text", "text": text}]);
        self.message(&content, Some(reason(finish)), &usage)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        let error = json!({"type": "api_error", "message": message});
        event(events, "error", json!({ "error": error }));
    }
}
