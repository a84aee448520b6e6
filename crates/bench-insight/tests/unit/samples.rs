use bench_schema::{Channel, Event, Exchange};

use super::*;

/// An answer of a thousand events, 1 ms apart, the 500th of which comes 50 ms late.
fn long_answer() -> RequestRecord {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(Stamp::EPOCH);
    for n in 1..=1_000 {
        let late = if n < 500 { 0 } else { 50 };
        wire.events.push(Event {
            at: Stamp::EPOCH + Nanos::from_millis(n + late),
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    RequestRecord::bare(0, "c", wire)
}

#[test]
fn of_a_long_answer_the_gap_that_stands_out_is_kept() {
    let found = stalls(&long_answer());
    let at = Stamp::EPOCH + Nanos::from_millis(499);
    assert_eq!(*found, [(at, 51e6)]);
}
