//! The engine's own figures, in vLLM's Prometheus names, so that everything a real server offers can be exercised.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

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

impl Times {
    fn all(&self) -> [(&'static str, &'static str, &Histogram); 6] {
        [
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &self.ttft,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                &self.itl,
            ),
            (
                "e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                &self.e2e,
            ),
            (
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                &self.queue,
            ),
            (
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                &self.prefill,
            ),
            (
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                &self.decode,
            ),
        ]
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

impl Metrics {
    /// Sequences that wait.
    pub(crate) fn waiting(&self) -> usize {
        usize::try_from(self.waiting.load(Relaxed)).unwrap_or(0)
    }

    pub(crate) fn set_kv_use(&self, used: usize, of: usize) {
        self.kv_ppm
            .store((used as u64 * 1_000_000) / (of.max(1) as u64), Relaxed);
    }

    pub(crate) fn first_token(&self, seconds_after: f64) {
        self.times().ttft.add(seconds_after, 1);
    }

    pub(crate) fn gap(&self, ns: u64, tokens: u32) {
        let each = ns as f64 / 1e9 / f64::from(tokens.max(1));
        self.times().itl.add(each, u64::from(tokens));
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
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let mut times = self.times();
        times.e2e.add(seconds(phases.arrived_ns, phases.last_ns), 1);
        times
            .queue
            .add(seconds(phases.arrived_ns, phases.scheduled_ns), 1);
        times
            .prefill
            .add(seconds(phases.scheduled_ns, phases.first_ns), 1);
        times
            .decode
            .add(seconds(phases.first_ns, phases.last_ns), 1);
    }

    /// The page that `GET /metrics` answers.
    pub(crate) fn page(&self, model: &str) -> String {
        let mut out = String::with_capacity(8192);
        let label = format!(
            "model_name=\"{}\",engine=\"0\"",
            model.replace('\\', "\\\\").replace('"', "\\\"")
        );
        for (name, help, value) in self.gauges() {
            head(&mut out, name, help, "gauge");
            writeln!(out, "vllm:{name}{{{label}}} {value:?}").ok();
        }
        for (name, help, value) in self.counters() {
            head(&mut out, name, help, "counter");
            writeln!(
                out,
                "vllm:{name}{{{label}}} {:?}",
                value.load(Relaxed) as f64
            )
            .ok();
        }
        head(
            &mut out,
            "request_success_total",
            "Count of successfully processed requests.",
            "counter",
        );
        let reasons = [
            ("stop", &self.finished_stop),
            ("length", &self.finished_length),
            ("abort", &self.finished_abort),
        ];
        for (reason, value) in reasons {
            let value = value.load(Relaxed) as f64;
            writeln!(
                out,
                "vllm:request_success_total{{{label},finished_reason=\"{reason}\"}} {value:?}"
            )
            .ok();
        }
        let times = self.times();
        for (name, help, histogram) in times.all() {
            head(&mut out, name, help, "histogram");
            histogram.write(&mut out, &format!("vllm:{name}"), &label);
        }
        out
    }

    fn gauges(&self) -> [(&'static str, &'static str, f64); 3] {
        let running = self.running.load(Relaxed) as f64;
        let waiting = self.waiting.load(Relaxed) as f64;
        let kv = self.kv_ppm.load(Relaxed) as f64 / 1e6;
        [
            (
                "num_requests_running",
                "Number of requests in model execution batches.",
                running,
            ),
            (
                "num_requests_waiting",
                "Number of requests waiting to be processed.",
                waiting,
            ),
            (
                "kv_cache_usage_perc",
                "KV-cache usage. 1 means 100 percent usage.",
                kv,
            ),
        ]
    }

    fn counters(&self) -> [(&'static str, &'static str, &AtomicU64); 5] {
        [
            (
                "num_preemptions_total",
                "Cumulative number of preemptions.",
                &self.preemptions,
            ),
            (
                "prefix_cache_queries_total",
                "Prefix cache queries, in queried tokens.",
                &self.prefix_queries,
            ),
            (
                "prefix_cache_hits_total",
                "Prefix cache hits, in cached tokens.",
                &self.prefix_hits,
            ),
            (
                "prompt_tokens_total",
                "Number of prefill tokens processed.",
                &self.prompt_tokens,
            ),
            (
                "generation_tokens_total",
                "Number of generation tokens processed.",
                &self.generation_tokens,
            ),
        ]
    }

    fn times(&self) -> std::sync::MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}").ok();
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
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_cumulative_buckets_that_end_at_the_count() {
        let metrics = Arc::new(Metrics::default());
        metrics.first_token(0.03);
        metrics.first_token(0.3);
        metrics.first_token(100.0);
        let page = metrics.page("m\"1");
        assert!(page.contains("vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"0.04\"} 1"));
        assert!(page.contains("le=\"0.5\"} 2"));
        assert!(page.contains("vllm:time_to_first_token_seconds_bucket{model_name=\"m\\\"1\",engine=\"0\",le=\"+Inf\"} 3"));
        assert!(page.contains(
            "vllm:time_to_first_token_seconds_count{model_name=\"m\\\"1\",engine=\"0\"} 3"
        ));
    }

    #[test]
    fn a_sequence_is_counted_once_wherever_it_is() {
        let metrics = Arc::new(Metrics::default());
        let mut sequence = Occupancy::waiting(&metrics);
        sequence.run();
        sequence.run();
        assert_eq!(
            (metrics.waiting.load(Relaxed), metrics.running.load(Relaxed)),
            (0, 1)
        );
        sequence.wait();
        drop(sequence);
        assert_eq!(
            (metrics.waiting.load(Relaxed), metrics.running.load(Relaxed)),
            (0, 0)
        );
    }
}
