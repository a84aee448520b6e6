//! The valid configuration: what the rest of the crate takes.

use std::path::PathBuf;

use bench_client::Proxy;
use bench_hardware::{Gpus, PrometheusQueries};
use bench_insight::ScenarioSet;
use bench_schema::{ArrivalKind, Benchmark, Nanos, Sampling, Secret, Slo, StopRule};
use bench_workload::{DatasetSpec, LengthCategory, LengthSpec, Salt, Study};
use hyper::header::HeaderName;
use serde_json::{Map, Value};

use super::concurrency::Concurrency;

/// Everything a run was asked for, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which benchmark.
    pub benchmark: Benchmark,
    /// A small version of the same design.
    pub quick: bool,
    /// Seed of every draw.
    pub seed: u64,
    /// What to measure.
    pub target: TargetSettings,
    /// Profile or file of the engine to start when there is no URL.
    pub engine: String,
    /// What to ask.
    pub workload: WorkloadSettings,
    /// How much, when.
    pub load: LoadSettings,
    /// When to give up.
    pub limits: LimitSettings,
    /// The client's own shape.
    pub client: ClientSettings,
    /// What to hold the results against.
    pub objectives: ObjectiveSettings,
    /// What to watch.
    pub machines: MachineSettings,
    /// What to write.
    pub output: OutputSettings,
    /// Every key with its effective texts, secrets redacted: stored with the result.
    pub effective: Value,
}

/// What to measure.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct TargetSettings {
    /// Empty means the embedded engine.
    pub urls: Vec<String>,
    /// Protocol.
    pub api: String,
    /// Model, where it is not the first that the server lists.
    pub model: Option<String>,
    /// Ask for streams.
    pub stream: bool,
    /// Ask for usage in every event.
    pub continuous_usage: bool,
    /// Headers to send.
    pub headers: Vec<(HeaderName, Secret)>,
    /// The key to send.
    pub api_key: Option<Secret>,
    /// Certificates to trust.
    pub ca: Option<PathBuf>,
    /// Client certificate.
    pub client_cert: Option<PathBuf>,
    /// Its key.
    pub client_key: Option<PathBuf>,
    /// Do not verify.
    pub insecure: bool,
    /// Speak HTTP/2.
    pub http2: bool,
    /// How connections are used.
    pub connections: Connections,
    /// The environment's proxy, where it is to be used.
    pub proxy: Option<Proxy>,
    /// Wait for readiness.
    pub wait: Nanos,
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Kept and used again.
    Reuse,
    /// A new one for each request.
    PerRequest,
    /// Opened before the measurement, then reused.
    Prewarm,
}

/// What to ask.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct WorkloadSettings {
    /// Where prompts come from, where it was said.
    pub dataset: Option<DatasetSpec>,
    /// Named prompts of the latency grid.
    pub prompts: Vec<Study>,
    /// Prompt lengths of the latency grid.
    pub prompt_tokens: Vec<u32>,
    /// Prompt length of other designs.
    pub input: Option<LengthSpec>,
    /// Output length of other designs.
    pub output: Option<LengthSpec>,
    /// Prompt lengths of a grid.
    pub input_grid: Vec<u32>,
    /// Output lengths of a grid.
    pub output_grid: Vec<u32>,
    /// Categories of total length.
    pub categories: Vec<LengthCategory>,
    /// Measure a grid.
    pub grid: bool,
    /// Tokenizer file or folder.
    pub tokenizer: Option<PathBuf>,
    /// Go on past lines that cannot be read.
    pub skip_bad_lines: bool,
    /// Whether prompts are made unique.
    pub salt: Salt,
    /// Read a file again from its start when it ends.
    pub cycle: bool,
    /// Ask for full-length answers.
    pub ignore_eos: bool,
    /// Fewest output tokens.
    pub min_tokens: Option<u32>,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Keys merged into the body.
    pub extra_body: Option<Map<String, Value>>,
    /// Keep answers.
    pub keep_text: bool,
}

