//! The engine's own figures, in vLLM's Prometheus names, so that everything a real server offers can be exercised.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::config::Limits;

/// Counters, gauges and histograms of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    running: AtomicI64,
    waiting: AtomicI64,
    /// Parts per million of the KV blocks in use.
    kv_ppm: AtomicU64,
    pub(crate) preemptions: AtomicU64,
    pub(crate) prefix_queries: AtomicU64,
    pub(crate) prefix_hits: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) generation_tokens: AtomicU64,
    finished_stop: AtomicU64,
    finished_length: AtomicU64,
    finished_abort: AtomicU64,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

/// Seconds; the buckets that vLLM uses for the same names.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0,
];
const ITL: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
    5.0, 10.0,
];
const REQUEST: &[f64] = &[
    0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0,
    60.0, 120.0, 240.0,
];

impl Default for Times {
    fn default() -> Self {
        Self {
            ttft: Histogram::new(TTFT),
            itl: Histogram::new(ITL),
            e2e: Histogram::new(REQUEST),
            queue: Histogram::new(REQUEST),
            prefill: Histogram::new(REQUEST),
            decode: Histogram::new(REQUEST),
        }
    }
}

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// One more than the bounds: the last is what lies beyond.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    fn add(&mut self, seconds: f64, times: u64) {
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[at] += times;
        self.sum += seconds * times as f64;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut total = 0;
        for (at, count) in self.counts.iter().enumerate() {
            total += count;
            let bound = self
                .bounds
                .get(at)
                .map_or_else(|| "+Inf".to_owned(), |b| format!("{b:?}"));
            writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}").ok();
        }
        writeln!(out, "{name}_sum{{{labels}}} {:?}", self.sum).ok();
        writeln!(out, "{name}_count{{{labels}}} {total}").ok();
    }
}

/// The phases of one request that is over.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit belongs to the name of every instant"
)]
pub(crate) struct Phases {
    pub(crate) arrived_ns: u64,
    pub(crate) scheduled_ns: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

impl Phases {
    /// Time in the queue, ns.
    pub(crate) fn queue(&self) -> u64 {
        self.scheduled_ns.saturating_sub(self.arrived_ns)
    }

    /// From being taken up to the first token, ns.
    pub(crate) fn prefill(&self) -> u64 {
        self.first_ns.saturating_sub(self.scheduled_ns)
    }

