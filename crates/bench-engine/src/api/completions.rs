//! `POST /v1/completions`.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::dialect::{Dialect, Piece, Whole};
use super::envelope::Envelope;
use super::parameters::{Common, body, check_model, sequences};
use super::{Job, Reply};
use crate::fault::FaultSet;
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
    let names = ("cmpl", "text_completion");
    let dialect = Completions(Envelope::new(
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

struct Completions(Envelope);

impl Completions {
    fn choice(&mut self, piece: &Piece<'_>, text: &str, finish: Option<&str>) {
        self.0.begin();
        write!(self.0.payload, "{{\"index\":{},\"text\":\"", piece.choice).ok();
        escape(&mut self.0.payload, text);
        self.0
            .payload
            .extend_from_slice(b"\",\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(reason) => {
                write!(self.0.payload, "\"{reason}\",\"stop_reason\":null").ok();
            }
            None => self
                .0
                .payload
                .extend_from_slice(b"null,\"stop_reason\":null"),
        }
        if self.0.token_ids {
            write!(
                self.0.payload,
                ",\"prompt_token_ids\":null,\"token_ids\":{:?}}}",
                piece.ids
            )
            .ok();
        } else {
            self.0
                .payload
                .extend_from_slice(b",\"prompt_token_ids\":null,\"token_ids\":null}");
        }
    }
}

impl Dialect for Completions {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        let (none, apart) = self.0.finish_style();
        let finish = piece
            .finish
            .filter(|_| !none)
            .map(crate::engine::Finish::openai);
        self.choice(piece, piece.text, finish.filter(|_| !apart));
        self.0
            .end_piece(events, piece.usage, piece.finish.is_some());
        if finish.is_some() && apart {
            self.choice(piece, "", finish);
            self.0.end_plain(events, piece.usage);
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
                let ids = self.0.token_ids.then_some(ids);
                json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish.openai(), "token_ids": ids})
            })
            .collect();
        self.0.whole("text_completion", &choices, whole.usage)
    }
}
