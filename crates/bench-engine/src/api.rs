//! From a request to what is to be done about it.

mod anthropic;
mod native;
mod openai;
mod parameters;
mod responses;

use serde::Deserialize;
use serde_json::json;

use crate::config::EngineKind;
use crate::engine::{Finish, GenRequest};
use crate::fault::FaultSet;
use crate::http::{Events, Framing, Request};
use crate::metrics::{Phases, limits_info};
use crate::server::{Local, Shared};
use openai::{Message, encode};
use parameters::{ApiCall, body};

/// What a request asks for.
pub(crate) enum Answer {
    /// An answer that is known now.
    Ready(Reply),
    Generate(Job),
}

/// An answer in one piece.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// Sequences to generate, and how to write them down.
pub(crate) struct Job {
    pub(crate) sequences: Vec<GenRequest>,
    pub(crate) prompt_tokens: u64,
    pub(crate) stream: bool,
    pub(crate) dialect: Box<dyn Dialect>,
}

impl Reply {
    pub(crate) fn json(status: u16, value: &serde_json::Value) -> Self {
        Self {
            status,
            content_type: "application/json",
            body: value.to_string().into_bytes(),
        }
    }

    pub(crate) fn text(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// An error as vLLM and the OpenAI API write it.
    pub(crate) fn error(status: u16, message: &str, param: Option<&str>) -> Self {
        let kind = match status {
            400 => "BadRequestError",
            401 => "AuthenticationError",
            404 => "NotFoundError",
            405 => "MethodNotAllowedError",
            429 => "RateLimitError",
            503 => "ServiceUnavailableError",
            _ => "InternalServerError",
        };
        let error = json!({"message": message, "type": kind, "param": param, "code": status});
        Self::json(status, &json!({ "error": error }))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Ready(reply)
    }
}

/// Finds what answers a request.
pub(crate) fn route(local: &Local, request: &Request, faults: &FaultSet) -> Answer {
    let server = &local.server;
    let open = matches!(
        request.path.as_str(),
        "/health" | "/ping" | "/version" | "/metrics" | "/ledger" | "/connections"
    );
    if !open && !authorised(server.config.api_key.as_deref(), request) {
        return Reply::error(401, "Unauthorized: the API key is missing or wrong", None).into();
    }
    if request.method == "POST"
        && let Some(parsed) = generation(local, request, faults)
    {
        return parsed.map_or_else(Answer::Ready, Answer::Generate);
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/tokenize") => tokenize(server, request).unwrap_or_else(|e| e).into(),
        ("POST", "/detokenize") => detokenize(server, request).unwrap_or_else(|e| e).into(),
        ("GET", "/v1/models") => models(server).into(),
        ("GET", "/health" | "/ping") => Reply::text("").into(),
        ("GET", "/version") => {
            let version = concat!("bench-engine ", env!("CARGO_PKG_VERSION"));
            Reply::json(200, &json!({ "version": version })).into()
        }
        ("GET", "/metrics") if server.config.metrics_page => metrics(server).into(),
        ("GET", "/ledger") => ledger(server).into(),
        ("GET", "/connections") => Reply::json(200, &json!(server.carried())).into(),
        ("DELETE", "/ledger") => {
            drop(server.ledger.take());
            Reply::text("").into()
        }
        (method, path) => {
            let message =
                format!("there is no {method} {path} here; docs/engine.md lists the paths");
            Reply::error(404, &message, None).into()
        }
    }
}

/// The protocols that generate, by path.
fn generation(local: &Local, request: &Request, faults: &FaultSet) -> Option<Result<Job, Reply>> {
    let asked = ApiCall {
        local,
        request,
        faults,
    };
    Some(match request.path.as_str() {
        "/v1/chat/completions" => openai::chat(asked),
        "/v1/completions" => openai::completions(asked),
        "/v1/responses" => responses::parse(asked),
        "/v1/messages" => anthropic::parse(asked),
        "/v1/embeddings" => openai::embeddings(asked),
        "/generate_stream" => asked.body().and_then(|body| native::tgi(asked, &body)),
        "/generate" => asked.body().and_then(|body| {
            if body.has("/inputs") {
                native::tgi(asked, &body)
            } else {
                native::sglang(asked, &body)
            }
        }),
        "/completion" => native::llama_cpp(asked),
        "/api/chat" | "/api/generate" => native::ollama(asked),
        path => native::triton(asked, native::triton_path(path)?),
    })
}

fn authorised(key: Option<&str>, request: &Request) -> bool {
    let Some(key) = key else { return true };
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    [bearer, request.header("x-api-key")].contains(&Some(key))
}

// What a protocol must say about a generation. One small module each.

/// Tokens so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
    pub(crate) cached: u64,
}

