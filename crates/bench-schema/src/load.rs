//! How load is offered, and when a cell ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The load shape of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// A fixed number of requests in flight; a new one starts when one ends.
    Closed {
        /// Requests in flight.
        concurrency: u32,
        /// Pause of a slot between an answer and its next request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        think_time: Option<Nanos>,
    },
    /// Requests start at times that do not depend on answers.
    Open {
        /// Requests per second that are asked for, on average.
        rate_per_s: f64,
        /// The arrival process.
        arrival: ArrivalKind,
        /// Most requests in flight; beyond it they are `unsent`, never delayed. Absent: no cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_flight_cap: Option<u32>,
    },
}

impl Load {
    /// Whether arrivals do not wait for answers.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// An arrival process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gamma gaps with this coefficient of variation (1 is Poisson, below 1 steadier, above burstier).
    Gamma {
        /// sd / mean of the gaps.
        cov: f64,
    },
    /// Groups that start together; the groups are evenly spaced.
    Burst {
        /// Requests in each group.
        size: u32,
    },
    /// The rate moves in a straight line over the cell.
    Ramp {
        /// Rate at the start, requests per second.
        from_per_s: f64,
        /// Rate at the end.
        to_per_s: f64,
    },
    /// The rate moves in equal steps over the cell.
    Steps {
        /// The rates, requests per second, each for an equal share of the time.
        rates_per_s: Vec<f64>,
    },
    /// A rate series from a file.
    Series {
        /// The file, as given.
        file: String,
    },
    /// Times from a trace.
    Trace {
        /// Factor on the trace's speed: 2 replays twice as fast.
        speed: f64,
    },
    /// Each of a number of users asks at an even cadence, whether or not the last answer has come.
    Users {
        /// How many users.
        users: u32,
        /// Time between two requests of one user.
        every: Nanos,
    },
}

/// What ends a cell: the first of these that is reached. At least one is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRule {
    /// After this many measured requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// After this much time of measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
    /// When a quantile is known this well, as `p99:ttft=5%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precision: Vec<String>,
}
