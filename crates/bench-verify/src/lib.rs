//! Development tools that hold the three benchmarks against the truth.
//!
//! Both start the built programs as a user does, against engines in processes of their own, and judge what was written by
//! plain arithmetic of their own over the engines' ledgers: nothing of `bench-metrics` or `bench-insight` is used, so that a
//! mistake there cannot hide itself.
//!
//! - [`matrix`]: times, rates, counts and connections over the ways a run can go (`just truth-matrix`).
//! - [`diagnosis`]: what runs say of situations whose cause is known (`just diagnose`).

pub mod diagnosis;
pub mod matrix;
mod programs;
mod truth;

pub use programs::Programs;
pub use truth::Check;

use std::path::PathBuf;

/// Why something could not be run or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum VerifyError {
    /// A program is not where it was looked for.
    #[error("{path} is not there; build it first: cargo build --release --bins", path = path.display())]
    Missing { path: PathBuf },
    /// A program could not be started or waited for.
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
    /// The engine could not be started.
    #[error(transparent)]
    Engine(#[from] bench_engine::EngineError),
    /// Something that was read is not what it should be.
    #[error("{what}: {reason}")]
    Read { what: String, reason: String },
    /// A benchmark ended without a result.
    #[error("{command} ended with {code:?} and no run.json: {said}")]
    NoResult {
        command: String,
        code: Option<i32>,
        said: String,
    },
}

impl VerifyError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn no_result(command: String, code: Option<i32>, said: &str) -> Self {
        let tail = said.len().saturating_sub(2_000);
        let said = said.get(tail..).unwrap_or(said).to_owned();
        Self::NoResult {
            command,
            code,
            said,
        }
    }

    pub(crate) fn read(what: impl Into<String>, reason: &impl ToString) -> Self {
        Self::Read {
            what: what.into(),
            reason: reason.to_string(),
        }
    }
}
