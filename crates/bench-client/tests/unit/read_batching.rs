//! When a pause is made, and what ends it.

use super::*;
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// The pause after 50 ms in which reads of long answers brought so many events each, that long after those before.
fn pause(reads: &[(i64, usize)]) -> Nanos {
    pause_of_answers(Some(Nanos::from_secs(10)), reads)
}

/// Of answers that requests wait for and that have been under way for so long, or of some that nobody waits for.
fn pause_of_answers(under_way: Option<Nanos>, reads: &[(i64, usize)]) -> Nanos {
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), Nanos::from_millis(1));
    let gaps = GapTracker::new(batching.clone());
    let now = clock.now();
    let mark = ReadMark {
        arrival: now,
        stamped: true,
        returned: now,
        previous_return: now,
        arrived_from: now,
        last_token_from: now,
        merged: false,
        continues: false,
    };
    for &(gap, events) in reads {
        let awaited = under_way.map(|under_way| now - under_way);
        gaps.note(awaited, Some(now - Nanos::new(gap)), mark, events);
    }
    gaps.decide(now + WINDOW);
    Nanos::new(batching.shared.pause.load(Ordering::Relaxed))
}

#[test]
fn the_pause_is_well_below_the_gap_between_tokens() {
    // 256 streams, 5 ms; 64 streams, 7 ms; 1,024 streams, 22 ms, where the most that was asked for ends it.
    for (gap, reads, wanted) in [
        (5_000_000, 2560, 5_000_000 / 8),
        (7_000_000, 320, 7_000_000 / 8),
        (22_000_000, 2300, 1_000_000),
    ] {
        assert_eq!(pause(&vec![(gap, 1); reads]).get(), wanted, "{gap}");
    }
}

#[test]
fn the_pause_is_a_thousandth_of_what_answers_take_at_most() {
    let reads = vec![(5_000_000, 1); 2560];
    let of = |under_way| pause_of_answers(Some(Nanos::from_millis(under_way)), &reads);
    assert_eq!(of(100), Nanos::from_micros(100));
    assert_eq!(of(2), Nanos::ZERO, "it would gather nothing");
}

#[test]
fn where_nobody_waits_for_answers_the_pause_does_not_depend_on_what_they_take() {
    let reads = vec![(5_000_000, 1); 2560];
    assert_eq!(pause_of_answers(None, &reads).get(), 5_000_000 / 8);
}

#[test]
fn a_pause_that_gathers_nothing_is_not_made() {
    assert_eq!(pause(&[(10_000_000, 1); 30]), Nanos::ZERO);
    assert_eq!(pause(&[(10_000_000, 1); 5]), Nanos::ZERO);
    assert_eq!(pause(&[(20_000, 1); 200]), Nanos::ZERO, "a microsecond");
}

#[test]
fn tokens_that_share_a_read_end_the_pause() {
    let mut reads = vec![(5_000_000, 1); 2500];
    assert!(pause(&reads) > Nanos::ZERO);
    reads.extend([(5_000_000, 2); 60]);
    assert_eq!(pause(&reads), Nanos::ZERO);
}

#[test]
fn a_pause_ends_by_itself_when_no_tokens_confirm_it() {
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), Nanos::from_millis(1));
    batching.set(Nanos::from_millis(5), Nanos::ZERO, clock.now());
    assert_eq!(
        batching.pause(),
        Nanos::from_millis(1),
        "never more than the most"
    );
    let confirmed = clock.now() - VALID - Nanos::new(1);
    batching.set(Nanos::from_millis(1), Nanos::ZERO, confirmed);
    assert_eq!(batching.pause(), Nanos::ZERO);
}

/// A worker in a runtime of its own, with a pause before each sleep that ends when it is woken or never.
fn work<F: Future>(worker: impl FnOnce(ReadBatching) -> F) -> (F::Output, Nanos) {
    const NEVER: Nanos = Nanos::from_secs(100_000);
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), NEVER);
    batching.set(NEVER, Nanos::ZERO, clock.now() + NEVER);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(batching.park_hook())
        .on_thread_unpark(batching.wake_hook())
        .build();
    let output = runtime
        .unwrap()
        .block_on(batching.around(worker(batching.clone())));
    (output, batching.take_longest())
}

