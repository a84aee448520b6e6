//! What is asked of a server, whatever its protocol, and the keys that go with it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// One generation to ask for. The workload makes it, a protocol of the client turns it into bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationRequest {
    /// What to answer.
    pub prompt: Prompt,
    /// Most output tokens; absent leaves it to the server.
    pub max_tokens: Option<u32>,
    /// Fewest output tokens.
    pub min_tokens: Option<u32>,
    /// Go on past end tokens until `max_tokens`, where the server can.
    pub ignore_eos: bool,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Stream the answer.
    pub stream: bool,
    /// Keys merged into the body last, over everything else.
    pub extra_body: Option<Arc<Map<String, Value>>>,
}

impl GenerationRequest {
    /// Output tokens that the body asks for: what is merged into it counts over `max_tokens`.
    pub fn asked_tokens(&self) -> Option<u64> {
        const NAMES: [&str; 6] = [
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "max_new_tokens",
            "num_predict",
            "n_predict",
        ];
        let within =
            |body: &Map<String, Value>| NAMES.iter().find_map(|name| body.get(*name)?.as_u64());
        let merged = self.extra_body.as_deref();
        let inner = || {
            merged?
                .values()
                .filter_map(Value::as_object)
                .find_map(within)
        };
        let merged = merged.and_then(within).or_else(inner);
        merged.or(self.max_tokens.map(u64::from))
    }
}

/// The prompt in one of the forms that the protocols take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Plain text: the completions prompt, or the one user message of a chat.
    Text(Arc<str>),
    /// A conversation.
    Messages(Vec<Message>),
    /// Token ids, for servers that take them.
    TokenIds(Vec<u32>),
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Whose turn.
    pub role: Role,
    /// What was said.
    pub content: Arc<str>,
}

names! {
    /// Who speaks; the name is that on the wire.
    Role {
        System "system" "The system prompt.";
        User "user" "The user.";
        Assistant "assistant" "The model.";
    }
}

/// Sampling parameters; what is absent is left to the server.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f64>,
    /// Nucleus.
    pub top_p: Option<f64>,
    /// The k most likely.
    pub top_k: Option<i64>,
    /// Least probability relative to the best.
    pub min_p: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Repetition penalty.
    pub repetition_penalty: Option<f64>,
    /// The server's sampling seed.
    pub seed: Option<i64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// How long a prompt is, in each unit that is known.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PromptSize {
    /// Tokens that the plan asked for.
    pub asked_tokens: Option<u64>,
    /// Tokens by the client's tokenizer of what was really sent, template excluded.
    pub sent_tokens: Option<u64>,
    /// Whitespace-separated words; absent for token ids.
    pub words: Option<u64>,
}

/// A key or password: usable by the client, redacted wherever it is printed, logged or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wrap a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Call it where the bytes go to the socket, and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}
