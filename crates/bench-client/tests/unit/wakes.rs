//! From when on something can have arrived, by when the thread slept.

use super::*;

const LATENCY: Nanos = Nanos::from_micros(80);

fn at(us: i64) -> Stamp {
    Stamp::new(us * 1_000)
}

/// What the scheduler says of a thread that has waited so long for a core and got one so often.
#[expect(clippy::unnecessary_wraps, reason = "as it is handed on")]
fn scheduled(waited_us: i64, runs: i64) -> Option<SchedStat> {
    Some(SchedStat {
        cpu: Nanos::ZERO,
        run_queue_wait: Nanos::from_micros(waited_us),
        runs,
    })
}

/// Waits from one moment to another, and reads.
fn wait(wakes: &Wakes, (from, to): (i64, i64), begun: Option<SchedStat>) {
    wakes.begin(at(from), begun);
    wakes.end(at(to));
    wakes.note_read(at(to));
}

#[test]
fn what_woke_a_thread_that_slept_came_no_earlier_than_it_takes_to_be_woken() {
    let wakes = Wakes::new();
    wait(&wakes, (0, 9_000), scheduled(70, 5));
    let since = |latency| wakes.nothing_before(latency, scheduled(70, 6));
    assert_eq!(since(Some(LATENCY)), at(8_920));
    // how long that takes is not known
    assert_eq!(since(None), at(0));
    // nor did it come before the thread slept
    wait(&wakes, (10_000, 10_300), scheduled(70, 5));
    assert_eq!(since(Some(Nanos::from_millis(5))), at(10_000));
}

/// Another program had its core: the first of what it finds had woken it long before, although the last came just now and was read at once.
#[test]
fn what_woke_a_thread_may_have_waited_as_long_as_the_thread_did_for_a_core() {
    let wakes = Wakes::new();
    wait(&wakes, (0, 30_000), scheduled(70, 5));
    let since = |latency, runs| wakes.nothing_before(latency, scheduled(17_070, runs));
    assert_eq!(since(Some(LATENCY), 6), at(12_920));
    assert_eq!(since(Some(Nanos::ZERO), 6), at(13_000));
    // It lost its core again, or was stopped, between being woken and reading: nobody knows when it was woken.
    let before = i64::MIN;
    assert_eq!(since(Some(LATENCY), 7).get(), before);
    // All of the wait: the thread did not sleep, and what it finds may have come before it looked.
    wait(&wakes, (40_000, 57_100), scheduled(17_070, 6));
    let since = wakes.nothing_before(Some(LATENCY), scheduled(34_170, 7));
    assert_eq!(since, at(29_900));
}

#[test]
fn where_the_scheduler_tells_nothing_no_wait_was_a_sleep() {
    let wakes = Wakes::new();
    for begun in [None, scheduled(70, 5)] {
        wait(&wakes, (0, 9_000), begun);
        wait(&wakes, (9_100, 18_000), None);
        assert_eq!(wakes.nothing_before(Some(LATENCY), None), at(0));
        assert_eq!(wakes.nothing_before(None, scheduled(70, 6)), at(0));
    }
}

#[test]
fn what_waited_when_a_thread_looked_came_after_the_look_before() {
    let wakes = Wakes::new();
    // The thread was stopped as its wait ended, which told of nothing: what it finds then came at any time since that wait began.
    wakes.begin(at(0), scheduled(70, 5));
    wakes.end(at(9_000));
    wait(&wakes, (9_001, 9_003), scheduled(70, 6));
    let since = |wakes: &Wakes| wakes.nothing_before(Some(LATENCY), scheduled(70, 6));
    assert_eq!(since(&wakes), at(0));
    // The wait before told of other sockets' bytes, which had come by then; these had not. A pause, or work, came between.
    wait(&wakes, (10_000, 14_000), scheduled(70, 5));
    wait(&wakes, (15_000, 15_002), scheduled(70, 6));
    assert_eq!(since(&wakes), at(13_900));
    // It lost its core after it had looked: what came meanwhile was not told, however late the stamps of what was.
    wait(&wakes, (20_000, 24_000), scheduled(70, 6));
    wait(&wakes, (25_000, 25_002), scheduled(10_070, 8));
    assert_eq!(
        wakes.nothing_before(Some(LATENCY), scheduled(10_070, 8)),
        at(20_000)
    );
}

#[test]
fn a_thread_of_which_nothing_is_known_tells_nothing() {
    let since = Wakes::new().nothing_before(Some(LATENCY), scheduled(70, 5));
    assert_eq!(since.get(), i64::MIN);
}

/// The scheduler is asked until something was read, and for a while after a read that needs it: for ever where there are no stamps.
#[cfg(target_os = "linux")]
#[test]
fn the_scheduler_is_asked_while_it_matters() {
    let wakes = Wakes::new();
    let asks = |us| wakes.ask(at(us)).is_some();
    if crate::thread_schedstat().is_none() {
        return;
    }
    let late = 1_000_000_000;
    assert!(asks(late));
    wakes.note_read(at(0));
    assert!(asks(9_000_000) && !asks(11_000_000));
    wakes.follow(at(20_000_000));
    assert!(asks(29_000_000) && !asks(late));
    wakes.note_unstamped();
    assert!(asks(late));
}

/// Each read after a wake is judged by what the scheduler said at the first of them; the next wait begins with what it says then.
#[cfg(target_os = "linux")]
#[test]
fn the_scheduler_is_asked_once_a_wake() {
    let wakes = Wakes::new();
    let Some(first) = wakes.scheduled(at(0)) else {
        return;
    };
    while crate::thread_schedstat() == Some(first) {
        std::thread::yield_now();
    }
    assert_eq!(wakes.scheduled(at(1)), Some(first));
    wakes.begin(at(2), wakes.ask(at(2)));
    assert_ne!(wakes.scheduled(at(3)), Some(first));
}
