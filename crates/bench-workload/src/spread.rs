//! The categories of total sequence length, and targets inside them.

use std::fmt;
use std::str::FromStr;

use crate::{Draw, WorkloadError};

named! {
    /// A category of total length (prompt plus answer, in tokens).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LengthCategory {
        /// Below 50.
        Tiny = "tiny",
        /// 50 to 149.
        Short = "short",
        /// 150 to 299.
        Medium = "medium",
        /// 300 to 499.
        Long = "long",
        /// 500 and more.
        VeryLong = "very-long",
    }
}

/// Lengths to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthTarget {
    /// The category that their sum falls in.
    pub category: LengthCategory,
    /// Prompt length.
    pub input: u64,
    /// Answer length.
    pub output: u64,
}

impl LengthTarget {
    /// The same total with this much prompt, where there is less; the answer keeps one token.
    #[must_use]
    pub fn with_prompt_of_at_least(self, least: u64) -> Self {
        let total = self.input + self.output;
        let input = self.input.max(least.min(total.saturating_sub(1)));
        Self {
            input,
            output: total - input,
            ..self
        }
    }
}

impl LengthCategory {
    /// The category of this total.
    pub fn of(total_tokens: u64) -> Self {
        match total_tokens {
            0..50 => Self::Tiny,
            50..150 => Self::Short,
            150..300 => Self::Medium,
            300..500 => Self::Long,
            _ => Self::VeryLong,
        }
    }

    /// Totals that are drawn for it; those of `very-long` end at 1000, so that its mean is finite and known.
    pub fn totals(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::Tiny => 16..=49,
            Self::Short => 50..=149,
            Self::Medium => 150..=299,
            Self::Long => 300..=499,
            Self::VeryLong => 500..=1000,
        }
    }

    /// A total drawn uniformly from the category, of which a share between 0.3 and 0.7, drawn too, is prompt.
    pub fn target(self, draw: &mut Draw) -> LengthTarget {
        let totals = self.totals();
        let total = draw.between(*totals.start(), *totals.end());
        let low = (total * 3 / 10).max(1);
        let high = (total * 7 / 10).max(low);
        let input = draw.between(low, high);
        LengthTarget {
            category: self,
            input,
            output: total - input,
        }
    }
}

impl fmt::Display for LengthCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LengthCategory {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|c| c.name() == text.trim());
        found.ok_or_else(|| WorkloadError::Spec {
            what: "length category",
            given: text.to_owned(),
            why: "there is no such category".to_owned(),
            expected: "tiny, short, medium, long or very-long",
        })
    }
}
