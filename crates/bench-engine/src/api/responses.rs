//! `POST /v1/responses`: the OpenAI API's events with names.

use serde::Deserialize;
use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::ApiCall;
use super::{Dialect, Job, Piece, Reply, Usage, Whole};
use crate::clock::unix_seconds;
use crate::engine::Finish;
use crate::http::Events;

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

pub(super) fn parse(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let body = asked.body()?;
    let prompt = match body.need("/input")? {
        Input::Text(input) => asked
            .text()
            .encode_chat([("user", input.as_str())].into_iter()),
        Input::Messages(messages) => encode(asked.text(), &messages),
    };
    let parameters = body.parameters("", "max_output_tokens")?;
    asked.job(&[prompt], &parameters, |digits| Responses {
        id: format!("resp_{digits}"),
        created: unix_seconds(),
        model: asked.model().to_owned(),
        text: String::new(),
        number: 0,
    })
}

struct Responses {
    id: String,
    created: i64,
    model: String,
    text: String,
    number: u64,
}

impl Responses {
    fn event(&mut self, events: &mut Events, name: &str, mut value: Value) {
        value["type"] = json!(name);
        value["sequence_number"] = json!(self.number);
        self.number += 1;
        events.named(name, value.to_string().as_bytes());
    }

    /// An event about the one part of the one item of the output.
    fn about_part(&mut self, events: &mut Events, name: &str, key: &str, value: Value) {
        let mut event =
            json!({"item_id": format!("msg_{}", self.id), "output_index": 0, "content_index": 0});
        event[key] = value;
        self.event(events, name, event);
    }

    fn response(&self, status: &str, output: &[Value], usage: Option<Usage>) -> Value {
        let reason = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status, "model": self.model,
            "incomplete_details": reason, "output": output, "error": null,
            "usage": usage.map(|usage| json!({
                "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.completion, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.prompt + usage.completion,
            })),
        })
    }

    fn item(&self, status: &str, content: &[Value]) -> Value {
        json!({"id": format!("msg_{}", self.id), "type": "message", "status": status, "role": "assistant", "content": content})
    }

    /// How the answer ended, and its one item.
    fn ended(&self, whole: &Whole) -> (&'static str, Value) {
        let status = match whole.finish() {
            Finish::Length => "incomplete",
            Finish::Stop => "completed",
        };
        (status, self.item(status, &[part(&self.text)]))
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

impl Dialect for Responses {
    fn open(&mut self, events: &mut Events, _choice: usize, _usage: Usage) {
        for name in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", &[], None);
            self.event(events, name, json!({ "response": response }));
        }
        let item = json!({"output_index": 0, "item": self.item("in_progress", &[])});
        self.event(events, "response.output_item.added", item);
        self.about_part(events, "response.content_part.added", "part", part(""));
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        let delta = json!(piece.text);
        self.about_part(events, "response.output_text.delta", "delta", delta);
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        let (text, part) = (json!(self.text), part(&self.text));
        self.about_part(events, "response.output_text.done", "text", text);
        self.about_part(events, "response.content_part.done", "part", part);
        let (status, item) = self.ended(whole);
        let done = json!({"output_index": 0, "item": &item});
        self.event(events, "response.output_item.done", done);
        let response = self.response(status, &[item], Some(whole.usage));
        let name = format!("response.{status}");
        self.event(events, &name, json!({ "response": response }));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        whole.first().0.clone_into(&mut self.text);
        let (status, item) = self.ended(whole);
        self.response(status, &[item], Some(whole.usage))
    }
}
