//! Puts a request into a template's body.

use bench_schema::{GenerationRequest, Prompt};
use serde_json::{Map, Value, json};

use super::super::{ProtocolError, api};

/// The placeholders, in the order in which messages list them.
const NAMES: [&str; 17] = [
    "prompt",
    "messages",
    "token_ids",
    "model",
    "stream",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "seed",
    "stop",
];

/// That every placeholder exists.
pub(super) fn check(body: &Value) -> Result<(), ProtocolError> {
    let mut unknown = None;
    visit(body, &mut |name| {
        if !NAMES.contains(&name) {
            unknown.get_or_insert_with(|| name.to_owned());
        }
    });
    unknown.map_or(Ok(()), |name| {
        Err(ProtocolError::Placeholder {
            name,
            known: NAMES.join(", "),
        })
    })
}

/// The body of one request.
pub(super) fn body(template: &Value, request: &GenerationRequest, model: &str) -> Vec<u8> {
    let mut body = fill(template, request, model).unwrap_or(Value::Null);
    if let (Value::Object(body), Some(extra)) = (&mut body, &request.extra_body) {
        merge(body, extra);
    }
    body.to_string().into_bytes()
}

/// What the request asks for and the template has no place for.
pub(super) fn unused(template: &Value, request: &GenerationRequest) -> Vec<&'static str> {
    let mut used = Vec::new();
    visit(template, &mut |name| used.push(name.to_owned()));
    let has = |name: &str| used.iter().any(|known| known == name);
    let optional = NAMES.iter().skip(5).copied();
    let mut found: Vec<&'static str> = optional
        .filter(|name| !has(name) && value(name, request, "").is_some_and(|v| v != json!(false)))
        .collect();
    if matches!(request.prompt, Prompt::TokenIds(_)) && !has("token_ids") {
        found.push("token-id prompts");
    }
    if !has("messages") && api::is_conversation(&request.prompt) {
        found.push("conversations");
    }
    found
}

fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// `None` where a placeholder has no value: its member is dropped.
fn fill(template: &Value, request: &GenerationRequest, model: &str) -> Option<Value> {
    match template {
        Value::String(text) => match whole_placeholder(text) {
            Some(name) => value(name, request, model),
            None => Some(Value::String(replaced(text, request, model))),
        },
        Value::Array(items) => {
            let items = items.iter().filter_map(|item| fill(item, request, model));
            Some(items.collect())
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .filter_map(|(key, item)| Some((key.clone(), fill(item, request, model)?)));
            Some(Value::Object(members.collect()))
        }
        other => Some(other.clone()),
    }
}

fn value(name: &str, request: &GenerationRequest, model: &str) -> Option<Value> {
    let sampling = &request.sampling;
    match name {
        "prompt" => Some(json!(api::plain_text(&request.prompt))),
        "messages" => Some(json!(api::messages(&request.prompt))),
        "token_ids" => match &request.prompt {
            Prompt::TokenIds(ids) => Some(json!(ids)),
            Prompt::Text(_) | Prompt::Messages(_) => None,
        },
        "model" => Some(json!(model)),
        "stream" => Some(json!(request.stream)),
        "max_tokens" => request.max_tokens.map(Value::from),
        "min_tokens" => request.min_tokens.map(Value::from),
        "ignore_eos" => Some(json!(request.ignore_eos)),
        "temperature" => sampling.temperature.map(Value::from),
        "top_p" => sampling.top_p.map(Value::from),
        "top_k" => sampling.top_k.map(Value::from),
        "min_p" => sampling.min_p.map(Value::from),
        "frequency_penalty" => sampling.frequency_penalty.map(Value::from),
        "presence_penalty" => sampling.presence_penalty.map(Value::from),
        "repetition_penalty" => sampling.repetition_penalty.map(Value::from),
        "seed" => sampling.seed.map(Value::from),
        "stop" => (!sampling.stop.is_empty()).then(|| json!(sampling.stop)),
        _ => None,
    }
}

fn whole_placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    (!name.contains(['{', '}'])).then_some(name)
}

/// Placeholders within a longer text, each replaced once: what a prompt contains is not looked at again.
fn replaced(text: &str, request: &GenerationRequest, model: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, name, after)) = next_placeholder(rest) {
        out.push_str(before);
        match value(name, request, model) {
            Some(Value::String(text)) => out.push_str(&text),
            Some(other) => out.push_str(&other.to_string()),
            None => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name.trim(), after))
}

/// Every placeholder's name.
fn visit(template: &Value, seen: &mut dyn FnMut(&str)) {
    match template {
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some((_, name, after)) = next_placeholder(rest) {
                seen(name);
                rest = after;
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, seen)),
        Value::Object(members) => members.values().for_each(|item| visit(item, seen)),
        _ => {}
    }
}
