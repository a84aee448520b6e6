//! Every key there is. The sections only group them: in the file, on the command line and in `run.json` the keys stand side by side.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use bench_insight::ScenarioSet;
use bench_metrics::FEWEST_BLOCKS;
use bench_schema::{ArrivalKind, Benchmark, Nanos, Sampling, Secret, Slo, StopRule};
use bench_workload::{DatasetSpec, LengthCategory, Salt, Study};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::values::{
    Address, Amount, Concurrency, Header, Lengths, Reset, Wanted, api, arrival, body, instant,
    listen, meeting, number, path, positive_time, rate, salt, shard, shown, slo, study, tag,
    target, time, whole,
};
use crate::vary::{Only, Values, Vary, command, filled, settings_of};

/// Everything a run is asked for.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Settings {
    /// Which benchmark.
    #[arg(skip = Benchmark::Latency)]
    #[serde(skip)]
    pub benchmark: Benchmark,
    /// What to measure.
    #[command(flatten)]
    #[serde(flatten)]
    pub target: TargetSettings,
    /// Embedded engine profile, used when there is no URL: tiny (a real small transformer on the CPU), gpt2-124m, fixed, 7b, … or a TOML file; see
    /// docs/engine.md.
    #[arg(
        long,
        help_heading = "Embedded engine",
        value_name = "PROFILE|FILE",
        default_value = "tiny"
    )]
    pub engine: String,
    /// What to ask.
    #[command(flatten)]
    #[serde(flatten)]
    pub workload: WorkloadSettings,
    /// Seed of all random draws: prompts, lengths, arrivals, bootstrap.
    #[arg(long, help_heading = "Workload", value_name = "N", default_value = "0", value_parser = whole(0_u64, u64::MAX))]
    pub seed: u64,
    /// What to start, and with which settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub server: ServerSettings,
    /// How much, and when.
    #[command(flatten)]
    #[serde(flatten)]
    pub load: LoadSettings,
    /// What to measure in turns with it.
    #[command(flatten)]
    #[serde(flatten)]
    pub versus: VersusSettings,
    /// When to give up.
    #[command(flatten)]
    #[serde(flatten)]
    pub limits: LimitSettings,
    /// The client's own shape.
    #[command(flatten)]
    #[serde(flatten)]
    pub client: ClientSettings,
    /// What to hold the results against.
    #[command(flatten)]
    #[serde(flatten)]
    pub objectives: ObjectiveSettings,
    /// What to watch.
    #[command(flatten)]
    #[serde(flatten)]
    pub machines: MachineSettings,
    /// What to write.
    #[command(flatten)]
    #[serde(flatten)]
    pub output: OutputSettings,
    /// Run a smaller version of the same benchmark, for a first look.
    #[arg(long, help_heading = "Output")]
    pub quick: bool,
    /// What the surroundings told: never stored, never shown.
    #[arg(skip)]
    #[serde(skip)]
    pub credentials: Credentials,
}

/// What to measure.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Target")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct TargetSettings {
    /// Server to measure, e.g. `http://127.0.0.1:8000` or `unix:///run/server.sock`; several URLs share the load in turn; without a URL, the embedded
    /// engine is started on a free loopback port.
    #[arg(long, value_name = "URL", alias = "base-url", value_delimiter = ',')]
    pub url: Vec<Address>,
    /// Protocol: openai-chat, openai-completions, or another one of docs/protocols.md; template:FILE for any other protocol.
    #[arg(long, value_name = "NAME", aliases = ["endpoint-type", "backend"], default_value = "openai-chat", value_parser = api)]
    pub api: String,
    /// Model name to request; default: the first model that the server lists.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Request streamed responses; without streaming, only E2E is measured.
    #[arg(long, default_value_t = true)]
    pub stream: bool,
    /// Request token counts in every event, if the server supports it.
    #[arg(long)]
    pub continuous_usage: bool,
    /// Header to send with each request; its value is never stored.
    #[arg(long, value_name = "K: V")]
    #[serde(serialize_with = "shown")]
    pub header: Vec<Header>,
    /// Environment variable that holds the API key; sent as a bearer token, never stored.
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// File that holds the API key.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub api_key_file: Option<PathBuf>,
    /// PEM file of certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub client_cert: Option<PathBuf>,
    /// PEM file of the client certificate's key.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub client_key: Option<PathBuf>,
    /// Accept any server certificate; the result records this.
    #[arg(long)]
    pub insecure: bool,
    /// Use HTTP/2.
    #[arg(long)]
    pub http2: bool,
    /// Connection handling: reuse or per-request.
    #[arg(long, value_name = "KIND", default_value = "reuse")]
    pub connections: Connections,
    /// Use the proxy from the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`); a user and password in its URL are sent to the
    /// proxy and never stored.
    #[arg(long)]
    pub proxy: bool,
    /// Wait up to this long for the server to become ready.
    #[arg(long, value_name = "TIME", alias = "ready-check-timeout-sec", default_value = "0s", value_parser = time)]
    #[serde(serialize_with = "shown")]
    pub wait: Nanos,
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Kept and used again; those of a closed loop are opened before it begins. Once there was `prewarm`, which was that.
    #[value(alias = "prewarm")]
    Reuse,
    /// A new one for each request.
    PerRequest,
}

