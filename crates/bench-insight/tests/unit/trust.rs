//! What a cause says of a cell's numbers.

use bench_schema::{Experiment, Known};

use super::*;
use crate::draft::Draft;

#[test]
fn latencies_of_an_overload_depend_on_the_length_of_the_run_and_its_rate_does_not() {
    let overload = Draft::new(Cause::Overload, 0.4).refuted_by(Experiment::LowerRate);
    let mut overload = overload.done().unwrap();
    overload.cells = vec!["r60".to_owned()];
    let mut trust = Trust::from_reasons(Vec::new());
    doubt_mixed_levels(&mut trust, std::slice::from_ref(&overload));
    assert_eq!(trust.verdict, TrustVerdict::Doubtful);
    let reason = &trust.reasons[0];
    assert!(
        reason.message.contains("length of the run"),
        "{}",
        reason.message
    );
    // a level that moved leaves no rate; a queue that grows does
    assert_eq!(reason.threshold, Some(0.0));
    // trends that were seen are what it looks like
    let message = reason.message.clone();
    let trends = TrustReason {
        cell: Some("r60".to_owned()),
        ..TrustReason::new(
            "not_stationary",
            TrustVerdict::Doubtful,
            "TTFT rises to 1.71×".to_owned(),
        )
    };
    let mut trust = Trust::from_reasons(vec![trends]);
    doubt_mixed_levels(&mut trust, &[overload]);
    assert_eq!(trust.reasons[0].message, message);
}

#[test]
fn a_queue_of_one_part_of_the_time_is_doubted_and_one_of_all_of_it_is_not() {
    let reasons = |lasted: Option<f64>| {
        let queue = Draft::new(Cause::Queueing, 0.5).because(Known::Lasted, lasted);
        let mut queue = queue.done().unwrap();
        queue.cells = vec!["r20".to_owned()];
        let mut trust = Trust::from_reasons(Vec::new());
        doubt_mixed_levels(&mut trust, &[queue]);
        trust.reasons
    };
    assert!(reasons(None).is_empty());
    let message = &reasons(Some(7e9))[0].message;
    assert!(message.contains("in one part of it only"), "{message}");
}

#[test]
fn an_overload_is_doubted_under_what_makes_the_server_slow_too() {
    let doubted = |cause| {
        let mut found = Draft::new(cause, 0.9).done().unwrap();
        found.cells = vec!["r50".to_owned()];
        found.consequences = vec![Cause::Overload];
        let mut trust = Trust::from_reasons(Vec::new());
        doubt_mixed_levels(&mut trust, &[found]);
        !trust.reasons.is_empty()
    };
    assert!(doubted(Cause::SlowReplica) && doubted(Cause::ServerStarved));
    // a queue that a stop leaves is gone some time after
    assert!(!doubted(Cause::Frozen) && !doubted(Cause::ServerGone));
}

#[test]
fn what_to_do_about_two_speeds_follows_from_their_cause() {
    let told = |cause| {
        let mut found = Draft::new(cause, 0.2).done().unwrap();
        found.cells = vec!["c8".to_owned()];
        let seen = TrustReason {
            next: Some("measure longer, or use a longer warm-up".to_owned()),
            cell: Some("c8".to_owned()),
            ..TrustReason::new("not_stationary", TrustVerdict::Doubtful, String::new())
        };
        let next = |reasons: Vec<TrustReason>| {
            let mut trust = Trust::from_reasons(reasons);
            doubt_mixed_levels(&mut trust, &[found.clone()]);
            assert_eq!(trust.reasons.len(), 1);
            trust.reasons[0].next.clone().unwrap()
        };
        // whoever saw it first
        assert_eq!(next(vec![seen]), next(Vec::new()));
        next(Vec::new())
    };
    assert!(told(Cause::ColdStart).contains("longer warm-up"));
    for cause in [Cause::Step, Cause::Drift] {
        let next = told(cause);
        assert!(
            !next.contains("measure longer") && !next.contains("warm-up"),
            "{next}"
        );
    }
}
