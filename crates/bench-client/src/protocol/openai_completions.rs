//! `openai-completions`: `POST /v1/completions`.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt};
use serde::Deserialize;

use super::body::Object;
use super::json::{Length, Text, parse};
use super::openai::{self, Logprobs};
use super::openai_chunk::{Choice, Chunk};
use super::skim::{Shape, skim};
use super::{DecodeError, Delta, Frame, Protocol, ProtocolOptions};

/// The completions API of OpenAI and of all servers that copy it. The only OpenAI API that takes token ids.
#[derive(Clone, Debug, Default)]
pub struct OpenAiCompletions {
    /// What to ask for beside the answer.
    pub options: ProtocolOptions,
}

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
    fn tell_text(&self, whole: bool, generated: bool, out: &mut Delta) {
        out.text(Channel::Answer, self.text.get().unwrap_or_default());
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

impl Protocol for OpenAiCompletions {
    fn name(&self) -> &'static str {
        "openai-completions"
    }

    fn path(&self, _: &str, _: bool) -> Cow<'_, str> {
        "/v1/completions".into()
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let mut body = Object::new(request.extra_body.as_deref(), openai::room(&request.prompt));
        body.set("model", model);
        match &request.prompt {
            Prompt::TokenIds(ids) => body.set("prompt", ids),
            other => body.set("prompt", &*openai::plain_text(other)),
        }
        openai::parameters(&mut body, request, "max_tokens");
        openai::streaming(&mut body, request, self.options.usage);
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        openai::conversation_unsupported(request)
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        if let Some(common) = skim(frame.data, Shape::Completions) {
            out.text(Channel::Answer, common.text);
            return Ok(());
        }
        parse::<Chunk<'_, TextChoice<'_>>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Chunk<'_, TextChoice<'_>>>(body)?.tell(true, out);
        Ok(())
    }

    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        openai::header(name, value, out);
    }
}
