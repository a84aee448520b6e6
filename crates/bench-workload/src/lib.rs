//! What to ask and when: prompts, lengths, datasets, arrivals. Pure and seeded: no clock, no network.
//!
//! A [`PlanSpec`] says what is wanted, a [`TokenCounter`] counts tokens, a [`Plan`] yields [`Planned`] requests with absolute due
//! times. The same spec and seed give the same plan on every machine and in every split into shards; the sum of [`Planned::hash`] is
//! one number to check that by. `docs/workloads.md` has the grammar of datasets, lengths and arrivals.
//!
//! ```
//! use std::sync::Arc;
//! use bench_schema::{ArrivalKind, Load};
//! use bench_workload::{Plan, PlanSpec, Words};
//!
//! let spec = PlanSpec {
//!     dataset: "random".parse()?,
//!     input: Some("64..128".parse()?),
//!     output: Some("32".parse()?),
//!     load: Load::Open { rate_per_s: Some(10.0), arrival: ArrivalKind::Poisson, in_flight_cap: None },
//!     requests: Some(100),
//!     ..PlanSpec::default()
//! };
//! let plan = Plan::new(spec, Arc::new(Words))?;
//! let due: Vec<_> = plan.iter().map(|planned| planned.map(|p| p.due)).collect::<Result<_, _>>()?;
//! assert_eq!(due.len(), 100);
//! assert!(due.is_sorted());
//! # Ok::<(), bench_workload::WorkloadError>(())
//! ```

/// An enum whose values have names.
macro_rules! named {
    ($(#[$about:meta])* pub enum $of:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])* pub enum $of { $($(#[$doc])* $value,)+ }

        impl $of {
            /// All of them, in this order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }

            /// The one of this name.
            pub(crate) fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}

mod arrivals;
mod bounded;
mod builtin_prompts;
mod composer;
mod dataset;
mod fit;
mod item;
mod length;
mod plan;
mod seed;
mod source;
mod token_counter;

pub use arrivals::{Arrivals, Extent, RateCurve};
pub use builtin_prompts::{USE_CASES, UseCase, WordPool};
pub use dataset::{DatasetSpec, FileFormat, Study};
pub use item::{After, Item, Planned, continue_conversation, continued_size};
pub use length::{JointPart, JointSampler, JointSpec, LengthSampler, LengthSpec};
pub use length::{LengthCategory, LengthTarget};
pub use plan::{
    ArrivalSummary, Calibration, LengthSummary, OnBadLine, Plan, PlanIter, PlanSpec, PlanSummary,
    RequestOptions, Salt, Shard,
};
pub use seed::{Draw, STRATA, Seed, Streams};
pub use token_counter::{CountWith, HfTokenizer, Measured, TokenCounter, Words};

use std::path::PathBuf;

/// A workload that cannot be made. The message names the thing, the place and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum WorkloadError {
    /// A length, dataset or mixture that does not parse.
    #[error("`{given}` is not a valid {what}: {why}; write {expected}")]
    Spec {
        what: &'static str,
        given: String,
        why: String,
        expected: &'static str,
    },
    /// Settings that do not go together.
    #[error("{what}; {next}")]
    Conflict { what: String, next: &'static str },
    /// A file that cannot be opened or read.
    #[error("cannot read {} ({doing}); check the path and its permissions", path.display())]
    File {
        path: PathBuf,
        doing: &'static str,
        #[source]
        cause: std::io::Error,
    },
    /// A file, or a row of one, that is larger than any of its kind.
    #[error("{}: {what} is larger than {limit_mib} MiB; check that it is the intended file", path.display())]
    TooLarge {
        path: PathBuf,
        what: &'static str,
        /// The most, in MiB.
        limit_mib: u64,
    },
    /// A line of a dataset that is not what the format says.
    #[error("{}:{line}: {why}; fix the line, or skip such lines with --bad-lines skip", path.display())]
    BadLine {
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        why: String,
    },
    /// A file that holds nothing to ask.
    #[error("{} contains no usable {wanted}; check that the file has the given format", path.display())]
    Empty { path: PathBuf, wanted: &'static str },
    /// A dataset that names a file outside its own folder.
    #[error("{}:{line}: `{named}` is outside the dataset's folder; copy the file into that folder", path.display())]
    Outside {
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        named: String,
    },
    /// A tokenizer that cannot be loaded or that fails.
    #[error("tokenizer {name}: {why}; use the server's tokenizer.json or its folder")]
    Tokenizer { name: String, why: String },
    /// No text of this length could be made with this tokenizer.
    #[error(
        "no prompt of exactly {asked} tokens could be made with {token_counter} (nearest: {nearest}); use another length, or send token ids"
    )]
    Inexact {
        /// Tokens asked for.
        asked: u64,
        nearest: u64,
        token_counter: String,
    },
}
