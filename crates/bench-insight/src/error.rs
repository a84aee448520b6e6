//! What can be wrong with what was asked of this crate.

use thiserror::Error;

/// A gate, an objective or a scenario that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InsightError {
    /// A `--target` that is not one.
    #[error("target `{target}`: {problem}")]
    BadTarget {
        /// As written.
        target: String,
        /// The part, what is wrong with it, and what to write.
        problem: String,
    },
    /// A regression rule that is not one.
    #[error("regression rule `{rule}`: {problem}")]
    BadRule {
        /// As written.
        rule: String,
        /// The part, what is wrong with it, and what to write.
        problem: String,
    },
    /// A regression rule whose figure is not among what these two sides could be compared by.
    #[error("regression rule `{rule}`: {problem}")]
    NotCompared {
        /// As written.
        rule: String,
        /// What is missing, and what is there.
        problem: String,
    },
    /// A scenario whose objectives cannot be checked.
    #[error("scenario `{scenario}`: {problem}")]
    BadScenario {
        /// Its name.
        scenario: String,
        /// The key, what is wrong with it, and what to write.
        problem: String,
    },
    /// An objective that cannot be read.
    #[error("objective `{objective}`: {problem}")]
    BadObjective {
        /// As written.
        objective: String,
        /// What is wrong with it, and what to write.
        problem: String,
    },
    /// A price, a think time or another assumption that makes no sense.
    #[error("{name} is {value}; {next}")]
    BadAssumption {
        /// What it is.
        name: String,
        /// As given.
        value: String,
        /// What to give instead.
        next: String,
    },
}
