//! A counter that someone else brings.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::TokenCounter;
use crate::words::WordPool;
use crate::{WorkloadError, builtin_prompts};

/// Enough for prompts that do not repeat; each takes about one count to find.
const POOL_WORDS: usize = 512;

/// Below this many the words that are known to be single tokens would repeat too much.
const FEWEST: usize = 16;

/// Words that are asked about together at first.
const GROUP: usize = 8;

/// What stands before the words that are asked about, so that they follow a blank.
const ANCHOR: &str = "the";

/// A counter that someone else brings, such as a call of the server's `/tokenize`.
///
/// On first use a few hundred counts find words that are one token each; a random prompt then takes one to three, prose
/// about six. Keep one of these for a whole run.
pub struct CountWith<F> {
    name: String,
    count: F,
    pool: OnceLock<Arc<WordPool>>,
}

impl<F> CountWith<F>
where
    F: Fn(&str) -> Result<u64, String> + Send + Sync,
{
    /// With the name that results call it by; the function says why where it cannot count.
    pub fn new(name: impl Into<String>, count: F) -> Self {
        Self {
            name: name.into(),
            count,
            pool: OnceLock::new(),
        }
    }

    /// Those of the words that are one token each where they follow a blank. Words that add up to as many tokens as words
    /// are all single, so groups are asked about first and only mixed ones are halved.
    fn single_words<'w>(
        &self,
        before: u64,
        words: &[&'w str],
        found: &mut Vec<&'w str>,
    ) -> Result<(), WorkloadError> {
        if words.is_empty() || found.len() >= POOL_WORDS {
            return Ok(());
        }
        let tokens = self.count(&format!("{ANCHOR} {}", words.join(" ")))?;
        if tokens == before + words.len() as u64 {
            found.extend(words);
        } else if words.len() > 1 {
            let (one, other) = words.split_at(words.len() / 2);
            self.single_words(before, one, found)?;
            self.single_words(before, other, found)?;
        }
        Ok(())
    }
}

impl<F> fmt::Debug for CountWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWith")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F> TokenCounter for CountWith<F>
where
    F: Fn(&str) -> Result<u64, String> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        (self.count)(text).map_err(|why| WorkloadError::Tokenizer {
            name: self.name.clone(),
            why,
        })
    }

    fn pool(&self) -> Result<Arc<WordPool>, WorkloadError> {
        if let Some(pool) = self.pool.get() {
            return Ok(Arc::clone(pool));
        }
        let before = self.count(ANCHOR)?;
        let words: Vec<&str> = builtin_prompts::WORDS.split_whitespace().collect();
        let mut found = Vec::new();
        for group in words.chunks(GROUP) {
            self.single_words(before, group, &mut found)?;
        }
        let pool = if found.len() < FEWEST {
            WordPool::built_in()
        } else {
            let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
            WordPool::new(&[], &found)
        };
        Ok(Arc::clone(self.pool.get_or_init(|| Arc::new(pool))))
    }
}
