//! Batch files of the `OpenAI` API.

use std::path::Path;

use bench_schema::{Message, Prompt, Role, Sampling};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::RowReader;
use super::json::Values;
use crate::WorkloadError;
use crate::source::{Body, Own, Row};

/// Requests as bodies of the API. What this project has no noun for goes along in the body as it is.
pub(super) struct Batch {
    values: Values,
}

#[derive(Deserialize)]
struct Line {
    url: String,
    body: Map<String, Value>,
}

/// Keys that the run decides on, not the file.
const OURS: [&str; 3] = ["model", "stream", "stream_options"];

impl Batch {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let values = Values::open(path)?;
        Ok(Self { values })
    }
}

impl RowReader for Batch {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        let Some(Line { url, mut body }) = self.values.next_value()? else {
            return Ok(None);
        };
        if !url.trim_end_matches('/').ends_with("completions") {
            return Err(self.values.bad(format!(
                "`{url}` generates no text; only chat/completions and completions can be asked"
            )));
        }
        for key in OURS {
            body.remove(key);
        }
        let limits = ["max_completion_tokens", "max_tokens"].map(|key| body.remove(key));
        let output = limits
            .into_iter()
            .flatten()
            .find_map(|limit| limit.as_u64());
        let prompt = prompt(&mut body).map_err(|why| self.values.bad(why))?;
        let sampling = sampling(&mut body);
        let own = Own {
            sampling: Some(sampling),
            extra_body: (!body.is_empty()).then_some(body),
        };
        Ok(Some(Row {
            output: output.map(|n| n.max(1)),
            ..Row::new(Body::Request(prompt, own))
        }))
    }
}

/// Takes the prompt out of the body. Messages that are more than plain text stay in it and win over the prompt.
fn prompt(body: &mut Map<String, Value>) -> Result<Prompt, String> {
    if let Some(messages) = body.remove("messages") {
        let Value::Array(items) = &messages else {
            return Err("`messages` is no list".to_owned());
        };
        let plain: Option<Vec<Message>> = items.iter().map(message).collect();
        if let Some(plain) = plain.filter(|plain| !plain.is_empty()) {
            return Ok(Prompt::Messages(plain));
        }
        let texts: Vec<Message> = items.iter().map(text_only).collect();
        if texts.is_empty() {
            return Err("`messages` is empty".to_owned());
        }
        body.insert("messages".to_owned(), messages);
        return Ok(Prompt::Messages(texts));
    }
    match body.remove("prompt") {
        Some(Value::String(text)) => Ok(Prompt::Text(text.into())),
        Some(Value::Array(ids)) => {
            let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
            ids.map(Prompt::TokenIds)
                .ok_or_else(|| "only one prompt per request can be asked".to_owned())
        }
        _ => Err("the body has neither `messages` nor `prompt`".to_owned()),
    }
}

/// A message of a role and a text, and nothing else.
fn message(value: &Value) -> Option<Message> {
    let map = value.as_object().filter(|map| map.len() == 2)?;
    let role = role(map.get("role")?.as_str()?)?;
    let content = map.get("content")?.as_str()?.into();
    Some(Message { role, content })
}

fn role(name: &str) -> Option<Role> {
    let roles = [Role::System, Role::User, Role::Assistant];
    roles.into_iter().find(|role| role.as_str() == name)
}

/// What can be read of a message, for its length.
fn text_only(value: &Value) -> Message {
    let name = value.get("role").and_then(Value::as_str).unwrap_or("user");
    let content = match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    Message {
        role: role(name).unwrap_or(Role::User),
        content: content.into(),
    }
}

/// Takes the sampling parameters that have names here out of the body.
fn sampling(body: &mut Map<String, Value>) -> Sampling {
    let stop = match body.remove("stop") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts
            .iter()
            .filter_map(|t| t.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    let mut number = |key: &str| body.remove(key).and_then(|value| value.as_f64());
    let mut sampling = Sampling {
        temperature: number("temperature"),
        top_p: number("top_p"),
        min_p: number("min_p"),
        frequency_penalty: number("frequency_penalty"),
        presence_penalty: number("presence_penalty"),
        repetition_penalty: number("repetition_penalty"),
        stop,
        ..Sampling::default()
    };
    sampling.top_k = body.remove("top_k").and_then(|value| value.as_i64());
    sampling.seed = body.remove("seed").and_then(|value| value.as_i64());
    sampling
}
