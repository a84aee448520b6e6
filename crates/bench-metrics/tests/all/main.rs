//! The arithmetic against the seeds, against other libraries, and against simulated truth.

mod aggregate;
mod comparison;
mod coverage;
mod latencies;
mod noise;
mod objectives;
mod overload;
mod properties;
mod records;
mod reference;
mod scipy;
mod search;
mod seeds;
mod steadiness;
mod trends;
mod windows;
