//! One experiment point and everything measured at it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Distribution, Factor, FailureKind, Goodput, HardwareSummary, Interval, Load, Metric, Nanos,
    Origin, SloOutcome, Stage, Stamp, StopRule,
};

/// One cell of an experiment: its design and its aggregates.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CellRecord {
    /// Unique in the run, short, usable in a file name: `c8`, `r20-poisson`, `short-x-50`.
    pub id: String,
    /// For people: `concurrency 8`.
    pub label: String,
    /// What distinguishes it from the other cells.
    pub factors: BTreeMap<String, Factor>,
    /// How load was offered.
    pub load: Load,
    /// What ended it.
    pub stop: StopRule,
    /// How often it was repeated.
    pub repeats: u32,
    /// The plan it followed.
    pub plan: PlanRecord,
    /// Origin of the headline latencies: `due` in an open loop, `sent` in a closed one.
    pub headline: Origin,
    /// What became of the planned requests.
    pub counts: Counts,
    /// The windows that rates are taken over. Latency distributions are of the requests that started in the headline window.
    pub windows: WindowRates,
    /// Distributions of the completed requests that were sent in the headline window (all of them where there is no steady one). One
    /// that is another's to the last figure is stored as its name.
    #[serde(with = "crate::stored::metrics")]
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "BTreeMap<Metric, crate::stored::Stored>")
    )]
    pub metrics: BTreeMap<Metric, Distribution>,
    /// The same by use case (`use_case=…`), length category (`category=…`), endpoint (`endpoint=…`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRecord>,
    /// Where the time of a request goes.
    pub phases: Option<PhaseShares>,
    /// Derived figures of this cell.
    pub analysis: CellAnalysis,
    /// What the client knows of itself during this cell.
    pub client: ClientRecord,
    /// Why it was ended before its plan was (nearly all of its requests failed); absent where it was not. Since 1.2.
    pub ended_early: Option<String>,
    /// The kind of failure that ended it early: that of the request which was one failure too many. Absent where it was not ended, and where that request had none, as
    /// one that a time limit ended. Since 1.4.
    pub ended_by: Option<FailureKind>,
    /// What machines and server did.
    pub hardware: Option<HardwareSummary>,
    /// Objectives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slos: Vec<SloOutcome>,
    /// Requests that met every objective; absent where none was set.
    pub goodput: Option<Goodput>,
}

impl CellRecord {
    /// Call the groups by endpoint by their URLs, in the order in which those were given; requests know only the number.
    pub fn name_endpoints(&mut self, urls: &[String]) {
        let number = |group: &GroupRecord| {
            let number = group.name.parse::<usize>().ok();
            number.filter(|_| group.by == "endpoint")
        };
        self.groups
            .sort_by_cached_key(|group| number(group).unwrap_or(0));
        for group in &mut self.groups {
            if let Some(url) = number(group).and_then(|number| urls.get(number)) {
                group.name.clone_from(url);
            }
        }
    }

    /// The distribution of `metric` from the cell's headline origin.
    pub fn headline(&self, metric: Metric) -> Option<&Distribution> {
        self.metrics.get(&metric.from_origin(self.headline))
    }

    /// The distributions of a group. Of one that has all requests of the cell they are the cell's, and are not repeated.
    pub fn metrics_of<'a>(&'a self, group: &'a GroupRecord) -> &'a BTreeMap<Metric, Distribution> {
        if group.metrics.is_empty() && group.is_all_of(&self.counts) {
            &self.metrics
        } else {
            &group.metrics
        }
    }

    /// Rates over the steady window where one was found, else over the whole.
    pub fn headline_rates(&self) -> Option<&Rates> {
        self.windows.steady.as_ref().or(self.windows.whole.as_ref())
    }
}