#[test]
fn there_is_no_pause_while_the_worker_has_anything_to_do() {
    let mut left = 3;
    let busy = poll_fn(|cx: &mut Context<'_>| {
        left -= 1;
        cx.waker().wake_by_ref();
        if left == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    let ((), longest) = work(|_| busy);
    assert_eq!(longest, Nanos::ZERO);
}

#[test]
fn another_thread_that_wakes_the_worker_ends_its_pause() {
    let (answer, longest) = work(|batching| async move {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let waits = batching.clone();
        let other = std::thread::spawn(move || {
            while waits.shared.longest.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            reply.send(5).unwrap();
        });
        let answer = answer.await.unwrap();
        other.join().unwrap();
        answer
    });
    assert_eq!(answer, 5);
    assert!(longest > Nanos::ZERO, "there was a pause to be ended");
}

#[test]
fn there_is_no_pause_while_a_request_is_on_its_way_out() {
    let batching = ReadBatching::new(Clock::start(), Nanos::from_millis(1));
    assert!(!batching.shared.is_busy());
    let (first, second) = (batching.hold(), batching.hold());
    drop(first);
    assert!(batching.shared.is_busy());
    drop(second);
    assert!(!batching.shared.is_busy());
}

#[tokio::test]
async fn a_pause_takes_half_of_the_time_until_a_request_is_due_or_is_not_made() {
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), Nanos::from_millis(1));
    batching.set(Nanos::from_millis(1), Nanos::ZERO, clock.now());
    let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
    batching.give_way_to(&timer);
    let now = clock.now();
    assert_eq!(batching.shared.pause_at(now), Nanos::from_millis(1));
    {
        let mut wait = std::pin::pin!(timer.wait_until(now + Nanos::from_secs(100)));
        assert!(
            wait.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let set = |least| batching.set(Nanos::from_millis(1), least, now + Nanos::from_secs(200));
        let ahead = |us| {
            let at = now + Nanos::from_secs(100) - Nanos::from_micros(us);
            batching.shared.pause_at(at)
        };
        set(Nanos::from_micros(400));
        assert_eq!(ahead(2_000), Nanos::from_millis(1), "all of it");
        assert_eq!(ahead(1_000), Nanos::from_micros(450));
        assert_eq!(ahead(890), Nanos::ZERO, "it would gather too little");
        set(Nanos::ZERO);
        assert_eq!(ahead(300), Nanos::from_micros(100));
        assert_eq!(ahead(299), Nanos::ZERO, "no thread sleeps for so short");
    }
    // Given up: nothing is due any more.
    let then = now + Nanos::from_secs(100) - Nanos::from_millis(1);
    assert_eq!(batching.shared.pause_at(then), Nanos::from_millis(1));
}

#[tokio::test]
async fn a_pause_gives_way_to_the_timer_that_the_worker_holds_now_and_not_to_its_first() {
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), Nanos::from_millis(1));
    let due = clock.now() + Nanos::from_secs(100);
    let just_before = due - Nanos::from_millis(1);
    batching.set(Nanos::from_millis(1), Nanos::from_micros(600), due);
    // A timer for each phase of a run.
    for phase in 0..3 {
        let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
        batching.give_way_to(&timer);
        assert_eq!(
            batching.shared.pause_at(just_before),
            Nanos::from_millis(1),
            "nothing is due yet in phase {phase}"
        );
        let mut wait = std::pin::pin!(timer.wait_until(due));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert_eq!(
            batching.shared.pause_at(just_before),
            Nanos::ZERO,
            "phase {phase}"
        );
    }
    assert_eq!(
        batching.shared.timers().len(),
        1,
        "timers that are gone drop out"
    );
}
