use bench_schema::{FailureKind, Stage};

use super::*;

fn failed(failure: FailureKind, status: Option<u16>) -> Exchange {
    let mut wire = Exchange::nothing(Outcome::Failed {
        stage: Stage::Headers,
        failure,
        message: "no".to_owned(),
    });
    wire.status = status;
    wire
}

#[test]
fn pauses_double_up_to_five_seconds_and_begin_anew_after_an_answer() {
    let mut slot = BackOff::default();
    let refused = failed(FailureKind::Refused, None);
    let pauses: Vec<_> = (0..8)
        .filter_map(|_| slot.after(BackOffHint::of(&refused)))
        .collect();
    let ms = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
    assert_eq!(pauses, ms.map(Nanos::from_millis));
    assert_eq!(
        slot.after(BackOffHint::of(&Exchange::nothing(Outcome::Completed))),
        None
    );
    assert_eq!(
        slot.after(BackOffHint::of(&refused)),
        Some(Nanos::from_millis(100))
    );
}

#[test]
fn the_servers_own_time_counts_and_a_failure_that_is_not_the_first_in_a_row_makes_a_pause() {
    let mut slot = BackOff::default();
    let mut told = failed(FailureKind::Status, Some(429));
    told.retry_after = Some(Nanos::from_secs(7));
    assert_eq!(
        slot.after(BackOffHint::of(&told)),
        Some(Nanos::from_secs(7))
    );
    told.retry_after = Some(Nanos::from_secs(3600));
    assert_eq!(slot.after(BackOffHint::of(&told)), Some(LONGEST_ASKED));
    let broken = BackOffHint::of(&failed(FailureKind::Status, Some(500)));
    let answered = BackOffHint::of(&Exchange::nothing(Outcome::Completed));
    slot.after(answered);
    let pauses: Vec<_> = [broken, answered, broken, broken, broken]
        .into_iter()
        .map(|hint| slot.after(hint))
        .collect();
    let ms = |ms| Some(Nanos::from_millis(ms));
    assert_eq!(pauses, [None, None, None, ms(100), ms(200)]);
    assert!(
        slot.after(BackOffHint::of(&failed(FailureKind::Status, Some(503))))
            .is_some()
    );
}

fn after(outcomes: &[(u64, bool)], keep_going: bool) -> Option<String> {
    let health = Health::new(keep_going, Secrets::default());
    for &(count, answered) in outcomes {
        for _ in 0..count {
            let outcome = if answered {
                Outcome::Completed
            } else {
                failed(FailureKind::Status, Some(500)).outcome
            };
            health.note(&outcome, health.begin(Stamp::EPOCH), Stamp::EPOCH);
        }
    }
    health.verdict().map(str::to_owned)
}

#[test]
fn a_cell_ends_when_its_first_requests_or_more_than_half_fail() {
    assert_eq!(after(&[(9, false)], false), None);
    assert!(
        after(&[(10, false)], false)
            .unwrap()
            .contains("10 of the first 10 requests failed, including warm-up")
    );
    assert_eq!(after(&[(10, false)], true), None);
    assert_eq!(after(&[(1, true), (60, false)], false), None);
    assert_eq!(after(&[(50, true), (50, false)], false), None);
    assert!(after(&[(50, true), (51, false)], false).is_some());
}

#[test]
fn refusals_that_end_before_the_answers_do_are_not_the_first_requests() {
    let health = Health::new(false, Secrets::default());
    let first: Vec<bool> = (0..9).map(|_| health.begin(Stamp::EPOCH)).collect();
    let refused = failed(FailureKind::Status, Some(429)).outcome;
    // Four of nine are at work; the slots of the others ask again and again.
    for is_first in first.iter().skip(4) {
        health.note(&refused, *is_first, Stamp::EPOCH);
    }
    for _ in 0..20 {
        health.note(&refused, health.begin(Stamp::EPOCH), Stamp::EPOCH);
    }
    assert_eq!(health.verdict(), None);
}

#[test]
fn a_cell_that_ends_otherwise_tells_that_all_failed_and_how() {
    let health = Health::new(true, Secrets::default());
    assert_eq!(health.all_failed(), None);
    for kind in [FailureKind::Refused, FailureKind::Status] {
        health.note(
            &failed(kind, None).outcome,
            health.begin(Stamp::EPOCH),
            Stamp::EPOCH,
        );
    }
    assert_eq!(
        health.all_failed().unwrap(),
        "all 2 requests failed, including warm-up (no)"
    );
    health.note(
        &Outcome::Completed,
        health.begin(Stamp::EPOCH),
        Stamp::EPOCH,
    );
    assert_eq!(health.all_failed(), None);
}

#[test]
fn what_the_client_itself_did_not_send_or_cancelled_is_no_failure() {
    let health = Health::new(false, Secrets::default());
    let reason = String::new;
    for _ in 0..1000 {
        health.note(&Outcome::Unsent { reason: reason() }, false, Stamp::EPOCH);
        health.note(
            &Outcome::Cancelled { reason: reason() },
            health.begin(Stamp::EPOCH),
            Stamp::EPOCH,
        );
    }
    assert_eq!(health.verdict(), None);
}

/// Three of the first ten hang; the slots of the others are refused again and again.
#[test]
fn a_cell_whose_first_requests_hang_while_all_others_fail_ends_after_ten_seconds() {
    let health = Health::new(false, Secrets::default());
    let refused = failed(FailureKind::Refused, None).outcome;
    let at = |seconds| Stamp::EPOCH + Nanos::from_secs(seconds);
    let first: Vec<bool> = (0..8).map(|_| health.begin(at(0))).collect();
    for is_first in first.iter().skip(3) {
        health.note(&refused, *is_first, at(0));
    }
    for seconds in 1..10 {
        health.note(&refused, health.begin(at(seconds)), at(seconds));
    }
    assert_eq!(health.verdict(), None, "a slow server may still answer");
    health.note(&refused, health.begin(at(10)), at(10));
    assert!(health.verdict().is_some());
}

#[test]
fn a_few_failures_beside_many_long_answers_end_nothing() {
    let health = Health::new(false, Secrets::default());
    let broken = failed(FailureKind::Status, Some(500)).outcome;
    for _ in 0..256 {
        health.begin(Stamp::EPOCH);
    }
    for seconds in 0..60 {
        health.note(&broken, false, Stamp::EPOCH + Nanos::from_secs(seconds));
    }
    assert_eq!(health.verdict(), None);
}

#[test]
fn the_kind_of_the_failure_that_ends_a_cell_is_that_of_the_one_too_many() {
    let health = Health::new(false, Secrets::default());
    assert_eq!(health.ended_by(), None);
    let fails = |kind| {
        let outcome = failed(kind, None).outcome;
        health.note(&outcome, health.begin(Stamp::EPOCH), Stamp::EPOCH);
    };
    fails(FailureKind::Status);
    assert_eq!(health.ended_by(), Some(FailureKind::Status));
    for _ in 0..9 {
        fails(FailureKind::ClientResources);
    }
    assert!(health.verdict().is_some());
    assert_eq!(health.ended_by(), Some(FailureKind::ClientResources));
}
