//! Prompts of token ids.

use std::sync::Arc;

use bench_schema::{Prompt, PromptSize};

use super::{Generate, INPUT, OUTPUT, Parts};
use crate::WorkloadError;
use crate::composer::Composer;

/// Random token ids.
#[derive(Debug)]
pub(super) struct Ids {
    ids: Arc<[u32]>,
    vocabulary: u32,
}

pub(super) fn ids(vocabulary: Option<u32>, with: &Composer) -> Result<Ids, WorkloadError> {
    let ids = match vocabulary {
        Some(_) => None,
        None => with.sizer().ids(),
    };
    match (vocabulary, ids) {
        (Some(vocabulary), _) => Ok(Ids {
            ids: Arc::new([]),
            vocabulary,
        }),
        (None, Some(ids)) if !ids.is_empty() => Ok(Ids { ids, vocabulary: 0 }),
        _ => Err(WorkloadError::Conflict {
            what: "random token ids need a vocabulary".to_owned(),
            next: "give a tokenizer, or its size as random-ids:VOCABULARY",
        }),
    }
}

impl Generate for Ids {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let asked = input.unwrap_or(INPUT);
        let length = with.own_length(asked);
        let mut words = with.words(unit);
        let id = |_| match self.ids.get(words.pick(self.ids.len())) {
            Some(id) => *id,
            None => u32::try_from(words.below(u64::from(self.vocabulary))).unwrap_or(0),
        };
        let prompt = Prompt::TokenIds((0..length).map(id).collect());
        let size = PromptSize {
            asked_tokens: Some(asked),
            sent_tokens: Some(length),
            words: None,
        };
        Ok(vec![Parts::new(prompt, size, output.or(Some(OUTPUT)))])
    }
}
