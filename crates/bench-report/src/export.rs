//! Results in the words of other tools, each by that tool's own definitions.

mod aiperf;
mod csv;
mod sums;
mod vllm;

pub use aiperf::aiperf;
pub use csv::{cells, distributions};
pub use vllm::{Spill, vllm};
