//! SGLang's native `POST /generate`. Its text and ids are all so far, in every event.

use serde_json::{Value, json};

use super::parameters::{Asked, Body};
use super::{Dialect, Job, Piece, Reply, Usage, Whole};
use crate::engine::Finish;
use crate::fault::FaultKind;
use crate::http::Events;

pub(super) fn parse(asked: Asked<'_>, body: &Body) -> Result<Job, Reply> {
    let prompt = match body.get("/input_ids")? {
        Some(ids) => ids,
        None => asked.text().encode(&body.need::<String>("/text")?),
    };
    let parameters = body.parameters("/sampling_params", "max_new_tokens")?;
    asked.job(&[prompt], &parameters, |id| Sglang {
        id,
        text: String::new(),
        ids: Vec::new(),
        done: !asked.faults.has(FaultKind::NoDone),
        usage: !asked.faults.has(FaultKind::NoUsage),
    })
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
        events.json(&self.answer(piece.usage, piece.finish));
    }

    fn close(&mut self, events: &mut Events, _whole: &Whole) {
        if self.done {
            events.data(b"[DONE]");
        }
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let (text, ids, finish) = whole.first();
        (self.text, self.ids) = (text.to_owned(), ids.to_owned());
        self.answer(whole.usage, Some(finish))
    }
}
