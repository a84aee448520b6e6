//! The run: configuration, pacing, execution, journal, progress, and the three binaries' shared [`main`].
//!
//! ```text
//! config --design--> Cell --plan(seed)--> planner --queue--> worker --client--> RequestRecord --> journal
//!                                                                                         \--> tally --> CellRecord --> RunRecord
//! ```
//!
//! A binary hands in a [`Program`]: its experiment design, the engine to start where no URL is given, and the reports to write.

pub mod config;
mod entry;
mod error;
mod folder;
mod health;
mod journal;
mod launch;
mod limiter;
mod live_metrics;
mod matrix;
mod meet;
mod open_record;
mod otlp;
mod phase;
mod planner;
mod progress;
mod recent;
mod recorder;
mod redact;
mod run;
mod screen;
mod server;
mod stop;
mod timer_queue;
mod versus;
mod worker;
mod worker_pool;

pub use entry::{Cell, Engine, Program, Reports, main};
pub use error::RunError;
pub use journal::JournalError;
pub use launch::guard_if_requested;
