//! SGLang's native `POST /generate`. Its text and ids are all so far, in every event.

use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{Wish, answer_id, body};
use super::{Dialect, Piece, Usage, Whole};
use super::{Job, Reply};
use crate::engine::Finish;
use crate::fault::{FaultKind, FaultSet};
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text { text: String },
    Ids { input_ids: Vec<u32> },
}

#[derive(Deserialize)]
struct Body {
    #[serde(flatten)]
    input: Input,
    #[serde(default)]
    sampling_params: Sampling,
    #[serde(default)]
    stream: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sampling {
    max_new_tokens: Option<u32>,
    temperature: Option<f32>,
    ignore_eos: bool,
}

/// Whether a body to `/generate` is SGLang's; TGI's has `inputs`.
pub(super) fn is_for(request: &Request) -> bool {
    serde_json::from_slice::<Body>(&request.body).is_ok()
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    let prompt = match body.input {
        Input::Text { text } => local.server.text.encode(&text),
        Input::Ids { input_ids } => input_ids,
    };
    let dialect = Sglang {
        id: answer_id(local, ""),
        text: String::new(),
        ids: Vec::new(),
        done: !faults.has(FaultKind::NoDone),
        usage: !faults.has(FaultKind::NoUsage),
    };
    let Sampling {
        max_new_tokens,
        temperature,
        ignore_eos,
    } = body.sampling_params;
    let wish = Wish {
        temperature,
        ignore_eos,
        ..Wish::new(prompt, max_new_tokens, body.stream)
    };
    wish.job(local, faults, Box::new(dialect))
}

struct Sglang {
    id: String,
    text: String,
    ids: Vec<u32>,
    done: bool,
    usage: bool,
}

impl Sglang {
    fn answer(&self, usage: Usage, finish: Option<Finish>) -> Value {
        let reason = finish.map(|finish| match finish {
            Finish::Length => json!({"type": "length", "length": usage.completion}),
            Finish::Stop => json!({"type": "stop", "matched": null}),
        });
        let mut meta = json!({"id": self.id, "finish_reason": reason});
        if self.usage {
            meta["prompt_tokens"] = json!(usage.prompt);
            meta["completion_tokens"] = json!(usage.completion);
            meta["cached_tokens"] = json!(usage.cached);
        }
        json!({"text": self.text, "output_ids": self.ids, "meta_info": meta})
    }
}

impl Dialect for Sglang {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        self.ids.extend_from_slice(piece.ids);
        events.data(
            self.answer(piece.usage, piece.finish)
                .to_string()
                .as_bytes(),
        );
    }

    fn close(&mut self, events: &mut Events, _whole: &Whole) {
        if self.done {
            events.data(b"[DONE]");
        }
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let first = whole.choices.first();
        if let Some((text, ids, _)) = first {
            self.text.clone_from(text);
            self.ids.clone_from(ids);
        }
        self.answer(whole.usage, first.map(|(_, _, finish)| *finish))
    }
}
