//! `embeddings`: `POST /v1/embeddings`. Nothing is generated: one event when the answer is there.

use bench_schema::Channel;
use serde::Deserialize;

use super::api::{Api, Document, Parameters, PromptForm};
use super::json::{ErrorField, List};
use super::openai::OpenAiUsage;
use super::{DecodeError, Delta, Framing};

/// The embeddings API of OpenAI and of all servers that copy it. Only E2E has a meaning.
pub(crate) const API: Api = Api {
    name: "embeddings",
    paths: ["/v1/embeddings"; 2],
    framing: Framing::Json,
    stream: false,
    prompt: PromptForm::TextOrIds("input", "input"),
    parameters: Parameters::NONE,
    read,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    data: List<serde::de::IgnoredAny>,
    usage: Option<OpenAiUsage>,
    error: ErrorField,
}

fn read(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    let answer: Answer = document.parse()?;
    if let Some(message) = &answer.error.0 {
        out.error(message);
        return Ok(());
    }
    if answer.data.0.is_empty() {
        return Err(DecodeError::new("`data` holds no embedding"));
    }
    out.empty_token(Channel::Answer);
    if let Some(usage) = &answer.usage {
        usage.emit(out);
    }
    Ok(())
}
