//! Conversations in `ShareGPT`'s format.

use std::path::Path;

use serde::Deserialize;

use super::RowReader;
use super::json::Values;
use crate::WorkloadError;
use crate::source::{Body, Row};

/// Conversations as turns of a user and the answers to them.
pub(super) struct ShareGpt {
    values: Values,
    most: usize,
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation", alias = "items")]
    conversations: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    from: String,
    value: String,
}

impl ShareGpt {
    /// Takes so many turns of each conversation at most.
    pub(super) fn open(path: &Path, most: usize) -> Result<Self, WorkloadError> {
        Ok(Self {
            values: Values::open(path)?,
            most,
        })
    }
}

impl RowReader for ShareGpt {
    /// Conversations in which the user says nothing are passed over: the collected files have many, and they are no mistake.
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        while let Some(conversation) = self.values.next_value::<Conversation>()? {
            let mut turns = turns(conversation.conversations);
            turns.truncate(self.most);
            if !turns.is_empty() {
                return Ok(Some(Row::new(Body::Turns(turns))));
            }
        }
        Ok(None)
    }
}

/// What a user said, with the answer that follows; a second message without an answer between them joins the first.
fn turns(said: Vec<Said>) -> Vec<(String, Option<String>)> {
    let mut turns: Vec<(String, Option<String>)> = Vec::new();
    for Said { from, value } in said {
        let user = matches!(from.as_str(), "human" | "user");
        let answer = matches!(
            from.as_str(),
            "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard"
        );
        match turns.last_mut() {
            Some((text, None)) if user => {
                text.push_str("\n\n");
                text.push_str(&value);
            }
            Some((_, nothing @ None)) if answer => *nothing = Some(value),
            _ if user && !value.trim().is_empty() => turns.push((value, None)),
            _ => {}
        }
    }
    turns
}