/// What to ask.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Workload")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct WorkloadSettings {
    /// Source of prompts: mixed, random, text, sharegpt:FILE, c4:FILE, jsonl:FILE, trace:FILE, prefix:…, or another one of docs/workloads.md;
    /// default: mixed for bench-throughput (with prompts of 128 to 896 tokens unless the embedded engine is used), lengths from all categories for
    /// bench-seqlen.
    #[arg(long, value_name = "SPEC", alias = "dataset-name")]
    #[serde(serialize_with = "shown")]
    pub dataset: Option<DatasetSpec>,
    /// Named prompts of the latency grid: short (5 words), medium (19 words), long (106 words).
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["short", "medium", "long"], value_parser = study)]
    #[serde(serialize_with = "shown")]
    pub prompts: Vec<Study>,
    /// Prompt lengths of the latency grid, in tokens, instead of named prompts.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole(1_u32, 10_000_000))]
    pub prompt_tokens: Vec<u32>,
    /// Prompt length in tokens: 256, 128..512, normal:550:150, lognormal:5.0:1.0, …; a list for bench-seqlen --grid.
    #[arg(long, value_name = "N|DIST", aliases = ["random-input-len", "input-len"])]
    #[serde(serialize_with = "shown")]
    pub input_tokens: Option<Lengths>,
    /// Output length in tokens, written like `input_tokens`; a list for bench-latency and bench-seqlen --grid.
    #[arg(long, value_name = "N|DIST|LIST", aliases = ["random-output-len", "output-len"])]
    #[serde(serialize_with = "shown")]
    pub output_tokens: Option<Lengths>,
    /// Categories by prompt plus output length: tiny (below 50 tokens), short (50 to 149), medium (150 to 299), long (300 to 499), very-long (500 or
    /// more); default: all, followed by single requests with prompts from 1024 tokens up to the context length that the server reports.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[serde(serialize_with = "shown")]
    pub categories: Vec<LengthCategory>,
    /// Measure a grid of `input_tokens` × `output_tokens`, one request at a time, instead of a realistic mix.
    #[arg(long)]
    pub grid: bool,
    /// A tokenizer.json or its folder; it sizes prompts, and counts the tokens of responses for which the server reports no count; without it,
    /// prompts are sized by the server's /tokenize if available, else by words, and the result records which.
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub tokenizer: Option<PathBuf>,
    /// What to do at an unreadable line of a dataset: stop or skip.
    #[arg(long, value_name = "stop|skip", default_value = "stop")]
    pub bad_lines: BadLines,
    /// Start each prompt with a random word, so that the server's prefix cache cannot help by accident: auto, or never to send the dataset's prompts
    /// unchanged.
    #[arg(long, value_name = "auto|never", default_value = "auto", value_parser = salt)]
    #[serde(serialize_with = "shown")]
    pub salt: Salt,
    /// Restart a dataset file that ends before the cell does.
    #[arg(long, default_value_t = true)]
    pub cycle: bool,
    /// Ask the server to ignore end-of-sequence tokens (by default it is asked, so that responses have the requested length).
    #[arg(long, default_value_t = true)]
    pub ignore_eos: bool,
    /// Minimum number of output tokens, if the server supports it.
    #[arg(long, value_name = "N", value_parser = whole(0_u32, 10_000_000))]
    pub min_tokens: Option<u32>,
    /// Sampling temperature; default: the server's.
    #[arg(long, value_name = "X", value_parser = number(0.0, 100.0))]
    pub temperature: Option<f64>,
    /// Nucleus sampling; default: the server's.
    #[arg(long, value_name = "X", value_parser = number(0.0, 1.0))]
    pub top_p: Option<f64>,
    /// Top-k sampling; default: the server's.
    #[arg(long, value_name = "N", value_parser = whole(-1_i64, 1_000_000))]
    pub top_k: Option<i64>,
    /// JSON object merged into each request body; it overrides all other fields.
    #[arg(long, value_name = "JSON", alias = "extra-request-body", value_parser = body)]
    pub extra_body: Option<Map<String, Value>>,
    /// Which of several wordings of the same plan prompts have; 0 is that of a run by itself.
    #[arg(skip)]
    #[serde(skip)]
    pub wording: u32,
    /// Store the first 2,000 characters of each response in requests.jsonl.
    #[arg(long)]
    pub keep_text: bool,
}

