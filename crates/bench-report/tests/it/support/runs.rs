//! The golden runs.

mod lengths;
mod open_loop;
mod sweep;

use std::collections::BTreeMap;

use bench_schema::*;

pub(crate) use lengths::{grid, seqlen};
pub(crate) use open_loop::open_loop;
pub(crate) use sweep::sweep;

pub(crate) fn empty(experiment: Benchmark, title: &str) -> RunRecord {
    RunRecord {
        schema: Schema::current(),
        experiment,
        title: title.into(),
        trust: Trust::from_reasons(Vec::new()),
        tool: ToolRecord {
            name: format!("bench-{}", experiment.as_str()),
            version: "0.1.0".into(),
        },
        started_at: "2026-11-20T10:37:16Z".into(),
        duration: Nanos::from_secs(131),
        complete: true,
        incomplete_reason: None,
        seed: 42,
        config: serde_json::json!({"url": "http://127.0.0.1:8000", "seed": 42, "ignore_eos": true}),
        journal: Vec::new(),
        tags: BTreeMap::from([
            ("gpus".to_owned(), "1".to_owned()),
            ("commit".to_owned(), "8e78aaa".to_owned()),
        ]),
        clock: ClockRecord {
            arrival: ClockKind::Kernel,
            fallback_reason: None,
            monotonic_epoch_ns: Some(4_812_100_376_777),
            unix_epoch_ns: Some(1_763_635_036_000_000_000),
            met: Vec::new(),
            meeting: None,
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
            facts: [("gpu_memory_utilization", "0.9"), ("max_model_len", "8192")]
                .map(|(name, fact)| (name.to_owned(), fact.to_owned()))
                .into(),
            urls: vec!["http://127.0.0.1:8000".into()],
            embedded: false,
            api: "openai-completions".into(),
            model: Some("Qwen/Qwen2.5-0.5B-Instruct".into()),
            models: vec!["Qwen/Qwen2.5-0.5B-Instruct".into()],
            kind: Some("vllm".into()),
            version: Some("0.23.0".into()),
            tls_unverified: false,
            proxy: None,
        },
        cells: Vec::new(),
        analysis: Analysis::default(),
        targets: Vec::new(),
        findings: Vec::new(),
    }
}

/// A finding about a cell, or about none, with its numbers.
fn finding(
    code: impl Into<Code>,
    severity: f64,
    cell: &str,
    evidence: &[(Known, f64, Unit, &str)],
) -> Finding {
    let mut made = Finding::new(code, severity);
    made.cells
        .extend((!cell.is_empty()).then(|| cell.to_owned()));
    made.evidence = evidence
        .iter()
        .map(|(figure, value, unit, of)| Evidence {
            of: (!of.is_empty()).then(|| (*of).to_owned()),
            ..Evidence::new((*figure).into(), *value, *unit)
        })
        .collect();
    made
}
