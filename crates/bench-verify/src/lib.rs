//! Development tools that hold the three benchmarks against the truth.
//!
//! Both start the built programs as a user does, against engines in processes of their own, and judge what was written by
//! plain arithmetic of their own over the engines' ledgers: nothing of `bench-metrics` or `bench-insight` is used, so that a
//! mistake there cannot hide itself.
//!
//! - [`matrix`]: times, rates, counts and connections over the ways a run can go (`just truth-matrix`).
//! - [`diagnosis`]: what runs say of situations whose cause is known (`just diagnose`).

pub mod diagnosis;
mod error;
pub mod matrix;
mod programs;
mod truth;

pub use error::VerifyError;
pub use programs::Programs;
pub use truth::Check;