/// What to do at a line of a dataset that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadLines {
    /// End the run with an error.
    Stop,
    /// Go on with the next line.
    Skip,
}

/// How much, and when.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Load")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct LoadSettings {
    /// Closed loop: requests in flight, over all shards together, one cell per value; ramp:FROM:TO or steps:A:B:… for a concurrency that changes
    /// within the cell; default: 1 to 64 in powers of two for bench-throughput (to 8 on the embedded engine and with --quick), 1 for bench-seqlen.
    #[arg(
        long,
        value_name = "N|RAMP",
        alias = "max-concurrency",
        value_delimiter = ','
    )]
    #[serde(serialize_with = "shown")]
    pub concurrency: Vec<Concurrency>,
    /// Open loop: requests (of a dataset of conversations: conversations) per second, over all shards together, one cell per value.
    #[arg(long, value_name = "PER_S", alias = "request-rate", value_delimiter = ',', value_parser = rate)]
    pub rate: Vec<f64>,
    /// Arrival process of an open loop: poisson, constant, gamma:COV, burst:SIZE, ramp:FROM:TO, steps:A:B:…, series:FILE, trace, trace:SPEED or
    /// users:N:EVERY.
    #[arg(long, value_name = "KIND", default_value = "poisson", value_parser = arrival)]
    #[serde(serialize_with = "shown")]
    pub arrival: ArrivalKind,
    /// Closed loop: pause between a response and the next request of the same slot.
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[serde(serialize_with = "shown")]
    pub think_time: Option<Nanos>,
    /// Open loop: maximum number of requests in flight, over all shards together; requests beyond it are not sent and are recorded as unsent.
    #[arg(long, value_name = "N", value_parser = whole(1_u32, 10_000_000))]
    pub in_flight_cap: Option<u32>,
    /// Measured requests per cell, over all shards together; default: 32 × concurrency, up to the next hundred, fewer with --quick and on the embedded
    /// engine.
    #[arg(long, value_name = "N", aliases = ["num-prompts", "request-count"], value_parser = whole(1_u64, 1_000_000_000))]
    pub requests: Option<u64>,
    /// Measured time per cell; if `requests` is given too, whichever is reached first ends the cell.
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub duration: Option<Nanos>,
    /// End a cell when a percentile is known with this precision: p99:ttft=5%; with shards that `meet`, the requests of all shards decide. With
    /// `find_capacity`, only a width, that of the capacity (default 5%).
    #[arg(long, value_name = "SPEC", value_delimiter = ',')]
    #[serde(serialize_with = "shown")]
    pub precision: Vec<Wanted>,
    /// Search for the highest load at which the objectives are met, instead of measuring given loads: a Poisson rate, or a concurrency with `closed`.
    #[arg(long)]
    pub find_capacity: bool,
    /// Search for a concurrency (closed loop): each request waits for the response to the previous one.
    #[arg(long)]
    pub closed: bool,
    /// Share of requests that must meet each objective, instead of the percentiles named by the objectives: 0.99.
    #[arg(long, value_name = "SHARE", value_parser = number(0.5, 0.9999))]
    pub attain: Option<f64>,
    /// Maximum that a search may use, including warm-up and draining: a time, or a number of requests; default: 20m.
    #[arg(long, value_name = "TIME|N")]
    #[serde(serialize_with = "shown")]
    pub budget: Option<Amount>,
    /// Warm-up before each measurement, at the same load and without a pause in between: a number of requests or a time; a number is at least one
    /// request per slot of a closed loop; default: that and at least 2, or 2s in an open loop.
    #[arg(long, value_name = "N|TIME", aliases = ["num-warmups", "warmup-requests", "warmup-request-count"])]
    #[serde(serialize_with = "shown")]
    pub warmup: Option<Amount>,
    /// Wait for all warm-up requests to finish before the measurement begins, and warm up an open loop with one request at a time.
    #[arg(long)]
    pub warmup_drain: bool,
    /// Closed loop: spread the first requests of the slots over this time, which counts as warm-up.
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[serde(serialize_with = "shown")]
    pub ramp_up: Option<Nanos>,
    /// Repeats: of each request of the latency grid (default 15), of each cell in the other benchmarks (default 1).
    #[arg(long, value_name = "N", alias = "num-runs", value_parser = whole(1_u32, 1_000_000))]
    pub repeat: Option<u32>,
    /// Pause between cells, and between the repeats of a cell.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    #[serde(serialize_with = "shown")]
    pub cooldown: Nanos,
    /// Measure one cell for each combination of values of these keys: `input_tokens=128,1024` and `concurrency=1,8,64` give six cells. Cells are measured in
    /// random order; `in_order` keeps the given order.
    #[arg(long, value_name = "KEY=VALUES")]
    #[serde(serialize_with = "shown")]
    pub factor: Vec<Vary>,
    /// The settings of each combination.
    #[arg(skip)]
    #[serde(skip)]
    pub crossed: Vec<(Values, Settings)>,
    /// Measure the cells of `factor` and the settings of `vary` in the given order instead of a random order.
    #[arg(long)]
    pub in_order: bool,
    /// Reset the server before each cell: send a POST request to this address (`{url}/reset_prefix_cache`; {url} becomes the server's address), or run this
    /// command (split into words as by a shell, but run without one).
    #[arg(long, value_name = "COMMAND|URL")]
    #[serde(serialize_with = "shown")]
    pub reset: Option<Reset>,
    /// Stop each response after this many content events (`20`; one token each on most servers, docs/protocols.md), or this much time (`2s`).
    #[arg(long, value_name = "N|TIME")]
    #[serde(serialize_with = "shown")]
    pub cancel_after: Option<Amount>,
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args, Serialize)]
#[command(next_help_heading = "Limits")]
pub struct LimitSettings {
    /// Time limit for a whole request.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub timeout: Nanos,
    /// Time limit for opening a connection.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub connect_timeout: Nanos,
    /// Time limit for the first content event; default: that of the whole request.
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub first_token_timeout: Option<Nanos>,
    /// Time limit between content events; default: that of the whole request.
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub token_timeout: Option<Nanos>,
    /// End the whole run after this time and keep what was measured.
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub deadline: Option<Nanos>,
    /// Continue although the server rejects the first request, or the first requests or half of all requests of a cell fail.
    #[arg(long)]
    pub keep_going: bool,
    /// How long requests in flight may continue after an interruption.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    #[serde(serialize_with = "shown")]
    pub grace: Nanos,
}

