//! Comprehensive Benchmark Analysis Report: phases, datasets, rates, models, GPUs.

use bench_insight::{BottleneckKind, bottlenecks};
use bench_schema::RunRecord;

use super::{evidence, found, load, near, one, says};

#[test]
fn phase_report_short_prompts_serve_2_7_times_the_requests_of_long_ones() {
    let (_, all) = found("phases-datasets");
    says(
        one(&all, "workloads_differ"),
        &["4.65 requests/s with random-short", "1.72 with c4", "2.7×"],
    );
}

#[test]
fn phase_report_gpu_use_rises_with_the_workload() {
    // §3, key finding 4: 78.5 % to 89.5 %.
    let (_, all) = found("phases-datasets");
    let found = one(&all, "workloads_differ");
    let used: Vec<f64> = ["random-short", "random-medium", "c4"]
        .map(|name| evidence(found, &format!("mean GPU use with {name}")))
        .into();
    for (got, table) in used.iter().zip([78.5, 85.2, 89.5]) {
        near(*got, table, 0.05);
    }
}

#[test]
fn phase_report_a_larger_model_takes_two_and_three_times_as_long() {
    // §5: "7B model: ~2x latency of small model, 13B: ~3x; ~50 % and ~25 % of its throughput".
    let (_, all) = found("phases-models");
    let found = one(&all, "workloads_differ");
    says(
        found,
        &[
            "the model decides the rate",
            "4.65 requests/s with gpt2",
            "1.00 with llama-2-13b",
            "4.7×",
        ],
    );
    let seconds = |name: &str| evidence(found, &format!("mean E2E with {name}")) / 1e3;
    let small = seconds("gpt2");
    near(seconds("llama-2-7b") / small, 2.0, 0.2);
    near(seconds("llama-2-13b") / small, 3.0, 0.2);
    let rate = |name: &str| evidence(found, &format!("requests/s with {name}"));
    near(rate("llama-2-7b") / rate("gpt2"), 0.5, 0.1);
    near(rate("llama-2-13b") / rate("gpt2"), 0.25, 0.05);
}

#[test]
fn phase_report_models_of_separate_runs_are_told_apart_by_their_tag() {
    let whole = load::run("phases-models");
    let runs: Vec<RunRecord> = whole
        .cells
        .iter()
        .map(|cell| {
            let mut run = whole.clone();
            let mut cell = cell.clone();
            let model = cell.factors.remove("model").unwrap();
            run.cells = vec![cell];
            run.tags.insert("model".to_owned(), model.to_string());
            run
        })
        .collect();
    let refs: Vec<&RunRecord> = runs.iter().collect();
    let all = bench_insight::findings_by_tag("model", &refs);
    says(
        one(&all, "workloads_differ"),
        &["the model decides the rate", "4.7×"],
    );
}

#[test]
fn phase_report_at_the_high_rate_most_of_what_is_offered_waits() {
    // §4 and §9 give 0.65 for "queue buildup" and do not say of what; the table's own numbers say 1 − 2.84 / 20.
    let mut run = load::run("phases-rates");
    // The document does not print how long it measured: long enough for the rule.
    for cell in &mut run.cells {
        cell.windows.whole.as_mut().unwrap().seconds = 300.0;
    }
    let all = bench_insight::findings(&run, &[]);
    let overload = one(&all, "overload");
    near(overload.severity, 1.0 - 2.84 / 20.0, 0.01);
    assert_eq!(overload.cells.last().map(String::as_str), Some("r20"));
}

#[test]
fn phase_report_gpu_counts_of_separate_runs_scale_along_their_tag() {
    let whole = load::run("phases-gpus");
    let runs: Vec<RunRecord> = whole
        .cells
        .iter()
        .map(|cell| {
            let mut run = whole.clone();
            run.cells = vec![cell.clone()];
            run.tags
                .insert("gpus".to_owned(), cell.factors["gpus"].to_string());
            run
        })
        .collect();
    let refs: Vec<&RunRecord> = runs.iter().rev().collect();
    let all = bench_insight::findings_by_tag("gpus", &refs);
    says(
        one(&all, "scaling_efficiency"),
        &["2 gpus reach 1.59× (79 %)", "4 gpus reach 2.29× (57 %)"],
    );
}

