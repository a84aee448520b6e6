//! Who says how long a text is.

mod count_with;
mod hf;
mod pieces;

pub use count_with::CountWith;
pub use hf::HfTokenizer;

use std::fmt;
use std::sync::Arc;

use crate::WorkloadError;
use crate::words::WordPool;

/// A text's length, and where a text of so many tokens would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Tokens of the whole text.
    pub tokens: u64,
    /// The byte at which the asked number of tokens ends, or the last whole word before it; absent where that is not known.
    pub end: Option<usize>,
    /// The text up to there was counted, and has exactly as many; what is cut there without that has to be counted again.
    pub is_exact: bool,
}

/// Counts the tokens of a text, special tokens and chat template excluded.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// What results call it: `words`, `tokenizer`, `server /tokenize`.
    fn name(&self) -> &str;

    /// The length of a text.
    ///
    /// # Errors
    ///
    /// Where a tokenizer or a server fails.
    fn count(&self, text: &str) -> Result<u64, WorkloadError>;

    /// The length of a text, and where its first `length` tokens end.
    ///
    /// # Errors
    ///
    /// Where a tokenizer or a server fails.
    fn measure(&self, text: &str, _length: u64) -> Result<Measured, WorkloadError> {
        Ok(Measured {
            tokens: self.count(text)?,
            end: None,
            is_exact: false,
        })
    }

    /// Whether it counts tokens; words are only a stand-in for them.
    fn counts_tokens(&self) -> bool {
        true
    }

    /// Words that add exactly one to the length where they follow a blank, to build prompts from.
    ///
    /// # Errors
    ///
    /// Where a tokenizer fails.
    fn pool(&self) -> Result<Arc<WordPool>, WorkloadError> {
        Ok(Arc::new(WordPool::built_in()))
    }

    /// Ids that a prompt of token ids may hold (no special ones); absent where no vocabulary is known.
    fn ids(&self) -> Option<Arc<[u32]>> {
        None
    }

    /// How many words make one unit of length, about; the first guess when a text is cut to a length.
    fn words_per_unit(&self) -> f64 {
        0.75
    }
}

/// Counts words separated by whitespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        Ok(count_words(text))
    }

    fn counts_tokens(&self) -> bool {
        false
    }

    fn words_per_unit(&self) -> f64 {
        1.0
    }
}

/// Words separated by whitespace.
pub(crate) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