/// The client's own shape.
#[derive(Clone, Debug, PartialEq, Eq, Args, Serialize)]
#[command(next_help_heading = "Client")]
pub struct ClientSettings {
    /// Worker threads; default: one per two CPUs, at most 8.
    #[arg(long, value_name = "N", value_parser = whole(1_u32, 1024))]
    pub workers: Option<u32>,
    /// Batch the reads of several streams with a short delay when the kernel timestamps arrivals (docs/method.md); batching saves CPU time and costs no accuracy.
    #[arg(long, default_value_t = true)]
    pub late_read: bool,
    /// Run part I (from 0) of N of the load, both of its requests and of the requests in flight; auto: take I and N from the environment of Slurm,
    /// MPI or a Kubernetes Indexed Job, with one folder per shard below `out` (docs/scale.md).
    #[arg(long, value_name = "I/N|auto", value_parser = shard)]
    #[serde(serialize_with = "shown")]
    pub shard: Option<(u32, u32)>,
    /// Which variables say which shard this is, and what they say, where that was asked for.
    #[arg(skip)]
    #[serde(skip)]
    pub shard_told: Option<String>,
    /// Apply `concurrency` (or `in_flight_cap`) to each shard, instead of to all shards together.
    #[arg(long)]
    pub per_shard: bool,
    /// Address for the coordination of shards: shard 0 listens on it, the others connect to it. The shards must have the same configuration, start
    /// each phase together, and compare their clocks; the variable `BENCH_MEET_TOKEN` holds their shared secret (docs/scale.md).
    #[arg(long, value_name = "HOST:PORT", value_parser = meeting)]
    pub meet: Option<String>,
    /// Wait until this time before the first cell, so that shards start together.
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    pub start_at: Option<String>,
}

