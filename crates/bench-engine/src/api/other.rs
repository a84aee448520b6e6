//! The paths that generate nothing.

use serde::Deserialize;
use serde_json::json;

use super::Reply;
use super::chat::{Message, encode};
use super::parameters::body;
use crate::http::Request;
use crate::local::Shared;

pub(super) fn models(server: &Shared) -> Reply {
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
pub(super) fn tokenize(server: &Shared, request: &Request) -> Result<Reply, Reply> {
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

pub(super) fn detokenize(server: &Shared, request: &Request) -> Result<Reply, Reply> {
    let body: Detokenize = body(request)?;
    Ok(Reply::json(
        200,
        &json!({"prompt": server.text.decode(&body.tokens)}),
    ))
}

pub(super) fn metrics(server: &Shared) -> Reply {
    let body = server.metrics.page(&server.config.model).into_bytes();
    Reply {
        status: 200,
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        body,
    }
}

pub(super) fn ledger(server: &Shared) -> Reply {
    Reply {
        status: 200,
        content_type: "application/x-ndjson",
        body: server.ledger.to_json_lines(),
    }
}
