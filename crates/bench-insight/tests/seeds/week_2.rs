//! Week 2 Benchmark Results: A Detailed Analysis.

use bench_insight::{BottleneckKind, analyse_run, bottlenecks, findings, next_round};

use super::{evidence, found, load, near, one, says};

#[test]
fn week_2_output_lengths_scale_linearly_at_ten_milliseconds_a_token() {
    let (run, all) = found("week2-latency");
    let linear = one(&all, "linear_output_scaling");
    says(
        linear,
        &[
            "linearly",
            "10.2 ms per output token",
            "from 10 to 100 tokens",
            "R² 1.000",
        ],
    );
    near(
        evidence(linear, "output tokens per second of one request"),
        100.0,
        3.0,
    );
    assert!(linear.actions[0].contains("within 2 s"));
    let factors: Vec<f64> = run
        .analysis
        .scaling
        .iter()
        .take(4)
        .map(|row| row.scaling_factor)
        .collect();
    for (got, table) in factors.iter().zip([1.0, 1.96, 4.88, 9.73]) {
        near(*got, table, 0.01);
    }
}

#[test]
fn week_2_prompt_length_has_no_effect_from_5_to_106_words() {
    let (_, all) = found("week2-latency");
    says(
        one(&all, "prompt_length_no_effect"),
        &["from 5 to 106 words", "50 output tokens", "512 ms"],
    );
}

#[test]
fn week_2_coefficients_of_variation_are_consistent() {
    let (_, all) = found("week2-latency");
    let steady = one(&all, "consistent");
    says(steady, &["0.080–0.41 %", "2 cells", "consistent"]);
    assert!(steady.severity < 0.1);
}

#[test]
fn week_2_queue_takes_85_percent_of_the_latency() {
    let (run, all) = found("week2-production");
    let queue = one(&all, "queueing");
    says(queue, &["85 %", "10.5 s", "1.78 s"]);
    near(queue.severity, 0.855, 0.001);
    assert!(queue.actions[0].starts_with("max_num_seqs"));
    assert_eq!(queue.kind, bench_schema::FindingKind::Bottleneck);
    assert_eq!(bottlenecks(&run.cells[1])[0].kind, BottleneckKind::Queueing);
}

#[test]
fn week_2_batching_multiplies_throughput_nine_to_ten_times() {
    let (_, all) = found("week2-production");
    says(
        one(&all, "batching_speedup"),
        &["9.5×", "100 to 949 output tokens/s", "concurrency 1 to 16"],
    );
}

#[test]
fn week_2_every_use_case_is_generated_at_about_the_same_speed() {
    let (_, all) = found("week2-production");
    says(one(&all, "speed_by_use_case"), &["72 to 99 tokens/s"]);
}

#[test]
fn week_2_capacity_is_400_000_requests_a_day() {
    let (_, all) = found("week2-production");
    says(
        one(&all, "capacity"),
        &["4.60 requests/s served", "397,440 requests a day"],
    );
}

#[test]
fn week_2_p95_is_three_times_the_median() {
    let (_, all) = found("week2-lengths");
    let tail = one(&all, "tail_gap");
    says(tail, &["3.0×", "P95 2.54 s", "P50 850 ms"]);
    near(tail.severity, 0.5, 0.01);
}

#[test]
fn week_2_length_categories_grow_15_8_times_and_so_faster_than_their_bounds() {
    let (run, all) = found("week2-lengths");
    let growth = one(&all, "superlinear_categories");
    says(
        growth,
        &["15.8×", "faster than length", "very-long", "tiny"],
    );
    let factors: Vec<f64> = run
        .analysis
        .scaling
        .iter()
        .map(|row| row.scaling_factor)
        .collect();
    assert_eq!(factors.len(), 5);
    for (got, table) in factors.iter().zip([1.0, 3.0, 6.5, 9.1, 15.8]) {
        near(*got, table, 0.06);
    }
    // What the table cannot carry is said beside it.
    assert!(
        growth
            .hypothesis
            .as_deref()
            .is_some_and(|why| why.contains("upper limit"))
    );
}

#[test]
fn week_2_p95_misses_two_seconds_and_would_pass_at_three() {
    let (_, all) = found("week2-lengths");
    says(
        one(&all, "slo_missed"),
        &[
            "P95 E2E is 2.54 s",
            "misses 2.00 s by 27 %",
            "would pass at 3.00 s",
        ],
    );
    says(one(&all, "slo_met"), &["1 objective of 2 met"]);
}

