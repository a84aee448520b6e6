//! llama.cpp's native `POST /completion`, whose last event carries the server's own `timings`.

use serde_json::{Value, json};

use super::openai::Prompt;
use super::parameters::Asked;
use super::{Dialect, Job, Piece, Reply, Whole};
use crate::engine::Finish;
use crate::fault::FaultKind;
use crate::http::Events;

pub(super) fn parse(asked: Asked<'_>) -> Result<Job, Reply> {
    let body = asked.body()?;
    let mut prompts = body.need::<Prompt>("/prompt")?.encode(asked.text());
    prompts.truncate(1);
    let parameters = body.parameters("", "n_predict")?;
    asked.job(&prompts, &parameters, |_| LlamaCpp {
        model: asked.model().to_owned(),
        timings: !asked.faults.has(FaultKind::NoUsage),
    })
}

struct LlamaCpp {
    model: String,
    timings: bool,
}

impl LlamaCpp {
    fn last(&self, (content, ids): (&str, &[u32]), whole: &Whole) -> Value {
        let mut value = json!({
            "index": 0, "content": content, "tokens": ids, "id_slot": 0, "stop": true, "model": self.model,
            "tokens_predicted": whole.usage.completion, "tokens_evaluated": whole.usage.prompt,
            "stop_type": if whole.finish() == Finish::Stop { "eos" } else { "limit" }, "truncated": false,
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
    let mut timings = json!({"cache_n": whole.usage.cached});
    for (part, n, ns) in [
        (
            "prompt",
            whole.usage.prompt - whole.usage.cached,
            whole.phases.prefill(),
        ),
        ("predicted", whole.usage.completion, whole.phases.decode()),
    ] {
        let ms = ns as f64 / 1e6;
        timings[format!("{part}_n")] = json!(n);
        timings[format!("{part}_ms")] = json!(ms);
        timings[format!("{part}_per_token_ms")] = json!((n > 0).then(|| ms / n as f64));
        timings[format!("{part}_per_second")] = json!((ms > 0.0).then(|| n as f64 / ms * 1e3));
    }
    timings
}

impl Dialect for LlamaCpp {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        events.json(&json!({
            "index": 0, "content": piece.text, "tokens": piece.ids, "stop": false, "id_slot": -1,
            "tokens_predicted": piece.usage.completion, "tokens_evaluated": piece.usage.prompt,
        }));
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        events.json(&self.last(("", &[]), whole));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let (text, ids, _) = whole.first();
        self.last((text, ids), whole)
    }
}
