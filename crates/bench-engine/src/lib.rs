//! The embedded target: an OpenAI-compatible server over a simulated or a real CPU engine.
//!
//! It makes the project run, test and teach anywhere. The simulated engine knows when each token was due and when it left
//! ([`ledger`]), so a measurement can be held against the truth; it plays faults by name ([`fault`]). The transformer is
//! a real one. Both serve the same API. This crate shares no code with what measures it, so that a misunderstanding
//! cannot cancel itself out.
//!
//! ```no_run
//! let server = bench_engine::Server::start(bench_engine::EngineConfig::profile("fixed")?)?;
//! let base = server.url(); // http://127.0.0.1:PORT
//! // … send requests to it …
//! for entry in server.shutdown() {
//!     let first_token_late = entry.after_ns.first().zip(entry.due_ns.first()).map(|(after, due)| after - due);
//! }
//! # Ok::<(), bench_engine::EngineError>(())
//! ```

mod api;
pub mod child;
pub mod clock;
mod conditions;
pub mod config;
mod engine;
mod error;
pub mod fault;
mod generate;
mod http;
pub mod ledger;
mod metrics;
mod serve;
mod server;
mod text;
mod transformer;

pub use config::EngineConfig;
pub use error::EngineError;
pub use fault::{Fault, FaultKind, FaultSet, PlannedFault};
pub use ledger::{Entry, Ledger, Outcome};
pub use server::Server;
pub use text::Vocabulary;
