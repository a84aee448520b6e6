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
