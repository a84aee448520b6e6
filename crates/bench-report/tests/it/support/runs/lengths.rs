//! The Qwen study: a latency grid, and length categories.

use std::collections::BTreeMap;

use bench_schema::*;

use super::super::cells::{cell, group, ms, slo};
use super::{empty, finding};

/// The Qwen study: three prompts × four output lengths, one at a time, 15 repeats.
pub(crate) fn grid() -> RunRecord {
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
                Load::closed(1),
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
            formula: "e2e_ns = a + b * output_tokens; ms_per_token = b / 1e6".into(),
            parameters: BTreeMap::from([
                ("a".into(), 3.1e6),
                ("b".into(), 10.18e6),
                ("ms_per_token".into(), 10.18),
            ]),
            intervals: BTreeMap::from([(
                "ms_per_token".into(),
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
        Fact::OutputLength,
        0.0,
        "",
        &[
            (Known::TimePerOutputToken, 10.18e6, Unit::Ns, ""),
            (Known::FewestTokens, 10.0, Unit::Tokens, ""),
            (Known::MostTokens, 100.0, Unit::Tokens, ""),
            (Known::RSquared, 0.9999, Unit::Ratio, ""),
        ],
    )];
    run
}

/// Length categories of the Qwen study, and its use cases with an objective that long answers miss.
pub(crate) fn seqlen() -> RunRecord {
    let mut run = empty(Benchmark::Seqlen, "Cost of length, Qwen2.5-7B-Instruct");
    let mut one = cell("mixed", "mixed lengths", Load::closed(1), (3.0, 118.0), 100);
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
        Fact::Tail,
        0.0,
        "mixed",
        &[
            (Known::TailRatio, 2.99, Unit::Count, ""),
            (Known::E2eP50, 850e6, Unit::Ns, ""),
            (Known::E2eP95, 2544e6, Unit::Ns, ""),
        ],
    )];
    run
}
