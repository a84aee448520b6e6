//! Ollama's `POST /api/chat` and `/api/generate`: one JSON text a line.

use serde::Deserialize;
use serde_json::{Value, json};

use super::openai::{Message, encode};
use super::parameters::{Wish, body, check_model};
use super::{Dialect, Piece, Whole};
use super::{Job, Reply};
use crate::engine::Finish;
use crate::fault::{FaultKind, FaultSet};
use crate::http::Framing;
use crate::http::{Events, Request};
use crate::local::Local;

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    #[serde(default)]
    prompt: String,
    messages: Option<Vec<Message>>,
    stream: Option<bool>,
    #[serde(default)]
    options: Options,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    num_predict: Option<i64>,
    temperature: Option<f32>,
    seed: Option<i64>,
}

pub(super) fn parse(local: &Local, request: &Request, faults: &FaultSet) -> Result<Job, Reply> {
    let body: Body = body(request)?;
    check_model(local, body.model.as_deref())?;
    let chat = request.path == "/api/chat";
    let prompt = match &body.messages {
        Some(messages) if chat => encode(&local.server.text, messages),
        _ => local.server.text.encode(&body.prompt),
    };
    let dialect = Ollama {
        model: local.server.config.model.clone(),
        chat,
        finish: Finish::Length,
        counts: !faults.has(FaultKind::NoUsage),
    };
    let tokens = body.options.num_predict.and_then(|n| u32::try_from(n).ok());
    let Options {
        temperature, seed, ..
    } = body.options;
    let wish = Wish {
        temperature,
        seed,
        ..Wish::new(prompt, tokens, body.stream.unwrap_or(true))
    };
    wish.job(local, faults, Box::new(dialect))
}

struct Ollama {
    model: String,
    chat: bool,
    finish: Finish,
    counts: bool,
}

impl Ollama {
    fn line(&self, text: &str, done: bool) -> Value {
        let mut line = json!({"model": self.model, "created_at": now(), "done": done});
        if self.chat {
            line["message"] = json!({"role": "assistant", "content": text});
        } else {
            line["response"] = json!(text);
        }
        line
    }

    fn last(&self, text: &str, whole: &Whole) -> Value {
        let mut line = self.line(text, true);
        line["done_reason"] = json!(self.finish.openai());
        if self.counts {
            let phases = whole.phases;
            line["total_duration"] = json!(phases.queue + phases.prefill + phases.decode);
            line["load_duration"] = json!(0);
            line["prompt_eval_count"] = json!(whole.usage.prompt);
            line["prompt_eval_duration"] = json!(phases.prefill);
            line["eval_count"] = json!(whole.usage.completion);
            line["eval_duration"] = json!(phases.decode);
        }
        line
    }
}

/// The time of day as RFC 3339 writes it, in UTC, to the second.
fn now() -> String {
    let unix = crate::clock::unix_seconds();
    let (days, seconds) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Days since 0000-03-01, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

impl Dialect for Ollama {
    fn framing(&self) -> Framing {
        Framing::NdJson
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.finish = piece.finish.unwrap_or(self.finish);
        events.data(self.line(piece.text, false).to_string().as_bytes());
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        events.data(self.last("", whole).to_string().as_bytes());
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let Some((text, _, finish)) = whole.choices.first() else {
            return Value::Null;
        };
        self.finish = *finish;
        self.last(text, whole)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.data(json!({ "error": message }).to_string().as_bytes());
    }
}
