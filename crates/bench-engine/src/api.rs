//! From a request to what is to be done about it.

mod chat;
mod completions;
pub(crate) mod dialect;
mod other;
mod parameters;

use crate::engine::GenRequest;
use crate::fault::FaultSet;
use crate::http::Request;
use crate::local::Local;
pub(crate) use dialect::Dialect;

/// What a request asks for.
pub(crate) enum Answer {
    /// An answer that is known now.
    Ready(Reply),
    /// Tokens.
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
        let error =
            serde_json::json!({"message": message, "type": kind, "param": param, "code": status});
        Self::json(status, &serde_json::json!({ "error": error }))
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
        "/health" | "/ping" | "/version" | "/metrics" | "/ledger"
    );
    if !open && !authorised(server.config.api_key.as_deref(), request) {
        return Reply::error(401, "Unauthorized: the API key is missing or wrong", None).into();
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/chat/completions") => answer(chat::parse(local, request, faults)),
        ("POST", "/v1/completions") => answer(completions::parse(local, request, faults)),
        ("POST", "/tokenize") => other::tokenize(server, request)
            .unwrap_or_else(|e| e)
            .into(),
        ("POST", "/detokenize") => other::detokenize(server, request)
            .unwrap_or_else(|e| e)
            .into(),
        ("GET", "/v1/models") => other::models(server).into(),
        ("GET", "/health" | "/ping") => Reply::text("").into(),
        ("GET", "/version") => Reply::json(
            200,
            &serde_json::json!({"version": concat!("bench-engine ", env!("CARGO_PKG_VERSION"))}),
        )
        .into(),
        ("GET", "/metrics") => Reply {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: server.metrics.page(&server.config.model).into_bytes(),
        }
        .into(),
        ("GET", "/ledger") => Reply {
            status: 200,
            content_type: "application/x-ndjson",
            body: server.ledger.to_json_lines(),
        }
        .into(),
        ("DELETE", "/ledger") => {
            drop(server.ledger.take());
            Reply::text("").into()
        }
        (method, path) => Reply::error(
            404,
            &format!("there is no {method} {path} here; docs/engine.md lists the paths"),
            None,
        )
        .into(),
    }
}

fn answer(parsed: Result<Job, Reply>) -> Answer {
    parsed.map_or_else(Answer::Ready, Answer::Generate)
}

fn authorised(key: Option<&str>, request: &Request) -> bool {
    let Some(key) = key else { return true };
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    [bearer, request.header("x-api-key")].contains(&Some(key))
}
