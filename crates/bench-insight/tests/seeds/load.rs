//! From a seed's tables to a run record. What is added because the schema needs it is listed in `fixtures/ORIGIN.md`.

use std::collections::BTreeMap;

use bench_schema::{
    Analysis, ArrivalKind, Benchmark, CellAnalysis, CellRecord, ClientRecord, ClockKind,
    ClockRecord, Counts, Distribution, Factor, GroupRecord, HostRecord, Interval, Load, Metric,
    Nanos, Origin, PhaseShares, PlanRecord, Quantile, Rates, RunRecord, Schema, ServerRecord, Slo,
    SloOutcome, StopRule, ToolRecord, Trust, Unit, Window, WindowRates,
};
use serde::Deserialize;

#[path = "load/hardware.rs"]
mod hardware;

use hardware::{Level, hardware};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    title: String,
    experiment: Benchmark,
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    id: String,
    factors: BTreeMap<String, Factor>,
    n: u64,
    requests_per_s: Option<f64>,
    output_tokens_per_s: Option<f64>,
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    ttft_s: Option<Figures>,
    itl_s: Option<Figures>,
    e2e_s: Option<Figures>,
    prefill_s: Option<f64>,
    decode_s: Option<f64>,
    queue: Option<Queue>,
    gpu_use: Option<Level>,
    cpu: Option<Level>,
    kv_cache_peak: Option<f64>,
    waiting_peak: Option<f64>,
    running_peak: Option<f64>,
    #[serde(default)]
    slos: Vec<Objective>,
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    mean: Option<f64>,
    sd: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    p50_s: f64,
    total_p50_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Objective {
    metric: Metric,
    q: f64,
    limit_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    by: String,
    name: String,
    output_tokens: Option<f64>,
    tokens_per_s_user: Option<f64>,
    e2e_s: Option<Figures>,
}

/// The run that a fixture describes; it carries no analysis, findings or verdict of its own.
#[expect(
    clippy::panic,
    reason = "a fixture that cannot be read fails its tests"
)]
pub(crate) fn run(fixture: &str) -> RunRecord {
    let path = format!(
        "{}/../../fixtures/seeds/{fixture}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let seed: Seed = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    RunRecord {
        schema: Schema::current(),
        experiment: seed.experiment,
        title: seed.title,
        trust: Trust::from_reasons(Vec::new()),
        tool: ToolRecord::default(),
        started_at: "2026-01-28T17:46:00Z".to_owned(),
        duration: Nanos::from_secs(1),
        complete: true,
        incomplete_reason: None,
        seed: 0,
        config: serde_json::Value::Null,
        journal: Vec::new(),
        tags: BTreeMap::new(),
        clock: ClockRecord {
            arrival: ClockKind::Kernel,
            fallback_reason: None,
            monotonic_epoch_ns: None,
            unix_epoch_ns: None,
            met: Vec::new(),
            meeting: None,
        },
        host: HostRecord::default(),
        server: ServerRecord::default(),
        cells: seed.cells.iter().map(cell).collect(),
        analysis: Analysis::default(),
        targets: Vec::new(),
        findings: Vec::new(),
    }
}

fn cell(from: &Cell) -> CellRecord {
    let rate = from.factors.get("rate").and_then(Factor::as_number);
    CellRecord {
        id: from.id.clone(),
        label: from
            .factors
            .iter()
            .map(|(k, v)| format!("{k} {v}"))
            .collect::<Vec<_>>()
            .join(", "),
        factors: from.factors.clone(),
        load: match rate {
            Some(rate_per_s) => Load::Open {
                rate_per_s: Some(rate_per_s),
                arrival: ArrivalKind::Poisson,
                in_flight_cap: None,
            },
            None => Load::closed(1),
        },
        stop: StopRule::default(),
        repeats: 1,
        plan: PlanRecord {
            requests: from.n,
            requested_rate_per_s: rate,
            offered_rate_per_s: rate,
            ..PlanRecord::default()
        },
        headline: Origin::Sent,
        counts: counts(from.n),
        windows: WindowRates {
            whole: rates(from),
            ..WindowRates::default()
        },
        metrics: metrics(from),
        groups: from.groups.iter().map(group).collect(),
        phases: phases(from),
        analysis: CellAnalysis::default(),
        client: ClientRecord::default(),
        ended_early: None,
        ended_by: None,
        hardware: hardware(from),
        slos: from
            .slos
            .iter()
            .filter_map(|slo| objective(from, slo))
            .collect(),
        goodput: None,
    }
}

fn counts(n: u64) -> Counts {
    Counts {
        planned: n,
        completed: n,
        ..Counts::default()
    }
}

fn rates(from: &Cell) -> Option<Rates> {
    let window = Window {
        from: bench_schema::Stamp::EPOCH,
        to: bench_schema::Stamp::new(1_000_000_000),
    };
    (from.requests_per_s.is_some() || from.output_tokens_per_s.is_some()).then(|| Rates {
        window,
        seconds: 1.0,
        requests: None,
        offered_requests_per_s: None,
        served_requests_per_s: None,
        requests_per_s: from.requests_per_s.or(Some(0.0)),
        requests_per_s_interval: None,
        output_tokens_per_s: from.output_tokens_per_s,
        output_tokens_per_s_interval: None,
        total_tokens_per_s: None,
        chunks_per_s: 0.0,
        mean_in_flight: 0.0,
        peak_in_flight: 0,
    })
}

