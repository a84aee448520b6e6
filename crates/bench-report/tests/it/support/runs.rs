//! The golden runs.

use std::collections::BTreeMap;

use bench_schema::*;

use super::cells::{cell, counts, distribution, group, ms, rates, seconds, slo};

/// concurrency, requests/s, output tokens/s, TTFT p50 and p95, ITL p50 and p95, E2E p50 and p95 (ms): one L4, Qwen2.5-0.5B.
pub const L4: [[f64; 9]; 6] = [
    [1.0, 1.3, 168.0, 27.0, 115.5, 5.1, 6.1, 679.0, 765.0],
    [2.0, 2.9, 367.0, 37.8, 48.2, 5.2, 6.3, 698.0, 705.0],
    [4.0, 5.4, 698.0, 50.1, 85.4, 5.3, 6.4, 722.0, 760.0],
    [8.0, 10.2, 1312.0, 60.9, 88.4, 5.5, 7.4, 772.0, 816.0],
    [16.0, 17.8, 2277.0, 103.8, 135.7, 6.0, 8.9, 880.0, 947.0],
    [32.0, 29.5, 3773.0, 135.3, 191.8, 7.1, 12.0, 1082.0, 1128.0],
];

/// Seconds that each cell of [`sweep`] lasts.
pub const CELL_SECONDS: f64 = 20.0;

pub fn empty(experiment: Benchmark, title: &str) -> RunRecord {
    RunRecord {
        schema: Schema::current(),
        experiment,
        title: title.into(),
        trust: Trust::from_reasons(Vec::new()),
        tool: ToolRecord {
            name: format!("bench-{}", experiment.name()),
            version: "0.1.0".into(),
        },
        started_at: "2026-11-20T10:37:16Z".into(),
        duration: Nanos::from_secs(131),
        complete: true,
        incomplete_reason: None,
        seed: 42,
        config: serde_json::json!({"url": "http://127.0.0.1:8000", "seed": 42, "ignore_eos": true}),
        tags: BTreeMap::from([
            ("gpus".to_owned(), "1".to_owned()),
            ("commit".to_owned(), "8e78aaa".to_owned()),
        ]),
        clock: ClockRecord {
            arrival: ClockKind::Kernel,
            fallback_reason: None,
            monotonic_epoch_ns: Some(4_812_100_376_777),
            unix_epoch_ns: Some(1_763_635_036_000_000_000),
        },
        host: HostRecord {
            name: Some("bench-0".into()),
            os: Some("Debian 12".into()),
            kernel: Some("6.1.0".into()),
            cpu_model: Some("AMD EPYC 9B14".into()),
            cpus: Some(4),
            memory_bytes: Some(16 << 30),
            facts: BTreeMap::from([
                ("gpu_0".to_owned(), "NVIDIA L4, 23 GB".to_owned()),
                ("driver".to_owned(), "580.126.20 / CUDA 13.0".to_owned()),
            ]),
            unknown: BTreeMap::from([("gpu_1".to_owned(), "NVML lists one device".to_owned())]),
        },
        server: ServerRecord {
            urls: vec!["http://127.0.0.1:8000".into()],
            embedded: false,
            api: "openai-completions".into(),
            model: Some("Qwen/Qwen2.5-0.5B-Instruct".into()),
            models: vec!["Qwen/Qwen2.5-0.5B-Instruct".into()],
            kind: Some("vllm".into()),
            version: Some("0.23.0".into()),
            tls_unverified: false,
        },
        cells: Vec::new(),
        analysis: Analysis::default(),
        targets: Vec::new(),
        findings: Vec::new(),
    }
}

fn finding(
    code: &str,
    kind: FindingKind,
    claim: &str,
    evidence: &[(&str, f64, &str)],
    severity: f64,
) -> Finding {
    Finding {
        code: code.into(),
        kind,
        claim: claim.into(),
        evidence: evidence
            .iter()
            .map(|(name, value, unit)| Evidence {
                name: (*name).into(),
                value: *value,
                unit: (*unit).into(),
                cell: None,
            })
            .collect(),
        severity,
        hypothesis: None,
        confirm: None,
        actions: Vec::new(),
        cells: Vec::new(),
    }
}