/// What to hold the results against.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Objectives")]
pub struct ObjectiveSettings {
    /// Objectives: ttft=200ms,itl=50ms,p99:e2e=2s,e2e=1.5s@short-qa (or e2e.p99<=2s); the percentile is p95 unless named.
    #[arg(long, value_name = "LIST", alias = "goodput", value_delimiter = ',', value_parser = slo)]
    #[serde(serialize_with = "shown")]
    pub slo: Vec<Slo>,
    /// File with named sets of objectives.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub scenarios: Option<PathBuf>,
    /// What that file says; stored with the result, so that it can be concluded again without the file.
    #[arg(skip)]
    #[serde(skip_serializing_if = "no_scenario")]
    pub scenario_set: ScenarioSet,
    /// Pass/fail criteria: `output_tokens_per_s>=20,failed==0`; exit code 4 if one is missed.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = target)]
    pub target: Vec<String>,
    /// Cost of the server per hour, used for the cost per million tokens.
    #[arg(long, value_name = "MONEY", value_parser = number(0.0, 1e9))]
    pub price_per_hour: Option<f64>,
}

/// What to watch.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Hardware and server metrics")]
pub struct MachineSettings {
    /// Prometheus metrics page of the server, one per replica; default: URL/metrics if it responds; `none` to disable.
    #[arg(long, value_name = "URL")]
    pub server_metrics: Vec<Address>,
    /// Metrics page of the DCGM exporter on the server's host, one per host.
    #[arg(long, value_name = "URL")]
    pub dcgm: Vec<Address>,
    /// Prometheus server to query: for the GPUs of the DCGM exporters that it scrapes, or for `prometheus_query`.
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<Address>,
    /// Environment variable with the bearer token for the Prometheus server; a value that starts with `Basic ` is sent unchanged.
    #[arg(long, value_name = "NAME")]
    pub prometheus_token_env: Option<String>,
    /// Label matchers of the GPUs to query: `Hostname="gpu-1",gpu=~"0|1"`; default, without queries: all GPUs.
    #[arg(long, value_name = "MATCHERS")]
    pub prometheus_gpus: Option<String>,
    /// Query for the Prometheus server; a NAME from docs/hardware.md (`kv_cache_share`, `power_w`, …) is treated like that metric.
    #[arg(long, value_name = "NAME=QUERY", value_parser = tag)]
    #[serde(serialize_with = "shown")]
    pub prometheus_query: Vec<(String, String)>,
    /// Process ID of the server on this host; default: the process that listens on the port of the URL.
    #[arg(long, value_name = "PID", value_parser = whole(1_u32, u32::MAX))]
    pub server_pid: Option<u32>,
    /// Sample this host, its GPUs and the server.
    #[arg(long, default_value_t = true)]
    pub hardware: bool,
    /// NVML library to load instead of the system's.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub nvml: Option<PathBuf>,
}

