//! OpenAI's chat, completions and embeddings: `POST /v1/chat/completions`, `/v1/completions`, `/v1/embeddings`.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{ApiCall, Common, UsageWish, body};
use super::{Dialect, Job, Piece, Reply, Usage, Whole};
use crate::clock::unix_seconds;
use crate::fault::{FaultKind, FaultSet, mix};
use crate::http::{Events, escape};
use crate::text::Text;

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    role: String,
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
    /// Its text; parts that are not text count as nothing.
    fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().map(|part| part.text.as_str()).collect(),
        }
    }
}

/// The ids of a conversation.
pub(super) fn encode(text: &Text, messages: &[Message]) -> Vec<u32> {
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    let roles = messages.iter().map(|message| message.role.as_str());
    text.encode_chat(roles.zip(texts.iter().map(String::as_str)))
}

/// A prompt in each of the forms that the API knows.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Prompt {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

impl Prompt {
    pub(super) fn encode(self, text: &Text) -> Vec<Vec<u32>> {
        match self {
            Self::Text(prompt) => vec![text.encode(&prompt)],
            Self::Ids(ids) => vec![ids],
            Self::Texts(prompts) => prompts.iter().map(|prompt| text.encode(prompt)).collect(),
            Self::IdLists(lists) => lists,
        }
    }
}

#[derive(Deserialize)]
struct ChatBody {
    messages: Vec<Message>,
    #[serde(flatten)]
    common: Common,
}

pub(super) fn chat(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let ChatBody { messages, common } = body(asked.request)?;
    asked.check_model(common.model.as_deref())?;
    if messages.is_empty() {
        let message = "messages must hold at least one message";
        return Err(Reply::error(400, message, Some("messages")));
    }
    let prompt = encode(asked.text(), &messages);
    job(asked, &[prompt], &common, &CHAT)
}

#[derive(Deserialize)]
struct CompletionsBody {
    prompt: Prompt,
    #[serde(flatten)]
    common: Common,
}

pub(super) fn completions(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let CompletionsBody { prompt, mut common } = body(asked.request)?;
    asked.check_model(common.model.as_deref())?;
    let prompts = prompt.encode(asked.text());
    let refused = |message: &str| Reply::error(400, message, Some("prompt"));
    if prompts.is_empty() {
        return Err(refused("prompt must hold at least one prompt"));
    }
    let size = asked.text().size();
    if let Some(id) = prompts.iter().flatten().find(|id| **id >= size) {
        return Err(refused(&format!("Token id {id} is out of vocabulary")));
    }
    common.default_tokens = Some(16);
    job(asked, &prompts, &common, &COMPLETIONS)
}

/// What one of the two APIs calls things.
struct Names {
    id: &'static str,
    event: &'static str,
    whole: &'static str,
    chat: bool,
}

const CHAT: Names = Names {
    id: "chatcmpl",
    event: "chat.completion.chunk",
    whole: "chat.completion",
    chat: true,
};

const COMPLETIONS: Names = Names {
    id: "cmpl",
    event: "text_completion",
    whole: "text_completion",
    chat: false,
};

fn job(
    asked: ApiCall<'_>,
    prompts: &[Vec<u32>],
    common: &Common,
    names: &'static Names,
) -> Result<Job, Reply> {
    asked.job(prompts, common, |digits| OpenAi {
        names,
        id: format!("{}-{digits}", names.id),
        created: unix_seconds(),
        model: serde_json::to_string(asked.model()).unwrap_or_default(),
        usage: common.usage_wish(asked.faults),
        token_ids: common.return_token_ids.unwrap_or(false),
        faults: asked.faults.clone(),
        payload: Vec::with_capacity(512),
    })
}

/// Writes events, and whole answers.
struct OpenAi {
    names: &'static Names,
    id: String,
    created: i64,
    /// As JSON, quotes included.
    model: String,
    usage: UsageWish,
    /// Whether ids were asked for.
    token_ids: bool,
    faults: FaultSet,
    /// The event that is being written.
    payload: Vec<u8>,
}

impl OpenAi {
    /// The beginning of every event, up to the choices.
    fn begin(&mut self) {
        self.payload.clear();
        // Writing to memory cannot fail.
        write!(
            self.payload,
            "{{\"id\":\"{}\",\"object\":\"{}\",\"created\":{},\"model\":{},\"choices\":[",
            self.id, self.names.event, self.created, self.model
        )
        .ok();
    }

    fn put(&mut self, text: &str) {
        self.payload.extend_from_slice(text.as_bytes());
    }

    /// The end of an event with this usage, and the event.
    fn end(&mut self, events: &mut Events, usage: Option<Usage>) {
        self.payload.push(b']');
        if let Some(usage) = usage {
            write_usage(&mut self.payload, usage);
        }
        self.payload.push(b'}');
        events.data(&self.payload);
    }

    /// The end of an event without a token: it tells usage only where every event does.
    fn end_plain(&mut self, events: &mut Events, usage: Usage) {
        let told = self.usage.always.then_some(usage);
        self.end(events, told);
    }

