//! Objectives and targets, and how they came out.

use serde::{Deserialize, Serialize};

use crate::{Interval, Metric};

/// A latency objective: quantile `q` of `metric` is at most `limit`; per request, `metric` is at most `limit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Slo {
    /// What is limited.
    pub metric: Metric,
    /// The quantile that must meet it (0.95 unless named).
    pub q: f64,
    /// The limit in the metric's unit.
    pub limit: f64,
    /// Use case it is for; absent means all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_case: Option<String>,
}

names! {
    /// The verdict on an objective.
    SloVerdict {
        Pass "pass" "All of the interval of the share within the limit is at least the quantile.";
        Fail "fail" "All of it is below.";
        CannotTell "cannot_tell" "It straddles the quantile, or nothing was measured.";
    }
}

/// A share of values that followed each other in time, lost requests' among those that are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The share, 0 to 1.
    pub value: f64,
    /// How many independent values it is worth.
    pub effective: f64,
}

/// One objective in one cell.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SloOutcome {
    /// The objective.
    pub slo: Slo,
    /// What was measured at its quantile, failures counted as +∞; absent where that is +∞ or nothing was measured.
    pub measured: Option<f64>,
    /// Interval of it.
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: SloVerdict,
    /// The share of values within the limit that the verdict rests on; absent where nothing was measured. Since 2.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Share>,
    /// Share of planned requests that met it.
    pub attainment: f64,
    /// Wilson interval of the attainment.
    pub attainment_interval: Interval,
    /// Requests that met it only because they have no such value (TPOT of a one-token answer). Since 2.3.
    #[serde(default, skip_serializing_if = "is_none")]
    pub vacuous: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Requests that met every objective, over planned ones.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Goodput {
    /// Requests per second that met every objective: the requests/s of the table times the share of the whole answers that did.
    pub requests_per_s: f64,
    /// Planned requests that the attainment is over. Since 2.0.
    pub planned: Option<u64>,
    /// The seconds that these are over: those in which the whole answers came at the requests/s of the table, over all repeats. Since 2.0.
    pub seconds: Option<f64>,
    /// Output tokens per second in them.
    pub tokens_per_s: f64,
    /// Share of planned requests.
    pub attainment: f64,
    /// Wilson interval of the share.
    pub attainment_interval: Interval,
    /// Requests that met an objective only because its metric does not exist for them (ITL of a one-token answer).
    pub vacuous: u64,
}

/// One `--target` gate, such as `output_tokens_per_s>=20`.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TargetOutcome {
    /// The gate as written.
    pub target: String,
    /// What was measured; absent where it is not known.
    pub measured: Option<f64>,
    /// The cell that decided it.
    pub cell: Option<String>,
    /// Whether it was met: it holds in every cell that it is about, with the whole interval of what was measured there.
    pub met: bool,
    /// Interval of what was measured; absent for what is no estimate, and where there is none.
    pub interval: Option<Interval>,
    /// Pass, fail, or cannot tell, which is not met either; absent in results of versions before it was told.
    pub verdict: Option<SloVerdict>,
    /// Where it was not met, what else there is to know: in how many cells it holds, or what would decide it.
    pub note: Option<String>,
}
