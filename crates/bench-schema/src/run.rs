//! One run: `run.json`, its version, and what can be wrong with a stored one.

use std::collections::BTreeMap;
use std::mem;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CellRecord, Finding, Interval, JournalPart, Nanos, PartMeter, Slo, Stamp, TargetOutcome, Trust,
};

/// Everything about a run but its single requests and readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "json-schema", schemars(transform = tell_digest))]
pub struct RunRecord {
    /// The format.
    pub schema: Schema,
    /// Which of the three.
    pub experiment: Benchmark,
    /// One line for people: what was asked of what.
    pub title: String,
    /// Whether the numbers should be believed.
    pub trust: Trust,
    /// The program that wrote it.
    pub tool: ToolRecord,
    /// When it started, RFC 3339 in UTC: the one reading of the wall clock.
    pub started_at: String,
    /// From the epoch to the end.
    pub duration: Nanos,
    /// False where it was cut short; what was measured is here all the same.
    pub complete: bool,
    /// Why it was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_reason: Option<String>,
    /// The seed of every draw.
    pub seed: u64,
    /// The effective configuration, secrets redacted.
    pub config: Value,
    /// What each part of the journals holds; empty in files before 2.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<JournalPart>,
    /// Metadata from `--tag`.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How time was measured.
    pub clock: ClockRecord,
    /// The client's host.
    pub host: HostRecord,
    /// What was measured.
    pub server: ServerRecord,
    /// The cells, in the order they ran.
    pub cells: Vec<CellRecord>,
    /// Figures across cells.
    #[serde(default)]
    pub analysis: Analysis,
    /// Gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetOutcome>,
    /// What the numbers say, the most severe first.
    pub findings: Vec<Finding>,
}

impl RunRecord {
    /// Read `run.json`.
    ///
    /// # Errors
    /// [`SchemaError`] where the text is of another format, of a newer major version, not the one that was written, or not a run record at all.
    pub fn from_json(text: &str) -> Result<Self, SchemaError> {
        #[derive(Deserialize)]
        struct Head {
            schema: Schema,
        }
        let head: Head = serde_json::from_str(text).map_err(SchemaError::Json)?;
        head.schema.check()?;
        check_digest(text)?;
        serde_json::from_str(text).map_err(SchemaError::Json)
    }

    /// The text of `run.json`: [`to_json`](crate::to_json), and as its last key a `digest` of all bytes before it, so that a reader can tell whether it is whole.
    ///
    /// # Errors
    /// As there.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        crate::to_json(self).map(with_digest)
    }

    /// Lets `rewrite` change the record as JSON: one cell after the other, since a run may have a thousand, then the rest. It says whether it changed anything.
    /// What is then no such part any more stays as it was.
    pub fn rewrite(&mut self, rewrite: &mut dyn FnMut(&mut Value) -> bool) {
        let mut cells = mem::take(&mut self.cells);
        for cell in &mut cells {
            rewrite_part(cell, rewrite);
        }
        rewrite_part(self, rewrite);
        self.cells = cells;
    }

    /// Which part of a load this is (`0/4`), where several programs share one; a merged run no longer says.
    pub fn part(&self) -> Option<&str> {
        let shard = self.config.get("shard")?.as_str()?;
        let (_, count) = shard.split_once('/')?;
        let count: u32 = count.trim().parse().ok()?;
        (count > 1).then_some(shard)
    }

    /// What the title of such a part says of it.
    pub fn title_of_part(part: &str) -> String {
        format!(" (shard {part}: a part of the load)")
    }

    /// The cell with this id.
    pub fn cell(&self, id: &str) -> Option<&CellRecord> {
        self.cells.iter().find(|cell| cell.id == id)
    }
}

/// By way of the text that would be stored: what reads and writes it is compiled for the files anyway, what does so for a [`Value`] would take a fifth as much again.
fn rewrite_part(
    part: &mut (impl Serialize + DeserializeOwned),
    rewrite: &mut dyn FnMut(&mut Value) -> bool,
) {
    let value = crate::to_json(part).and_then(|text| serde_json::from_str(&text));
    if let Ok(mut value) = value
        && rewrite(&mut value)
        && let Ok(changed) = serde_json::from_str(&value.to_string())
    {
        *part = changed;
    }
}

/// A JSON object that ends in a line of its own, with a `digest` of all bytes before it as its last key; any other text as it is.
pub fn with_digest(mut text: String) -> String {
    const END: &str = "\n}\n";
    if text.ends_with(END) {
        text.truncate(text.len() - END.len());
        text.push_str(",\n ");
        let digest = digest(&text);
        text.extend(["\"digest\":\"", &digest, "\"", END]);
    }
    text
}

/// That the text of a JSON object is what [`with_digest`] made. One without a digest is taken as it is.
///
/// # Errors
/// [`SchemaError::Changed`] where it is not, [`SchemaError::Json`] where it is no object.
pub fn check_digest(text: &str) -> Result<(), SchemaError> {
    #[derive(Deserialize)]
    struct Stored {
        #[serde(default)]
        digest: Option<String>,
    }
    let told: Stored = serde_json::from_str(text).map_err(SchemaError::Json)?;
    let before = text.rfind("\"digest\"").and_then(|at| text.get(..at));
    match told.digest {
        Some(told) if before.map(digest).as_ref() != Some(&told) => Err(SchemaError::Changed),
        _ => Ok(()),
    }
}

