//! `POST /v1/responses`: the OpenAI API's events with names.

use serde::Deserialize;
use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::{Wish, answer_id, body, check_model};
use super::{Dialect, Piece, Usage, Whole};
use super::{Job, Reply};
use crate::clock::unix_seconds;
use crate::engine::Finish;
use crate::fault::FaultSet;
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    input: Input,
    max_output_tokens: Option<u32>,
    stream: Option<bool>,
    temperature: Option<f32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.model.as_deref())?;
    let text = &local.server.text;
    let prompt = match &body.input {
        Input::Text(input) => text.encode_chat(std::iter::once(("user", input.as_str()))),
        Input::Messages(messages) => encode(text, messages),
    };
    let dialect = Responses {
        id: answer_id(local, "resp_"),
        created: unix_seconds(),
        model: local.server.config.model.clone(),
        text: String::new(),
        finish: Finish::Stop,
        number: 0,
    };
    let wish = Wish {
        temperature: body.temperature,
        ..Wish::new(prompt, body.max_output_tokens, body.stream.unwrap_or(false))
    };
    wish.job(local, faults, Box::new(dialect))
}

struct Responses {
    id: String,
    created: i64,
    model: String,
    text: String,
    finish: Finish,
    number: u64,
}

impl Responses {
    fn event(&mut self, events: &mut Events, name: &str, mut value: Value) {
        value["type"] = json!(name);
        value["sequence_number"] = json!(self.number);
        self.number += 1;
        events.named(name, value.to_string().as_bytes());
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

    fn part(text: &str) -> Value {
        json!({"type": "output_text", "text": text, "annotations": []})
    }

    fn place(&self) -> Value {
        json!({"item_id": format!("msg_{}", self.id), "output_index": 0, "content_index": 0})
    }

    fn status(&self) -> &'static str {
        if self.finish == Finish::Length {
            "incomplete"
        } else {
            "completed"
        }
    }
}

impl Dialect for Responses {
    fn open(&mut self, events: &mut Events, _choice: usize, _usage: Usage) {
        for name in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", &[], None);
            self.event(events, name, json!({ "response": response }));
        }
        let item = self.item("in_progress", &[]);
        self.event(
            events,
            "response.output_item.added",
            json!({"output_index": 0, "item": item}),
        );
        let mut part = self.place();
        part["part"] = Self::part("");
        self.event(events, "response.content_part.added", part);
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        self.finish = piece.finish.unwrap_or(self.finish);
        let mut delta = self.place();
        delta["delta"] = json!(piece.text);
        self.event(events, "response.output_text.delta", delta);
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        let mut done = self.place();
        done["text"] = json!(self.text);
        self.event(events, "response.output_text.done", done);
        let mut part = self.place();
        part["part"] = Self::part(&self.text);
        self.event(events, "response.content_part.done", part);
        let status = self.status();
        let item = self.item(status, &[Self::part(&self.text)]);
        self.event(
            events,
            "response.output_item.done",
            json!({"output_index": 0, "item": item.clone()}),
        );
        let response = self.response(status, &[item], Some(whole.usage));
        self.event(
            events,
            &format!("response.{status}"),
            json!({ "response": response }),
        );
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        if let Some((text, _, finish)) = whole.choices.first() {
            self.text.clone_from(text);
            self.finish = *finish;
        }
        let status = self.status();
        let item = self.item(status, &[Self::part(&self.text)]);
        self.response(status, &[item], Some(whole.usage))
    }
}
