//! Deadlines that move, and their recall.

use bench_schema::Nanos;

use super::*;

#[tokio::test]
async fn a_deadline_that_was_moved_later_is_not_over_when_its_timer_first_fires() {
    let clock = Clock::start();
    let mut deadline = Deadline::new(
        clock.clone(),
        clock.now() + Nanos::from_millis(2),
        Rc::default(),
    );
    let due = clock.now() + Nanos::from_millis(12);
    deadline.set(due);
    poll_fn(|cx| deadline.poll(cx)).await;
    assert!(clock.now() >= due);
}

#[tokio::test]
async fn a_deadline_that_was_moved_earlier_fires_then() {
    let clock = Clock::start();
    let mut deadline = Deadline::new(
        clock.clone(),
        clock.now() + Nanos::from_secs(3600),
        Rc::default(),
    );
    deadline.set(clock.now() + Nanos::from_millis(2));
    poll_fn(|cx| deadline.poll(cx)).await;
}

#[tokio::test]
async fn what_is_ready_in_time_comes_through_and_what_never_is_does_not() {
    let clock = Clock::start();
    let mut deadline = Deadline::new(
        clock.clone(),
        clock.now() + Nanos::from_millis(3),
        Rc::default(),
    );
    assert_eq!(deadline.within(async { 5 }).await, Some(5));
    assert_eq!(deadline.within(std::future::pending::<()>()).await, None);
}

#[tokio::test]
async fn a_recall_ends_a_wait_that_has_begun() {
    let clock = Clock::start();
    let recall = Rc::<Recall>::default();
    let mut deadline = Deadline::new(
        clock.clone(),
        clock.now() + Nanos::from_secs(3600),
        recall.clone(),
    );
    let wait = poll_fn(|cx| deadline.poll(cx));
    tokio::join!(wait, async { recall.call() });
    assert!(deadline.is_recalled());
}

#[tokio::test]
async fn a_deadline_fires_for_a_task_that_has_used_up_its_share_of_the_thread() {
    let clock = Clock::start();
    let mut deadline = Deadline::new(
        clock.clone(),
        clock.now() + Nanos::from_millis(2),
        Rc::default(),
    );
    let mut fresh = true;
    let over = poll_fn(|cx| {
        while fresh {
            fresh = pin!(tokio::task::consume_budget()).poll(cx).is_ready();
        }
        deadline.poll(cx)
    });
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(30), over).await;
    assert!(in_time.is_ok(), "it never fired");
}