/// FNV-1a, as of the parts of the journals.
fn digest(text: &str) -> String {
    let mut meter = PartMeter::default();
    meter.update(text.as_bytes());
    meter.part("").hash
}

/// Says in the schema what [`RunRecord::to_json`] adds.
#[cfg(feature = "json-schema")]
fn tell_digest(schema: &mut schemars::Schema) {
    let told = "FNV-1a of all bytes of the file before this, its last key: guards against damage, not against forgery. Absent before 2.0.";
    if let Some(properties) = schema
        .get_mut("properties")
        .and_then(|all| all.as_object_mut())
    {
        properties.insert(
            "digest".to_owned(),
            serde_json::json!({"description": told, "type": "string"}),
        );
    }
}

names! {
    /// The three benchmarks; the name is that of directories too.
    Benchmark {
        Latency "latency" "`bench-latency`.";
        Throughput "throughput" "`bench-throughput`.";
        Seqlen "seqlen" "`bench-seqlen`.";
    }
}

/// The program that wrote a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolRecord {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

names! {
    /// Which instant an arrival stamp is.
    ClockKind {
        Kernel "kernel" "The kernel's receive timestamp.";
        ReadReturn "read_return" "The moment the read returned.";
    }
}

/// How time was measured.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClockRecord {
    /// What arrival stamps are.
    pub arrival: ClockKind,
    /// Why they are not the kernel's.
    pub fallback_reason: Option<String>,
    /// The run's epoch on the machine's monotonic clock (`CLOCK_MONOTONIC`), nanoseconds; absent off Linux.
    pub monotonic_epoch_ns: Option<i64>,
    /// The run's epoch on the wall clock, nanoseconds since 1970.
    pub unix_epoch_ns: Option<i64>,
    /// This shard's clock against shard 0's, in order: when they met (`--meet`), before each phase and at the end. Empty where they did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<ClockExchange>,
    /// What shard 0 called their meeting, at random: offsets of one meeting say nothing of the clocks of another. Absent where there was none, and in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meeting: Option<String>,
}

/// One comparison of a shard's clock with shard 0's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClockExchange {
    /// When, on this shard's clock.
    pub at: Stamp,
    /// What is to be added to a stamp of this shard for one of shard 0.
    pub offset: Nanos,
    /// How wrong the offset can be, to either side; 0 for shard 0 itself.
    pub bound: Nanos,
}

/// Keys of the configuration that are each shard's own business: those of one run may differ in them.
pub const KEYS_OF_EACH_SHARD: &[&str] = &[
    "shard",
    "start_at",
    "meet",
    "metrics_listen",
    "otlp",
    "out",
    "output",
    "live",
    "progress",
    "quiet",
    "verbose",
    "html",
    "workers",
    "server_pid",
    "nvml",
    "hardware",
    "dcgm",
    "prometheus",
    "tag",
];

/// The client's host and surroundings.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct HostRecord {
    /// Host name.
    pub name: Option<String>,
    /// Operating system and version.
    pub os: Option<String>,
    /// Kernel version.
    pub kernel: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Logical CPUs this process may use.
    pub cpus: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// GPUs, driver and CUDA versions, container, orchestrator, git commit and the like, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// What could not be found out, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

/// The measured server.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ServerRecord {
    /// Target URLs, credentials removed.
    pub urls: Vec<String>,
    /// Whether it is the engine that this program started.
    pub embedded: bool,
    /// Protocol.
    pub api: String,
    /// Model that was asked for.
    pub model: Option<String>,
    /// Models it lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What it is: `vllm`, `llama.cpp`, …, where it tells.
    pub kind: Option<String>,
    /// Its version, where it tells.
    pub version: Option<String>,
    /// What it tells of itself in its own words, which are those of its flags: `block_size`, `gpu_memory_utilization`,
    /// `max_model_len`; `gpus` and `gpu_driver` of an exporter beside it. Since 1.2.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Whether certificates were left unverified (`--insecure`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls_unverified: bool,
    /// The proxy that requests went through, credentials removed.
    pub proxy: Option<String>,
}

/// Figures across cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// Scaling along the first numeric load factor, the first row being the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingRow>,
    /// Fits by name: `usl`, `latency_by_output_tokens`, `latency_power_law`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fits: BTreeMap<String, FitRecord>,
    /// The capacity, where it was searched. Since 2.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityRecord>,
}

