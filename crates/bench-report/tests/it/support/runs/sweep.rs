//! The concurrency sweep of the L4 study.

use std::collections::BTreeMap;

use bench_schema::*;

use super::super::cells::{cell, distribution, ms, slo};
use super::{empty, finding};

/// concurrency, requests/s, output tokens/s, TTFT p50 and p95, ITL p50 and p95, E2E p50 and p95 (ms): one L4, Qwen2.5-0.5B.
pub(crate) const L4: [[f64; 9]; 6] = [
    [1.0, 1.3, 168.0, 27.0, 115.5, 5.1, 6.1, 679.0, 765.0],
    [2.0, 2.9, 367.0, 37.8, 48.2, 5.2, 6.3, 698.0, 705.0],
    [4.0, 5.4, 698.0, 50.1, 85.4, 5.3, 6.4, 722.0, 760.0],
    [8.0, 10.2, 1312.0, 60.9, 88.4, 5.5, 7.4, 772.0, 816.0],
    [16.0, 17.8, 2277.0, 103.8, 135.7, 6.0, 8.9, 880.0, 947.0],
    [32.0, 29.5, 3773.0, 135.3, 191.8, 7.1, 12.0, 1082.0, 1128.0],
];

/// Seconds that each cell of [`sweep`] lasts.
pub(crate) const CELL_SECONDS: f64 = 20.0;

/// The concurrency sweep of the L4 study: 256 tokens in, 128 out.
pub(crate) fn sweep() -> RunRecord {
    let mut run = empty(
        Benchmark::Throughput,
        "Concurrency sweep of Qwen2.5-0.5B on one L4",
    );
    for (i, row) in L4.iter().enumerate() {
        run.cells.push(sweep_cell(i, row));
        run.analysis.scaling.push(scaling_row(row));
    }
    run.analysis.fits.insert(
        "usl".into(),
        FitRecord {
            formula: "X(N) = λN / (1 + σ(N−1) + κN(N−1))".into(),
            parameters: BTreeMap::from([
                ("lambda".into(), 186.2),
                ("sigma".into(), 0.0161),
                ("kappa".into(), 0.000_021),
                ("knee".into(), 216.5),
            ]),
            intervals: BTreeMap::from([(
                "sigma".into(),
                Interval {
                    low: 0.0122,
                    high: 0.0199,
                    confidence: 0.95,
                },
            )]),
            r_squared: Some(0.9994),
            n: 6,
        },
    );
    run.findings = sweep_findings();
    run.targets.push(TargetOutcome {
        target: "output_tokens_per_s>=3000".into(),
        measured: Some(3773.0),
        cell: Some("c32".into()),
        met: true,
        interval: None,
        verdict: None,
        note: None,
    });
    run.trust = Trust::from_reasons(vec![TrustReason {
        also_in: Vec::new(),
        code: "few_samples".into(),
        verdict: TrustVerdict::Doubtful,
        message: "26 requests stand behind the p99 of E2E, which needs 1000; raise --requests"
            .into(),
        next: None,
        cell: Some("c1".into()),
        measured: Some(26.0),
        threshold: Some(1000.0),
    }]);
    run
}

fn sweep_cell(i: usize, row: &[f64; 9]) -> CellRecord {
    let n = (row[1] * CELL_SECONDS).round() as u64;
    let from = 5.0 + i as f64 * (CELL_SECONDS + 1.0);
    let concurrency = row[0] as u32;
    let load = Load::closed(concurrency);
    let mut cell = cell(
        &format!("c{concurrency}"),
        &format!("concurrency {concurrency}"),
        load,
        (from, from + CELL_SECONDS),
        n,
    );
    cell.factors
        .insert("concurrency".into(), Factor::from(concurrency));
    cell.metrics = BTreeMap::from([
        (Metric::Ttft, ms(n, row[3], row[4])),
        (Metric::Itl, ms(n * 127, row[5], row[6])),
        (Metric::Tpot, ms(n, row[5] * 1.01, row[6] * 0.95)),
        (Metric::E2e, ms(n, row[7], row[8])),
        (
            Metric::TokensPerSUser,
            distribution(Unit::TokensPerS, n, 1e3 / row[5], 1.1e3 / row[5]),
        ),
        (
            Metric::OutputTokens,
            distribution(Unit::Tokens, n, 128.0, 128.0001),
        ),
        (
            Metric::InputTokens,
            distribution(Unit::Tokens, n, 256.0, 256.0001),
        ),
    ]);
    if let Some(whole) = &mut cell.windows.whole {
        whole.requests_per_s = Some(row[1]);
        whole.output_tokens_per_s = Some(row[2]);
        whole.output_tokens_per_s_interval = Some(Interval {
            low: row[2] * 0.98,
            high: row[2] * 1.02,
            confidence: 0.95,
        });
        whole.mean_in_flight = row[0] * 0.99;
        whole.peak_in_flight = u64::from(concurrency);
    }
    let queue = (row[3] - 27.0).max(0.0) / row[7];
    cell.phases = Some(PhaseShares {
        queue,
        prefill: 27.0 / row[7],
        decode: 1.0 - queue - 27.0 / row[7],
        queue_source: "estimate".into(),
        by_percentile: [(0.5, 1.0), (0.9, 1.3), (0.95, 1.6), (0.99, 2.2)]
            .map(|(q, f)| {
                (
                    q,
                    queue * row[7] * f * 1e6,
                    row[7] * (1.0 - queue) * (1.0 + (f - 1.0) * 0.1) * 1e6,
                )
            })
            .to_vec(),
    });
    cell.analysis.tail_ratio = Some(row[8] / row[7]);
    cell.analysis.ms_per_token = Some(row[7] / 128.0);
    cell.slos = vec![
        slo(
            Metric::Ttft,
            150.0,
            row[4],
            if row[4] < 142.0 {
                SloVerdict::Pass
            } else {
                SloVerdict::Fail
            },
        ),
        slo(
            Metric::E2e,
            1000.0,
            row[8],
            if row[8] < 940.0 {
                SloVerdict::Pass
            } else if row[8] < 1050.0 {
                SloVerdict::CannotTell
            } else {
                SloVerdict::Fail
            },
        ),
    ];
    cell.goodput = Some(Goodput {
        requests_per_s: row[1] * 0.9,
        planned: None,
        seconds: None,
        tokens_per_s: row[2] * 0.9,
        attainment: 0.9,
        attainment_interval: Interval {
            low: 0.86,
            high: 0.93,
            confidence: 0.95,
        },
        vacuous: 0,
    });
    cell.hardware = Some(hardware(row));
    cell
}

