//! `ollama-chat` and `ollama-generate`: lines of JSON, with the server's durations on the last.

use bench_schema::{Channel, Nanos, ServerTimings, Usage};
use serde::Deserialize;

use super::api::{Api, Parameters, PromptForm};
use super::json::{Count, ErrorField, List, Text};
use super::{Delta, Framing};

/// Ollama's `/api/chat`.
pub(crate) const CHAT: Api = Api {
    name: "ollama-chat",
    paths: ["/api/chat"; 2],
    framing: Framing::Ndjson,
    parameters: Parameters {
        within: Some("options"),
        without: "min_tokens ignore_eos",
        renamed: "max_tokens=num_predict repetition_penalty=repeat_penalty",
        ..Parameters::OPENAI
    },
    read: |document, out| document.read(|line: Line<'_>| line.emit(document.whole, out)),
    ..Api::COMMON
};

/// Ollama's `/api/generate`.
pub(crate) const GENERATE: Api = Api {
    name: "ollama-generate",
    paths: ["/api/generate"; 2],
    prompt: PromptForm::Text("prompt"),
    ..CHAT
};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    message: Option<Piece<'a>>,
    response: Text<'a>,
    thinking: Text<'a>,
    done: bool,
    done_reason: Text<'a>,
    total_duration: Count,
    prompt_eval_count: Count,
    prompt_eval_duration: Count,
    eval_count: Count,
    eval_duration: Count,
    error: ErrorField,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Piece<'a> {
    content: Text<'a>,
    thinking: Text<'a>,
    tool_calls: List<ToolCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCall<'a> {
    function: Function<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Text<'a>,
    arguments: Option<&'a serde_json::value::RawValue>,
}

impl Line<'_> {
    fn emit(&self, whole: bool, out: &mut Delta) {
        let has_tools = self.emit_tools(out);
        let (text, thinking) = match &self.message {
            Some(piece) => (&piece.content, &piece.thinking),
            None => (&self.response, &self.thinking),
        };
        thinking.emit(Channel::Reasoning, out);
        text.emit(Channel::Answer, out);
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
        self.emit_end(whole, out);
        self.error.emit(out);
    }

    fn emit_tools(&self, out: &mut Delta) -> bool {
        let calls = self
            .message
            .as_ref()
            .map_or([].as_slice(), |piece| &piece.tool_calls.0);
        for call in calls {
            call.function.name.emit(Channel::Tool, out);
            let arguments = call.function.arguments;
            out.text(Channel::Tool, arguments.map_or("", |raw| raw.get()));
        }
        !calls.is_empty()
    }

    fn emit_end(&self, whole: bool, out: &mut Delta) {
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
