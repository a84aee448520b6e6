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
pub use fault::{Fault, FaultKind, FaultSet, PlannedFault};
pub use ledger::{Entry, Ledger, Outcome};
pub use server::Server;
pub use text::Vocabulary;

use std::path::PathBuf;

/// Why an engine could not be configured, started or spawned.
///
/// Faults that the engine plays on purpose are never errors: they are its work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum EngineError {
    /// The listening address could not be bound.
    #[error("cannot listen on {address}: {source}; choose another port or leave it 0")]
    Bind {
        address: String,
        source: std::io::Error,
    },
    /// A file that the configuration names could not be read.
    #[error("cannot read {path}: {source}; check the path in the engine's configuration")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file was read and is not what it should be.
    #[error("{path}: {reason}")]
    Format { path: PathBuf, reason: String },
    /// A configuration value that cannot work.
    #[error("engine configuration, {key}: {reason}")]
    Config { key: String, reason: String },
    /// A profile name that does not exist.
    #[error("no engine profile named {name}; there are: {known}")]
    Profile { name: String, known: String },
    /// The certificate or key cannot be used.
    #[error("TLS with {cert} and {key}: {reason}", cert = cert.display(), key = key.display())]
    Tls {
        cert: PathBuf,
        key: PathBuf,
        reason: String,
    },
    /// A thread, a runtime or a timer could not be made.
    #[error("cannot start the engine's {what}: {source}")]
    Start {
        what: &'static str,
        source: std::io::Error,
    },
    /// The engine's own process could not be started or did not answer.
    #[error("the engine's child process: {reason}")]
    Child { reason: String },
    /// A fault name or its argument is not known.
    #[error("no fault {given:?}: {reason}; docs/engine.md lists the names")]
    Fault { given: String, reason: String },
}
