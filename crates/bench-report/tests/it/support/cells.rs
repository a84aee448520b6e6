//! Cells from a few figures.

use std::collections::BTreeMap;

use bench_schema::*;

/// z of a quantile, good to a few percent: enough for figures that look like measurements.
fn z(q: f64) -> f64 {
    let t = (-2.0 * (1.0 - q).min(q).ln()).sqrt();
    let z = t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t);
    if q < 0.5 { -z } else { z }
}

/// A log-normal sample of `n` with this median and 95th percentile, in `unit`.
pub(crate) fn distribution(unit: Unit, n: u64, p50: f64, p95: f64) -> Distribution {
    let sigma = (p95 / p50).ln() / z(0.95);
    let at = |q: f64| p50 * (sigma * z(q)).exp();
    let mean = p50 * (sigma * sigma / 2.0).exp();
    let sd = mean * ((sigma * sigma).exp() - 1.0).sqrt();
    let half = 1.96 * sd / (n as f64).sqrt();
    let quantiles = [0.5, 0.9, 0.95, 0.99, 0.999].map(|q: f64| {
        let value = if (q - 0.5).abs() < 1e-9 {
            p50
        } else if (q - 0.95).abs() < 1e-9 {
            p95
        } else {
            at(q)
        };
        let spread = value * sigma * 2.0 / (n as f64 * (1.0 - q)).sqrt().max(1.0);
        Quantile {
            q,
            value,
            interval: Some(Interval {
                low: value - spread,
                high: value + spread,
                confidence: 0.95,
            }),
            few_samples: (n as f64) < 10.0 / (1.0 - q) - 1e-6,
            at_least: None,
            at_most: None,
        }
    });
    Distribution {
        unit,
        n,
        effective_n: None,
        mean,
        mean_interval: Some(Interval {
            low: mean - half,
            high: mean + half,
            confidence: 0.95,
        }),
        sd: Some(sd),
        cov: Some(sd / mean),
        min: at(0.5 / n as f64),
        max: at(1.0 - 0.5 / n as f64),
        quantiles: quantiles.to_vec(),
        with_failures: None,
        bounded_share: None,
        resolution: None,
    }
}

/// Milliseconds, as nanoseconds.
pub(crate) fn ms(n: u64, p50: f64, p95: f64) -> Distribution {
    distribution(Unit::Ns, n, p50 * 1e6, p95 * 1e6)
}

pub(crate) fn counts(planned: u64) -> Counts {
    Counts {
        planned,
        completed: planned,
        warmup: 4,
        ..Counts::default()
    }
}

/// A closed-loop cell over a window, without figures.
pub(crate) fn cell(id: &str, label: &str, load: Load, window: (f64, f64), n: u64) -> CellRecord {
    let headline = if load.is_open() {
        Origin::Due
    } else {
        Origin::Sent
    };
    let window = Window {
        from: seconds(window.0),
        to: seconds(window.1),
    };
    CellRecord {
        id: id.into(),
        label: label.into(),
        factors: BTreeMap::new(),
        load,
        stop: StopRule {
            requests: Some(n),
            ..StopRule::default()
        },
        repeats: 1,
        plan: PlanRecord {
            hash: Some("0".repeat(64)),
            requests: n,
            dataset: "random".into(),
            sized_by: "server /tokenize".into(),
            ..PlanRecord::default()
        },
        headline,
        counts: counts(n),
        windows: WindowRates {
            whole: Some(rates(window, n, 128.0)),
            steady: None,
            stationarity: Some(Stationarity {
                stationary: None,
                reason: "shorter than ten requests a slot".into(),
            }),
        },
        metrics: BTreeMap::new(),
        groups: Vec::new(),
        phases: None,
        analysis: CellAnalysis::default(),
        client: ClientRecord {
            lag: Some(LagRecord {
                n: n * 128,
                p50: Nanos::new(21_000),
                p99: Nanos::new(94_000),
                max: Nanos::new(410_000),
            }),
            stamps: Some(StampRecord {
                n: n * 128,
                bounded: n / 40,
                width_p50: Some(Nanos::new(30_000)),
                width_p99: None,
            }),
            cpu_seconds: Some(0.9),
            busiest_worker: Some(0.07),
            workers: 1,
            cpu_seconds_per_million_events: Some(5.4),
            ..ClientRecord::default()
        },
        ended_early: None,
        ended_by: None,
        hardware: None,
        slos: Vec::new(),
        goodput: None,
    }
}

pub(crate) fn seconds(s: f64) -> Stamp {
    Stamp::EPOCH + Nanos::from_secs_f64(s)
}

pub(crate) fn rates(window: Window, n: u64, tokens_each: f64) -> Rates {
    let length = window.length().as_secs_f64();
    let per_s = n as f64 / length;
    let interval = |x: f64| {
        Some(Interval {
            low: x * 0.97,
            high: x * 1.03,
            confidence: 0.95,
        })
    };
    Rates {
        window,
        seconds: length,
        requests: None,
        offered_requests_per_s: None,
        served_requests_per_s: None,
        requests_per_s: Some(per_s),
        requests_per_s_interval: interval(per_s),
        output_tokens_per_s: Some(per_s * tokens_each),
        output_tokens_per_s_interval: interval(per_s * tokens_each),
        total_tokens_per_s: Some(per_s * (tokens_each + 256.0)),
        chunks_per_s: per_s * tokens_each,
        mean_in_flight: 1.0,
        peak_in_flight: 1,
    }
}

pub(crate) fn slo(metric: Metric, limit_ms: f64, seen: f64, verdict: SloVerdict) -> SloOutcome {
    let attainment = if verdict == SloVerdict::Pass {
        0.99
    } else {
        0.81
    };
    SloOutcome {
        slo: Slo {
            metric,
            q: 0.95,
            limit: limit_ms * 1e6,
            use_case: None,
        },
        measured: Some(seen * 1e6),
        interval: Some(Interval {
            low: seen * 0.95e6,
            high: seen * 1.05e6,
            confidence: 0.95,
        }),
        verdict,
        within: None,
        attainment,
        attainment_interval: Interval {
            low: attainment - 0.02,
            high: (attainment + 0.01_f64).min(1.0),
            confidence: 0.95,
        },
        vacuous: 0,
    }
}

pub(crate) fn group(by: &str, name: &str, n: u64, e2e: (f64, f64), tokens: f64) -> GroupRecord {
    let metrics = [
        (Metric::Ttft, ms(n, 40.0, 80.0)),
        (Metric::E2e, ms(n, e2e.0, e2e.1)),
        (
            Metric::TokensPerSUser,
            distribution(
                Unit::TokensPerS,
                n,
                tokens / e2e.0 * 1e3,
                tokens / e2e.0 * 1.1e3,
            ),
        ),
        (
            Metric::OutputTokens,
            distribution(Unit::Tokens, n, tokens, tokens * 1.2),
        ),
    ];
    GroupRecord {
        by: by.into(),
        name: name.into(),
        counts: counts(n),
        metrics: metrics.into_iter().collect(),
        slos: Vec::new(),
    }
}
