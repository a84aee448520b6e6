//! `POST /v1/chat/completions`.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::dialect::{Dialect, Piece, Usage, Whole};
use super::parameters::{Common, UsageWish, body, check_model, sequences};
use super::{Job, Reply};
use crate::clock::unix_seconds;
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
    let dialect = Chat {
        id: format!(
            "chatcmpl-{:016x}",
            sequences.first().map_or(0, |s| crate::fault::mix(s.seed))
        ),
        created: unix_seconds(),
        model: serde_json::to_string(&local.server.config.model).unwrap_or_default(),
        usage: body.common.usage_wish(faults),
        token_ids: body.common.return_token_ids.unwrap_or(false),
        faults: faults.clone(),
        payload: Vec::with_capacity(512),
    };
    Ok(Job {
        sequences,
        prompt_tokens,
        stream: body.common.stream.unwrap_or(false),
        dialect: Box::new(dialect),
    })
}

struct Chat {
    id: String,
    created: i64,
    /// As JSON, quotes included.
    model: String,
    usage: UsageWish,
    token_ids: bool,
    faults: FaultSet,
    payload: Vec<u8>,
}

impl Chat {
    /// The beginning of every event, up to the choices.
    fn begin(&mut self) {
        self.payload.clear();
        // Writing to memory cannot fail.
        write!(
            self.payload,
            "{{\"id\":\"{}\",\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{},\"choices\":[",
            self.id, self.created, self.model
        ).ok();
    }

    fn end(&mut self, events: &mut Events, usage: Option<Usage>) {
        self.payload.push(b']');
        if let Some(usage) = usage {
            write_usage(&mut self.payload, usage);
        }
        self.payload.push(b'}');
        events.data(&self.payload);
    }

    /// The delta of a token, by what the faults make of it.
    fn delta(&mut self, piece: &Piece<'_>) {
        let reasoning = self.faults.has(FaultKind::ReasoningOnly)
            || self
                .faults
                .get(FaultKind::Reasoning)
                .is_some_and(|n| piece.before < n);
        let key: &[u8] = if reasoning {
            b"\"reasoning_content\":\""
        } else if self.faults.has(FaultKind::Refusal) {
            b"\"refusal\":\""
        } else if self.faults.has(FaultKind::ToolCall) {
            b"\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\""
        } else {
            b"\"content\":\""
        };
        self.payload.extend_from_slice(key);
        escape(&mut self.payload, piece.text);
        let tool = key.starts_with(b"\"tool");
        self.payload
            .extend_from_slice(if tool { b"\"}}]" } else { b"\"" });
    }

    fn finish_event(&mut self, events: &mut Events, piece: &Piece<'_>, finish: &str) {
        self.begin();
        write!(
            self.payload,
            "{{\"index\":{},\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"{finish}\",\"stop_reason\":null}}",
            piece.choice
        ).ok();
        self.end(events, self.usage.always.then_some(piece.usage));
    }
}

/// `,"usage":{…}` as vLLM writes it.
pub(super) fn write_usage(out: &mut Vec<u8>, usage: Usage) {
    write!(
        out,
        ",\"usage\":{{\"prompt_tokens\":{},\"total_tokens\":{},\"completion_tokens\":{}",
        usage.prompt,
        usage.prompt + usage.completion,
        usage.completion
    )
    .ok();
    if usage.cached > 0 {
        write!(
            out,
            ",\"prompt_tokens_details\":{{\"cached_tokens\":{}}}",
            usage.cached
        )
        .ok();
    }
    out.push(b'}');
}

/// Usage of an answer in one piece.
pub(super) fn usage_json(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "total_tokens": usage.prompt + usage.completion,
        "completion_tokens": usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

/// Whether finish reasons are left out, together with the text, or apart.
pub(super) fn finish_style(faults: &FaultSet) -> (bool, bool) {
    (
        faults.has(FaultKind::NoFinish),
        faults.has(FaultKind::FinishApart),
    )
}

impl Dialect for Chat {
    fn open(&mut self, events: &mut Events, choice: usize, usage: Usage) {
        let content = if self.faults.has(FaultKind::NullRole) {
            ",\"content\":null"
        } else if self.faults.has(FaultKind::BareRole) {
            ""
        } else {
            ",\"content\":\"\""
        };
        self.begin();
        write!(
            self.payload,
            "{{\"index\":{choice},\"delta\":{{\"role\":\"assistant\"{content}}},\"logprobs\":null,\"finish_reason\":null}}"
        ).ok();
        self.end(
            events,
            self.usage.always.then_some(Usage {
                completion: 0,
                ..usage
            }),
        );
        if self.faults.has(FaultKind::ToolCall) {
            self.begin();
            write!(
                self.payload,
                "{{\"index\":{choice},\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{choice}\",\"type\":\"function\",\
                 \"function\":{{\"name\":\"lookup\",\"arguments\":\"\"}}}}]}},\"logprobs\":null,\"finish_reason\":null}}"
            ).ok();
            self.end(events, None);
        }
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        let (none, apart) = finish_style(&self.faults);
        let finish = piece.finish.filter(|_| !none).map(|f| {
            if self.faults.has(FaultKind::ToolCall) {
                "tool_calls"
            } else {
                f.openai()
            }
        });
        self.begin();
        write!(self.payload, "{{\"index\":{},\"delta\":{{", piece.choice).ok();
        self.delta(piece);
        self.payload
            .extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) if !apart => {
                write!(self.payload, "\"{reason}\",\"stop_reason\":null").ok();
            }
            _ => self.payload.extend_from_slice(b"null"),
        }
        if self.token_ids {
            write!(self.payload, ",\"token_ids\":{:?}}}", piece.ids).ok();
        } else {
            self.payload.extend_from_slice(b",\"token_ids\":null}");
        }
        let usage = self.usage.always || (self.usage.on_last && piece.finish.is_some());
        self.end(events, usage.then_some(piece.usage));
        if let Some(reason) = finish.filter(|_| apart) {
            self.finish_event(events, piece, reason);
        }
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        if self.usage.at_end {
            self.begin();
            self.end(events, Some(whole.usage));
        }
        if !self.faults.has(FaultKind::NoDone) {
            events.data(b"[DONE]");
        }
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let choices: Vec<Value> = whole
            .choices
            .iter()
            .enumerate()
            .map(|(index, (text, ids, finish))| {
                let message = if self.faults.has(FaultKind::ReasoningOnly) {
                    json!({"role": "assistant", "content": null, "reasoning_content": text})
                } else {
                    json!({"role": "assistant", "content": text})
                };
                let ids = self.token_ids.then_some(ids);
                json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish.openai(), "token_ids": ids})
            })
            .collect();
        let mut answer = json!({
            "id": self.id, "object": "chat.completion", "created": self.created,
            "model": serde_json::from_str::<Value>(&self.model).unwrap_or_default(), "choices": choices,
        });
        if !self.faults.has(FaultKind::NoUsage) {
            answer["usage"] = usage_json(whole.usage);
        }
        answer
    }
}
