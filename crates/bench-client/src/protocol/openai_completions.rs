//! `openai-completions`: `POST /v1/completions`.

use bench_schema::Channel;
use serde::Deserialize;

use super::api::{Api, Document, PromptForm};
use super::json::{Length, Text};
use super::openai::{self, Choice, Chunk, Logprobs};
use super::skim::{Shape, skim};
use super::{DecodeError, Delta};

/// The completions API of OpenAI and of all servers that copy it. The only OpenAI API that takes token ids.
pub(crate) const API: Api = Api {
    name: "openai-completions",
    paths: ["/v1/completions"; 2],
    prompt: PromptForm::TextOrIds("prompt", "prompt"),
    more: openai::stream_options,
    read,
    read_header: openai::read_header,
    ..Api::COMMON
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct TextChoice<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    token_ids: Length,
    logprobs: Option<Logprobs>,
}

impl Choice for TextChoice<'_> {
    fn emit_text(&self, whole: bool, generated: bool, out: &mut Delta) {
        self.text.emit(Channel::Answer, out);
        // Beside a finish reason an empty text only closes the answer.
        let is_token = if whole {
            generated
        } else {
            self.finish_reason.filled().is_none()
        };
        if is_token && self.text.is_empty_string() {
            out.empty_token(Channel::Answer);
        }
    }

    fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.get()
    }

    fn counted(&self) -> (Length, Option<&Logprobs>) {
        (self.token_ids, self.logprobs.as_ref())
    }
}

fn read(document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
    if !document.whole
        && let Some(common) = skim(document.data, Shape::Completions)
    {
        out.text(Channel::Answer, common.text);
        return Ok(());
    }
    let chunk: Chunk<'_, TextChoice<'_>> = document.parse()?;
    chunk.emit(document.whole, out);
    Ok(())
}