/// The plan of a cell.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlanRecord {
    /// Sum of the SHA-256 digests of all measured requests and their due times, in hexadecimal (`PlanHash`): the order does not matter,
    /// and shards add up to the whole. Absent where nobody knows it: before a cell was measured, and where it was made again from records.
    #[serde(default, deserialize_with = "unless_empty")]
    pub hash: Option<String>,
    /// Tokens that the server adds to a prompt (chat template), learned before the first cell and taken off the asked lengths; absent
    /// where it was not learned.
    pub template_tokens: Option<u64>,
    /// Measured requests planned, over all repeats; in a closed loop that ends by time, those that were started.
    pub requests: u64,
    /// Where prompts come from, as given.
    pub dataset: String,
    /// How prompt lengths were made: `tokenizer`, `server /tokenize`, `words`.
    pub sized_by: String,
    /// Rate the schedule asks for, requests per second (where the dataset is of conversations, conversations per second); absent in a closed loop.
    pub requested_rate_per_s: Option<f64>,
    /// Rate at which requests were really sent.
    pub offered_rate_per_s: Option<f64>,
    /// Kolmogorov–Smirnov distance between planned and real gaps; absent in a closed loop.
    pub gaps_ks: Option<f64>,
}

/// What the rate of an open loop counts with a dataset, as given: one of conversations begins so many a second, whatever their turns.
pub fn rate_unit(dataset: &str) -> &'static str {
    match dataset.split(':').next() {
        Some("multiturn" | "sharegpt-turns") => "conversations/s",
        _ => "req/s",
    }
}

/// Results of before wrote an empty text for what they did not know.
fn unless_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// What became of the planned requests: `planned` is always the sum of the rest, warm-up apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// All measured requests of the plan.
    pub planned: u64,
    /// Whole answers.
    pub completed: u64,
    /// Failures of the server or network.
    pub failed: u64,
    /// The client's limits.
    pub timed_out: u64,
    /// Streams that just ended.
    pub truncated: u64,
    /// Stopped on purpose.
    pub cancelled: u64,
    /// Never sent.
    pub unsent: u64,
    /// Requests before the measurement, not in `planned`.
    pub warmup: u64,
    /// Requests sent again because retries were asked for.
    #[serde(default)]
    pub retried: u64,
    /// Refusals after which a slot of a closed loop left the server alone: it was overloaded or away (429, 503, refused). Since 1.2.
    #[serde(default)]
    pub backed_off: u64,
    /// Closed keep-alive connections that were replaced before a byte of the answer.
    #[serde(default)]
    pub replaced_connections: u64,
    /// Failures by stage and kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<(Stage, FailureKind, u64)>,
    /// Time-outs by stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeouts: Vec<(Stage, u64)>,
    /// The first messages of failures, each with its count, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<(String, u64)>,
}

/// One of the counts of requests.
pub type CountOf = fn(&Counts) -> u64;

impl Counts {
    /// What can become of a planned request: its name as stored, and how many.
    pub const ENDS: [(&'static str, CountOf); 6] = [
        ("completed", |c| c.completed),
        ("failed", |c| c.failed),
        ("timed_out", |c| c.timed_out),
        ("truncated", |c| c.truncated),
        ("cancelled", |c| c.cancelled),
        ("unsent", |c| c.unsent),
    ];

    /// Whether every planned request is accounted for.
    pub fn add_up(&self) -> bool {
        let mut ends = Self::ENDS.iter().map(|(_, of)| of(self));
        ends.try_fold(0_u64, u64::checked_add) == Some(self.planned)
    }

    /// Requests that were sent and went wrong: failed, timed out, truncated.
    pub fn went_wrong(&self) -> u64 {
        self.failed + self.timed_out + self.truncated
    }

    /// Requests without a whole answer, but for those that the client stopped on purpose.
    pub fn lost(&self) -> u64 {
        self.without_answer().saturating_sub(self.cancelled)
    }

    /// Requests without a whole answer that were sent or should have been.
    pub fn without_answer(&self) -> u64 {
        self.planned.saturating_sub(self.completed)
    }
}

/// A span of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Its start.
    pub from: Stamp,
    /// Its end.
    pub to: Stamp,
}

impl Window {
    /// Its length.
    pub fn length(&self) -> Nanos {
        self.to - self.from
    }

    /// Whether `at` lies within it; the end belongs to the next one.
    pub fn contains(&self, at: Stamp) -> bool {
        self.from <= at && at < self.to
    }
}

/// Rates over the windows of a cell.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct WindowRates {
    /// First due to last end, requests that never connected included.
    pub whole: Option<Rates>,
    /// The part in which a closed loop's load was whole; the headline where it exists, and there only where it holds more than 80 % of
    /// the requests.
    pub steady: Option<Rates>,
    /// Whether the steady part is stationary, or why there is none.
    pub stationarity: Option<Stationarity>,
}

