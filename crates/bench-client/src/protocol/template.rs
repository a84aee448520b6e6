//! `template:FILE`: any other API, described by a body with placeholders and by paths into its answers.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::protocol::json::{Count, error_message, parse};
use crate::protocol::{DecodeError, Delta, Document, Framing, Protocol, ProtocolError, api};

/// A description of an API, as in the file that `template:FILE` names.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateConfig {
    /// Path below the base URL; `{{model}}` is replaced.
    pub path: String,
    /// The request's body. A string that is just `{{name}}` becomes that value with its own type, and its member is dropped
    /// where the request leaves it open; within a longer string it is replaced as text.
    pub body: Value,
    /// How a streamed answer is cut into documents: `sse` (default) or `ndjson`.
    #[serde(default)]
    pub framing: Framing,
    /// Path to the text of a streamed document.
    pub text: String,
    /// Path to the text of an answer that is not streamed; the same as `text` where absent.
    #[serde(default)]
    pub whole_text: Option<String>,
    /// Path to text that is reasoning, not the answer.
    #[serde(default)]
    pub reasoning: Option<String>,
    /// Each document repeats the text from its beginning.
    #[serde(default)]
    pub cumulative: bool,
    /// Path to the number of prompt tokens.
    #[serde(default)]
    pub prompt_tokens: Option<String>,
    /// Path to the number of tokens generated so far, or in all.
    #[serde(default)]
    pub completion_tokens: Option<String>,
    /// Path to the finish reason: any value but null, false and an empty string is one.
    #[serde(default)]
    pub finish: Option<String>,
    /// Path to an error.
    #[serde(default = "default_error")]
    pub error: String,
    /// The data of an event that ends the stream, such as `[DONE]`.
    #[serde(default)]
    pub end: Option<String>,
    /// A proper end of the transfer is enough, because the API has neither a finish reason nor an end marker.
    #[serde(default)]
    pub ends_with_transfer: bool,
}

fn default_error() -> String {
    "/error".to_owned()
}

/// An API by description.
#[derive(Clone, Debug)]
pub struct Template {
    config: TemplateConfig,
}

impl Template {
    /// Checks a description.
    ///
    /// # Errors
    /// [`ProtocolError::Pointer`] and [`ProtocolError::Placeholder`], which name what is wrong.
    pub fn new(config: TemplateConfig) -> Result<Self, ProtocolError> {
        check_body(&config.body)?;
        let paths = [
            ("text", Some(&config.text)),
            ("whole_text", config.whole_text.as_ref()),
            ("reasoning", config.reasoning.as_ref()),
            ("prompt_tokens", config.prompt_tokens.as_ref()),
            ("completion_tokens", config.completion_tokens.as_ref()),
            ("finish", config.finish.as_ref()),
            ("error", Some(&config.error)),
        ];
        for (key, path) in paths {
            if let Some(path) = path.filter(|path| !path.is_empty() && !path.starts_with('/')) {
                return Err(ProtocolError::Pointer {
                    key,
                    pointer: path.clone(),
                });
            }
        }
        Ok(Self { config })
    }

    /// Reads a description from a file.
    ///
    /// # Errors
    /// [`ProtocolError::TemplateFile`] if it cannot be read, [`ProtocolError::TemplateSyntax`] if it is not one, and those of
    /// [`Template::new`].
    pub fn from_file(path: &str) -> Result<Self, ProtocolError> {
        let text = short_text(path).map_err(|source| ProtocolError::TemplateFile {
            path: path.to_owned(),
            source,
        })?;
        let config =
            serde_json::from_str(&text).map_err(|source| ProtocolError::TemplateSyntax {
                path: path.to_owned(),
                source,
            })?;
        Self::new(config)
    }

    /// Reads a document whose text is at `text`.
    fn emit(&self, json: &[u8], text: &str, out: &mut Delta) -> Result<(), DecodeError> {
        let document: Value = parse(json)?;
        let config = &self.config;
        let find = |path: &Option<String>| document.pointer(path.as_deref()?);
        let count = |path| Count::deserialize(find(path)?).ok()?.0;
        let answer = document.pointer(text).and_then(Value::as_str);
        let reasoning = find(&config.reasoning).and_then(Value::as_str);
        let reasoning = reasoning.unwrap_or_default();
        let finish = find(&config.finish).and_then(finish_reason);

        out.text(Channel::Reasoning, reasoning);
        if let Some(answer) = answer {
            let open = finish.is_none() && reasoning.is_empty();
            self.emit_answer(answer, open, out);
        }
        let completion_tokens = count(&config.completion_tokens);
        out.usage(&Usage {
            prompt_tokens: count(&config.prompt_tokens),
            completion_tokens,
            ..Usage::default()
        });
        if let Some(total) = completion_tokens {
            out.total_tokens(total);
        }
        out.finish(&finish.unwrap_or_default());
        if let Some(message) = document.pointer(&config.error).and_then(error_message) {
            out.error(message);
        }
        Ok(())
    }