    /// A choice with the event's text, or without any where only its end is told.
    fn choice(&mut self, piece: &Piece<'_>, has_text: bool, finish: Option<&str>) {
        let chat = self.names.chat;
        self.begin();
        write!(self.payload, "{{\"index\":{},", piece.choice).ok();
        if chat {
            self.put("\"delta\":{");
            if has_text {
                self.delta(piece);
            }
            self.put("}");
        } else {
            self.put("\"text\":\"");
            escape(&mut self.payload, if has_text { piece.text } else { "" });
            self.put("\"");
        }
        self.put(",\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) => {
                write!(self.payload, "\"{reason}\",\"stop_reason\":null").ok();
            }
            None if chat => self.put("null"),
            None => self.put("null,\"stop_reason\":null"),
        }
        if !chat {
            self.put(",\"prompt_token_ids\":null");
        }
        match (self.token_ids, has_text || !chat) {
            (_, false) => {}
            (true, true) => {
                write!(self.payload, ",\"token_ids\":{:?}", piece.ids).ok();
            }
            (false, true) => self.put(",\"token_ids\":null"),
        }
        self.put("}");
    }

    /// The delta of a token, by what the faults make of it.
    fn delta(&mut self, piece: &Piece<'_>) {
        let reasons = self.faults.get(FaultKind::Reasoning);
        let reasoning = self.faults.has(FaultKind::ReasoningOnly)
            || reasons.is_some_and(|tokens| piece.before < tokens);
        let (before, after) = if reasoning {
            ("\"reasoning_content\":\"", "\"")
        } else if self.faults.has(FaultKind::Refusal) {
            ("\"refusal\":\"", "\"")
        } else if self.faults.has(FaultKind::ToolCall) {
            (
                "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"",
                "\"}}]",
            )
        } else {
            ("\"content\":\"", "\"")
        };
        self.put(before);
        escape(&mut self.payload, piece.text);
        self.put(after);
    }
}

impl Dialect for OpenAi {
    fn open(&mut self, events: &mut Events, choice: usize, usage: Usage) {
        if !self.names.chat {
            return;
        }
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
        let nothing_yet = Usage {
            completion: 0,
            ..usage
        };
        self.end_plain(events, nothing_yet);
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
        let told = piece
            .finish
            .filter(|_| !self.faults.has(FaultKind::NoFinish));
        let calls = self.names.chat && self.faults.has(FaultKind::ToolCall);
        let finish = told.map(|finish| if calls { "tool_calls" } else { finish.openai() });
        let apart = self.faults.has(FaultKind::FinishApart);
        self.choice(piece, true, finish.filter(|_| !apart));
        let usage = self.usage.always || (self.usage.on_last && piece.finish.is_some());
        self.end(events, usage.then_some(piece.usage));
        if finish.is_some() && apart {
            self.choice(piece, false, finish);
            self.end_plain(events, piece.usage);
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
        let choices = whole.choices.iter().enumerate();
        let choices: Vec<Value> = choices
            .map(|(index, (text, ids, finish))| {
                let ids = self.token_ids.then_some(ids);
                let mut choice = json!({"index": index, "logprobs": null, "finish_reason": finish.openai(), "token_ids": ids});
                if !self.names.chat {
                    choice["text"] = json!(text);
                } else if self.faults.has(FaultKind::ReasoningOnly) {
                    choice["message"] = json!({"role": "assistant", "content": null, "reasoning_content": text});
                } else {
                    choice["message"] = json!({"role": "assistant", "content": text});
                }
                choice
            })
            .collect();
        let usage = whole.usage;
        let mut answer = json!({
            "id": self.id, "object": self.names.whole, "created": self.created,
            "model": serde_json::from_str::<Value>(&self.model).unwrap_or_default(), "choices": choices,
        });
        if !self.faults.has(FaultKind::NoUsage) {
            answer["usage"] = json!({
                "prompt_tokens": usage.prompt,
                "total_tokens": usage.prompt + usage.completion,
                "completion_tokens": usage.completion,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
            });
        }
        answer
    }
}

/// `,"usage":{…}` as vLLM writes it.
fn write_usage(out: &mut Vec<u8>, usage: Usage) {
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

/// Embeddings are an answer in one piece, after the time of one token. The vectors are noise from the seed.
const DIMENSIONS: u64 = 64;

#[derive(Deserialize)]
struct EmbeddingsBody {
    model: Option<String>,
    input: Prompt,
}

pub(super) fn embeddings(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let body: EmbeddingsBody = body(asked.request)?;
    asked.check_model(body.model.as_deref())?;
    let prompts = body.input.encode(asked.text());
    asked.job(&prompts, &Common::one_token(), |_| Embeddings {
        model: asked.model().to_owned(),
    })
}

struct Embeddings {
    model: String,
}

/// A vector of length 1 that follows from the ids.
fn vector(ids: &[u32]) -> Vec<f64> {
    let seed = ids.iter().fold(0, |hash, id| mix(hash ^ u64::from(*id)));
    let raw: Vec<f64> = (0..DIMENSIONS)
        .map(|at| (mix(seed ^ at) >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        .collect();
    let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
    raw.iter().map(|x| x / length).collect()
}

impl Dialect for Embeddings {
    fn piece(&mut self, _events: &mut Events, _piece: &Piece<'_>) {}

    fn whole(&mut self, whole: &Whole) -> Value {
        let data: Vec<Value> = whole
            .choices
            .iter()
            .enumerate()
            .map(|(index, (_, ids, _))| json!({"object": "embedding", "index": index, "embedding": vector(ids)}))
            .collect();
        let usage =
            json!({"prompt_tokens": whole.usage.prompt, "total_tokens": whole.usage.prompt});
        json!({"object": "list", "data": data, "model": self.model, "usage": usage})
    }
}
