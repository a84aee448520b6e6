//! What can go wrong before or while the engine serves.

use std::path::PathBuf;

/// Why an engine could not be configured, started or spawned.
///
/// Faults that the engine plays on purpose are never errors: they are its work.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The listening address could not be bound.
    #[error("cannot listen on {address}: {source}; choose another port or leave it 0")]
    Bind {
        /// The address or socket path that was asked for.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that the configuration names could not be read.
    #[error("cannot read {path}: {source}; check the path in the engine's configuration")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read and is not what it should be.
    #[error("{path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What was wrong and what is expected.
        reason: String,
    },
    /// A configuration value that cannot work.
    #[error("engine configuration, {key}: {reason}")]
    Config {
        /// The key, dotted.
        key: String,
        /// The bound and what to write instead.
        reason: String,
    },
    /// A profile name that does not exist.
    #[error("no engine profile named {name}; there are: {known}")]
    Profile {
        /// What was asked for.
        name: String,
        /// The names that exist, with commas.
        known: String,
    },
    /// The certificate or key cannot be used.
    #[error("TLS with {cert} and {key}: {reason}", cert = cert.display(), key = key.display())]
    Tls {
        /// Certificate chain, PEM.
        cert: PathBuf,
        /// Private key, PEM.
        key: PathBuf,
        /// What rustls said.
        reason: String,
    },
    /// A thread, a runtime or a timer could not be made.
    #[error("cannot start the engine's {what}: {source}")]
    Start {
        /// Which part.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine's own process could not be started or did not answer.
    #[error("the engine's child process: {reason}")]
    Child {
        /// What happened and what to look at.
        reason: String,
    },
    /// A fault name or its argument is not known.
    #[error("no fault {given:?}: {reason}; docs/engine.md lists the names")]
    Fault {
        /// The text that was given.
        given: String,
        /// Why it was refused.
        reason: String,
    },
}
