//! The servers' own protocols: text-generation-inference, SGLang, Triton, llama.cpp and Ollama.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::openai::{Message, Prompt, encode};
use super::parameters::{ApiCall, Body};
use super::{Dialect, Job, Piece, Reply, Usage, Whole};
use crate::engine::Finish;
use crate::fault::FaultKind;
use crate::http::{Events, Framing};

// `POST /generate_stream` and `/generate` of text-generation-inference.

pub(super) fn tgi(asked: ApiCall<'_>, body: &Body) -> Result<Job, Reply> {
    let prompt = asked.text().encode(&body.need::<String>("/inputs")?);
    let mut parameters = body.parameters("/parameters", "max_new_tokens")?;
    parameters.stream = Some(asked.request.path == "/generate_stream");
    asked.job(&[prompt], &parameters, |_| Tgi::default())
}

#[derive(Default)]
struct Tgi {
    text: String,
}

fn tgi_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "eos_token",
    }
}

impl Dialect for Tgi {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        self.text.push_str(piece.text);
        let details = piece.finish.map(|finish| {
            json!({
                "finish_reason": tgi_reason(finish), "generated_tokens": piece.usage.completion, "seed": null,
                "input_length": piece.usage.prompt,
            })
        });
        let text = piece.finish.map(|_| self.text.as_str());
        events.json(&json!({
            "index": piece.before + piece.ids.len() as u64,
            "token": {"id": piece.ids.last(), "text": piece.text, "logprob": null, "special": false},
            "generated_text": text, "details": details,
        }));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        let (text, _, finish) = whole.first();
        json!({
            "generated_text": text,
            "details": {
                "finish_reason": tgi_reason(finish), "generated_tokens": whole.usage.completion, "seed": null,
                "prefill": [], "tokens": [],
            },
        })
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({"error": message, "error_type": "generation"}));
    }
}

// SGLang's native `POST /generate`. Its text and ids are all so far, in every event.

pub(super) fn sglang(asked: ApiCall<'_>, body: &Body) -> Result<Job, Reply> {
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

// Triton's generate extension: `POST /v2/models/NAME/generate_stream` and `/generate`. It tells no usage and no end.

/// The model's name in such a path, and whether the answer is a stream.
pub(super) fn triton_path(path: &str) -> Option<(&str, bool)> {
    let (name, verb) = path.strip_prefix("/v2/models/")?.split_once('/')?;
    match verb {
        "generate_stream" => Some((name, true)),
        "generate" => Some((name, false)),
        _ => None,
    }
}

/// Parameters stand beside the text (TensorRT-LLM) or in an object of their own (vLLM's backend).
pub(super) fn triton(asked: ApiCall<'_>, (name, stream): (&str, bool)) -> Result<Job, Reply> {
    asked.check_model(Some(name))?;
    let body = asked.body()?;
    let prompt = asked.text().encode(&body.need::<String>("/text_input")?);
    let within = ["", "/parameters"][usize::from(body.has("/parameters"))];
    let mut parameters = body.parameters(within, "max_tokens")?;
    parameters.stream = Some(stream);
    asked.job(&[prompt], &parameters, |_| Triton {
        model: name.to_owned(),
    })
}

struct Triton {
    model: String,
}

impl Triton {
    fn output(&self, text: &str) -> Value {
        json!({"model_name": self.model, "model_version": "1", "text_output": text})
    }
}

impl Dialect for Triton {
    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        events.json(&self.output(piece.text));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        self.output(whole.first().0)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({ "error": message }));
    }
}

// llama.cpp's native `POST /completion`, whose last event carries the server's own `timings`.

pub(super) fn llama_cpp(asked: ApiCall<'_>) -> Result<Job, Reply> {
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

// Ollama's `POST /api/chat` and `/api/generate`: one JSON text a line.

pub(super) fn ollama(asked: ApiCall<'_>) -> Result<Job, Reply> {
    let body = asked.body()?;
    let chat = asked.request.path == "/api/chat";
    let prompt = if let Some(messages) = body.get::<Vec<Message>>("/messages")?.filter(|_| chat) {
        encode(asked.text(), &messages)
    } else {
        let prompt: Option<String> = body.get("/prompt")?;
        asked.text().encode(&prompt.unwrap_or_default())
    };
    let mut parameters = body.parameters("/options", "num_predict")?;
    parameters.stream.get_or_insert(true);
    asked.job(&[prompt], &parameters, |_| Ollama {
        model: asked.model().to_owned(),
        chat,
        counts: !asked.faults.has(FaultKind::NoUsage),
    })
}

struct Ollama {
    model: String,
    chat: bool,
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
        line["done_reason"] = json!(whole.finish().openai());
        if self.counts {
            let (queue, prefill, decode) = (
                whole.phases.queue(),
                whole.phases.prefill(),
                whole.phases.decode(),
            );
            for (name, value) in [
                ("total_duration", queue + prefill + decode),
                ("load_duration", 0),
                ("prompt_eval_count", whole.usage.prompt),
                ("prompt_eval_duration", prefill),
                ("eval_count", whole.usage.completion),
                ("eval_duration", decode),
            ] {
                line[name] = json!(value);
            }
        }
        line
    }
}

/// The time of day as RFC 3339 writes it, in UTC, to the second.
fn now() -> String {
    let unix = Duration::from_secs(crate::clock::unix_seconds().unsigned_abs());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + unix).to_string()
}

impl Dialect for Ollama {
    fn framing(&self) -> Framing {
        Framing::NdJson
    }

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>) {
        events.json(&self.line(piece.text, false));
    }

    fn close(&mut self, events: &mut Events, whole: &Whole) {
        events.json(&self.last("", whole));
    }

    fn whole(&mut self, whole: &Whole) -> Value {
        self.last(whole.first().0, whole)
    }

    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({ "error": message }));
    }
}