/// How much, when.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Levels of a closed loop, and ramps of levels.
    pub concurrency: Vec<Concurrency>,
    /// Levels of an open loop.
    pub rate: Vec<f64>,
    /// Arrival process of an open loop.
    pub arrival: ArrivalKind,
    /// Pause of a slot.
    pub think_time: Option<Nanos>,
    /// Cap of an open loop.
    pub in_flight_cap: Option<u32>,
    /// Requests per cell.
    pub requests: Option<u64>,
    /// Time per cell.
    pub duration: Option<Nanos>,
    /// Precision that ends a cell.
    pub precision: Vec<String>,
    /// Before each measurement, where it was said.
    pub warmup: Option<Amount>,
    /// Let it end before the measurement begins.
    pub warmup_drain: bool,
    /// Time over which the slots of a closed loop begin.
    pub ramp_up: Option<Nanos>,
    /// Repeats, where given.
    pub repeat: Option<u32>,
    /// Between cells.
    pub cooldown: Nanos,
    /// Stop each answer after this.
    pub cancel_after: Option<Amount>,
}

/// So many, or so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of them.
    Count(u64),
    /// A time.
    Time(Nanos),
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// On a whole request.
    pub whole: Nanos,
    /// On a connection.
    pub connect: Nanos,
    /// On the first content event.
    pub first_token: Nanos,
    /// Between content events.
    pub between_tokens: Nanos,
    /// On the run.
    pub deadline: Option<Nanos>,
    /// For requests in flight after an interruption.
    pub grace: Nanos,
    /// Go on although requests fail.
    pub keep_going: bool,
}

/// The client's own shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Worker threads, where given.
    pub workers: Option<u32>,
    /// Read in batches.
    pub late_read: bool,
    /// Part of the plan: index and count.
    pub shard: (u32, u32),
    /// Wall-clock instant of the first cell, RFC 3339.
    pub start_at: Option<String>,
}

/// What to hold the results against.
#[derive(Clone, Debug)]
pub struct ObjectiveSettings {
    /// Objectives.
    pub slos: Vec<Slo>,
    /// Named sets of objectives.
    pub scenarios: ScenarioSet,
    /// Gates, as written.
    pub targets: Vec<String>,
    /// Price of the server.
    pub price_per_hour: Option<f64>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// The server's Prometheus pages; absent to try the usual place.
    pub server_metrics: Option<Vec<String>>,
    /// Pages of DCGM exporters.
    pub dcgm: Vec<String>,
    /// Prometheus server, and what it is asked for.
    pub prometheus: Option<PrometheusQueries>,
    /// What it is told of who asks.
    pub prometheus_authorization: Option<Secret>,
    /// The server's process.
    pub server_pid: Option<u32>,
    /// Sample at all.
    pub enabled: bool,
    /// NVML library.
    pub nvml: Option<PathBuf>,
}

impl MachineSettings {
    /// This host's GPUs, wherever the server is.
    pub fn gpus(&self) -> Gpus {
        if self.enabled {
            let library = self.nvml.clone();
            Gpus::Read { library }
        } else {
            Gpus::LeftOut("the hardware is not sampled, as was asked".to_owned())
        }
    }
}

/// What to write.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct OutputSettings {
    /// Run directory, where given.
    pub out: Option<PathBuf>,
    /// Metadata.
    pub tags: Vec<(String, String)>,
    /// What stdout gets.
    pub stdout: Stdout,
    /// Write report.html.
    pub html: bool,
    /// Show progress.
    pub progress: bool,
    /// One line only.
    pub quiet: bool,
    /// Print the plan and stop.
    pub dry_run: bool,
}

/// What stdout gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// A table for people.
    Table,
    /// The run record.
    Json,
    /// The Markdown report.
    Markdown,
}

impl Settings {
    /// Whether the design should be a small one: asked for, or on the embedded engine, where a first look is what is wanted.
    pub fn small(&self) -> bool {
        self.quick || self.target.urls.is_empty()
    }

    /// Measured requests of a cell at this concurrency, where neither their number nor a duration was given.
    pub fn requests_for(&self, concurrency: u32) -> u64 {
        let level = u64::from(concurrency);
        if self.small() {
            (8 * level).max(24)
        } else {
            (32 * level).max(100)
        }
    }

    /// The rule that ends a cell: what was asked for, else `requests`.
    pub fn stop_rule(&self, requests: u64) -> StopRule {
        let load = &self.load;
        let ends_by_itself = load.duration.is_some() || load.requests.is_some();
        StopRule {
            requests: if ends_by_itself {
                load.requests
            } else {
                Some(requests)
            },
            duration: load.duration,
            precision: load.precision.clone(),
        }
    }
}

impl ObjectiveSettings {
    /// The objectives that were given one by one, and those of the scenarios.
    pub fn all_slos(&self) -> Vec<Slo> {
        let of_scenarios = self.scenarios.slos().unwrap_or_default();
        self.slos.iter().cloned().chain(of_scenarios).collect()
    }
}
