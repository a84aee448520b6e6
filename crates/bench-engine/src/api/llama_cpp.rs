//! llama.cpp's native `POST /completion`, whose last event carries the server's own `timings`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::openai::Prompt;
use super::parameters::{Wish, body};
use super::{Dialect, Piece, Whole};
use super::{Job, Reply};
use crate::engine::Finish;
use crate::fault::{FaultKind, FaultSet};
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    prompt: Prompt,
    n_predict: Option<i64>,
    #[serde(default)]
    stream: bool,
    temperature: Option<f32>,
    #[serde(default)]
    ignore_eos: bool,
    seed: Option<i64>,
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    let prompt = body
        .prompt
        .encode(&local.server.text)
        .into_iter()
        .next()
        .unwrap_or_default();
    // −1 is its word for no limit.
    let tokens = body.n_predict.and_then(|n| u32::try_from(n).ok());
    let dialect = LlamaCpp {
        model: local.server.config.model.clone(),
        finish: Finish::Length,
        timings: !faults.has(FaultKind::NoUsage),
    };
    let wish = Wish {
        temperature: body.temperature,
        ignore_eos: body.ignore_eos,
        seed: body.seed.filter(|seed| *seed >= 0),
        ..Wish::new(prompt, tokens, body.stream)
    };
    wish.job(local, faults, Box::new(dialect))
}

struct LlamaCpp {
    model: String,
    finish: Finish,
    timings: bool,
}

impl LlamaCpp {
    fn last(&self, content: &str, ids: &[u32], whole: &Whole) -> Value {
        let mut value = json!({
            "index": 0, "content": content, "tokens": ids, "id_slot": 0, "stop": true, "model": self.model,
            "tokens_predicted": whole.usage.completion, "tokens_evaluated": whole.usage.prompt,
            "stop_type": if self.finish == Finish::Stop { "eos" } else { "limit" }, "truncated": false,
            "tokens_cached": whole.usage.prompt + whole.usage.completion,
        });
        if self.timings {
            value["timings"] = timings(whole);
        }
        value
    }
}

/// The server's own truth, ms. As in llama.cpp, decoding begins when the prompt is done.
fn timings(whole: &Whole) -> Value {
    let (prompt, predicted) = (
        whole.usage.prompt - whole.usage.cached,
        whole.usage.completion,
    );
    let (prompt_ms, predicted_ms) = (
        whole.phases.prefill as f64 / 1e6,
        whole.phases.decode as f64 / 1e6,
    );
    let each = |ms: f64, n: u64| if n == 0 { None } else { Some(ms / n as f64) };
    let rate = |ms: f64, n: u64| {
        if ms > 0.0 {
            Some(n as f64 / ms * 1e3)
        } else {
            None
        }
    };
    json!({
        "cache_n": whole.usage.cached,
        "prompt_n": prompt, "prompt_ms": prompt_ms,
        "prompt_per_token_ms": each(prompt_ms, prompt), "prompt_per_second": rate(prompt_ms, prompt),
        "predicted_n": predicted, "predicted_ms": predicted_ms,
        "predicted_per_token_ms": each(predicted_ms, predicted), "predicted_per_second": rate(predicted_ms, predicted),
    })
}

impl Dialect for LlamaCpp {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.finish = piece.finish.unwrap_or(self.finish);
        let event = json!({
            "index": 0, "content": piece.text, "tokens": piece.ids, "stop": false, "id_slot": -1,
            "tokens_predicted": piece.usage.completion, "tokens_evaluated": piece.usage.prompt,
        });
        events.data(event.to_string().as_bytes());
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        events.data(self.last("", &[], whole).to_string().as_bytes());
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let Some((text, ids, finish)) = whole.choices.first() else {
            return Value::Null;
        };
        self.finish = *finish;
        self.last(text, ids, whole)
    }
}
