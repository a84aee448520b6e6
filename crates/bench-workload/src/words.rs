//! Words to build prompts from.

use crate::Draw;
use crate::builtin_prompts;

/// Words in one piece of memory. The first `heads` may start a text, all may follow a blank.
#[derive(Clone, Debug, Default)]
pub struct WordPool {
    /// Every word with a blank before it, so that one copy appends both.
    text: String,
    ends: Vec<u32>,
    heads: usize,
}

impl WordPool {
    /// From words that may start a text and words that may only follow others.
    pub fn new(heads: &[String], others: &[String]) -> Self {
        let mut pool = Self {
            heads: heads.len(),
            ..Self::default()
        };
        for word in heads.iter().chain(others) {
            pool.text.push(' ');
            pool.text.push_str(word);
            pool.ends
                .push(u32::try_from(pool.text.len()).unwrap_or(u32::MAX));
        }
        pool
    }

    /// Plain English words, for when nothing counts tokens.
    pub fn built_in() -> Self {
        let words: Vec<String> = builtin_prompts::WORDS
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Self::new(&words, &[])
    }

    /// How many words.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Word `at`, with a blank before it; empty where there is none.
    fn spaced(&self, at: usize) -> &str {
        let from = at
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let to = self.ends.get(at).copied().unwrap_or(from);
        self.text.get(from as usize..to as usize).unwrap_or("")
    }

    /// A word that may start a text.
    pub fn head(&self, draw: &mut Draw) -> &str {
        let among = if self.heads == 0 {
            self.len()
        } else {
            self.heads
        };
        self.spaced(draw.pick(among)).trim_start()
    }

    /// A word with a blank before it.
    pub fn next(&self, draw: &mut Draw) -> &str {
        self.spaced(draw.pick(self.len()))
    }

    /// A text of so many words, written into `text`, which is emptied first.
    pub fn write(&self, words: u64, draw: &mut Draw, text: &mut String) {
        text.clear();
        if words > 0 {
            text.push_str(self.head(draw));
        }
        for _ in 1..words {
            text.push_str(self.next(draw));
        }
    }
}
