//! The summary of a sample.

use serde::{Deserialize, Serialize};

use crate::Unit;

/// An interval that covers the true value with the stated confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence; 0.95 where it does not say.
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    pub confidence: f64,
}

fn usual() -> f64 {
    0.95
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_usual(confidence: &f64) -> bool {
    confidence.total_cmp(&usual()).is_eq()
}

/// A sample of at least one value, summarised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Unit of every value here.
    pub unit: Unit,
    /// How many values.
    pub n: u64,
    /// How many independent values these are worth; absent where it was not estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_n: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Interval of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_interval: Option<Interval>,
    /// Standard deviation with n − 1; absent for one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// sd / mean; absent for one value or a mean that is not positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cov: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// p50, p90, p95, p99, p99.9, in this order, and whatever else was asked for.
    pub quantiles: Vec<Quantile>,
    /// The same with each failed request as +∞; absent where nothing failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_failures: Option<FailureView>,
    /// Share of values that rest on a stamp that is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_share: Option<f64>,
    /// Largest relative error of the values, where a histogram stood in for the exact sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
}

impl Distribution {
    /// The value at quantile `q` (0.5 is the median), where it was computed.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantile_entry(q).map(|entry| entry.value)
    }

    /// The entry at quantile `q`, with its interval and mark.
    pub fn quantile_entry(&self, q: f64) -> Option<&Quantile> {
        self.quantiles
            .iter()
            .find(|entry| (entry.q - q).abs() < 1e-9)
    }

    /// The median.
    pub fn p50(&self) -> Option<f64> {
        self.quantile(0.5)
    }
}

/// One quantile of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// 0 to 1.
    pub q: f64,
    /// Type 7 (linear interpolation between order statistics).
    pub value: f64,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Fewer than 10 / (1 − q) values stand behind it: to be printed with a mark. Not stored where `n` tells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub few_samples: bool,
    /// The least it can be within the bounds of its stamps; absent where it can be no less.
    #[serde(default, alias = "other_end", skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The most it can be within the bounds of its stamps; absent where it can be no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Quantile {
    /// How many values a quantile needs: 10 / (1 − `q`).
    pub fn values_needed(q: f64) -> f64 {
        // the slack keeps 10 / (1 − 0.9) = 99.999… from being 100 by luck only
        (10.0 / (1.0 - q) - 1e-6).ceil()
    }

    /// How far the truth may lie from the value within the bounds of its stamps, in the value's unit; zero where all are exact.
    pub fn stamp_error(&self) -> f64 {
        let off = |end: Option<f64>| end.map_or(0.0, |end| (end - self.value).abs());
        off(self.at_least).max(off(self.at_most))
    }
}

/// Quantiles of a sample in which each failed request counts as +∞.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FailureView {
    /// Values and failures together.
    pub n: u64,
    /// Failures among them.
    pub failed: u64,
    /// Quantile and value; no value where it is +∞.
    pub quantiles: Vec<(f64, Option<f64>)>,
}