#[test]
fn phase_report_decode_is_75_to_83_percent_and_always_dominates() {
    let (_, all) = found("phases-datasets");
    says(
        one(&all, "phase_split"),
        &[
            "decode is 75–83 %",
            "prefill 17–25 %",
            "3 cells",
            "always dominates",
        ],
    );
    // 83 % in the short dataset is over the threshold of 80 %.
    let decode = one(&all, "decode_bound");
    assert_eq!(decode.cells, ["short"]);
}

#[test]
fn phase_report_prefill_grows_fourfold_from_short_to_long_prompts() {
    let (_, all) = found("phases-datasets");
    says(
        one(&all, "prefill_grows_with_prompt"),
        &["4.1×", "1.80 s at 128 tokens", "7.30 s at 768"],
    );
}

#[test]
fn phase_report_bottleneck_table_has_its_severities() {
    // §9: short prompts at a low rate 0.48 (GPU 52.3 %), medium prompts 0.77 (decode 77 %), long prompts 0.25 (prefill 25 %).
    let severity = |fixture, cell: &str, kind| {
        let run = load::run(fixture);
        let rows = bottlenecks(run.cell(cell).unwrap());
        rows.iter().find(|row| row.kind == kind).unwrap().severity
    };
    near(
        severity("phases-rates", "r2", BottleneckKind::LowGpuUse),
        0.48,
        0.005,
    );
    near(
        severity("phases-datasets", "medium", BottleneckKind::Decode),
        0.77,
        0.005,
    );
    near(
        severity("phases-datasets", "c4", BottleneckKind::Prefill),
        0.25,
        0.005,
    );
}

#[test]
fn phase_report_medium_prompts_are_limited_by_decode_first() {
    let run = load::run("phases-datasets");
    assert_eq!(
        bottlenecks(run.cell("medium").unwrap())[0].kind,
        BottleneckKind::Decode
    );
}

#[test]
fn phase_report_low_rate_leaves_the_gpu_idle() {
    let (_, all) = found("phases-rates");
    let idle = one(&all, "low_gpu_use");
    says(idle, &["idle 48 %", "in 1 of 3 cells", "52 %"]);
    near(idle.severity, 0.48, 0.005);
    assert_eq!(idle.cells, ["r2"]);
}

#[test]
fn phase_report_optimal_operating_point_is_five_requests_per_second() {
    let (_, all) = found("phases-rates");
    says(
        one(&all, "operating_point"),
        &[
            "rate 5",
            "85 %",
            "80–90 %",
            "at 2 it is 52 %",
            "at 20 it is 96 %",
            "56 % longer",
        ],
    );
}

#[test]
fn phase_report_high_rate_saturates_the_gpu() {
    let (_, all) = found("phases-rates");
    let full = one(&all, "saturated_compute");
    says(full, &["rate 20", "96 %", "21 % more throughput"]);
    assert_eq!(full.cells, ["r20"]);
}

#[test]
fn phase_report_cpu_is_not_the_limit() {
    let (_, all) = found("phases-rates");
    says(one(&all, "cpu_not_limit"), &["42–63 %", "89 % at most"]);
}

#[test]
fn phase_report_gpus_scale_with_79_and_57_percent_efficiency() {
    let (run, all) = found("phases-gpus");
    let scaling = one(&all, "scaling_efficiency");
    says(
        scaling,
        &["2 gpus reach 1.59× (79 %)", "4 gpus reach 2.29× (57 %)"],
    );
    assert!(
        scaling
            .hypothesis
            .as_deref()
            .is_some_and(|why| why.contains("communication"))
    );
    near(scaling.severity, 0.43, 0.005);
    let penalties: Vec<f64> = run
        .analysis
        .scaling
        .iter()
        .filter_map(|row| row.latency_penalty)
        .collect();
    near(penalties[1], 0.014, 0.001);
    near(penalties[2], 0.064, 0.001);
}