/// The outcome of looking for a steady part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Stationarity {
    /// Whether no trend was found in it; absent where it could not be tested, or where nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stationary: Option<bool>,
    /// How the window was found, or why there is none.
    pub reason: String,
}

/// What fell inside a window, over its length.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// The window. With repeats, of the first; lengths are summed.
    pub window: Window,
    /// Its length in seconds, over all repeats.
    pub seconds: f64,
    /// Requests that started in it, those without an answer included: the population of every table over this window. Since 2.0.
    pub requests: Option<u64>,
    /// Completed requests per second: in the steady part of a closed loop by Little's law, in an open loop what was served, else completions over
    /// the window. Absent where an open loop's answers take longer than load was offered: then no part of the window shows what its rate makes of the server.
    pub requests_per_s: Option<f64>,
    /// Interval of it.
    pub requests_per_s_interval: Option<Interval>,
    /// Open loop: requests due per second, from the first due to the last. Since 2.0.
    pub offered_requests_per_s: Option<f64>,
    /// Open loop: the same requests' completions per second, followed to their ends: what was offered over one plus the growth of the time that they
    /// take, times the share that completed; lower than what was offered where the queue grew. Absent where nobody can tell whether it grew. Since 2.0.
    pub served_requests_per_s: Option<f64>,
    /// Output tokens per second; absent where token counts are unknown, or requests per second are.
    pub output_tokens_per_s: Option<f64>,
    /// Interval of it.
    pub output_tokens_per_s_interval: Option<Interval>,
    /// Input and output tokens per second.
    pub total_tokens_per_s: Option<f64>,
    /// Content events per second.
    pub chunks_per_s: f64,
    /// Time-weighted mean of requests in flight.
    pub mean_in_flight: f64,
    /// Most requests in flight.
    pub peak_in_flight: u64,
}

/// The requests of a cell that share a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupRecord {
    /// What they are grouped by, one of [`GroupRecord::LABELS`].
    pub by: String,
    /// The label; of an endpoint its URL.
    pub name: String,
    /// What became of them.
    pub counts: Counts,
    /// Their distributions: latencies from the origin of the headline, speed and lengths. Left out of a group that has all requests of its cell, whose own
    /// they are ([`CellRecord::metrics_of`]).
    #[serde(
        default,
        with = "crate::stored::metrics",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "BTreeMap<Metric, crate::stored::Stored>")
    )]
    pub metrics: BTreeMap<Metric, Distribution>,
    /// Objectives that are for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slos: Vec<SloOutcome>,
}

impl GroupRecord {
    /// The names of the labels that requests are grouped by.
    pub const LABELS: [&str; 4] = ["use_case", "category", "endpoint", "turn"];

    /// Whether it has every request that a cell with these counts has on record.
    pub fn is_all_of(&self, cell: &Counts) -> bool {
        let ended = |counts: &Counts| {
            [
                counts.completed,
                counts.failed,
                counts.timed_out,
                counts.truncated,
                counts.unsent,
            ]
        };
        ended(&self.counts) == ended(cell)
    }
}

/// Shares of the mean response time (from the headline origin); they sum to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PhaseShares {
    /// Waiting: in the client past due, and in the server's queue where known.
    pub queue: f64,
    /// From then to the first content event.
    pub prefill: f64,
    /// First to last content event.
    pub decode: f64,
    /// Where the queue time comes from: `response`, `server_metrics`, `estimate`, `none`.
    pub queue_source: String,
    /// Queue against generation per percentile: q, queue ns, generation ns, of the requests around that percentile of E2E.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_percentile: Vec<(f64, f64, f64)>,
}

impl PhaseShares {
    /// Whether the server itself tells its queue time, request by request or on average.
    pub fn queue_is_told(&self) -> bool {
        matches!(self.queue_source.as_str(), "response" | "server_metrics")
    }

    /// What `prefill` is the share of: where nothing tells the time in the server's queue, that is in it.
    pub fn first_phase(&self) -> &'static str {
        match self.queue_source.as_str() {
            "none" => "queue or prefill",
            // By the server's own times, something in between keeps first tokens back.
            "held_back" => "before the first token",
            _ => "prefill",
        }
    }
}

