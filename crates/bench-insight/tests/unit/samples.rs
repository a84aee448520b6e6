use bench_schema::{Channel, Event, Exchange};

use super::*;

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

/// Events at these instants, in ms.
fn answer(at: impl IntoIterator<Item = i64>) -> RequestRecord {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(Stamp::EPOCH);
    for at in at {
        wire.events.push(Event {
            at: Stamp::EPOCH + Nanos::from_millis(at),
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
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
