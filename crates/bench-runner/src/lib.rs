//! The run: configuration, pacing, execution, journal, progress, and the three binaries' shared [`main`].
//!
//! ```text
//! config --design--> Cell --plan(seed)--> planner --queue--> worker --client--> RequestRecord --> journal
//!                                                                                         \--> tally --> CellRecord --> RunRecord
//! ```
//!
//! A binary hands in a [`Program`]: its experiment design, the engine to start where no URL is given, and the reports to write.

mod concurrency_limiter;
pub mod config;
mod entry;
mod error;
mod folder;
mod health;
mod journal;
mod open_record;
mod phase;
mod planner;
mod program;
mod progress;
mod queue;
mod recorder;
mod redact;
mod run;
mod server;
mod stop;
mod timer_queue;
mod wall_clock;
mod worker;
mod worker_pool;

pub use entry::main;
pub use error::RunError;
pub use journal::JournalError;
pub use program::{Ask, Cell, Engine, Program, Reports};
