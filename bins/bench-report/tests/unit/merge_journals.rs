//! Tests of `src/merge/journals.rs`.

use bench_schema::{Exchange, Outcome};

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

/// Requests sent at these milliseconds, each answered after so many.
fn shard(sent: &[i64], took: i64) -> Span {
    let at = |ms| Stamp::EPOCH + Nanos::from_millis(ms);
    let one = |&ms: &i64| Span {
        from: at(ms),
        sent: at(ms),
        to: at(ms + took),
        requests: 1,
    };
    sent.iter().map(one).reduce(Span::and).unwrap()
}

/// One request after the other, from and to these milliseconds.
fn slot(from: i64, to: i64) -> Span {
    let sent: Vec<i64> = (from..to).step_by(10).collect();
    shard(&sent, 10)
}

#[test]
fn shards_that_ran_one_after_the_other_share_no_time() {
    assert!(overlap(&[slot(0, 1_000), slot(1_000, 2_000)]) < 0.05);
    assert!(overlap(&[shard(&[0], 1_000), shard(&[5_000], 1_000)]) <= 0.0);
    // 100 ms of 1,000, less the slack of 20
    let late = overlap(&[slot(0, 1_000), slot(100, 1_000)]);
    assert!((late - 0.92).abs() < 1e-12, "{late}");
    let early = overlap(&[slot(0, 1_000), slot(0, 900)]);
    assert!((early - 0.92).abs() < 1e-12, "{early}");
}

/// Each shard sends every fourth request of 4/s: none is there at the instant of the first request and of the last.
#[test]
fn shards_that_take_turns_in_one_schedule_are_one_load() {
    let due = |index: i64| -> Vec<i64> { (0..5).map(|k| (k * 4 + index) * 250).collect() };
    let all = [0, 1, 2, 3].map(|index| shard(&due(index), 100));
    assert!(overlap(&all) >= 1.0);
    let three_seconds_late = shard(&due(15), 100);
    assert!(overlap(&[all[0], all[1], all[2], three_seconds_late]) < 0.9);
}

/// A wave whose answers take 1 s here and 1.5 s there.
#[test]
fn who_waits_for_an_answer_when_the_last_request_is_sent_is_there_to_the_end() {
    let wave = overlap(&[shard(&[0, 0], 1_000), shard(&[1, 1], 1_500)]);
    assert!(wave > 0.999, "{wave}");
}

#[test]
fn a_shard_that_did_not_measure_shares_no_time() {
    let mut spans = Spans::default();
    let record = RequestRecord::bare(0, "c4", Exchange::nothing(Outcome::Completed));
    spans.add(0, &record);
    let overlaps = |is_full| spans.overlaps(2, |_, _| true, |_| is_full);
    for is_full in [false, true] {
        assert!(overlaps(is_full)[0].1 <= 0.0);
    }
}

#[test]
fn only_shards_that_are_part_of_a_cell_have_to_share_its_time() {
    let spans = [(0, slot(0, 1_000)), (1, slot(0, 1_000)), (2, slot(0, 100))];
    let cell: ByShard = spans.map(|(shard, span)| ((0, shard), span)).into();
    let spans = Spans {
        cells: [("c8".to_owned(), cell)].into(),
    };
    let of = |is_part: &dyn Fn(&str, usize) -> bool| {
        let found = spans.overlaps(4, is_part, |_| false);
        found.first().map(|(_, share)| *share).unwrap()
    };
    assert!(of(&|_, shard| shard < 2) > 0.99);
    assert!(of(&|_, shard| shard < 3) < 0.2);
    // the fourth measured nothing
    assert!(of(&|_, _| true) <= 0.0);
}
