//! What single requests over time tell: the behaviour described in "Graph Analysis and Optimization Directions" (fixture
//! `regimes.json`: its ranges, since that document prints no table).
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use bench_insight::{CellSamples, RequestSample, findings};
use bench_schema::{Distribution, Finding, Metric, Nanos, Quantile, RunRecord, Stamp, Unit};
use serde::Deserialize;

#[path = "seeds/load.rs"]
mod load;

#[derive(Deserialize)]
struct Ranges {
    p95_low_mode: [f64; 2],
    p95_typical: [f64; 2],
    p95_high_mode: [f64; 2],
    p99_spikes: [f64; 2],
}

fn ranges() -> Ranges {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/seeds/regimes.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A value within a range, without a pattern that follows `i`.
fn within([low, high]: [f64; 2], i: u32) -> f64 {
    low + (high - low) * f64::from(i.wrapping_mul(2_654_435_761) % 997) / 997.0
}

fn request(at_s: f64, ttft_s: f64, input: u64) -> RequestSample {
    let start = Stamp::EPOCH + Nanos::from_secs_f64(at_s);
    RequestSample {
        start,
        end: start + Nanos::from_secs_f64(ttft_s + 1.0),
        ttft: Some(ttft_s * 1e9),
        tpot: Some(1e7),
        e2e: (ttft_s + 1.0) * 1e9,
        input_tokens: Some(input),
        output_tokens: Some(101),
        use_case: None,
        ..RequestSample::default()
    }
}

/// A run of one cell, `c16` of the production test, with these requests.
fn run_with(requests: Vec<RequestSample>) -> (RunRecord, Vec<CellSamples>) {
    let mut run = load::run("week2-production");
    run.cells.remove(0);
    run.cells[0].groups.clear();
    (
        run,
        vec![CellSamples {
            cell: "c16".to_owned(),
            requests,
        }],
    )
}

fn one<'a>(all: &'a [Finding], code: &str) -> &'a Finding {
    all.iter().find(|f| f.code == code).unwrap_or_else(|| {
        panic!(
            "no `{code}` among {:?}",
            all.iter().map(|f| &f.code).collect::<Vec<_>>()
        )
    })
}

#[test]
fn graph_b_a_low_and_a_high_mode_are_found_with_their_places() {
    let ranges = ranges();
    let requests = (0..300)
        .map(|i| {
            // Stress comes in short spells, several times.
            let stressed = i / 12 % 3 == 2;
            let range = if stressed {
                ranges.p95_high_mode
            } else {
                ranges.p95_low_mode
            };
            request(f64::from(i), within(range, i), 100)
        })
        .collect();
    let (run, samples) = run_with(requests);
    let all = findings(&run, &samples);
    let modes = one(&all, "several_regimes");
    assert!(modes.claim.contains("TTFT has 2 modes"), "{}", modes.claim);
    let places: Vec<f64> = modes
        .evidence
        .iter()
        .filter(|e| e.name == "mode")
        .map(|e| e.value / 1e3)
        .collect();
    assert!(
        (4.5..8.0).contains(&places[0]) && (38.0..47.0).contains(&places[1]),
        "{places:?}"
    );
    assert!(
        modes
            .hypothesis
            .as_deref()
            .is_some_and(|why| why.contains("stressed"))
    );
}

#[test]
fn modes_that_two_kinds_of_requests_explain_are_no_alarm() {
    let requests = (0..300)
        .map(|i| {
            let long = i % 3 == 0;
            let ttft = if long {
                within([2.0, 2.2], i)
            } else {
                within([0.2, 0.22], i)
            };
            request(f64::from(i), ttft, if long { 4000 } else { 100 })
        })
        .collect();
    let (run, samples) = run_with(requests);
    let modes = findings(&run, &samples);
    let modes = one(&modes, "several_regimes");
    assert!(
        modes.severity < 0.3
            && modes
                .hypothesis
                .as_deref()
                .is_some_and(|why| why.contains("kinds of requests"))
    );
}

