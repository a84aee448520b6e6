//! `POST /v1/completions`.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::chat::{finish_style, usage_json, write_usage};
use super::dialect::{Dialect, Piece, Usage, Whole};
use super::parameters::{Common, UsageWish, body, check_model, sequences};
use super::{Job, Reply};
use crate::clock::unix_seconds;
use crate::fault::{FaultKind, FaultSet};
use crate::http::{Events, Request, events::escape};
use crate::local::Local;

/// The OpenAI API's default for completions.
const DEFAULT_TOKENS: u32 = 16;

#[derive(Deserialize)]
struct Body {
    prompt: Prompt,
    #[serde(flatten)]
    common: Common,
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
    pub(super) fn encode(self, text: &crate::text::Text) -> Vec<Vec<u32>> {
        match self {
            Self::Text(prompt) => vec![text.encode(&prompt)],
            Self::Ids(ids) => vec![ids],
            Self::Texts(prompts) => prompts.iter().map(|prompt| text.encode(prompt)).collect(),
            Self::IdLists(lists) => lists,
        }
    }
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.common.model.as_deref())?;
    let prompts = body.prompt.encode(&local.server.text);
    if prompts.is_empty() {
        return Err(Reply::error(
            400,
            "prompt must hold at least one prompt",
            Some("prompt"),
        ));
    }
    let size = local.server.text.size();
    if let Some(id) = prompts.iter().flatten().find(|id| **id >= size) {
        return Err(Reply::error(
            400,
            &format!("Token id {id} is out of vocabulary"),
            Some("prompt"),
        ));
    }
    let prompt_tokens = prompts.iter().map(|ids| ids.len() as u64).sum();
    let sequences = sequences(local, &prompts, &body.common, DEFAULT_TOKENS, faults)?;
    let dialect = Completions {
        id: format!(
            "cmpl-{:016x}",
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

struct Completions {
    id: String,
    created: i64,
    /// As JSON, quotes included.
    model: String,
    usage: UsageWish,
    token_ids: bool,
    faults: FaultSet,
    payload: Vec<u8>,
}

impl Completions {
    fn begin(&mut self) {
        self.payload.clear();
        // Writing to memory cannot fail.
        write!(
            self.payload,
            "{{\"id\":\"{}\",\"object\":\"text_completion\",\"created\":{},\"model\":{},\"choices\":[",
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

    fn choice(&mut self, piece: &Piece<'_>, text: &str, finish: Option<&str>) {
        self.begin();
        write!(self.payload, "{{\"index\":{},\"text\":\"", piece.choice).ok();
        escape(&mut self.payload, text);
        self.payload
            .extend_from_slice(b"\",\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) => {
                write!(self.payload, "\"{reason}\",\"stop_reason\":null").ok();
            }
            None => self.payload.extend_from_slice(b"null,\"stop_reason\":null"),
        }
        if self.token_ids {
            write!(
                self.payload,
                ",\"prompt_token_ids\":null,\"token_ids\":{:?}}}",
                piece.ids
            )
            .ok();
        } else {
            self.payload
                .extend_from_slice(b",\"prompt_token_ids\":null,\"token_ids\":null}");
        }
    }
}

impl Dialect for Completions {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        let (none, apart) = finish_style(&self.faults);
        let finish = piece
            .finish
            .filter(|_| !none)
            .map(crate::engine::Finish::openai);
        self.choice(piece, piece.text, finish.filter(|_| !apart));
        let usage = self.usage.always || (self.usage.on_last && piece.finish.is_some());
        self.end(events, usage.then_some(piece.usage));
        if finish.is_some() && apart {
            self.choice(piece, "", finish);
            self.end(events, self.usage.always.then_some(piece.usage));
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
                let ids = self.token_ids.then_some(ids);
                json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish.openai(), "token_ids": ids})
            })
            .collect();
        let mut answer = json!({
            "id": self.id, "object": "text_completion", "created": self.created,
            "model": serde_json::from_str::<Value>(&self.model).unwrap_or_default(), "choices": choices,
        });
        if !self.faults.has(FaultKind::NoUsage) {
            answer["usage"] = usage_json(whole.usage);
        }
        answer
    }
}
