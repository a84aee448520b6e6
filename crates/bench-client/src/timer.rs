//! Waiting until a due time, much better than a millisecond; and the limits of a request, for which a millisecond does.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use bench_schema::{Nanos, Stamp};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::task::unconstrained;
use tokio::time::Sleep;

use crate::{ClientError, Clock};

/// An absolute timer for pacing: a `timerfd` on `CLOCK_MONOTONIC` on Linux, tokio's timer with a spin elsewhere.
///
/// A kernel wakes a thread some 30 to 60 µs late, and nearly always by the same time: the timer learns it, asks to be woken that
/// much earlier, and spins through what is left, mostly a few microseconds. tokio's own timer is 1 ms late at the median. Needs a
/// tokio runtime with I/O and time enabled.
#[derive(Debug)]
pub struct Timer {
    clock: Clock,
    most: Nanos,
    /// How late the kernel wakes this thread, learned: the mean of the latest ones.
    lateness: Nanos,
    /// What it waits for, for those who would be in its way; [`NOTHING`] between waits.
    next: Arc<AtomicI64>,
    alarm: imp::Alarm,
}

/// No instant is later.
const NOTHING: i64 = i64::MAX;

/// Each wake-up moves what was learned by this part of the difference.
const LEARNING: i64 = 8;

impl Timer {
    /// A timer of the current runtime that never spins for longer than `spin`; zero sleeps to the end.
    ///
    /// # Errors
    /// [`ClientError::Timer`] where the kernel refuses a timer (no file descriptors left, for one).
    pub fn new(clock: Clock, spin: Nanos) -> Result<Self, ClientError> {
        Ok(Self {
            clock,
            most: spin.or_zero(),
            lateness: Nanos::ZERO,
            next: Arc::new(AtomicI64::new(NOTHING)),
            alarm: imp::Alarm::new().map_err(ClientError::Timer)?,
        })
    }

    /// Wait until `due` and tell when the wait was over; never earlier than `due`. Returns at once if `due` has passed.
    ///
    /// Dropping the future is safe: the next call arms the timer anew.
    pub async fn wait_until(&mut self, due: Stamp) -> Stamp {
        let wake = due - self.lateness;
        if self.clock.now() < wake {
            let announced = Announced::new(&self.next, wake);
            self.alarm.sleep_until(&self.clock, wake).await;
            drop(announced);
            self.learn(self.clock.now() - wake);
        }
        loop {
            let now = self.clock.now();
            if now >= due {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// One wake-up that came very late (another program had the core) moves it no further than one at the limit.
    fn learn(&mut self, late: Nanos) {
        let late = late.or_zero().min(self.most);
        let step = (late - self.lateness).get() / LEARNING;
        self.lateness = Nanos::new(self.lateness.get() + step);
    }

    /// When it will want the thread, `i64::MAX` while it waits for nothing: for [`ReadBatching`](crate::ReadBatching).
    pub(crate) fn next(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.next)
    }
}

/// A wait that others can see, until it is over or given up.
struct Announced<'a>(&'a AtomicI64);

impl<'a> Announced<'a> {
    fn new(next: &'a AtomicI64, wake: Stamp) -> Self {
        next.store(wake.get(), Ordering::Relaxed);
        Self(next)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.store(NOTHING, Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use bench_schema::Stamp;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::{Clock, sys};

    #[derive(Debug)]
    pub(super) struct Alarm(AsyncFd<Arc<OwnedFd>>);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )?;
            sys::watch(Arc::new(fd), Interest::READABLE).map(Self)
        }

        /// Sleep; may return early on an error of the timer, which the caller's own look at the clock covers.
        pub(super) async fn sleep_until(&self, clock: &Clock, wake: Stamp) {
            const NS: i64 = 1_000_000_000;
            let at = clock.monotonic_ns_of(wake).max(1); // zero would disarm it
            let value = Itimerspec {
                it_interval: Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                },
                it_value: Timespec {
                    tv_sec: at.div_euclid(NS),
                    tv_nsec: at.rem_euclid(NS),
                },
            };
            if timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &value).is_err() {
                return;
            }
            // A readiness left over from an earlier, dropped wait is cleared by the failing read, and the wait goes on.
            while let Ok(mut ready) = self.0.readable().await {
                let mut expirations = [0_u8; 8];
                match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?)) {
                    Err(_would_block) => {}
                    Ok(_) => return,
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use bench_schema::{Nanos, Stamp};

    use crate::Clock;

    /// tokio's timer is up to 2 ms late, so that it is asked to end that much before and the caller spins through the rest.
    const EARLY: Nanos = Nanos::from_millis(2);

    #[derive(Debug)]
    pub(super) struct Alarm;

    impl Alarm {
        #[expect(clippy::unnecessary_wraps, reason = "the Linux twin can fail")]
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn sleep_until(&self, clock: &Clock, wake: Stamp) {
            tokio::time::sleep_until(clock.timer_instant(wake - EARLY)).await;
        }
    }
}

// One timer for each request, however many limits it has and however often they move.

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

    pub(crate) fn set(&mut self, due: Stamp) {
        self.due = due;
        if due < self.armed {
            self.arm();
        }
    }

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
            // What is pending because the task has had its share of the thread would be registered nowhere.
            let mut sleep = unconstrained(self.sleep.as_mut());
            if Pin::new(&mut sleep).poll(cx).is_pending() {
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
#[path = "../tests/unit/timer.rs"]
mod tests;
