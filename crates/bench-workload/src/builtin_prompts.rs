//! Texts that this project wrote: the prompts of the built-in workloads, sentences and words.

use std::ops::RangeInclusive;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_use_case_has_two_dozen_prompts_of_its_own() {
        let mut all = HashSet::new();
        for case in &USE_CASES {
            let prompts: Vec<&str> = case.prompts().collect();
            assert!(prompts.len() >= 24, "{}: {}", case.name, prompts.len());
            assert!(prompts.iter().all(|p| all.insert(*p) && p.len() > 10));
        }
        let weights: f64 = USE_CASES.iter().map(|case| case.weight).sum();
        assert!((weights - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_latency_study_has_prompts_of_5_19_and_106_words() {
        for (name, words) in [("short", 5), ("medium", 19), ("long", 106)] {
            let prompts = study(name);
            assert!(prompts.len() >= 2);
            assert!(
                prompts
                    .iter()
                    .all(|p| p.split_whitespace().count() == words),
                "{name}"
            );
        }
        assert_eq!(study("gpt2").len(), 3);
        assert_eq!(study("gpt2").first(), Some(&"Hello, how are you?"));
    }
}