    fn emit_answer(&self, text: &str, open: bool, out: &mut Delta) {
        let had_text = if self.config.cumulative {
            out.text_so_far(Channel::Answer, text)
        } else {
            out.text(Channel::Answer, text);
            !text.is_empty()
        };
        if !had_text && open {
            out.empty_token(Channel::Answer);
        }
    }
}

impl Protocol for Template {
    fn name(&self) -> &'static str {
        "template"
    }

    fn path(&self, model: &str, _: bool) -> Cow<'_, str> {
        self.config.path.replace("{{model}}", model).into()
    }

    fn framing(&self, streaming: bool) -> Framing {
        if streaming {
            self.config.framing
        } else {
            Framing::Json
        }
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        fill_body(&self.config.body, request, model)
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        unused(&self.config.body, request)
    }

    fn ends_with_transfer(&self) -> bool {
        self.config.ends_with_transfer
    }

    fn decode(&self, document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        let Document { data, whole, .. } = document;
        let Self { config } = self;
        let end = config.end.as_ref().filter(|_| !whole);
        if end.is_some_and(|end| data.trim_ascii() == end.as_bytes()) {
            out.end_marker();
            return Ok(());
        }
        let whole_text = config.whole_text.as_ref().filter(|_| whole);
        self.emit(data, whole_text.unwrap_or(&config.text), out)
    }
}

/// The text of a file that is no longer than a description can be.
fn short_text(path: &str) -> std::io::Result<String> {
    let bytes = bench_schema::read_within(std::fs::File::open(path)?, 1 << 20)?;
    std::io::read_to_string(&*bytes)
}

/// A finish reason as text: a string's own, `true` as `stop`, anything else as its JSON.
fn finish_reason(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some("stop".to_owned()),
        Value::String(reason) => Some(reason.clone()).filter(|reason| !reason.is_empty()),
        other => Some(other.to_string()),
    }
}

// Puts a request into a template's body.

/// The placeholders, in the order in which messages list them: what every request has, and what it may have.
const ALWAYS: &str = "prompt messages token_ids model stream";

fn names() -> impl Iterator<Item = &'static str> {
    ALWAYS.split(' ').chain(api::ASKED.split(' '))
}

/// That every placeholder exists.
fn check_body(body: &Value) -> Result<(), ProtocolError> {
    let mut unknown = None;
    visit(body, &mut |name| {
        if !names().any(|known| known == name) {
            unknown.get_or_insert_with(|| name.to_owned());
        }
    });
    unknown.map_or(Ok(()), |name| {
        Err(ProtocolError::Placeholder {
            name,
            known: names().collect::<Vec<_>>().join(", "),
        })
    })
}

fn fill_body(template: &Value, request: &GenerationRequest, model: &str) -> Vec<u8> {
    let mut body = fill(template, request, model).unwrap_or(Value::Null);
    if let (Value::Object(body), Some(extra)) = (&mut body, &request.extra_body) {
        merge(body, extra);
    }
    body.to_string().into_bytes()
}

/// What the request asks for and the template has no place for.
fn unused(template: &Value, request: &GenerationRequest) -> Vec<&'static str> {
    let mut used = Vec::new();
    visit(template, &mut |name| used.push(name.to_owned()));
    let has = |name: &str| used.iter().any(|known| known == name);
    let mut found: Vec<&'static str> = api::ASKED
        .split(' ')
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
    match name {
        "prompt" => Some(json!(api::plain_text(&request.prompt))),
        "messages" => Some(json!(api::messages(&request.prompt))),
        "token_ids" => match &request.prompt {
            Prompt::TokenIds(ids) => Some(json!(ids)),
            Prompt::Text(_) | Prompt::Messages(_) => None,
        },
        "model" => Some(json!(model)),
        "stream" => Some(json!(request.stream)),
        "ignore_eos" => Some(json!(request.ignore_eos)),
        _ => {
            let mut asked = api::asked(request).into_iter();
            asked.find(|(known, _)| *known == name)?.1
        }
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
