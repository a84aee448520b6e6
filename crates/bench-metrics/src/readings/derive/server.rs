//! The server's own view: phase times, queue, caches, set beside the client's.

use bench_schema::{ReadingSource, Unit};

use super::{Derived, ratio};
use crate::num::mean;

const SOURCE: ReadingSource = ReadingSource::ServerMetrics;

/// Histogram in readings, and what its figures are called.
const PHASES: [(&str, &str); 10] = [
    ("queue_s", "server_queue"),
    ("prefill_s", "server_prefill"),
    ("decode_s", "server_decode"),
    ("inference_s", "server_inference"),
    ("ttft_s", "server_ttft"),
    ("itl_s", "server_itl"),
    ("tpot_s", "server_tpot"),
    ("e2e_s", "server_e2e"),
    // of whole batches, as TGI has them: a step of decoding is the gap between tokens, but for what lies between steps
    ("prefill_step_s", "server_prefill_step"),
    ("decode_step_s", "server_decode_step"),
];

const NS: f64 = 1e9;

pub(super) fn derive(d: &mut Derived<'_>) {
    phases(d);
    load(d);
    caches(d);
    tokens(d);
    beside_the_client(d);
}

fn phases(d: &mut Derived<'_>) {
    for (histogram, name) in PHASES {
        let Some(delta) = d.history.histogram(histogram, d.windows) else {
            continue;
        };
        let Some(mean) = delta.mean() else {
            d.miss(name, "the server observed none within the window");
            continue;
        };
        d.put(&format!("{name}_mean"), mean * NS, Unit::Ns);
        d.put(&format!("{name}_count"), delta.count, Unit::Count);
        for (q, label) in [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")] {
            let name = format!("{name}_{label}");
            match delta.bracketed(q) {
                Some(quantile) => d.put_quantile(&name, quantile),
                None => d.miss(
                    &name,
                    "it lies beyond the last bound of the server's histogram",
                ),
            }
        }
    }
    // Servers without histograms may have sums: llama.cpp's processing times, Triton's queue time. Means over requests.
    let requests = gained(d, "requests_total").or(d.work.requests);
    for (counter, name) in [
        ("queue_time_s_total", "server_queue_mean"),
        ("prefill_time_s_total", "server_prefill_mean"),
        ("decode_time_s_total", "server_decode_mean"),
        ("request_time_s_total", "server_e2e_mean"),
    ] {
        if d.get(name).is_none() {
            let mean = ratio(gained(d, counter), requests);
            d.put(name, mean.map(|s| s * NS), Unit::Ns);
        }
    }
}

/// Increase of a counter over the window, all replicas together.
fn gained(d: &Derived<'_>, name: &str) -> Option<f64> {
    d.history
        .total_increase(SOURCE, name, d.windows)?
        .over(d.windows)
        .ok()
}

fn load(d: &mut Derived<'_>) {
    for (series, name, unit) in [
        ("running", "running", Unit::Count),
        ("waiting", "waiting", Unit::Count),
        ("kv_cache_share", "kv_cache", Unit::Ratio),
    ] {
        let levels = d.levels(SOURCE, series);
        if levels.is_empty() {
            continue;
        }
        // Replicas' requests add up; of their caches the fullest counts.
        let (mut mean, mut peak) = (0.0_f64, 0.0_f64);
        for level in &levels {
            if unit == Unit::Ratio {
                (mean, peak) = (mean.max(level.mean), peak.max(level.max));
            } else {
                (mean, peak) = (mean + level.mean, peak + level.max);
            }
        }
        d.put(&format!("{name}_mean"), mean, unit);
        d.put(&format!("{name}_peak"), peak, unit);
    }
    let preemptions = gained(d, "preemptions_total");
    d.put("preemptions", preemptions, Unit::Count);
}

fn caches(d: &mut Derived<'_>) {
    let (hits, queries) = (
        gained(d, "prefix_cache_hits_total"),
        gained(d, "prefix_cache_queries_total"),
    );
    // SGLang counts cached tokens against all prompt tokens.
    let rate = ratio(hits, queries.or_else(|| gained(d, "prompt_tokens_total")));
    d.put(
        "prefix_cache_hit_rate",
        rate.map(|r| r.min(1.0)),
        Unit::Ratio,
    );
    if rate.is_none() {
        let shown = d.levels(SOURCE, "prefix_cache_hit_share");
        let shown: Vec<f64> = shown.iter().map(|level| level.mean).collect();
        d.put("prefix_cache_hit_rate", mean(&shown), Unit::Ratio);
    }
    let accepted = ratio(
        gained(d, "accepted_draft_tokens_total"),
        gained(d, "draft_tokens_total"),
    );
    d.put("draft_acceptance_rate", accepted, Unit::Ratio);
}

fn tokens(d: &mut Derived<'_>) {
    for (counter, name) in [
        ("generation_tokens_total", "server_output_tokens_per_s"),
        ("prompt_tokens_total", "server_input_tokens_per_s"),
    ] {
        let rate = ratio(gained(d, counter), Some(d.seconds()));
        d.put(name, rate, Unit::TokensPerS);
    }
    let counted = gained(d, "generation_tokens_total");
    let over = ratio(counted, d.work.output_tokens);
    d.put("server_output_tokens_over_client", over, Unit::Ratio);
}

/// Where the server's mean is far from the client's, one of them measures something else: the network, a proxy, a queue.
fn beside_the_client(d: &mut Derived<'_>) {
    for (server, client, name) in [
        (
            "server_ttft_mean",
            d.work.ttft_mean,
            "server_ttft_over_client",
        ),
        ("server_itl_mean", d.work.itl_mean, "server_itl_over_client"),
        ("server_e2e_mean", d.work.e2e_mean, "server_e2e_over_client"),
    ] {
        let over = ratio(d.get(server), client);
        d.put(name, over, Unit::Ratio);
    }
    let share = ratio(
        d.get("server_queue_mean"),
        d.get("server_e2e_mean").or(d.work.e2e_mean),
    );
    d.put("server_queue_share", share, Unit::Ratio);
}
