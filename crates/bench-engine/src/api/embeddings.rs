//! `POST /v1/embeddings`: an answer in one piece, after the time of one token. The vectors are noise from the seed.

use serde::Deserialize;
use serde_json::{Value, json};

use super::completions::Prompt;
use super::dialect::{Dialect, Piece, Whole};
use super::parameters::{Wish, body, check_model};
use super::{Job, Reply};
use crate::fault::{FaultSet, mix};
use crate::http::{Events, Request};
use crate::local::Local;

const DIMENSIONS: u64 = 64;

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    input: Prompt,
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.model.as_deref())?;
    let prompts = body.input.encode(&local.server.text);
    let dialect = Embeddings {
        model: local.server.config.model.clone(),
    };
    let wish = Wish {
        prompts,
        ignore_eos: true,
        ..Wish::new(Vec::new(), Some(1), false)
    };
    wish.job(local, faults, Box::new(dialect))
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

    fn close(&mut self, _events: &mut Events, _whole: &Whole) {}

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
