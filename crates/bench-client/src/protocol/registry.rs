//! The protocols by name.

use std::sync::Arc;

use super::api::{Api, ApiProtocol};
use super::{
    Protocol, ProtocolError, Template, anthropic_messages, embeddings, llamacpp_completion, ollama,
    openai_chat, openai_completions, openai_responses, sglang_generate, tgi_generate,
    triton_generate,
};

/// Whether the OpenAI protocols ask the server for its token counts in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UsageRequest {
    /// Not at all, for servers that reject `stream_options`.
    None,
    /// Once, at the end (`include_usage`).
    #[default]
    Final,
    /// In every chunk (`continuous_usage_stats`): tokens per event become known, for a little more work in the server.
    Continuous,
}

/// What can be chosen about a protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// How the server's token counts are asked for.
    pub usage: UsageRequest,
    /// Say `max_completion_tokens` instead of `max_tokens` in a chat: OpenAI's newer models insist on it, and older servers
    /// do not know it.
    pub max_completion_tokens: bool,
}

impl ProtocolOptions {
    pub(crate) fn max_tokens_key(&self) -> &'static str {
        if self.max_completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        }
    }
}

/// Every API.
const APIS: [&Api; 12] = [
    &openai_chat::API,
    &openai_completions::API,
    &openai_responses::API,
    &anthropic_messages::API,
    &tgi_generate::API,
    &sglang_generate::API,
    &llamacpp_completion::API,
    &ollama::CHAT,
    &ollama::GENERATE,
    &triton_generate::TENSORRT_LLM,
    &triton_generate::VLLM,
    &embeddings::API,
];

/// The names that [`protocol_by_name`] knows, `template:FILE` excepted.
pub const PROTOCOLS: [&str; APIS.len()] = {
    let mut names = [""; APIS.len()];
    let mut at = 0;
    while at < APIS.len() {
        names[at] = APIS[at].name;
        at += 1;
    }
    names
};

/// The protocol called `name`, with the usual options.
///
/// # Errors
///
/// As for [`protocol_with_options`].
pub fn protocol_by_name(name: &str) -> Result<Arc<dyn Protocol>, ProtocolError> {
    protocol_with_options(name, &ProtocolOptions::default())
}

/// The protocol called `name`; `template:FILE` reads the file.
///
/// # Errors
///
/// [`ProtocolError`] if there is none of that name, with the names there are; or if a template cannot be read or used.
pub fn protocol_with_options(
    name: &str,
    options: &ProtocolOptions,
) -> Result<Arc<dyn Protocol>, ProtocolError> {
    if name == "template" {
        return Err(ProtocolError::TemplateWithoutFile);
    }
    if let Some(path) = name.strip_prefix("template:") {
        return Ok(Arc::new(Template::from_file(path)?));
    }
    let api = APIS.iter().find(|api| api.name == name);
    let api = api.ok_or_else(|| ProtocolError::Unknown {
        name: name.to_owned(),
        known: PROTOCOLS.join(", "),
    })?;
    Ok(Arc::new(ApiProtocol {
        api,
        options: options.clone(),
    }))
}
