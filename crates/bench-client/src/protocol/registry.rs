//! The protocols by name.

use std::sync::Arc;

use super::{
    AnthropicMessages, Embeddings, LlamaCppCompletion, OllamaChat, OllamaGenerate, OpenAiChat,
    OpenAiCompletions, OpenAiResponses, Protocol, ProtocolError, SglangGenerate, Template,
    TgiGenerate, TritonDialect, TritonGenerate,
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

type Maker = fn(&ProtocolOptions) -> Arc<dyn Protocol>;

/// Name and maker of each protocol.
const MAKERS: [(&str, Maker); 12] = [
    ("openai-chat", |options| {
        Arc::new(OpenAiChat {
            options: options.clone(),
        })
    }),
    ("openai-completions", |options| {
        Arc::new(OpenAiCompletions {
            options: options.clone(),
        })
    }),
    ("openai-responses", |_| Arc::new(OpenAiResponses)),
    ("anthropic-messages", |_| Arc::new(AnthropicMessages)),
    ("tgi-generate", |_| Arc::new(TgiGenerate)),
    ("sglang-generate", |_| Arc::new(SglangGenerate)),
    ("llamacpp-completion", |_| Arc::new(LlamaCppCompletion)),
    ("ollama-chat", |_| Arc::new(OllamaChat)),
    ("ollama-generate", |_| Arc::new(OllamaGenerate)),
    ("triton-generate", |_| {
        Arc::new(TritonGenerate {
            dialect: TritonDialect::TensorRtLlm,
        })
    }),
    ("triton-generate-vllm", |_| {
        Arc::new(TritonGenerate {
            dialect: TritonDialect::Vllm,
        })
    }),
    ("embeddings", |_| Arc::new(Embeddings)),
];

/// The names that [`protocol_by_name`] knows, `template:FILE` excepted.
pub const PROTOCOLS: [&str; MAKERS.len()] = {
    let mut names = [""; MAKERS.len()];
    let mut at = 0;
    while at < MAKERS.len() {
        names[at] = MAKERS[at].0;
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
    let maker = MAKERS.iter().find(|(known, _)| *known == name);
    maker
        .map(|(_, make)| make(options))
        .ok_or_else(|| ProtocolError::Unknown {
            name: name.to_owned(),
            known: PROTOCOLS.join(", "),
        })
}
