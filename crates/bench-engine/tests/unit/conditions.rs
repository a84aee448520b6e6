use super::*;

/// Conditions whose first connection was accepted at 1 s.
fn from_toml(text: &str) -> Conditions {
    let config: EngineConfig = toml::from_str(text).unwrap();
    config.check().unwrap();
    let conditions = Conditions::new(&config);
    conditions.first_ns.store(1_000_000_000, Relaxed);
    conditions
}

fn at(ms: u64) -> u64 {
    1_000_000_000 + ms * 1_000_000
}

#[test]
fn work_that_meets_periodic_pauses_takes_longer_by_their_lengths() {
    let conditions =
        from_toml("[[pauses]]\nwhat = \"tokens\"\nafter_ms = 100\nfor_ms = 30\nevery_ms = 100");
    assert_eq!(conditions.done(at(0), 50e6), at(50));
    assert_eq!(
        conditions.done(at(90), 20e6),
        at(140),
        "10 before, 10 after"
    );
    assert_eq!(conditions.done(at(110), 5e6), at(135), "begun inside");
    assert_eq!(conditions.done(at(90), 100e6), at(250), "two of them");
    assert_eq!(
        conditions.paused_until(PauseOf::Tokens, at(215)),
        Some(at(230))
    );
    assert_eq!(conditions.paused_until(PauseOf::Tokens, at(230)), None);
    assert_eq!(conditions.paused_until(PauseOf::Requests, at(215)), None);
}

#[test]
fn a_step_holds_at_once_a_drift_grows_and_both_multiply() {
    let conditions = from_toml(
        "[[slowdowns]]\nfactor = 2.0\nafter_ms = 100\n[[slowdowns]]\nfactor = 3.0\nover_ms = 1000\nuntil_ms = 2000",
    );
    assert_eq!(conditions.done(at(0), 10e6), at(10));
    assert_eq!(conditions.done(at(500), 10e6), at(540), "2 × (1 + 2 × 0.5)");
    assert_eq!(conditions.done(at(1500), 10e6), at(1560), "2 × 3");
    assert_eq!(
        conditions.done(at(2000), 10e6),
        at(2020),
        "the drift is over"
    );
}

#[test]
fn nothing_holds_before_the_first_connection() {
    let conditions = from_toml("[[slowdowns]]\nfactor = 2.0");
    conditions.first_ns.store(0, Relaxed);
    assert_eq!(conditions.done(at(0), 10e6), at(10));
}

#[test]
fn the_first_requests_and_each_new_size_of_batch_cost_more_once() {
    let conditions = from_toml("[cold]\nrequests = 2\nfirst_token_ms = 3.0\nshape_ms = 7.0");
    let requests: Vec<u64> = (0..3).map(|_| conditions.cold_request_ns()).collect();
    assert_eq!(requests, [3_000_000, 3_000_000, 0]);
    let shapes: Vec<u64> = [1, 1, 2, 3, 4, 5]
        .map(|n| conditions.cold_shape_ns(n))
        .into();
    assert_eq!(shapes, [7_000_000, 0, 7_000_000, 7_000_000, 0, 7_000_000]);
}

#[test]
fn a_bucket_lets_its_burst_through_then_its_rate_and_says_when_to_come_again() {
    let conditions = from_toml("[rate_limit]\nper_s = 0.5\nburst = 2");
    let now = now_ns();
    assert_eq!([0, 0].map(|_| conditions.turned_away(now)), [None, None]);
    assert_eq!(conditions.turned_away(now), Some(2), "a token takes 2 s");
    assert_eq!(
        conditions.turned_away(now + 1_200_000_000),
        Some(1),
        "less than 1 s is left"
    );
    assert_eq!(conditions.turned_away(now + 2_200_000_000), None);
}

#[test]
fn outages_come_in_turn_and_the_last_may_be_for_ever() {
    let conditions =
        from_toml("[[outages]]\nafter_ms = 100\nfor_ms = 50\n[[outages]]\nafter_ms = 300");
    assert_eq!(
        conditions.next_outage(at(0)),
        Some((at(100), Some(at(150))))
    );
    assert_eq!(
        conditions.next_outage(at(120)),
        Some((at(100), Some(at(150))))
    );
    assert_eq!(conditions.next_outage(at(150)), Some((at(300), None)));
}

#[test]
fn conditions_that_cannot_be_played_are_refused() {
    let cases = [
        "[[pauses]]\nwhat = \"tokens\"\nafter_ms = 0\nfor_ms = 10\nevery_ms = 10",
        "[[slowdowns]]\nfactor = 0.0",
        "[rate_limit]\nper_s = 0.0\nburst = 1",
        "unix = \"/tmp/s\"\n[[outages]]\nafter_ms = 1",
        "[cold]\nshape_ms = -1.0",
    ];
    for text in cases {
        let config: EngineConfig = toml::from_str(text).unwrap();
        assert!(config.check().is_err(), "{text}");
    }
    let mut transformer = EngineConfig::profile("tiny").unwrap();
    transformer.slowdowns = vec![Slowdown {
        factor: 2.0,
        after_ms: 0,
        over_ms: 0,
        until_ms: None,
    }];
    assert!(transformer.check().is_err());
}