/// What to write.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Output")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct OutputSettings {
    /// Run directory; default: `results/<UTC time>-<benchmark>`.
    #[arg(long, value_name = "DIR", alias = "result-dir", value_parser = path)]
    pub out: Option<PathBuf>,
    /// Metadata stored with the result: gpus=2, commit=….
    #[arg(long, value_name = "K=V", alias = "metadata", value_parser = tag)]
    #[serde(serialize_with = "shown")]
    pub tag: Vec<(String, String)>,
    /// Format of stdout: table, json or markdown.
    #[arg(long, value_name = "KIND", default_value = "table")]
    pub output: Stdout,
    /// Write report.html.
    #[arg(long, default_value_t = true)]
    pub html: bool,
    /// Show progress on stderr if it is a terminal.
    #[arg(long, default_value_t = true)]
    pub progress: bool,
    /// Show a live screen instead of the progress line if stderr is a terminal: true, false, or auto (in runs of more than 20 s).
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub live: Live,
    /// Serve live counters of the run in OpenMetrics format at `/metrics` on this address: 127.0.0.1:9464; port 0 chooses a free port.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen)]
    pub metrics_listen: Option<SocketAddr>,
    /// Push the same counters to an OpenTelemetry collector every 5 s (OTLP over HTTP, JSON): `http://127.0.0.1:4318`; a URL without a path
    /// gets `/v1/metrics`.
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Address>,
    /// Print no progress, and of the table one line (Markdown and JSON are printed as they are).
    #[arg(long)]
    pub quiet: bool,
    /// Print all tables and findings, not only one screen.
    #[arg(long)]
    pub verbose: bool,
    /// Print the plan and stop.
    #[arg(long)]
    pub dry_run: bool,
}

/// Which of two servers is better: the same load on both in alternation, so that drift cancels.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Compare two servers")]
pub struct VersusSettings {
    /// Measure this server and the one of `url` in alternation, and report which is better (docs/comparing.md); giving `url` again checks that the
    /// comparison finds no difference.
    #[arg(long, value_name = "URL")]
    pub versus: Option<Address>,
    /// Model name to request from the second server; default: that of the first.
    #[arg(long, value_name = "NAME")]
    pub versus_model: Option<String>,
    /// JSON object merged into the request bodies for the second server; it overrides all other fields.
    #[arg(long, value_name = "JSON", value_parser = body)]
    pub versus_body: Option<Map<String, Value>>,
    /// Maximum number of blocks; a block has four turns, two on each server. The comparison stops earlier when TTFT, ITL, TPOT and E2E have a verdict. At least 4;
    /// default: 12, or more when turns are made shorter.
    #[arg(long, value_name = "N", value_parser = whole(FEWEST_BLOCKS as u32, 1_000))]
    pub blocks: Option<u32>,
    /// Difference in percent that is considered irrelevant; default 2.
    #[arg(long, value_name = "X", value_parser = number(0.0, 100.0))]
    pub margin: Option<f64>,
}

impl VersusSettings {
    /// Whether there is a second side.
    pub fn is_asked(&self) -> bool {
        self.versus.is_some() || self.versus_model.is_some() || self.versus_body.is_some()
    }
}

/// A server that is started for the measurement.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Server to start")]
pub struct ServerSettings {
    /// Command of a server to start, measure and stop: 'vllm serve MODEL --port {port}'; {port} becomes a free port of this machine; without {port},
    /// `url` gives the server's address. Split into words as by a shell, but run without one (docs/comparing.md).
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub server: Option<String>,
    /// Time limit for the server to start and respond.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive_time)]
    #[serde(serialize_with = "shown")]
    pub server_start_timeout: Nanos,
    /// Measure the server with each of these values in place of {NAME} in its command, in all combinations of several parameters, and report the best
    /// setting: `max_num_seqs=64,128`.
    #[arg(long, value_name = "NAME=VALUES")]
    #[serde(serialize_with = "shown")]
    pub vary: Vec<Vary>,
    /// Restrict the combinations: `tp=2:max_num_seqs=64,128` keeps settings with `tp=2` only if `max_num_seqs` is one of these.
    #[arg(long, value_name = "NAME=VALUE:NAME=VALUES")]
    #[serde(serialize_with = "shown")]
    pub only: Vec<Only>,
    /// Measure this setting repeatedly between the others, to detect drift; one value for each parameter: `max_num_seqs=64,tp=1`.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = tag)]
    #[serde(serialize_with = "shown")]
    pub baseline: Vec<(String, String)>,
    /// How often each setting is started and measured; default 3.
    #[arg(long, value_name = "N", value_parser = whole(1_u32, 1_000))]
    pub rounds: Option<u32>,
}

