//! From when on something can have arrived, by when the thread slept.

use super::*;

const LATENCY: Nanos = Nanos::from_micros(80);

fn at(us: i64) -> Stamp {
    Stamp::new(us * 1_000)
}

/// Waits from one moment to another, and then reads what arrived at these.
fn wait(wakes: &Wakes, from: i64, to: i64, arrivals: &[i64]) {
    wakes.begin(at(from));
    wakes.end(at(to));
    for arrival in arrivals {
        wakes.note_arrival(at(*arrival));
    }
}

#[test]
fn what_woke_a_thread_that_slept_came_no_earlier_than_it_takes_to_be_woken() {
    let wakes = Wakes::new();
    wait(&wakes, 0, 9_000, &[]);
    assert_eq!(wakes.nothing_before(Some(LATENCY)), at(8_920));
    // how long that takes is not known
    assert_eq!(wakes.nothing_before(None), at(0));
    // nor did it come before the thread slept
    wait(&wakes, 10_000, 10_300, &[]);
    assert_eq!(
        wakes.nothing_before(Some(Nanos::from_millis(5))),
        at(10_000)
    );
}

#[test]
fn what_waited_when_a_thread_looked_came_after_the_look_before() {
    let wakes = Wakes::new();
    // The thread was stopped as its wait ended, which told of nothing: what it finds then came at any time since that wait began.
    wait(&wakes, 0, 9_000, &[]);
    wait(&wakes, 9_001, 9_003, &[]);
    assert_eq!(wakes.nothing_before(Some(LATENCY)), at(0));
    // The wait before told of other sockets' bytes, which had come by then; these had not. A pause, or work, came between.
    wait(&wakes, 10_000, 14_000, &[13_960, 13_970]);
    wait(&wakes, 15_000, 15_002, &[]);
    assert_eq!(wakes.nothing_before(Some(LATENCY)), at(13_960));
}

#[test]
fn a_thread_of_which_nothing_is_known_tells_nothing() {
    assert_eq!(Wakes::new().nothing_before(Some(LATENCY)).get(), i64::MIN);
}