#[test]
fn graph_b_a_change_of_regime_is_told_with_its_time_span() {
    let ranges = ranges();
    let requests = (0..200)
        .map(|i| {
            let range = if i < 120 {
                ranges.p95_low_mode
            } else {
                ranges.p95_high_mode
            };
            request(f64::from(i), within(range, i), 100)
        })
        .collect();
    let (run, samples) = run_with(requests);
    let all = findings(&run, &samples);
    let change = one(&all, "regime_change");
    assert!(
        change.claim.contains("TTFT changes level") && change.claim.contains("from 0.0 to 120"),
        "{}",
        change.claim
    );
}

#[test]
fn a_slow_start_is_called_one() {
    let requests = (0..200)
        .map(|i| {
            request(
                f64::from(i),
                within(if i < 20 { [4.0, 4.4] } else { [1.0, 1.1] }, i),
                100,
            )
        })
        .collect();
    let (run, samples) = run_with(requests);
    let all = findings(&run, &samples);
    assert!(one(&all, "regime_change").actions[0].contains("--warmup"));
}

fn distribution(unit: Unit, scale: f64, quantiles: &[(f64, f64)]) -> Distribution {
    let value = |i: usize| quantiles[i].1 * scale;
    Distribution {
        unit,
        n: 2000,
        effective_n: None,
        mean: value(0),
        mean_interval: None,
        sd: None,
        cov: None,
        min: value(0) / 2.0,
        max: value(quantiles.len() - 1),
        quantiles: quantiles
            .iter()
            .map(|(q, v)| Quantile {
                q: *q,
                value: v * scale,
                interval: None,
                few_samples: false,
                at_least: None,
                at_most: None,
            })
            .collect(),
        with_failures: None,
        bounded_share: None,
        resolution: None,
    }
}

#[test]
fn graph_c_a_p99_next_to_the_p95_is_a_persistent_worst_case() {
    let ranges = ranges();
    let (mut run, _) = run_with(Vec::new());
    let (p50, p95, p99) = (
        ranges.p95_typical[0],
        ranges.p95_high_mode[1],
        ranges.p99_spikes[0],
    );
    let e2e = distribution(Unit::Ns, 1e9, &[(0.5, p50), (0.95, p95), (0.99, p99)]);
    run.cells[0].metrics.insert(Metric::E2e, e2e);
    let all = findings(&run, &[]);
    let worst = one(&all, "persistent_worst_case");
    assert!(
        worst.claim.contains("P99 45.0 s")
            && worst
                .hypothesis
                .as_deref()
                .is_some_and(|why| why.contains("head-of-line"))
    );
}

#[test]
fn graphs_a_and_d_low_typical_speed_with_rare_spikes_is_a_degraded_regime() {
    let (mut run, _) = run_with(Vec::new());
    let speed = distribution(
        Unit::TokensPerS,
        1.0,
        &[(0.5, 12.0), (0.95, 20.0), (0.99, 90.0)],
    );
    run.cells[0].metrics.insert(Metric::TokensPerSUser, speed);
    let all = findings(&run, &[]);
    let low = one(&all, "degraded_regime");
    assert!(
        low.claim.contains("12.0 tokens/s at the median, 90.0"),
        "{}",
        low.claim
    );
    // The document's hypotheses for the model that is slow but for rare spikes.
    for parameter in [
        "quantization",
        "tensor_parallel_size",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
    ] {
        assert!(
            low.actions.iter().any(|a| a.starts_with(parameter)),
            "{parameter}: {:?}",
            low.actions
        );
    }
}

#[test]
fn short_requests_behind_long_prompts_are_head_of_line_blocking() {
    let mut requests = Vec::new();
    for i in 0..40_u32 {
        let at = f64::from(i) * 10.0;
        requests.push(request(at, 4.0, 8000));
        for k in 0..3 {
            requests.push(request(
                at + 1.0 + f64::from(k) * 0.5,
                within([2.0, 2.5], i * 7 + k),
                100,
            ));
        }
        for k in 0..3 {
            requests.push(request(
                at + 5.0 + f64::from(k),
                within([0.1, 0.12], i * 7 + k),
                100,
            ));
        }
    }
    let (run, samples) = run_with(requests);
    let all = findings(&run, &samples);
    let blocked = one(&all, "head_of_line");
    assert!(blocked.actions[0].starts_with("enable_chunked_prefill"));
    assert!(blocked.claim.contains("while one is in prefill"));
}
