//! One timer for each request, however many limits it has and however often they move.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bench_schema::Stamp;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::Sleep;

use crate::Clock;

/// A moment that may be moved cheaply: later costs nothing until the timer fires, only earlier touches the timer.
#[derive(Debug)]
pub(crate) struct Deadline {
    clock: Clock,
    due: Stamp,
    armed: Stamp,
    sleep: Pin<Box<Sleep>>,
    recall: Rc<Recall>,
    /// Registered at the first wait, with the waker that the request keeps; afterwards the flag is enough.
    recalled: Option<Pin<Box<OwnedNotified>>>,
    /// Who is woken by `sleep`: one that waits already need not say so again for every event.
    waiting: Option<Waker>,
}

/// A client's way to end all of its requests at once.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    called: Cell<bool>,
    wake: Arc<Notify>,
}

impl Recall {
    /// From now on every deadline has passed.
    pub(crate) fn call(&self) {
        self.called.set(true);
        self.wake.notify_waiters();
    }
}

impl Deadline {
    pub(crate) fn new(clock: Clock, due: Stamp, recall: Rc<Recall>) -> Self {
        let sleep = Box::pin(tokio::time::sleep_until(clock.timer_instant(due)));
        Self {
            clock,
            due,
            armed: due,
            sleep,
            recall,
            recalled: None,
            waiting: None,
        }
    }

    /// Move it.
    pub(crate) fn set(&mut self, due: Stamp) {
        self.due = due;
        if due < self.armed {
            self.arm();
        }
    }

    /// Whether it has passed at `now`.
    pub(crate) fn has_passed(&self, now: Stamp) -> bool {
        now >= self.due
    }

    /// Whether the client has called its requests back.
    pub(crate) fn is_recalled(&self) -> bool {
        self.recall.called.get()
    }

    /// Ready once it has passed, not before, or when the client calls its requests back.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.recalled.is_none() {
            let recalled = self
                .recalled
                .insert(Box::pin(self.recall.wake.clone().notified_owned()));
            // not ready yet: it was made just now
            let _registered = recalled.as_mut().poll(cx);
        }
        if self.is_recalled() {
            return Poll::Ready(());
        }
        let waits = self.waiting.as_ref();
        if waits.is_some_and(|waker| waker.will_wake(cx.waker())) && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            if self.sleep.as_mut().poll(cx).is_pending() {
                self.waiting = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if self.has_passed(self.clock.now()) {
                return Poll::Ready(());
            }
            self.arm();
        }
    }

    /// The future's output, or `None` if it was not there in time.
    pub(crate) async fn within<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll(cx).map(|()| None),
        })
        .await
    }

    fn arm(&mut self) {
        let at = self.clock.timer_instant(self.due);
        self.sleep.as_mut().reset(at);
        self.armed = self.due;
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
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
}