/// The highest load at which the objectives hold, as a search found it; its stages are the run's cells.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CapacityRecord {
    /// What the load is: `rate` in requests per second, or `concurrency`.
    pub factor: String,
    /// Why the search ended.
    pub stopped: SearchEnd,
    /// What there is to say of that end: what was missed, or what stood in the way.
    pub why: Option<String>,
    /// The capacity; absent where nobody can tell.
    pub value: Option<f64>,
    /// Its 95 % interval: the lower bound, absent where no stage gives one.
    pub low: Option<f64>,
    /// The upper bound, absent where no stage gives one.
    pub high: Option<f64>,
    /// The relative half-width that was asked for.
    pub precision: f64,
    /// The objective that is missed first, as a place in `objectives`; absent where none is known to be.
    pub binding: Option<u32>,
    /// How far each objective alone would let the load go.
    pub objectives: Vec<ObjectiveCapacity>,
    /// Stages that tell nothing of the server, since the client was late, starved or did not offer their load, by cell, with what was seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, String>,
    /// Requests of all stages, their warm-ups included.
    pub requests: u64,
    /// Seconds from the first request to the end of the last, warm-ups included.
    pub seconds: f64,
}

/// Where the share of values within one objective falls below what it asks for.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ObjectiveCapacity {
    /// The objective.
    pub slo: Slo,
    /// The load; absent where no stage tells.
    pub value: Option<f64>,
    /// The lower bound of its 95 % interval.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
    /// The fitted curve near it: the log odds of being within are those of the asked share, less this times load / value − 1.
    pub slope: Option<f64>,
}

names! {
    /// Why the search for a capacity ended.
    SearchEnd {
        Precise "precise" "The capacity is known as well as was asked.";
        Budget "budget" "What might be measured has been.";
        MissedAlone "missed_alone" "An objective is missed at a load so low that nothing waits.";
        NeverMissed "never_missed" "No load was found that misses an objective.";
        Unsteady "unsteady" "Alike loads came out differently by more than chance.";
        NotMonotone "not_monotone" "An objective is missed at one load and met at a higher one.";
        ClientLimit "client_limit" "The client could not offer the load.";
        Ended "ended" "The run ended before the search did.";
    }
}

/// One row of a scaling table.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ScalingRow {
    /// The cell, or the group within the only cell.
    pub cell: String,
    /// The factor's name: `concurrency`, `rate`, `output_tokens`, `category`.
    pub factor: String,
    /// Its level.
    pub level: f64,
    /// The value that scales: output tokens/s for load factors, P95 or mean E2E in ns for lengths.
    pub value: f64,
    /// Value over the baseline's.
    pub scaling_factor: f64,
    /// Scaling factor over level ratio; absent for lengths.
    pub efficiency: Option<f64>,
    /// Throughput gain over the baseline, a share.
    pub throughput_gain: Option<f64>,
    /// Growth of mean E2E over the baseline, a share.
    pub latency_penalty: Option<f64>,
    /// Gain over penalty; absent where the penalty is not positive.
    pub tradeoff_ratio: Option<f64>,
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FitRecord {
    /// The formula, with the parameter names.
    pub formula: String,
    /// Parameters.
    pub parameters: BTreeMap<String, f64>,
    /// Their intervals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<String, Interval>,
    /// Share of variance explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Points fitted.
    pub n: u64,
}

/// Name of the format, in every `run.json`.
pub const SCHEMA_NAME: &str = "llm-bench-run";
/// A change that old readers cannot survive raises this.
pub const SCHEMA_MAJOR: u32 = 2;
/// An addition raises this.
pub const SCHEMA_MINOR: u32 = 4;

/// What a file says of its own format: first key of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Schema {
    /// Always [`SCHEMA_NAME`].
    pub name: String,
    /// Readers refuse a larger one than their own.
    pub major: u32,
    /// Readers accept any; a larger one may carry keys they do not know.
    pub minor: u32,
}

impl Schema {
    /// The version this crate writes.
    pub fn current() -> Self {
        Self {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        }
    }

    /// Whether this crate can read a file that says this of itself.
    ///
    /// # Errors
    /// [`SchemaError::OtherFormat`] for another name, [`SchemaError::TooNew`] for a larger major version.
    pub fn check(&self) -> Result<(), SchemaError> {
        if self.name != SCHEMA_NAME {
            return Err(SchemaError::OtherFormat {
                found: self.name.clone(),
            });
        }
        if self.major > SCHEMA_MAJOR {
            return Err(SchemaError::TooNew { found: self.major });
        }
        Ok(())
    }
}

/// A stored result that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum SchemaError {
    /// The file is of some other format.
    #[error(
        "this is a `{found}` file, not a `{}` one; give a run directory or its run.json",
        SCHEMA_NAME
    )]
    OtherFormat { found: String },
    /// The file was written by a newer tool.
    #[error(
        "written in schema version {found}, this program reads up to {}; use a newer bench-report",
        SCHEMA_MAJOR
    )]
    TooNew { found: u32 },
    /// The text is not the one that was written.
    #[error(
        "it was changed or damaged after it was written: its digest is of another text; take it from a copy, or make it again with `bench-report recover` \
         (where it was changed on purpose, take out its last key, `digest`)"
    )]
    Changed,
    /// A plan's hash is not 64 hexadecimal digits.
    #[error("`{0}` is no plan's hash: 64 hexadecimal digits are")]
    PlanHash(String),
    /// The text is not JSON of the expected shape.
    #[error("not a run record: the JSON does not have the expected shape")]
    Json(#[source] serde_json::Error),
}
