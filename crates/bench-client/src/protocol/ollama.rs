//! `ollama-chat` and `ollama-generate`: lines of JSON, with the server's durations on the last.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Nanos, Prompt, ServerTimings, Usage};
use serde::Deserialize;

use super::body::Object;
use super::json::{Count, ErrorField, List, Text, parse};
use super::openai::{self, names};
use super::{DecodeError, Delta, Frame, Framing, Protocol};

/// Ollama's `/api/chat`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OllamaChat;

/// Ollama's `/api/generate`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OllamaGenerate;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<Piece<'a>>,
    #[serde(borrow)]
    response: Text<'a>,
    #[serde(borrow)]
    thinking: Text<'a>,
    done: bool,
    #[serde(borrow)]
    done_reason: Text<'a>,
    total_duration: Count,
    prompt_eval_count: Count,
    prompt_eval_duration: Count,
    eval_count: Count,
    eval_duration: Count,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    thinking: Text<'a>,
    #[serde(borrow)]
    tool_calls: List<ToolCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a serde_json::value::RawValue>,
}

impl Line<'_> {
    fn tell(&self, whole: bool, out: &mut Delta) {
        let has_tools = self.tell_tools(out);
        let (text, thinking) = match &self.message {
            Some(piece) => (&piece.content, &piece.thinking),
            None => (&self.response, &self.thinking),
        };
        out.text(Channel::Reasoning, thinking.get().unwrap_or_default());
        out.text(Channel::Answer, text.get().unwrap_or_default());
        // The role is in every line, so an empty text before the last line is a token.
        let nothing_else = thinking.filled().is_none() && !has_tools;
        let is_token = if whole {
            self.eval_count.0 > Some(0)
        } else {
            !self.done
        };
        if is_token && nothing_else && text.is_empty_string() {
            out.empty_token(Channel::Answer);
        }
        self.tell_end(whole, out);
        if let Some(message) = &self.error.0 {
            out.error(message);
        }
    }

    fn tell_tools(&self, out: &mut Delta) -> bool {
        let calls = self
            .message
            .as_ref()
            .map_or([].as_slice(), |piece| &piece.tool_calls.0);
        for call in calls {
            out.text(Channel::Tool, call.function.name.get().unwrap_or_default());
            let arguments = call.function.arguments;
            out.text(Channel::Tool, arguments.map_or("", |raw| raw.get()));
        }
        !calls.is_empty()
    }

    fn tell_end(&self, whole: bool, out: &mut Delta) {
        if !self.done {
            return;
        }
        out.usage(&Usage {
            prompt_tokens: self.prompt_eval_count.0,
            completion_tokens: self.eval_count.0,
            ..Usage::default()
        });
        if let Some(total) = self.eval_count.0.filter(|_| whole) {
            out.total_tokens(total);
        }
        let nanos = |count: Count| {
            count
                .0
                .and_then(|ns| i64::try_from(ns).ok())
                .map(Nanos::new)
        };
        let timings = ServerTimings {
            queue: None,
            prefill: nanos(self.prompt_eval_duration),
            decode: nanos(self.eval_duration),
            total: nanos(self.total_duration),
        };
        // Servers that only speak Ollama's API (SGLang) tell none.
        if timings != ServerTimings::default() {
            *out.server() = timings;
        }
        out.finish(self.done_reason.filled().unwrap_or("stop"));
        out.end_marker();
    }
}

/// The parameters, all under `options`.
fn options(body: &mut Object<'_>, request: &GenerationRequest) {
    let sampling = &request.sampling;
    body.set("stream", &request.stream);
    body.nest("options", |options| {
        options.set_some("num_predict", request.max_tokens);
        options.set_some("temperature", sampling.temperature);
        options.set_some("top_p", sampling.top_p);
        options.set_some("top_k", sampling.top_k);
        options.set_some("min_p", sampling.min_p);
        options.set_some("frequency_penalty", sampling.frequency_penalty);
        options.set_some("presence_penalty", sampling.presence_penalty);
        options.set_some("repeat_penalty", sampling.repetition_penalty);
        options.set_some("seed", sampling.seed);
        if !sampling.stop.is_empty() {
            options.set("stop", &sampling.stop);
        }
    });
}

fn unsupported(request: &GenerationRequest) -> Vec<&'static str> {
    names([
        (
            matches!(request.prompt, Prompt::TokenIds(_)),
            "token-id prompts",
        ),
        (request.min_tokens.is_some(), "min_tokens"),
        (request.ignore_eos, "ignore_eos"),
    ])
}

fn framing(streaming: bool) -> Framing {
    if streaming {
        Framing::Ndjson
    } else {
        Framing::Json
    }
}

impl Protocol for OllamaChat {
    fn name(&self) -> &'static str {
        "ollama-chat"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/api/chat".into()
    }

    fn framing(&self, streaming: bool) -> Framing {
        framing(streaming)
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        body.set("messages", &openai::messages(&request.prompt));
        options(&mut body, request);
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        unsupported(request)
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Line<'_>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Line<'_>>(body)?.tell(true, out);
        Ok(())
    }
}

impl Protocol for OllamaGenerate {
    fn name(&self) -> &'static str {
        "ollama-generate"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/api/generate".into()
    }

    fn framing(&self, streaming: bool) -> Framing {
        framing(streaming)
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        body.set("prompt", &*openai::plain_text(&request.prompt));
        options(&mut body, request);
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let mut found = unsupported(request);
        found.extend(openai::conversation_unsupported(request));
        found
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Line<'_>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Line<'_>>(body)?.tell(true, out);
        Ok(())
    }
}