/// Figures that relate a cell to itself and to its baseline.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CellAnalysis {
    /// How each rule of `--precision` came out. Since 2.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precision: Vec<PrecisionOutcome>,
    /// Mean in flight by Little's law (arrival rate × mean E2E) over the measured one; absent where fewer than 20 waves make it a
    /// matter of where the window was cut.
    pub littles_law_ratio: Option<f64>,
    /// Mean of (E2E − TTFT − (n−1)·ITL) / E2E.
    pub decode_identity_residual: Option<f64>,
    /// P95 over P50 of E2E.
    pub tail_ratio: Option<f64>,
    /// Milliseconds of E2E per output token (mean over mean).
    pub ms_per_token: Option<f64>,
    /// Spread between repeats: sd of the repeats' mean E2E over their mean; absent for one repeat.
    pub between_repeats_cov: Option<f64>,
}

/// How well a figure is known whose precision was asked for.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PrecisionOutcome {
    /// The rule as written: `p99:ttft=5%`.
    pub rule: String,
    /// Whether it was met when the cell ended, or at the look that ended it.
    pub reached: bool,
    /// Relative half-width of the interval; absent where it has an open end.
    pub half_width: Option<f64>,
    /// About how many requests it would take in all; absent where the data cannot say.
    pub needed: Option<u64>,
}

/// What the client knows of itself.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClientRecord {
    /// Read-return minus arrival, over content events.
    pub lag: Option<LagRecord>,
    /// The longest pause that a worker made on purpose before it read (late reading), a part of the lag; absent where it made none.
    /// Since 1.1.
    pub pause: Option<Nanos>,
    /// Time in which something that had arrived waited for 20 ms or more to be read, and nothing was read, each instant once; absent where nothing did.
    /// Since 2.0.
    pub behind: Option<Nanos>,
    /// How exact the stamps are.
    pub stamps: Option<StampRecord>,
    /// CPU seconds of the worker threads.
    pub cpu_seconds: Option<f64>,
    /// The busiest worker thread's CPU time over wall time, 0 to 1.
    pub busiest_worker: Option<f64>,
    /// Time the worker threads were runnable but not running, over their wall time (`schedstat`'s second field).
    pub run_queue_wait: Option<f64>,
    /// Worker threads.
    pub workers: u32,
    /// Requests refused by the in-flight cap.
    #[serde(default)]
    pub cap_hits: u64,
    /// Requests that were due when none was ready: prompts were not made fast enough. Absent where it was not counted. Since 1.2.
    pub starved: Option<u64>,
    /// CPU seconds per million content events.
    pub cpu_seconds_per_million_events: Option<f64>,
    /// Steps of the real-time clock against the monotonic one that were noticed, nanoseconds, the largest.
    pub clock_step: Option<Nanos>,
}

impl ClientRecord {
    /// Several clients as one, without what single requests tell: costs and counts add up, of shares the worst counts.
    #[must_use]
    pub fn of_all(all: &[&Self]) -> Self {
        let worst = |field: fn(&Self) -> Option<f64>| {
            let known = all.iter().filter_map(|client| field(client));
            known.reduce(f64::max)
        };
        let starved = all.iter().filter_map(|client| client.starved);
        Self {
            cpu_seconds: all.iter().map(|client| client.cpu_seconds).sum(),
            busiest_worker: worst(|client| client.busiest_worker),
            run_queue_wait: worst(|client| client.run_queue_wait),
            workers: all.iter().map(|client| client.workers).sum(),
            cap_hits: all.iter().map(|client| client.cap_hits).sum(),
            starved: starved.reduce(u64::saturating_add),
            clock_step: all
                .iter()
                .filter_map(|client| client.clock_step)
                .max_by_key(|step| step.get().abs()),
            ..Self::default()
        }
    }
}

/// Distribution of the client's own lag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LagRecord {
    /// Events.
    pub n: u64,
    /// Median.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Largest.
    pub max: Nanos,
}

/// How exact the stamps of content events are.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StampRecord {
    /// Events.
    pub n: u64,
    /// Events whose stamp is a bound.
    pub bounded: u64,
    /// Median width of those bounds; absent where all are exact.
    pub width_p50: Option<Nanos>,
    /// 99th percentile of the width.
    pub width_p99: Option<Nanos>,
}
