//! How pages are brought: the caller has an HTTP client, this crate has none.

use std::time::Duration;

use bench_schema::Nanos;

/// Brings a page. Called on the sampler's threads, one call at a time per page, and may block.
pub trait Fetch: Send + Sync {
    /// The body of a successful (2xx) answer to `GET url`.
    ///
    /// # Errors
    /// What went wrong, in words that do not change from one failure to the next of the same kind, so that they are said once:
    /// no answer within `limits.timeout`, a status other than 2xx, a body of more than `limits.max_bytes`.
    fn get(&self, url: &str, limits: FetchLimits) -> Result<Vec<u8>, String>;

    /// CPU time that other threads than the callers' have spent on pages since this was last asked.
    fn take_cpu(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Bounds of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// From the first byte sent to the last received, connecting included.
    pub timeout: Duration,
    /// Largest body, in bytes.
    pub max_bytes: usize,
}

/// Fetches nothing: for runs that name no page.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFetch;

impl Fetch for NoFetch {
    fn get(&self, _url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        Err("this run has no HTTP client".to_owned())
    }
}