impl ServerSettings {
    /// Every setting that is asked for; one without values where nothing is varied.
    pub fn settings(&self) -> Vec<Values> {
        settings_of(&self.vary, &self.only)
    }

    /// The command in this setting; `{port}` stands in it still.
    pub fn command_of(&self, values: &Values) -> Option<String> {
        Some(filled(self.server.as_ref()?, values))
    }
}

/// When there is a live screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Live {
    /// In a run that lasts longer than a look at its line.
    Auto,
    /// From the beginning.
    #[value(name = "true")]
    #[serde(rename = "true")]
    Yes,
    /// Never.
    #[value(name = "false")]
    #[serde(rename = "false")]
    No,
}

/// Format of stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stdout {
    /// A table for people.
    Table,
    /// The run record.
    Json,
    /// The Markdown report.
    Markdown,
}

/// What the environment and key files hold. It has no `Serialize`: a key cannot reach a result.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The key for the server.
    pub api_key: Option<Secret>,
    /// The whole `authorization` header for the Prometheus server.
    pub prometheus: Option<Secret>,
    /// What shards show each other where they meet.
    pub meet: Option<Secret>,
    /// The environment's proxy variables, by their names in small letters; empty unless a proxy was asked for.
    pub proxies: BTreeMap<String, Secret>,
}

impl Settings {
    /// Whether the embedded engine is measured: there is no other server.
    pub fn is_embedded(&self) -> bool {
        self.target.url.is_empty() && self.server.server.is_none()
    }

    /// Whether the design should be a small one: asked for, or on the embedded engine, where a first look is what is wanted.
    pub fn small(&self) -> bool {
        self.quick || self.is_embedded()
    }

    /// Measured requests of a cell at this concurrency, where neither their number nor a duration was given.
    pub fn requests_for(&self, concurrency: u32) -> u64 {
        let level = u64::from(concurrency);
        if self.small() {
            (8 * level).max(24)
        } else {
            (32 * level).next_multiple_of(bench_workload::STRATA)
        }
    }

    /// The rule that ends a cell: what was asked for, else `requests`; `None` where it ends by itself.
    pub fn stop_rule(&self, requests: Option<u64>) -> StopRule {
        let load = &self.load;
        let ends_by_itself = load.duration.is_some() || load.requests.is_some();
        StopRule {
            requests: if ends_by_itself {
                load.requests
            } else {
                requests
            },
            duration: load.duration,
            precision: (load.precision.iter())
                .filter(|wanted| matches!(wanted, Wanted::Figure(_)))
                .map(ToString::to_string)
                .collect(),
        }
    }
}

impl TargetSettings {
    /// The servers' addresses as they are connected to; empty means the embedded engine.
    pub fn urls(&self) -> Vec<String> {
        let bare = |url: &Address| url.expose().trim_end_matches('/').to_owned();
        self.url.iter().map(bare).collect()
    }
}

impl WorkloadSettings {
    /// Sampling parameters.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            ..Sampling::default()
        }
    }
}

impl LimitSettings {
    /// On the first content event.
    pub fn first_token(&self) -> Nanos {
        self.first_token_timeout.unwrap_or(self.timeout)
    }

    /// Between content events.
    pub fn between_tokens(&self) -> Nanos {
        self.token_timeout.unwrap_or(self.timeout)
    }
}

impl ClientSettings {
    /// Which part of the plan, of how many.
    pub fn part(&self) -> (u32, u32) {
        self.shard.unwrap_or((0, 1))
    }

    /// What the folder of this shard is called; nothing where it is the only one.
    pub fn folder(&self) -> Option<String> {
        crate::rank::folder(self.part())
    }
}

impl MachineSettings {
    /// The server's pages that were named: none of them, where that is what was asked for; absent to try the usual place.
    pub fn server_pages(&self) -> Option<Vec<String>> {
        let pages = self.server_metrics.iter().map(Address::expose);
        let named = pages.filter(|page| *page != "none").map(str::to_owned);
        (!self.server_metrics.is_empty()).then(|| named.collect())
    }
}

/// Whether a run has no scenarios.
fn no_scenario(set: &ScenarioSet) -> bool {
    set.scenarios.is_empty()
}