fn hardware(row: &[f64; 9]) -> HardwareSummary {
    let resource = |source, name: &str, unit, mean: f64, peak: f64| ResourceSummary {
        series: SeriesKey {
            source,
            instance: instance(source).into(),
            name: name.into(),
        },
        unit,
        n: 40,
        mean,
        min: mean * 0.8,
        peak,
        increase: None,
    };
    let busy = (row[2] / 3773.0).powf(0.4);
    HardwareSummary {
        resources: vec![
            resource(
                ReadingSource::Gpu,
                "utilisation_share",
                Unit::Ratio,
                busy * 0.97,
                (busy * 1.05).min(1.0),
            ),
            resource(
                ReadingSource::Gpu,
                "memory_used",
                Unit::Bytes,
                13.8 * 1e9,
                13.9 * 1e9,
            ),
            resource(
                ReadingSource::Host,
                "cpu",
                Unit::Ratio,
                0.2 + busy * 0.1,
                0.45,
            ),
            resource(
                ReadingSource::ServerMetrics,
                "vllm:kv_cache_usage_perc",
                Unit::Ratio,
                row[0] / 32.0 * 0.009,
                row[0] / 32.0 * 0.011,
            ),
            resource(
                ReadingSource::ServerMetrics,
                "vllm:num_requests_running",
                Unit::Count,
                row[0] * 0.96,
                row[0],
            ),
            resource(
                ReadingSource::ServerMetrics,
                "vllm:num_requests_waiting",
                Unit::Count,
                0.0,
                0.0,
            ),
        ],
        derived: BTreeMap::from(
            [
                ("energy_per_output_token_j", 70.0 / row[2], Unit::Joules),
                ("gpu_utilisation_mean", busy * 0.97, Unit::Ratio),
                ("gpu_utilisation_peak", (busy * 1.05).min(1.0), Unit::Ratio),
                ("gpu_memory_peak_share", 0.604, Unit::Ratio),
            ]
            .map(|(name, value, unit)| {
                let interval = None;
                (
                    name.to_owned(),
                    Quantity {
                        value,
                        unit,
                        interval,
                    },
                )
            }),
        ),
        unknown: BTreeMap::from([(
            "gpu power limit".to_owned(),
            "NVML: not supported".to_owned(),
        )]),
    }
}

fn scaling_row(row: &[f64; 9]) -> ScalingRow {
    let base = L4[0];
    let gain = row[2] / base[2] - 1.0;
    let penalty = row[7] / base[7] - 1.0;
    ScalingRow {
        cell: format!("c{}", row[0]),
        factor: "concurrency".into(),
        level: row[0],
        value: row[2],
        scaling_factor: row[2] / base[2],
        efficiency: Some(row[2] / base[2] / row[0]),
        throughput_gain: Some(gain),
        latency_penalty: Some(penalty),
        tradeoff_ratio: (penalty > 0.0).then(|| gain / penalty),
    }
}

fn sweep_findings() -> Vec<Finding> {
    let mut full = finding(
        Cause::GpuSaturated,
        0.4,
        "c32",
        &[
            (Known::GpuUse, 0.98, Unit::Ratio, ""),
            (Known::LoadAdded, 1.0, Unit::Ratio, ""),
            (Known::ThroughputGained, 0.12, Unit::Ratio, ""),
        ],
    );
    full.ruled_out = vec![RuledOut {
        cause: Cause::MemoryPressure,
        by: Evidence::new(Known::KvCachePeak.into(), 0.011, Unit::Ratio),
    }];
    full.consequences = vec![Cause::DecodeSlowsWithLoad];
    full.refute = Some(Experiment::MoreLevels);
    full.advice = vec![Advice {
        action: Action::RunFewerAtOnce,
        parameter: Some("--max-num-seqs".into()),
    }];
    let effects = finding(
        Fact::LoadEffects,
        0.0,
        "",
        &[
            (Known::Ttft, 27e6, Unit::Ns, "concurrency 1"),
            (Known::Ttft, 135.3e6, Unit::Ns, "concurrency 32"),
        ],
    );
    let scaling = finding(
        Fact::Scaling,
        0.0,
        "",
        &[
            (Known::ScalingFactor, 1.0, Unit::Count, "concurrency 1"),
            (Known::ScalingFactor, 22.46, Unit::Count, "concurrency 32"),
            (Known::Efficiency, 0.702, Unit::Ratio, "concurrency 32"),
        ],
    );
    vec![full, effects, scaling]
}

/// What a source calls its only instance.
fn instance(source: ReadingSource) -> &'static str {
    match source {
        ReadingSource::Gpu => "0",
        ReadingSource::ServerMetrics => "http://127.0.0.1:8000/metrics",
        _ => "",
    }
}
