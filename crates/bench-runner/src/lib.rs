//! The run: configuration, pacing, execution, journal, progress, and the three binaries' shared [`main`].
//!
//! ```text
//! config --design--> Cell --plan(seed)--> planner --queue--> worker --client--> RequestRecord --> journal
//!                                                                                         \--> tally --> CellRecord --> RunRecord
//! ```
//!
//! A binary hands in a [`Program`]: its experiment design, the engine to start where no URL is given, and the reports to write.

mod cell;
mod concurrency_limiter;
pub mod config;
mod console;
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
mod tally;
mod timer_queue;
mod tokenize;
mod wall_clock;
mod worker;
mod worker_pool;

pub use cell::{Ask, Cell};
pub use entry::main;
pub use error::RunError;
pub use journal::JournalError;
pub use program::{Engine, Program, Reports};
