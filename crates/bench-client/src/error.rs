//! What can go wrong on the client's own side. Failures of the measured server are data, in `Exchange::outcome`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bench_schema::Stage;

/// Why a client, a timer or a probe could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ClientError {
    /// A target without a URL.
    #[error("the target has no URL; give at least one, for example http://127.0.0.1:8000")]
    NoEndpoint,
    /// A URL that is not understood.
    #[error("`{url}` is not a usable URL: {problem}")]
    Url {
        /// As it was given, without credentials.
        url: String,
        problem: String,
    },
    /// A header name or value that HTTP does not allow.
    #[error("header `{name}` is not allowed in HTTP: {problem}")]
    Header {
        name: String,
        /// What is wrong; never the value, which may be a secret.
        problem: String,
    },
    /// A certificate, key or root store that could not be used.
    #[error("TLS: {what} from {path}: {problem}")]
    TlsFile {
        what: &'static str,
        path: PathBuf,
        problem: String,
    },
    /// The TLS configuration as a whole was refused.
    #[error("TLS: {problem}")]
    Tls { problem: String },
    /// The kernel gave no timer for pacing.
    #[error("cannot create a timer; check the limit on file descriptors (ulimit -n)")]
    Timer(#[source] io::Error),
    /// Nothing to fetch pages with.
    #[error("cannot start a thread for fetching pages: {0}")]
    FetchThread(io::Error),
    /// A plain request (probe, scrape) that did not get an answer.
    #[error("{url}: {message}")]
    Fetch { url: String, message: String },
    /// A plain request that had no answer in time.
    #[error("{url}: no response within {waited:?} ({stage} stage)")]
    NoAnswer {
        url: String,
        waited: Duration,
        stage: Stage,
    },
    /// The server was not ready in time.
    #[error("{url} was not ready after {waited_s:.0} s (last response: {last})")]
    NotReady {
        url: String,
        /// Seconds waited.
        waited_s: f64,
        last: String,
    },
}
