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
mod error;
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
pub use error::WorkloadError;
pub use item::{After, Item, Planned, continue_conversation, continued_size};
pub use length::{JointPart, JointSampler, JointSpec, LengthSampler, LengthSpec};
pub use length::{LengthCategory, LengthTarget};
pub use plan::{
    ArrivalSummary, Calibration, LengthSummary, OnBadLine, Plan, PlanIter, PlanSpec, PlanSummary,
    RequestOptions, Salt, Shard,
};
pub use seed::{Draw, STRATA, Seed, Streams};
pub use token_counter::{CountWith, HfTokenizer, Measured, TokenCounter, Words};
