//! The wall clock, for people: read once when a run starts, and to start shards together.

use std::time::{Duration, SystemTime};

/// The wall clock, now.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place where the wall clock is read"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// RFC 3339 in UTC, to the second: `2026-01-28T17:46:28Z`.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

/// The same without separators, for directory names: `20260128T174628Z`.
pub(crate) fn compact(at: SystemTime) -> String {
    rfc3339(at).replace(['-', ':'], "")
}

/// Read an RFC 3339 instant.
pub(crate) fn parse_rfc3339(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text.trim())
        .map_err(|_| format!("must be an instant such as 2026-01-28T17:46:28Z (got `{text}`)"))
}

/// How long until `at`; nothing where it is past.
pub(crate) fn until(at: SystemTime) -> Duration {
    at.duration_since(now()).unwrap_or_default()
}
