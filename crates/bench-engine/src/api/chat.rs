//! `POST /v1/chat/completions`.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::dialect::{Dialect, Piece, Usage, Whole};
use super::envelope::Envelope;
use super::parameters::{Common, body, check_model, sequences};
use super::{Job, Reply};
use crate::fault::{FaultKind, FaultSet};
use crate::http::{Events, Request, events::escape};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    messages: Vec<Message>,
    #[serde(flatten)]
    common: Common,
}

/// A message of a conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

impl Message {
    pub(super) fn role(&self) -> &str {
        &self.role
    }

    /// Its text; parts that are not text count as nothing.
    pub(super) fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().map(|part| part.text.as_str()).collect(),
        }
    }
}

/// The ids of a conversation.
pub(super) fn encode(text: &crate::text::Text, messages: &[Message]) -> Vec<u32> {
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    text.encode_chat(
        messages
            .iter()
            .map(Message::role)
            .zip(texts.iter().map(String::as_str)),
    )
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.common.model.as_deref())?;
    if body.messages.is_empty() {
        return Err(Reply::error(
            400,
            "messages must hold at least one message",
            Some("messages"),
        ));
    }
    let prompt = encode(&local.server.text, &body.messages);
    let prompt_tokens = prompt.len() as u64;
    let default_tokens = local.server.config.default_output_tokens;
    let sequences = sequences(local, &[prompt], &body.common, default_tokens, faults)?;
    let names = ("chatcmpl", "chat.completion.chunk");
    let dialect = Chat(Envelope::new(
        local,
        &body.common,
        &sequences,
        faults,
        names,
    ));
    Ok(Job {
        sequences,
        prompt_tokens,
        stream: body.common.stream.unwrap_or(false),
        dialect: Box::new(dialect),
    })
}

struct Chat(Envelope);

impl Chat {
    /// The delta of a token, by what the faults make of it.
    fn delta(&mut self, piece: &Piece<'_>) {
        let reasoning = self.0.faults.has(FaultKind::ReasoningOnly)
            || self
                .0
                .faults
                .get(FaultKind::Reasoning)
                .is_some_and(|n| piece.before < n);
        let key: &[u8] = if reasoning {
            b"\"reasoning_content\":\""
        } else if self.0.faults.has(FaultKind::Refusal) {
            b"\"refusal\":\""
        } else if self.0.faults.has(FaultKind::ToolCall) {
            b"\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\""
        } else {
            b"\"content\":\""
        };
        self.0.payload.extend_from_slice(key);
        escape(&mut self.0.payload, piece.text);
        let tool = key.starts_with(b"\"tool");
        self.0
            .payload
            .extend_from_slice(if tool { b"\"}}]" } else { b"\"" });
    }

    fn finish_event(&mut self, events: &mut Events, piece: &Piece<'_>, finish: &str) {
        self.0.begin();
        write!(
            self.0.payload,
            "{{\"index\":{},\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"{finish}\",\"stop_reason\":null}}",
            piece.choice
        ).ok();
        self.0.end_plain(events, piece.usage);
    }
}

impl Dialect for Chat {
    fn open(&mut self, events: &mut Events, choice: usize, usage: Usage) {
        let content = if self.0.faults.has(FaultKind::NullRole) {
            ",\"content\":null"
        } else if self.0.faults.has(FaultKind::BareRole) {
            ""
        } else {
            ",\"content\":\"\""
        };
        self.0.begin();
        write!(
            self.0.payload,
            "{{\"index\":{choice},\"delta\":{{\"role\":\"assistant\"{content}}},\"logprobs\":null,\"finish_reason\":null}}"
        ).ok();
        let nothing_yet = Usage {
            completion: 0,
            ..usage
        };
        self.0.end_plain(events, nothing_yet);
        if self.0.faults.has(FaultKind::ToolCall) {
            self.0.begin();
            write!(
                self.0.payload,
                "{{\"index\":{choice},\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{choice}\",\"type\":\"function\",\
                 \"function\":{{\"name\":\"lookup\",\"arguments\":\"\"}}}}]}},\"logprobs\":null,\"finish_reason\":null}}"
            ).ok();
            self.0.end_silent(events);
        }
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        let (none, apart) = self.0.finish_style();
        let finish = piece.finish.filter(|_| !none).map(|f| {
            if self.0.faults.has(FaultKind::ToolCall) {
                "tool_calls"
            } else {
                f.openai()
            }
        });
        self.0.begin();
        write!(self.0.payload, "{{\"index\":{},\"delta\":{{", piece.choice).ok();
        self.delta(piece);
        self.0
            .payload
            .extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) if !apart => {
                write!(self.0.payload, "\"{reason}\",\"stop_reason\":null").ok();
            }
            _ => self.0.payload.extend_from_slice(b"null"),
        }
        if self.0.token_ids {
            write!(self.0.payload, ",\"token_ids\":{:?}}}", piece.ids).ok();
        } else {
            self.0.payload.extend_from_slice(b",\"token_ids\":null}");
        }
        self.0
            .end_piece(events, piece.usage, piece.finish.is_some());
        if let Some(reason) = finish.filter(|_| apart) {
            self.finish_event(events, piece, reason);
        }
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        self.0.close(events, whole);
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let choices: Vec<Value> = whole
            .choices
            .iter()
            .enumerate()
            .map(|(index, (text, ids, finish))| {
                let message = if self.0.faults.has(FaultKind::ReasoningOnly) {
                    json!({"role": "assistant", "content": null, "reasoning_content": text})
                } else {
                    json!({"role": "assistant", "content": text})
                };
                let ids = self.0.token_ids.then_some(ids);
                json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish.openai(), "token_ids": ids})
            })
            .collect();
        self.0.whole("chat.completion", &choices, whole.usage)
    }
}
