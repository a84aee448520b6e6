//! What a plan yields.

use std::sync::Arc;

use bench_schema::{
    GenerationRequest, Message, Nanos, PlanHash, Prompt, PromptSize, Role, Sampling,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::TokenCounter;
use crate::token_counter::count_words;

/// One request of a plan and when it is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its place in the cell's plan, counted over all shards.
    pub index: u64,
    /// When it is due, from the cell's start. Absent in a closed loop, and where it waits for an answer ([`Item::after`]).
    pub due: Option<Nanos>,
    /// What to ask.
    pub item: Item,
}

/// What to ask, and what it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Label of the kind of request.
    pub use_case: Option<String>,
    /// Name of the category of total length that was aimed at.
    pub category: Option<String>,
    /// Conversation or group of requests that it is part of.
    pub session: Option<u64>,
    /// Turn within the conversation, from 0.
    pub turn: Option<u32>,
    /// The answer that it waits for.
    pub after: Option<After>,
    /// The request. Where it waits for an answer, only the new messages: see [`continue_conversation`].
    pub request: GenerationRequest,
    /// The prompt's length, asked and sent; of a later turn, of its own message alone.
    pub size: PromptSize,
}

/// A turn that waits for the answer of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Index in the plan of the request whose answer it waits for; always the one before, in the same shard.
    pub index: u64,
    /// Time from the end of that answer until this is due.
    pub delay: Nanos,
}

/// The prompt of a later turn: everything that was said, the answer, and the new message.
///
/// Chats become [`Prompt::Messages`]. With `chat` false the conversation is one text, with `User:` and `Assistant:` before
/// the later turns, for completions.
pub fn continue_conversation(before: &Prompt, answer: &str, next: &Prompt, chat: bool) -> Prompt {
    if chat {
        let mut messages = messages_of(before);
        messages.push(Message {
            role: Role::Assistant,
            content: Arc::from(answer),
        });
        messages.extend(messages_of(next));
        return Prompt::Messages(messages);
    }
    let text = format!(
        "{}\n\nAssistant: {answer}\n\nUser: {}",
        text_of(before),
        text_of(next)
    );
    Prompt::Text(text.into())
}

/// How long the prompt of a later turn is: in a chat as long as `before`, the answer and `next` together; one text is counted as a whole. Tokens are
/// known where `counter` counts them.
pub fn continued_size(
    prompt: &Prompt,
    answer: &str,
    [before, next]: [&PromptSize; 2],
    counter: Option<&dyn TokenCounter>,
) -> PromptSize {
    let tokens = |text: &str| counter?.count(text).ok();
    let together = |of: fn(&PromptSize) -> Option<u64>, answer: Option<u64>| {
        Some(of(before)? + answer? + of(next)?)
    };
    let (sent_tokens, words) = match prompt {
        Prompt::Text(text) => (tokens(text), Some(count_words(text))),
        _ => (
            together(|size| size.sent_tokens, tokens(answer)),
            together(|size| size.words, Some(count_words(answer))),
        ),
    };
    PromptSize {
        asked_tokens: next.asked_tokens,
        sent_tokens,
        words,
    }
}

/// A prompt as messages; a text is the user's.
pub(crate) fn messages_of(prompt: &Prompt) -> Vec<Message> {
    match prompt {
        Prompt::Messages(messages) => messages.clone(),
        other => vec![Message {
            role: Role::User,
            content: text_of(other).into(),
        }],
    }
}

/// All of a prompt's text, messages separated by empty lines; empty for token ids.
pub(crate) fn text_of(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.to_string(),
        Prompt::Messages(messages) => {
            let texts: Vec<&str> = messages.iter().map(|m| &*m.content).collect();
            texts.join("\n\n")
        }
        Prompt::TokenIds(_) => String::new(),
    }
}

// One number for a request, and so for a plan.

impl Planned {
    /// SHA-256 of the request and its due time, as a number; their sum is the plan's hash.
    ///
    /// The bytes are this crate's own: each field in a fixed order, numbers as little-endian 64 bits, texts and lists after
    /// their length, absent values as a zero byte. So the hash does not depend on a serialiser's taste, and a plan can be
    /// checked by another program.
    pub fn hash(&self) -> PlanHash {
        let mut bytes = Bytes::default();
        bytes.planned(self);
        PlanHash::of_digest(bytes.sha.finalize().into())
    }
}

#[derive(Default)]
struct Bytes {
    sha: Sha256,
}

impl Bytes {
    fn planned(&mut self, planned: &Planned) {
        self.number(planned.index);
        self.maybe(planned.due, |to, due| to.bytes(&due.get().to_le_bytes()));
        let item = &planned.item;
        self.maybe(item.use_case.as_deref(), Self::text);
        self.maybe(item.category.as_deref(), Self::text);
        self.maybe(item.session, Self::number);
        self.maybe(item.turn, |to, turn| to.number(u64::from(turn)));
        self.maybe(item.after, |to, after| {
            to.number(after.index);
            to.bytes(&after.delay.get().to_le_bytes());
        });
        self.request(&item.request);
    }

    fn request(&mut self, request: &GenerationRequest) {
        match &request.prompt {
            Prompt::Text(text) => {
                self.bytes(&[1]);
                self.text(text);
            }
            Prompt::Messages(messages) => {
                self.bytes(&[2]);
                self.number(messages.len() as u64);
                for message in messages {
                    self.message(message);
                }
            }
            Prompt::TokenIds(ids) => {
                self.bytes(&[3]);
                self.number(ids.len() as u64);
                for id in ids {
                    self.bytes(&id.to_le_bytes());
                }
            }
        }
        self.maybe(request.max_tokens, |to, n| to.number(u64::from(n)));
        self.maybe(request.min_tokens, |to, n| to.number(u64::from(n)));
        self.bytes(&[u8::from(request.ignore_eos), u8::from(request.stream)]);
        self.sampling(&request.sampling);
        self.maybe(request.extra_body.as_deref(), |to, map| {
            to.object(map.iter().collect());
        });
    }

    fn message(&mut self, message: &Message) {
        self.bytes(&[match message.role {
            Role::System => 1,
            Role::User => 2,
            Role::Assistant => 3,
        }]);
        self.text(&message.content);
    }

    fn sampling(&mut self, sampling: &Sampling) {
        for number in [
            sampling.temperature,
            sampling.top_p,
            sampling.min_p,
            sampling.frequency_penalty,
            sampling.presence_penalty,
            sampling.repetition_penalty,
        ] {
            self.maybe(number, |to, n| to.number(n.to_bits()));
        }
        for number in [sampling.top_k, sampling.seed] {
            self.maybe(number, |to, n| to.bytes(&n.to_le_bytes()));
        }
        self.number(sampling.stop.len() as u64);
        for stop in &sampling.stop {
            self.text(stop);
        }
    }

    fn json(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.bytes(b"[");
                self.number(items.len() as u64);
                for item in items {
                    self.json(item);
                }
            }
            Value::Object(map) => self.object(map.iter().collect()),
            plain => self.text(&plain.to_string()),
        }
    }

    /// In the order of the keys, whatever the order in the map.
    fn object(&mut self, mut entries: Vec<(&String, &Value)>) {
        entries.sort_by_key(|(key, _)| *key);
        self.bytes(b"{");
        self.number(entries.len() as u64);
        for (key, value) in entries {
            self.text(key);
            self.json(value);
        }
    }

    fn maybe<T>(&mut self, value: Option<T>, add: impl FnOnce(&mut Self, T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            add(self, value);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, n: u64) {
        self.bytes(&n.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
    }
}
