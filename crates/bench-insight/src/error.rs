//! What can be wrong with what was asked of this crate.

use thiserror::Error;

/// A gate, an objective or a scenario that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum InsightError {
    /// A `--target` that is not one.
    #[error("target `{target}`: {problem}")]
    BadTarget { target: String, problem: String },
    /// A regression rule that is not one.
    #[error("regression rule `{rule}`: {problem}")]
    BadRule { rule: String, problem: String },
    /// A regression rule whose figure is not among what these two sides could be compared by.
    #[error("regression rule `{rule}`: {problem}")]
    NotCompared { rule: String, problem: String },
    /// A scenario whose objectives cannot be checked.
    #[error("scenario `{scenario}`: {problem}")]
    BadScenario { scenario: String, problem: String },
    /// An objective that cannot be read.
    #[error("objective `{objective}`: {problem}")]
    BadObjective { objective: String, problem: String },
    /// A price, a think time or another assumption that makes no sense.
    #[error("{name} is {value}; {next}")]
    BadAssumption {
        name: String,
        value: String,
        next: String,
    },
}