fn metrics(from: &Cell) -> BTreeMap<Metric, Distribution> {
    let seconds = |f: &Figures| distribution(f, Unit::Ns, 1e9, from.n);
    let plain = |x: f64, unit| {
        distribution(
            &Figures {
                mean: Some(x),
                ..Figures::default()
            },
            unit,
            1.0,
            from.n,
        )
    };
    let mean = |x: f64| Figures {
        mean: Some(x),
        ..Figures::default()
    };
    let known = [
        (Metric::Ttft, from.ttft_s.as_ref().and_then(seconds)),
        (Metric::Itl, from.itl_s.as_ref().and_then(seconds)),
        (Metric::E2e, from.e2e_s.as_ref().and_then(seconds)),
        (
            Metric::Prefill,
            from.prefill_s.and_then(|s| seconds(&mean(s))),
        ),
        (
            Metric::Decode,
            from.decode_s.and_then(|s| seconds(&mean(s))),
        ),
        (
            Metric::InputTokens,
            from.input_tokens.and_then(|n| plain(n, Unit::Tokens)),
        ),
        (
            Metric::OutputTokens,
            from.output_tokens.and_then(|n| plain(n, Unit::Tokens)),
        ),
    ];
    known
        .into_iter()
        .filter_map(|(metric, d)| Some((metric, d?)))
        .collect()
}

fn distribution(f: &Figures, unit: Unit, scale: f64, n: u64) -> Option<Distribution> {
    let stated = [f.mean, f.p50, f.p90, f.p95, f.p99, f.max];
    let all = || stated.into_iter().flatten();
    let mean = f.mean.or(f.p50).or(f.p95)?;
    let quantiles = [(0.5, f.p50), (0.9, f.p90), (0.95, f.p95), (0.99, f.p99)];
    Some(Distribution {
        unit,
        n,
        effective_n: None,
        mean: mean * scale,
        mean_interval: None,
        sd: f.sd.map(|sd| sd * scale),
        cov: f.sd.map(|sd| sd / mean),
        min: all().min_by(f64::total_cmp)? * scale,
        max: all().max_by(f64::total_cmp)? * scale,
        quantiles: quantiles
            .into_iter()
            .filter_map(|(q, value)| {
                let value = value? * scale;
                Some(Quantile {
                    q,
                    value,
                    interval: None,
                    few_samples: false,
                    at_least: None,
                    at_most: None,
                })
            })
            .collect(),
        with_failures: None,
        bounded_share: None,
        resolution: None,
    })
}

fn group(from: &Group) -> GroupRecord {
    let mut metrics = BTreeMap::new();
    let spoken = from
        .output_tokens
        .zip(from.tokens_per_s_user)
        .map(|(n, speed)| n / speed);
    let e2e = from.e2e_s.unwrap_or_default();
    let e2e = Figures {
        mean: e2e.mean.or(e2e.p50).or(spoken),
        ..e2e
    };
    let plain = |x: f64| Figures {
        mean: Some(x),
        ..Figures::default()
    };
    let known = [
        (Metric::E2e, distribution(&e2e, Unit::Ns, 1e9, 20)),
        (
            Metric::OutputTokens,
            from.output_tokens
                .and_then(|n| distribution(&plain(n), Unit::Tokens, 1.0, 20)),
        ),
        (
            Metric::TokensPerSUser,
            from.tokens_per_s_user
                .and_then(|x| distribution(&plain(x), Unit::TokensPerS, 1.0, 20)),
        ),
    ];
    metrics.extend(
        known
            .into_iter()
            .filter_map(|(metric, d)| Some((metric, d?))),
    );
    GroupRecord {
        by: from.by.clone(),
        name: from.name.clone(),
        counts: counts(20),
        metrics,
        slos: Vec::new(),
    }
}

fn phases(from: &Cell) -> Option<PhaseShares> {
    if let Some(queue) = &from.queue {
        let share = queue.p50_s / queue.total_p50_s;
        let generation = queue.total_p50_s - queue.p50_s;
        // Prefill and decode are not told apart in that table; neither is concluded from.
        return Some(PhaseShares {
            queue: share,
            prefill: 0.0,
            decode: 1.0 - share,
            queue_source: "response".to_owned(),
            by_percentile: vec![(0.5, queue.p50_s * 1e9, generation * 1e9)],
        });
    }
    let (prefill, decode) = (from.prefill_s?, from.decode_s?);
    let whole = prefill + decode;
    Some(PhaseShares {
        queue: 0.0,
        prefill: prefill / whole,
        decode: decode / whole,
        queue_source: "none".to_owned(),
        by_percentile: Vec::new(),
    })
}

fn objective(from: &Cell, wanted: &Objective) -> Option<SloOutcome> {
    let slo = Slo {
        metric: wanted.metric,
        q: wanted.q,
        limit: wanted.limit_s * 1e9,
        use_case: None,
    };
    let d = metrics(from).remove(&wanted.metric)?;
    let (measured, interval, verdict) = bench_insight::judge(&d, &slo);
    // Not published: what the quantiles leave open.
    let attainment = Interval {
        low: 0.0,
        high: 1.0,
        confidence: 0.95,
    };
    Some(SloOutcome {
        slo,
        measured,
        interval,
        verdict,
        within: None,
        attainment: wanted.q,
        attainment_interval: attainment,
        vacuous: 0,
    })
}
