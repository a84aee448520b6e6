use bench_schema::{FailureKind, Stage};

use super::*;

fn answered(status: Option<u16>, outcome: Outcome) -> Exchange {
    Exchange {
        status,
        ..Exchange::nothing(outcome)
    }
}

fn failed(status: Option<u16>) -> Exchange {
    answered(
        status,
        Outcome::Failed {
            stage: Stage::Headers,
            failure: FailureKind::Status,
            message: "HTTP it is".to_owned(),
        },
    )
}

#[test]
fn what_was_understood_and_refused_is_not_asked_again() {
    for (status, again) in [
        (Some(400), false),
        (Some(401), false),
        (Some(404), false),
        (Some(429), true),
        (Some(500), true),
        (Some(503), true),
        (None, true),
    ] {
        assert_eq!(is_worth_another_try(&failed(status)), again, "{status:?}");
    }
}

#[test]
fn a_refusal_says_what_came_and_what_to_do() {
    let (what, help) = refusal(&failed(Some(401))).unwrap();
    assert!(what.contains("HTTP it is") && help.contains("--api-key-env"));
    assert!(refusal(&failed(Some(404))).unwrap().1.contains("--model"));
    assert!(refusal(&failed(None)).unwrap().1.contains("--url"));
    for (stage, flag) in [
        (Stage::Connect, "--connect-timeout"),
        (Stage::Headers, "longer --timeout"),
        (Stage::FirstToken, "--first-token-timeout"),
        (Stage::Stream, "--token-timeout"),
    ] {
        let late = answered(None, Outcome::TimedOut { stage });
        let (_, help) = refusal(&late).unwrap();
        assert!(help.contains(flag), "{stage}: {help}");
    }
    let stopped = Outcome::Cancelled {
        reason: "after 2 content events".to_owned(),
    };
    assert!(refusal(&answered(Some(200), stopped)).is_none());
}
