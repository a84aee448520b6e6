//! Tests of `src/merge/journals.rs`.

use super::*;

/// At this second, ahead by this much, right to that.
fn exchange(at_s: i64, offset: i64, bound: i64) -> ClockExchange {
    ClockExchange {
        at: Stamp::EPOCH + Nanos::from_secs(at_s),
        offset: Nanos::new(offset),
        bound: Nanos::new(bound),
    }
}

#[test]
fn a_clock_that_drifts_is_followed_from_one_meeting_to_the_next() {
    let clock = Comparison::Met(vec![exchange(10, 500, 20), exchange(20, 1_500, 10)]);
    let at = |s| clock.offset(Stamp::EPOCH + Nanos::from_secs(s)).get();
    assert_eq!(
        [0, 10, 12, 15, 20, 99].map(at),
        [500, 500, 700, 1_000, 1_500, 1_500]
    );
}

#[test]
fn a_clock_is_known_as_well_as_the_meetings_around_a_cell_and_drifts_but_does_not_jump() {
    let clocks = |all: Vec<ClockExchange>| Clocks {
        shards: vec![
            Comparison::Met(vec![exchange(0, 0, 0)]),
            Comparison::Met(all),
        ],
        epoch_ns: 0,
        one_host: false,
        disagreement: None,
        met: true,
    };
    let s = |s| Stamp::EPOCH + Nanos::from_secs(s);
    let drifting = clocks(vec![
        exchange(10, 0, 900),
        exchange(20, 1_000_000, 50),
        exchange(30, 2_000_000, 70),
        exchange(40, 0, 800),
    ]);
    // 100 ppm is what clocks do
    assert_eq!(drifting.worst(s(21), s(29)), (Nanos::new(70), Nanos::ZERO));
    assert_eq!(drifting.worst(s(11), s(29)), (Nanos::new(900), Nanos::ZERO));
    let jumped = clocks(vec![exchange(10, 0, 900), exchange(20, 9_000_000, 100)]);
    assert_eq!(
        jumped.worst(s(11), s(19)).1,
        Nanos::new(9_000_000 - 1_000 - 2_000_000)
    );
}

#[test]
fn shards_that_ran_one_after_the_other_share_no_time() {
    let at = |from, to| (Stamp::new(from), Stamp::new(to));
    assert!(overlap(&[at(0, 100), at(100, 200)], 2) <= 0.0);
    assert!((overlap(&[at(0, 100), at(10, 100)], 2) - 0.9).abs() < 1e-12);
    assert!(
        overlap(&[at(0, 100)], 2) <= 0.0,
        "one shard did not measure at all"
    );
}
