use bench_schema::{Channel, Event, Exchange};

use super::*;

fn stalls(record: &RequestRecord) -> Box<[(Stamp, f64)]> {
    super::stalls(record).0
}

/// An answer of a thousand events, 1 ms apart, the 500th of which comes 50 ms late.
fn long_answer() -> RequestRecord {
    answer((1..=1_000).map(|n| if n < 500 { n } else { n + 50 }))
}

#[test]
fn of_a_long_answer_the_gap_that_stands_out_is_kept() {
    let found = stalls(&long_answer());
    let at = Stamp::EPOCH + Nanos::from_millis(499);
    assert_eq!(*found, [(at, 51e6)]);
}

#[test]
fn an_answer_is_parted_evenly_by_its_events_where_it_has_enough() {
    let of = |n: i64, most| parts(&answer((0..n).map(|i| 10 * i)), most);
    let ms = |at: i64| Stamp::EPOCH + Nanos::from_millis(at);
    // sixty-five events have eight parts of eight gaps
    assert_eq!(*of(65, 64), [80, 160, 240, 320, 400, 480, 560].map(ms));
    assert_eq!(*of(65, 4), [160, 320, 480].map(ms));
    assert_eq!(*of(17, 64), [ms(80)]);
    assert_eq!(of(10_001, 64).len(), 63);
    assert!(of(16, 64).is_empty() && of(1, 64).is_empty() && of(17, 1).is_empty());
}

#[test]
fn of_many_long_answers_fewer_parts_are_kept_and_they_stay_even() {
    let mut keeper = SampleKeeper::new("c");
    for _ in 0..100 {
        keeper.push(&answer((0..=1_024).map(|i| 10 * i)));
    }
    let samples = keeper.finish();
    let parts = &samples.requests[0].parts;
    assert_eq!(parts.len(), 31);
    let even = (1..32).map(|part| Stamp::EPOCH + Nanos::from_millis(320 * part));
    assert!(parts.iter().copied().eq(even), "{parts:?}");
    let same = |request: &RequestSample| request.parts == *parts;
    assert!(samples.requests.iter().all(same));
}

/// Events at these instants, in ms.
fn answer(at: impl IntoIterator<Item = i64>) -> RequestRecord {
    read(at.into_iter().map(|at| (at, 0)))
}

/// Events that were read at these instants and may have come so much earlier, in ms.
fn read(events: impl IntoIterator<Item = (i64, i64)>) -> RequestRecord {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(Stamp::EPOCH);
    for (at, bound) in events {
        wire.events.push(Event {
            at: Stamp::EPOCH + Nanos::from_millis(at),
            lag: Some(Nanos::ZERO),
            bound: Nanos::from_millis(bound),
            tokens: None,
            channel: Channel::Answer,
        });
    }
    RequestRecord::bare(0, "c", wire)
}

#[test]
fn a_token_that_was_late_on_its_way_is_no_stall_and_one_that_was_made_late_is() {
    // 10 ms apart; the 20th comes 50 ms late, and with it those that were made meanwhile
    let arrives = |n: i64, late: i64| {
        if n < 20 {
            10 * n
        } else {
            (200 + late).max(10 * n)
        }
    };
    assert!(stalls(&answer((1..60).map(|n| arrives(n, 50)))).is_empty());
    // so late that users see it
    assert_eq!(stalls(&answer((1..60).map(|n| arrives(n, 200)))).len(), 1);
    let stops = |n: i64| if n < 20 { 10 * n } else { 10 * n + 50 };
    assert_eq!(stalls(&answer((1..60).map(stops))).len(), 1);
}

#[test]
fn a_client_that_reads_late_stops_no_answer() {
    // 10 ms apart; nothing is read from 200 ms to 500, and then all that came meanwhile, together
    let at = |n: i64| if (20..50).contains(&n) { 500 } else { 10 * n };
    let bound = |n: i64| if n == 20 { 299 } else { 0 };
    assert_eq!(stalls(&answer((1..80).map(at))).len(), 1);
    assert!(stalls(&read((1..80).map(|n| (at(n), bound(n))))).is_empty());
    // after a stop they go on as before, however far the bound of the first reaches
    let at = |n: i64| if n < 20 { 10 * n } else { 10 * n + 300 };
    for width in [50, 309] {
        let bound = |n: i64| if n == 20 { width } else { 0 };
        assert_eq!(stalls(&read((1..80).map(|n| (at(n), bound(n))))).len(), 1);
    }
}

#[test]
fn a_network_that_delays_each_token_by_chance_stops_none() {
    // exponential delays of 15 ms, 8.7 ms apart, in order
    let mut state = 7_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) as f64 + 0.5) / f64::from(1_u32 << 31)
    };
    let (mut stood, mut all) = (0.0, 0.0);
    for _ in 0..100 {
        let mut last = 0.0_f64;
        let at: Vec<i64> = (0..60)
            .map(|n| {
                last = last.max(f64::from(n) * 8.7 - 15.0 * uniform().ln());
                Nanos::from_f64(last).get()
            })
            .collect();
        let record = answer(at);
        all += last * 1e6;
        stood += stalls(&record).iter().map(|stall| stall.1).sum::<f64>();
    }
    // nearly half of the time lies in gaps of four times the usual; what is left are delays that users see
    assert!(stood < 0.05 * all, "{}", stood / all);
}

#[test]
fn of_the_warm_up_what_streams_beside_the_first_requests_is_kept() {
    let warm = |id: u64, from: i64, to: i64| RequestRecord {
        id,
        phase: Phase::Warmup,
        ..answer((from..to).map(|n| if n < to - 10 { n } else { n + 300 }))
    };
    let measured = RequestRecord {
        due: Stamp::EPOCH + Nanos::from_millis(500),
        ..answer(500..600)
    };
    let records = [warm(0, 100, 150), measured, warm(1, 100, 300)];
    let kept = CellSamples::of("c", &records).warm_up;
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}")
    };
    assert_eq!(kept.id, 1);
    // it stood still from 289 to 590 ms
    let from = Stamp::EPOCH + Nanos::from_millis(500);
    assert_eq!(*kept.stalls, [(from, 90e6)]);
}

#[test]
fn an_answer_whose_end_was_read_late_says_so() {
    let late = |bound: i64| {
        let events = (1..=50).map(|n| (10 * n, if n == 50 { bound } else { 0 }));
        CellSamples::of("c", &[read(events)]).requests[0].read_late
    };
    assert_eq!([0, 10, 20].map(late), [false, false, true]);
}
