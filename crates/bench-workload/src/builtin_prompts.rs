//! Texts that this project wrote: the prompts of the built-in workloads, sentences and words.

use std::ops::RangeInclusive;

use crate::Draw;

/// Words for prompts without meaning, each lower case and of letters only.
pub(crate) const WORDS: &str = include_str!("builtin_prompts/words.txt");

const SENTENCES: &str = include_str!("builtin_prompts/text.txt");
const STUDY: &str = include_str!("builtin_prompts/study.txt");

/// One kind of request of the mixed production workload.
#[derive(Clone, Debug, PartialEq)]
pub struct UseCase {
    /// Its label in results.
    pub name: &'static str,
    /// How often it is asked, relative to the others.
    pub weight: f64,
    /// Answer lengths, in tokens; drawn uniformly.
    pub answer: RangeInclusive<u64>,
    prompts: &'static str,
}

impl UseCase {
    /// Its prompts.
    pub fn prompts(&self) -> impl Iterator<Item = &'static str> {
        self.prompts.lines()
    }
}

/// The use cases of the mixed workload, in the proportions of a chat product that also writes code.
pub const USE_CASES: [UseCase; 5] = [
    UseCase {
        name: "ultra-short-qa",
        weight: 0.30,
        answer: 10..=20,
        prompts: include_str!("builtin_prompts/ultra-short-qa.txt"),
    },
    UseCase {
        name: "short-qa",
        weight: 0.25,
        answer: 50..=100,
        prompts: include_str!("builtin_prompts/short-qa.txt"),
    },
    UseCase {
        name: "short-code",
        weight: 0.15,
        answer: 80..=120,
        prompts: include_str!("builtin_prompts/short-code.txt"),
    },
    UseCase {
        name: "medium-explanation",
        weight: 0.20,
        answer: 100..=200,
        prompts: include_str!("builtin_prompts/medium-explanation.txt"),
    },
    UseCase {
        name: "long-form",
        weight: 0.10,
        answer: 300..=500,
        prompts: include_str!("builtin_prompts/long-form.txt"),
    },
];

/// Sentences of plain English prose.
pub(crate) fn sentences() -> Vec<&'static str> {
    SENTENCES.lines().collect()
}

/// Prompts of a study, by its name in the file: `short`, `medium`, `long`, `gpt2`.
pub(crate) fn study(name: &str) -> Vec<&'static str> {
    let of_name = |line: &'static str| line.split_once('|').filter(|(n, _)| *n == name);
    STUDY
        .lines()
        .filter_map(of_name)
        .map(|(_, text)| text)
        .collect()
}

// Words to build prompts from.

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
        let words: Vec<String> = WORDS.split_whitespace().map(str::to_owned).collect();
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

#[cfg(test)]
#[path = "../tests/unit/builtin_prompts.rs"]
mod tests;
