//! Tests of `src/gate.rs`.

use super::*;

fn gates(verdicts: &[GateVerdict]) -> Vec<GateOutcome> {
    let gate = |&verdict| GateOutcome {
        rule: "e2e.p95:5%".to_owned(),
        cell: "c1".to_owned(),
        quantity: "e2e.p95".to_owned(),
        regression: 0.1,
        allowed: 0.05,
        interval: None,
        verdict,
    };
    verdicts.iter().map(gate).collect()
}

#[test]
fn a_missed_gate_is_4_unless_the_runs_cannot_be_compared_which_is_3() {
    let regressed = gates(&[GateVerdict::Passed, GateVerdict::Regressed]);
    assert_eq!(verdict(&regressed, &[], false).1, 4);
    assert_eq!(verdict(&regressed, &["why".to_owned()], false).1, 3);
    let refused = unless_refused(gates(&[GateVerdict::Passed]), &["why".to_owned()]);
    let told = lines("refused", &refused, true);
    assert!(told.contains("  not judged   c1 e2e.p95: "), "{told}");
    assert!(!told.contains("passed"), "{told}");
    let unsure = gates(&[GateVerdict::CannotTell]);
    assert_eq!(verdict(&unsure, &[], false).1, 4);
    let passed = gates(&[GateVerdict::Passed]);
    assert_eq!(verdict(&passed, &[], false).1, 0);
    // Strictly, only what excludes a regression passes.
    assert_eq!(verdict(&passed, &[], true).1, 4);
    let mut certain = passed;
    certain[0].interval = Some(bench_schema::Interval {
        low: -0.1,
        high: 0.04,
        confidence: 0.95,
    });
    assert_eq!(verdict(&certain, &[], true).1, 0);
}

#[test]
fn a_gate_that_nobody_can_tell_says_what_decides_it() {
    let told = |low, high| {
        let mut open = gates(&[GateVerdict::CannotTell]);
        open[0].interval = Some(bench_schema::Interval {
            low,
            high,
            confidence: 0.95,
        });
        lines("cannot tell", &open, false)
    };
    let wide = told(-0.04, 0.24);
    assert!(
        wide.contains("; about 8 times as many requests are needed to decide"),
        "{wide}"
    );
    // beyond what is allowed, but with as many rows chance is not excluded
    let beyond = told(0.07, 0.13);
    assert!(!beyond.contains("times as many"), "{beyond}");
    assert!(
        beyond.contains("correction for the number of rows"),
        "{beyond}"
    );
}

#[test]
fn gates_are_a_table_of_markdown_that_no_name_of_a_cell_breaks() {
    let mut missed = gates(&[GateVerdict::Regressed]);
    missed[0].cell = "a|b".to_owned();
    let page = markdown("missed", &missed);
    assert!(page.starts_with("**gate: missed**\n\n|"), "{page}");
    let row = "| MISSED | a\\|b | e2e.p95 | 10.0 % | 5.0 % |\n";
    assert!(page.ends_with(row), "{page}");
}
