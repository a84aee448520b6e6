//! A statement about the measured system, with its evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that the numbers say. A hypothesis is worded as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name: `linear_output_scaling`, `queueing`, `tail_gap`, …
    pub code: String,
    /// What sort of statement it is.
    pub kind: FindingKind,
    /// One sentence that could be a headline.
    pub claim: String,
    /// The numbers it rests on.
    pub evidence: Vec<Evidence>,
    /// 0 (worth knowing) to 1 (act on it).
    pub severity: f64,
    /// Why it may be so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<String>,
    /// Which measurement would confirm or refute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// What to try, the most promising first; server parameters by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Cells it is about; empty means the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
}

/// Sorts of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Something limits the system.
    Bottleneck,
    /// How cost grows with load or length.
    Scaling,
    /// How steady it is: regimes, variance, stalls.
    Stability,
    /// What it can carry: capacity, operating point, cost.
    Capacity,
    /// How it stands to its objectives.
    Objective,
    /// Something about the measurement itself.
    Measurement,
}

/// One number behind a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What it is: `prefill share of E2E`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit, as shown: `ms`, `%`, `tokens/s`; empty for a plain number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The cell it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}
