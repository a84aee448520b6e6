//! `openai-completions`: `POST /v1/completions`.

use std::borrow::Cow;

use bench_schema::{Channel, GenerationRequest, Prompt};
use serde::Deserialize;

use super::body::Object;
use super::json::{ErrorField, Length, List, Text, parse};
use super::openai::{self, LlamaTimings, Logprobs, OpenAiUsage};
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
struct Chunk<'a> {
    #[serde(borrow)]
    choices: List<Choice<'a>>,
    usage: Option<OpenAiUsage>,
    timings: Option<LlamaTimings>,
    error: ErrorField,
    #[serde(borrow)]
    object: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    token_ids: Length,
    logprobs: Option<Logprobs>,
}

impl Chunk<'_> {
    fn tell(&self, whole: bool, out: &mut Delta) {
        if let Some(usage) = &self.usage {
            usage.tell(out);
        }
        if let Some(timings) = &self.timings {
            timings.tell(out);
        }
        let generated = self.usage.as_ref().and_then(OpenAiUsage::completion_tokens);
        for choice in &self.choices.0 {
            out.text(Channel::Answer, choice.text.get().unwrap_or_default());
            // Beside a finish reason an empty text only closes the answer.
            let open = choice.finish_reason.filled().is_none();
            let is_token = if whole { generated > Some(0) } else { open };
            if is_token && choice.text.is_empty_string() {
                out.empty_token(Channel::Answer);
            }
            if let Some(tokens) = openai::tokens_of(choice.token_ids, choice.logprobs.as_ref()) {
                out.tokens(tokens);
            }
            openai::finish(choice.finish_reason.get(), out);
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if self.object.get() == Some("error") {
            out.error(self.message.get().unwrap_or("an error without a message"));
        }
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
        parse::<Chunk<'_>>(frame.data)?.tell(false, out);
        Ok(())
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        parse::<Chunk<'_>>(body)?.tell(true, out);
        Ok(())
    }

    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        openai::header(name, value, out);
    }
}