    /// From the first token to the last, ns.
    pub(crate) fn decode(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

impl Metrics {
    pub(crate) fn waiting(&self) -> usize {
        usize::try_from(self.waiting.load(Relaxed)).unwrap_or(0)
    }

    pub(crate) fn set_kv_use(&self, used: usize, of: usize) {
        self.kv_ppm
            .store((used as u64 * 1_000_000) / (of.max(1) as u64), Relaxed);
    }

    pub(crate) fn first_token(&self, seconds_after: f64) {
        self.times.lock().ttft.add(seconds_after, 1);
    }

    pub(crate) fn gap(&self, ns: u64, tokens: u32) {
        let each = ns as f64 / 1e9 / f64::from(tokens.max(1));
        self.times.lock().itl.add(each, u64::from(tokens));
    }

    pub(crate) fn request_over(&self, phases: Phases, finish: Option<crate::engine::Finish>) {
        use crate::engine::Finish;
        let counter = match finish {
            Some(Finish::Stop) => &self.finished_stop,
            Some(Finish::Length) => &self.finished_length,
            None => &self.finished_abort,
        };
        counter.fetch_add(1, Relaxed);
        if finish.is_none() {
            return;
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut times = self.times.lock();
        let whole = phases.last_ns.saturating_sub(phases.arrived_ns);
        times.e2e.add(seconds(whole), 1);
        times.queue.add(seconds(phases.queue()), 1);
        times.prefill.add(seconds(phases.prefill()), 1);
        times.decode.add(seconds(phases.decode()), 1);
    }

    /// The page that `GET /metrics` answers.
    pub(crate) fn page(&self, model: &str) -> String {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"");
        let labels = format!("model_name=\"{model}\",engine=\"0\"");
        let gauge = |of: &AtomicI64| Shown::Number(of.load(Relaxed) as f64);
        let counter = |of: &AtomicU64| Shown::Number(of.load(Relaxed) as f64);
        let times = self.times.lock();
        let shown = [
            gauge(&self.running),
            gauge(&self.waiting),
            Shown::Number(self.kv_ppm.load(Relaxed) as f64 / 1e6),
            counter(&self.preemptions),
            counter(&self.prefix_queries),
            counter(&self.prefix_hits),
            counter(&self.prompt_tokens),
            counter(&self.generation_tokens),
            Shown::ByReason([
                ("stop", &self.finished_stop),
                ("length", &self.finished_length),
                ("abort", &self.finished_abort),
            ]),
            Shown::Times(&times.ttft),
            Shown::Times(&times.itl),
            Shown::Times(&times.e2e),
            Shown::Times(&times.queue),
            Shown::Times(&times.prefill),
            Shown::Times(&times.decode),
        ];
        let mut out = String::with_capacity(8192);
        for (family, shown) in FAMILIES.lines().zip(shown) {
            let (kind, family) = family.split_once(' ').unwrap_or_default();
            let (name, help) = family.split_once(' ').unwrap_or_default();
            writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}").ok();
            match shown {
                Shown::Number(value) => {
                    writeln!(out, "vllm:{name}{{{labels}}} {value:?}").ok();
                }
                Shown::ByReason(counts) => {
                    for (reason, count) in counts {
                        let count = count.load(Relaxed) as f64;
                        let labels = format!("{labels},finished_reason=\"{reason}\"");
                        writeln!(out, "vllm:{name}{{{labels}}} {count:?}").ok();
                    }
                }
                Shown::Times(times) => times.write(&mut out, &format!("vllm:{name}"), &labels),
            }
        }
        out
    }
}

/// What the page shows, line by line: kind, name and help, all as vLLM has them.
const FAMILIES: &str = "\
gauge num_requests_running Number of requests in model execution batches.
gauge num_requests_waiting Number of requests waiting to be processed.
gauge kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
counter num_preemptions_total Cumulative number of preemptions.
counter prefix_cache_queries_total Prefix cache queries, in queried tokens.
counter prefix_cache_hits_total Prefix cache hits, in cached tokens.
counter prompt_tokens_total Number of prefill tokens processed.
counter generation_tokens_total Number of generation tokens processed.
counter request_success_total Count of successfully processed requests.
histogram time_to_first_token_seconds Histogram of time to first token in seconds.
histogram inter_token_latency_seconds Histogram of inter-token latency in seconds.
histogram e2e_request_latency_seconds Histogram of e2e request latency in seconds.
histogram request_queue_time_seconds Histogram of time spent in WAITING phase for request.
histogram request_prefill_time_seconds Histogram of time spent in PREFILL phase for request.
histogram request_decode_time_seconds Histogram of time spent in DECODE phase for request.
";

/// A scheduler's limits, as labels of a metric that is there for them.
pub(crate) fn limits_info(limits: &Limits) -> String {
    let name = "bench_engine:scheduler_config_info";
    let told = [
        ("block_size", limits.block_size.to_string()),
        (
            "enable_chunked_prefill",
            limits.enable_chunked_prefill.to_string(),
        ),
        (
            "enable_prefix_caching",
            limits.enable_prefix_caching.to_string(),
        ),
        (
            "max_num_batched_tokens",
            limits.max_num_batched_tokens.to_string(),
        ),
        ("max_num_seqs", limits.max_num_seqs.to_string()),
        ("num_blocks", limits.num_blocks.to_string()),
    ];
    let labels = told.map(|(key, value)| format!("{key}=\"{value}\""));
    let labels = labels.join(",");
    format!("# HELP {name} Limits of the scheduler.\n# TYPE {name} gauge\n{name}{{{labels}}} 1.0\n")
}

/// What stands under a family's name, in the order of [`FAMILIES`].
enum Shown<'a> {
    Number(f64),
    ByReason([(&'static str, &'a AtomicU64); 3]),
    Times(&'a Histogram),
}

/// Counts a sequence as waiting, then running, until it is dropped.
#[derive(Debug)]
pub(crate) struct Occupancy {
    metrics: Arc<Metrics>,
    running: bool,
}

impl Occupancy {
    pub(crate) fn waiting(metrics: &Arc<Metrics>) -> Self {
        metrics.waiting.fetch_add(1, Relaxed);
        Self {
            metrics: Arc::clone(metrics),
            running: false,
        }
    }

    /// It was taken up.
    pub(crate) fn run(&mut self) {
        if !self.running {
            self.running = true;
            self.metrics.waiting.fetch_sub(1, Relaxed);
            self.metrics.running.fetch_add(1, Relaxed);
        }
    }

    /// How many sequences run now.
    pub(crate) fn running(&self) -> usize {
        usize::try_from(self.metrics.running.load(Relaxed)).unwrap_or(0)
    }

    /// It was put back.
    pub(crate) fn wait(&mut self) {
        if self.running {
            self.running = false;
            self.metrics.running.fetch_sub(1, Relaxed);
            self.metrics.waiting.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        let gauge = if self.running {
            &self.metrics.running
        } else {
            &self.metrics.waiting
        };
        gauge.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
#[path = "../tests/unit/metrics.rs"]
mod tests;