/// One content event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) choice: usize,
    pub(crate) text: &'a str,
    pub(crate) ids: &'a [u32],
    /// Tokens of this choice before this event.
    pub(crate) before: u64,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Usage,
}

#[derive(Debug)]
pub(crate) struct Whole {
    /// Text, ids and end of each choice; of a stream only the ends are kept.
    pub(crate) choices: Vec<(String, Vec<u32>, Finish)>,
    pub(crate) usage: Usage,
    /// For protocols that have a place for them.
    pub(crate) phases: Phases,
}

impl Whole {
    /// What the first choice, the only one of most protocols, came to.
    fn first(&self) -> (&str, &[u32], Finish) {
        match self.choices.first() {
            Some((text, ids, finish)) => (text, ids, *finish),
            None => ("", &[], Finish::Stop),
        }
    }

    fn finish(&self) -> Finish {
        self.first().2
    }
}

/// A protocol's way to write a generation.
pub(crate) trait Dialect {
    /// What separates events.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// What opens a choice; it goes out together with its first token.
    fn open(&mut self, _events: &mut Events, _choice: usize, _usage: Usage) {}

    fn piece(&mut self, events: &mut Events, piece: &Piece<'_>);

    fn close(&mut self, _events: &mut Events, _whole: &Whole) {}

    /// The answer in one piece.
    fn whole(&mut self, whole: &Whole) -> serde_json::Value;

    /// An error inside a stream.
    fn error(&mut self, events: &mut Events, message: &str) {
        events.json(&json!({"error": {"message": message, "type": "InternalServerError", "param": null, "code": 500}}));
    }
}

impl Finish {
    /// As the OpenAI API calls it.
    pub(crate) fn openai(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
        }
    }
}

// The paths that generate nothing.

fn models(server: &Shared) -> Reply {
    let model = json!({
        "id": server.config.model, "object": "model", "created": server.started, "owned_by": "bench-engine",
        "root": server.config.model, "parent": null, "max_model_len": server.config.max_model_len,
    });
    Reply::json(200, &json!({"object": "list", "data": [model]}))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tokenize {
    Prompt { prompt: String },
    Chat { messages: Vec<Message> },
}

/// In vLLM's shape.
fn tokenize(server: &Shared, request: &Request) -> Result<Reply, Reply> {
    let ids = match body(request)? {
        Tokenize::Prompt { prompt } => server.text.encode(&prompt),
        Tokenize::Chat { messages } => encode(&server.text, &messages),
    };
    let answer = json!({"count": ids.len(), "max_model_len": server.config.max_model_len, "tokens": ids, "token_strs": null});
    Ok(Reply::json(200, &answer))
}

#[derive(Deserialize)]
struct Detokenize {
    tokens: Vec<u32>,
}

fn detokenize(server: &Shared, request: &Request) -> Result<Reply, Reply> {
    let Detokenize { tokens } = body(request)?;
    let prompt = server.text.decode(&tokens);
    Ok(Reply::json(200, &json!({ "prompt": prompt })))
}

fn metrics(server: &Shared) -> Reply {
    let mut page = server.metrics.page(&server.config.model);
    match &server.config.engine {
        EngineKind::Fixed(_) => {}
        EngineKind::Scheduler(engine) => page.push_str(&limits_info(&engine.scheduler)),
        EngineKind::Transformer(engine) => page.push_str(&limits_info(&engine.scheduler)),
    }
    Reply {
        status: 200,
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        body: page.into_bytes(),
    }
}

fn ledger(server: &Shared) -> Reply {
    Reply {
        status: 200,
        content_type: "application/x-ndjson",
        body: server.ledger.to_json_lines(),
    }
}
