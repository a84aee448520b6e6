//! Readings of machines and servers, and what they come to over a cell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Interval, Stamp, Unit};

/// One line of `hardware.jsonl`: what one source said, and when. A reading has a window, not a timestamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// Just before the source was asked.
    pub from: Stamp,
    /// Just after the last value was read.
    pub to: Stamp,
    /// Who was asked.
    pub source: ReadingSource,
    /// Which one of them: GPU index, process id, URL; empty where there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Values by name. Counters are stored as they stand; rates are computed later.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// What could not be read, and why: named once, when it first happens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

names! {
    /// Where a reading comes from.
    ReadingSource {
        Gpu "gpu" "A GPU, through NVML.";
        Host "host" "The client's host.";
        Client "client" "The client itself.";
        ServerProcess "server_process" "The server's process tree on this host.";
        ServerMetrics "server_metrics" "The server's Prometheus page.";
        Dcgm "dcgm" "A DCGM exporter.";
        Prometheus "prometheus" "A Prometheus server's query API.";
    }
}

/// One series of readings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SeriesKey {
    /// Who was asked.
    pub source: ReadingSource,
    /// Which one of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Name of the value.
    pub name: String,
}

/// A measured quantity with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit; absent for a plain number.
    #[serde(
        default = "crate::stored::count",
        skip_serializing_if = "crate::stored::is_count"
    )]
    pub unit: Unit,
    /// Its interval, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// One resource over one cell's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ResourceSummary {
    /// Which series.
    pub series: SeriesKey,
    /// Unit of the values here.
    pub unit: Unit,
    /// Readings in the window.
    pub n: u64,
    /// Time-weighted mean, or the mean rate of a counter.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub peak: f64,
    /// Increase of a counter over the window; absent for a gauge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub increase: Option<f64>,
}

/// What machines and server did during a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct HardwareSummary {
    /// Each series that was read; stored by source.
    #[serde(with = "crate::stored::resources")]
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "Vec<crate::stored::SourceSummary>")
    )]
    pub resources: Vec<ResourceSummary>,
    /// Derived figures by name: `energy_per_output_token_j`, `energy_per_request_j`, `gpu_idle_share`,
    /// `server_queue_mean`, `server_ttft_mean`, `prefix_cache_hit_rate`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub derived: BTreeMap<String, Quantity>,
    /// What is not known, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

impl HardwareSummary {
    /// The series of `name` from `source`, of every instance.
    pub fn series(
        &self,
        source: ReadingSource,
        name: &str,
    ) -> impl Iterator<Item = &ResourceSummary> {
        self.resources.iter().filter(move |resource| {
            resource.series.source == source && resource.series.name == name
        })
    }
}

/// The histogram and the bound of a bucket's name in a reading: `ttft_s.le.0.25`. `None` for every other name.
pub fn histogram_bucket(name: &str) -> Option<(&str, f64)> {
    let (histogram, bound) = name.split_once(".le.")?;
    Some((histogram, bound.parse().ok()?))
}

/// Whether a reading's value of this name only grows, but for a restart.
pub fn is_counter(name: &str) -> bool {
    let last = name.rsplit('.').next();
    name.ends_with("_total") || matches!(last, Some("sum" | "count")) || name.contains(".le.")
}
