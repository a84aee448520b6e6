//! From a request to what is to be done about it.

mod anthropic;
mod chat;
mod completions;
pub(crate) mod dialect;
mod embeddings;
mod envelope;
mod llama_cpp;
mod ollama;
mod other;
mod parameters;
mod responses;
mod sglang;
mod tgi;
mod triton;

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
        ("POST", "/tokenize") => other::tokenize(server, request)
            .unwrap_or_else(|e| e)
            .into(),
        ("POST", "/detokenize") => other::detokenize(server, request)
            .unwrap_or_else(|e| e)
            .into(),
        ("GET", "/v1/models") => other::models(server).into(),
        ("GET", "/health" | "/ping") => Reply::text("").into(),
        ("GET", "/version") => {
            let version = concat!("bench-engine ", env!("CARGO_PKG_VERSION"));
            Reply::json(200, &serde_json::json!({ "version": version })).into()
        }
        ("GET", "/metrics") if server.config.metrics_page => other::metrics(server).into(),
        ("GET", "/ledger") => other::ledger(server).into(),
        ("GET", "/connections") => {
            let carried: Vec<u64> = server.accepted().iter().map(|one| one.carried).collect();
            Reply::json(200, &serde_json::json!(carried)).into()
        }
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
    Some(match request.path.as_str() {
        "/v1/chat/completions" => chat::parse(local, request, faults),
        "/v1/completions" => completions::parse(local, request, faults),
        "/v1/responses" => responses::parse(local, request, faults),
        "/v1/messages" => anthropic::parse(local, request, faults),
        "/v1/embeddings" => embeddings::parse(local, request, faults),
        "/generate_stream" => tgi::parse(local, request, faults, true),
        "/generate" if sglang::is_for(request) => sglang::parse(local, request, faults),
        "/generate" => tgi::parse(local, request, faults, false),
        "/completion" => llama_cpp::parse(local, request, faults),
        "/api/chat" | "/api/generate" => ollama::parse(local, request, faults),
        path => triton::parse(local, request, faults, triton::matches(path)?),
    })
}

fn authorised(key: Option<&str>, request: &Request) -> bool {
    let Some(key) = key else { return true };
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    [bearer, request.header("x-api-key")].contains(&Some(key))
}
