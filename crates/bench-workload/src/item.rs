//! What a plan yields.

use std::sync::Arc;

use bench_schema::{GenerationRequest, Message, Nanos, Prompt, PromptSize, Role};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_turn_holds_all_that_was_said_before() {
        let first = Prompt::Text("one".into());
        let Prompt::Messages(messages) =
            continue_conversation(&first, "two", &Prompt::Text("three".into()), true)
        else {
            panic!("a chat is made of messages");
        };
        let said: Vec<(Role, &str)> = messages.iter().map(|m| (m.role, &*m.content)).collect();
        assert_eq!(
            said,
            [
                (Role::User, "one"),
                (Role::Assistant, "two"),
                (Role::User, "three")
            ]
        );
        let text = continue_conversation(&first, "two", &Prompt::Text("three".into()), false);
        assert_eq!(
            text,
            Prompt::Text("one\n\nAssistant: two\n\nUser: three".into())
        );
    }
}
