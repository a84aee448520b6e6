//! What a server suffers over time. Instants count from the first connection that was accepted.

use serde::{Deserialize, Serialize};

/// A time at which the server stands still, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// What stands still.
    pub what: PauseOf,
    /// When it begins, ms.
    pub after_ms: u64,
    /// How long it lasts, ms.
    pub for_ms: u64,
    /// Time from the beginning of one to that of the next, ms; absent: it happens once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
}

/// What a pause holds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseOf {
    /// New connections wait in the kernel's backlog.
    Accept,
    /// Requests are read, and taken up when the pause is over.
    Requests,
    /// No sequence advances: prefill and decode of all of them stand still.
    Tokens,
}

/// A change of the simulated engine's speed: a step, or a drift that takes its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// What every time is multiplied by in the end.
    pub factor: f64,
    /// When it begins, ms.
    #[serde(default)]
    pub after_ms: u64,
    /// How long the factor takes to grow from 1 to its value, linearly, ms; 0: at once.
    #[serde(default)]
    pub over_ms: u64,
    /// When the speed is back, at once, ms; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// What a simulated engine does more slowly because it does it for the first time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cold {
    /// Sequences from the start that are slow.
    pub requests: u64,
    /// Added to each of their times to first token, ms.
    pub first_token_ms: f64,
    /// Added when a batch of a new size (rounded up to a power of two) is run, ms; the whole batch waits for it in the
    /// scheduler, the sequence that made the batch grow in the fixed model.
    pub shape_ms: f64,
}

/// A token bucket: what comes when it is empty is answered 429.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests that it lets through in a second.
    pub per_s: f64,
    /// Requests that it lets through at once after a rest.
    pub burst: u32,
    /// `Retry-After`, s; absent: the time until the next request is let through, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

/// A time at which the server is gone: connections are cut, new ones refused. TCP only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it begins, ms.
    pub after_ms: u64,
    /// How long it lasts, ms; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}
