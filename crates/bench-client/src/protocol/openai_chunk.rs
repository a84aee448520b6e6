//! What an event of a stream, and a whole answer, look like in OpenAI's chat and completions APIs: the same around different choices.

use serde::Deserialize;

use super::Delta;
use super::json::{ErrorField, Length, List, Text};
use super::openai::{self, LlamaTimings, Logprobs, OpenAiUsage};

/// An event or a whole answer; `C` is the API's choice.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "C: Deserialize<'de> + Default"))]
pub(crate) struct Chunk<'a, C> {
    choices: List<C>,
    usage: Option<OpenAiUsage>,
    timings: Option<LlamaTimings>,
    error: ErrorField,
    #[serde(borrow)]
    object: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
}

/// What both APIs' choices have.
pub(crate) trait Choice {
    /// Its text, on every channel that it has. `whole` is for an answer that is not streamed; `generated` for one in which the server
    /// counted tokens.
    fn tell_text(&self, whole: bool, generated: bool, out: &mut Delta);

    /// Why it ended, where it did.
    fn finish_reason(&self) -> Option<&str>;

    /// What its tokens can be counted by.
    fn counted(&self) -> (Length, Option<&Logprobs>);
}

impl<C: Choice> Chunk<'_, C> {
    pub(crate) fn tell(&self, whole: bool, out: &mut Delta) {
        if let Some(usage) = &self.usage {
            usage.tell(out);
        }
        if let Some(timings) = &self.timings {
            timings.tell(out);
        }
        let generated = self.usage.as_ref().and_then(OpenAiUsage::completion_tokens) > Some(0);
        for choice in &self.choices.0 {
            choice.tell_text(whole, generated, out);
            let (ids, logprobs) = choice.counted();
            if let Some(tokens) = openai::tokens_of(ids, logprobs) {
                out.tokens(tokens);
            }
            openai::finish(choice.finish_reason(), out);
        }
        if let Some(message) = &self.error.0 {
            out.error(message);
        } else if self.object.get() == Some("error") {
            out.error(self.message.get().unwrap_or("an error without a message"));
        }
    }
}