/// The concurrency sweep of the L4 study: 256 tokens in, 128 out.
pub fn sweep() -> RunRecord {
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
    });
    run.trust = Trust::from_reasons(vec![TrustReason {
        code: "few_samples".into(),
        verdict: TrustVerdict::Doubtful,
        message: "26 requests stand behind the p99 of E2E, which needs 1000; raise --requests"
            .into(),
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
    let load = Load::Closed {
        concurrency,
        think_time: None,
    };
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
        whole.requests_per_s = row[1];
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
                "utilization",
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
        derived: BTreeMap::from([(
            "energy_per_output_token_j".to_owned(),
            Quantity {
                value: 70.0 / row[2],
                unit: Unit::Joules,
                interval: None,
            },
        )]),
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
    let mut limit = finding(
        "saturated_compute",
        FindingKind::Bottleneck,
        "Compute is the limit: the GPU is at 100 % while the KV cache stays at 1.1 % and nothing waits",
        &[
            ("GPU utilisation, peak", 100.0, "%"),
            ("KV cache, peak", 1.1, "%"),
            ("waiting, peak", 0.0, ""),
        ],
        0.7,
    );
    limit.hypothesis = Some("For a 0.5B model each request's KV footprint is tiny, so compute runs out long before memory.".into());
    limit.confirm =
        Some("Repeat at concurrency 64: output tokens/s should stay flat while TTFT grows.".into());
    limit.actions = vec![
        "Add a replica on another GPU; more concurrency on this one only trades latency".into(),
        "Try quantization (FP8) to raise the compute ceiling".into(),
    ];
    limit.cells = vec!["c32".into()];
    vec![
        limit,
        finding(
            "ttft_growth",
            FindingKind::Scaling,
            "TTFT degrades first: its p50 grows 5.0× from concurrency 1 to 32 while ITL grows 1.4×",
            &[
                ("TTFT p50 at 1", 27.0, "ms"),
                ("TTFT p50 at 32", 135.3, "ms"),
            ],
            0.4,
        ),
        finding(
            "throughput_scaling",
            FindingKind::Scaling,
            "Output rises 168 → 3773 tokens/s (22×) from concurrency 1 to 32",
            &[
                ("scaling factor at 32", 22.46, "×"),
                ("efficiency at 32", 70.2, "%"),
            ],
            0.2,
        ),
    ]
}

/// The Qwen study: three prompts × four output lengths, one at a time, 15 repeats.
pub fn grid() -> RunRecord {
    let mut run = empty(
        Benchmark::Latency,
        "Latency of Qwen2.5-7B-Instruct, one request at a time",
    );
    run.server.model = Some("Qwen/Qwen2.5-7B-Instruct".into());
    let means = [
        (10.0, 105.0, 0.4),
        (20.0, 206.0, 0.2),
        (50.0, 512.0, 0.9),
        (100.0, 1021.0, 1.6),
    ];
    for (p, prompt) in ["short", "medium", "long"].into_iter().enumerate() {
        for (o, (tokens, mean, sd)) in means.into_iter().enumerate() {
            let at = 2.0 + (p * 4 + o) as f64 * 10.0;
            let id = format!("{prompt}-x-{tokens}");
            let mut cell = cell(
                &id,
                &format!("{prompt} prompt, {tokens} tokens"),
                Load::Closed {
                    concurrency: 1,
                    think_time: None,
                },
                (at, at + 9.0),
                15,
            );
            cell.factors.insert("prompt".into(), Factor::from(prompt));
            cell.factors
                .insert("output_tokens".into(), Factor::Number(tokens));
            let mean = mean + p as f64 * 0.1;
            let mut e2e = ms(15, mean, mean + 1.7 * sd);
            e2e.sd = Some(sd * 1e6);
            e2e.cov = Some(sd / mean);
            cell.metrics = BTreeMap::from([
                (Metric::E2e, e2e),
                (Metric::Ttft, ms(15, 14.0 + p as f64, 15.0 + p as f64)),
            ]);
            cell.analysis.ms_per_token = Some(mean / tokens);
            if p == 0 {
                run.analysis.scaling.push(ScalingRow {
                    cell: id,
                    factor: "output_tokens".into(),
                    level: tokens,
                    value: mean * 1e6,
                    scaling_factor: mean / 105.0,
                    efficiency: None,
                    throughput_gain: None,
                    latency_penalty: None,
                    tradeoff_ratio: None,
                });
            }
            run.cells.push(cell);
        }
    }
    run.analysis.fits.insert(
        "latency_by_output_tokens".into(),
        FitRecord {
            formula: "E2E = a + b · output tokens".into(),
            parameters: BTreeMap::from([("a_ms".into(), 3.1), ("b_ms_per_token".into(), 10.18)]),
            intervals: BTreeMap::from([(
                "b_ms_per_token".into(),
                Interval {
                    low: 10.14,
                    high: 10.22,
                    confidence: 0.95,
                },
            )]),
            r_squared: Some(0.9999),
            n: 12,
        },
    );
    run.findings = vec![finding(
        "linear_output_scaling",
        FindingKind::Scaling,
        "Latency is linear in the output: 10.2 ms per token, whatever the prompt",
        &[("slope", 10.18, "ms/token"), ("R²", 0.9999, "")],
        0.1,
    )];
    run
}

/// Length categories of the Qwen study, and its use cases with an objective that long answers miss.
pub fn seqlen() -> RunRecord {
    let mut run = empty(Benchmark::Seqlen, "Cost of length, Qwen2.5-7B-Instruct");
    let mut one = cell(
        "mixed",
        "mixed lengths",
        Load::Closed {
            concurrency: 1,
            think_time: None,
        },
        (3.0, 118.0),
        100,
    );
    one.metrics = BTreeMap::from([
        (Metric::E2e, ms(100, 850.0, 2544.0)),
        (Metric::Ttft, ms(100, 31.0, 62.0)),
        (Metric::Tpot, ms(100, 10.1, 11.0)),
    ]);
    let categories = [
        ("tiny", 0.18, 0.279, 15.0),
        ("short", 0.73, 0.850, 60.0),
        ("medium", 1.45, 1.817, 150.0),
        ("long", 2.2, 2.544, 240.0),
        ("very long", 3.6, 4.396, 400.0),
    ];
    for (i, (name, p50, p95, tokens)) in categories.into_iter().enumerate() {
        one.groups
            .push(group("category", name, 20, (p50 * 1e3, p95 * 1e3), tokens));
        run.analysis.scaling.push(ScalingRow {
            cell: name.into(),
            factor: "category".into(),
            level: i as f64,
            value: p95 * 1e9,
            scaling_factor: p95 / 0.279,
            efficiency: None,
            throughput_gain: None,
            latency_penalty: None,
            tradeoff_ratio: None,
        });
    }
    for (name, p50, p95, tokens, limit) in [
        ("ultra-short Q&A", 0.18, 0.279, 15.0, 1.5),
        ("code (short)", 0.41, 0.544, 100.0, 2.0),
        ("long-form", 2.5, 4.396, 400.0, 3.0),
    ] {
        let mut group = group("use_case", name, 33, (p50 * 1e3, p95 * 1e3), tokens);
        let verdict = if p95 < limit {
            SloVerdict::Pass
        } else {
            SloVerdict::Fail
        };
        group.slos = vec![slo(Metric::E2e, limit * 1e3, p95 * 1e3, verdict)];
        one.groups.push(group);
    }
    one.phases = Some(PhaseShares {
        queue: 0.0,
        prefill: 0.04,
        decode: 0.96,
        queue_source: "none".into(),
        by_percentile: vec![],
    });
    run.cells.push(one);
    run.findings = vec![finding(
        "super_linear",
        FindingKind::Scaling,
        "P95 of the longest category is 15.8× that of the smallest",
        &[("P95 factor", 15.8, "×")],
        0.3,
    )];
    run
}

/// An open loop in which things go wrong: late starts, failures, time-outs, doubtful numbers.
pub fn open_loop() -> RunRecord {
    let mut run = empty(
        Benchmark::Throughput,
        "Poisson arrivals at 2, 5 and 20 requests/s",
    );
    for (i, (rate, offered, e2e)) in [
        (2.0, 2.0, 18_500.0),
        (5.0, 4.98, 18_250.0),
        (20.0, 17.1, 31_000.0),
    ]
    .into_iter()
    .enumerate()
    {
        let n = (rate * 30.0) as u64;
        let from = 1.0 + 40.0 * i as f64;
        let load = Load::Open {
            rate_per_s: rate,
            arrival: ArrivalKind::Poisson,
            in_flight_cap: Some(256),
        };
        let mut cell = cell(
            &format!("r{rate}-poisson"),
            &format!("{rate} requests/s"),
            load,
            (from, from + 30.0),
            n,
        );
        cell.plan.requested_rate_per_s = Some(rate);
        cell.plan.offered_rate_per_s = Some(offered);
        cell.metrics = BTreeMap::from([
            (Metric::Ttft, ms(n, 400.0 * rate, 900.0 * rate)),
            (Metric::TtftDue, ms(n, 420.0 * rate, 1100.0 * rate)),
            (Metric::E2e, ms(n, e2e, e2e * 1.4)),
            (Metric::E2eDue, ms(n, e2e * 1.02, e2e * 1.6)),
            (Metric::Icl, ms(n * 100, 80.0, 140.0)),
            (Metric::Lateness, ms(n, 0.03, 0.4)),
        ]);
        cell.windows.whole = Some(rates(
            Window {
                from: seconds(from),
                to: seconds(from + 30.0),
            },
            n,
            120.0,
        ));
        if rate > 10.0 {
            break_some(&mut cell);
        }
        run.cells.push(cell);
    }
    run.trust = Trust::from_reasons(vec![
        TrustReason { code: "offered_rate".into(), verdict: TrustVerdict::Untrusted, message: "17.1 requests/s were sent where 20 were asked for (14.5 % less); use more worker threads".into(), cell: Some("r20-poisson".into()), measured: Some(17.1), threshold: Some(19.8) },
        TrustReason { code: "warm_cache".into(), verdict: TrustVerdict::Doubtful, message: "41 % of prompt tokens came from the prefix cache".into(), cell: None, measured: Some(0.41), threshold: Some(0.05) },
    ]);
    run.complete = false;
    run.incomplete_reason = Some("stopped by Ctrl-C".into());
    run
}

fn break_some(cell: &mut CellRecord) {
    let planned = cell.counts.planned;
    cell.counts = Counts {
        completed: planned - 95,
        failed: 40,
        timed_out: 12,
        truncated: 3,
        cancelled: 10,
        unsent: 30,
        failures: vec![
            (Stage::Stream, FailureKind::Reset, 31),
            (Stage::Headers, FailureKind::Status, 9),
        ],
        timeouts: vec![(Stage::FirstToken, 12)],
        messages: vec![("connection reset by peer".into(), 31)],
        replaced_connections: 2,
        ..counts(planned)
    };
    for metric in [Metric::E2eDue, Metric::TtftDue] {
        if let Some(seen) = cell.metrics.get_mut(&metric) {
            seen.bounded_share = Some(0.2);
            seen.with_failures = Some(FailureView {
                n: planned,
                failed: 95,
                quantiles: vec![
                    (0.5, Some(seen.mean)),
                    (0.9, None),
                    (0.95, None),
                    (0.99, None),
                    (0.999, None),
                ],
            });
            seen.quantiles
                .iter_mut()
                .for_each(|q| q.other_end = Some(q.value * 0.97));
        }
    }
}

/// What a source calls its only instance.
pub fn instance(source: ReadingSource) -> &'static str {
    match source {
        ReadingSource::Gpu => "0",
        ReadingSource::ServerMetrics => "http://127.0.0.1:8000/metrics",
        _ => "",
    }
}