#[test]
fn week_2_use_cases_differ_fifteen_times_at_p95() {
    let (_, all) = found("week2-lengths");
    says(
        one(&all, "use_case_latency"),
        &[
            "15.8×",
            "ultra-short-qa takes 279 ms",
            "long-form takes 4.40 s",
        ],
    );
}

#[test]
fn week_2_scenarios_chatbot_and_code_pass_and_long_form_fails_by_47_percent() {
    let (run, _) = found("week2-lengths");
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/configs/scenarios.toml"
    ))
    .unwrap();
    let set: bench_insight::ScenarioSet = toml::from_str(&text).unwrap();
    set.check().unwrap();
    let all = bench_insight::scenario_findings(&set, &run).unwrap();
    assert_eq!(all.len(), 3);
    says(&all[0], &["`chatbot` can be served", "850 ms", "1.50 s"]);
    says(
        &all[1],
        &[
            "`code-assistant` can be served",
            "P90 of E2E is 1.20 s",
            "2.00 s",
        ],
    );
    says(
        &all[2],
        &["`long-form` cannot be served", "4.40 s", "47 % over"],
    );
}

#[test]
fn week_2_targets_of_the_next_round_start_with_the_queue() {
    let (mut run, all) = found("week2-production");
    run.findings = all;
    let next = next_round(&run);
    assert_eq!(
        next[0].sentence(),
        "queue share of E2E: from 85.5 % to 50.0 %"
    );
}

#[test]
fn week_2_targets_halve_the_tail_gap_and_bring_p95_down_to_two_seconds() {
    // "Set Week 3 Optimization Targets": P95 from 2.544 s to 2.0 s, P95 over P50 from 3 to 2.
    let (mut run, all) = found("week2-lengths");
    run.findings = all;
    let next: Vec<String> = next_round(&run)
        .iter()
        .map(bench_insight::NextTarget::sentence)
        .collect();
    for wanted in [
        "P95 E2E: from 2544 ms to 2000 ms",
        "P95 over P50 of E2E: from 2.99 × to 2.00 ×",
    ] {
        assert!(
            next.iter().any(|s| s == wanted),
            "`{wanted}` is not in {next:?}"
        );
    }
}

#[test]
fn week_2_a_queue_of_41_percent_has_reached_the_target_of_50() {
    let (mut before, all) = found("week2-production");
    before.findings = all;
    let mut after = before.clone();
    after.findings.clear();
    let shares = after.cells[1].phases.as_mut().unwrap();
    (shares.queue, shares.decode) = (0.41, 0.59);
    let progress = bench_insight::progress(&before, &after);
    assert_eq!(
        progress[0].sentence(),
        "queue share of E2E (c16): 85.5 % before, 41.0 % now, target 50.0 %: reached"
    );
    let shares = after.cells[1].phases.as_mut().unwrap();
    (shares.queue, shares.decode) = (0.7, 0.3);
    let outcomes =
        |after: &bench_schema::RunRecord| bench_insight::progress(&before, after)[0].outcome;
    assert_eq!(outcomes(&after), bench_insight::ProgressOutcome::Closer);
    assert_eq!(outcomes(&before), bench_insight::ProgressOutcome::NoCloser);
    after.cells.remove(1);
    assert_eq!(
        outcomes(&after),
        bench_insight::ProgressOutcome::NotMeasured
    );
}

#[test]
fn week_2_every_target_is_measured_again_in_the_run_that_set_it() {
    for fixture in [
        "week2-production",
        "week2-lengths",
        "phases-rates",
        "phases-gpus",
    ] {
        let (mut run, all) = found(fixture);
        run.findings = all;
        let progress = bench_insight::progress(&run, &run);
        assert!(!progress.is_empty(), "{fixture}");
        for one in progress {
            let measured = one.measured.unwrap_or_else(|| panic!("{}", one.sentence()));
            near(measured, one.target.now, 1e-6 * one.target.now);
        }
    }
}

#[test]
fn week_2_answers_of_about_200_tokens_meet_two_seconds() {
    let mut run = load::run("week2-latency");
    // The objective that the document asks about, on the cells that it measured.
    run.cells[0].slos = load::run("week2-lengths").cells[0].slos.clone();
    run.analysis = analyse_run(&run);
    let all = findings(&run, &[]);
    let longest = one(&all, "longest_output");
    says(
        longest,
        &[
            "up to 196 tokens",
            "within 2.00 s",
            "beyond the 100 tokens measured",
        ],
    );
}
