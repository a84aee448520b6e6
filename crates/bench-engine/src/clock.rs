//! The engine's clock: nanoseconds that another process on this machine can compare with its own.
//!
//! `std::time::Instant` hides its number. A ledger is only worth something if the client, in another process, can lay
//! its own stamps beside it, so the engine reads `CLOCK_MONOTONIC` itself and gives the distance to the wall clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// `CLOCK_MONOTONIC` now, in nanoseconds since an unspecified start, the same for every process of this boot.
pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic).unsigned_abs()
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in nanoseconds; add it to a monotonic stamp to get Unix time.
///
/// The two clocks are read one after the other: the error is tens of nanoseconds unless the thread is interrupted, so
/// the narrowest of a few tries is taken.
pub fn realtime_offset_ns() -> i64 {
    (0..4)
        .map(|_| {
            let before = nanos(ClockId::Monotonic);
            let wall = nanos(ClockId::Realtime);
            let after = nanos(ClockId::Monotonic);
            (after - before, wall - before - (after - before) / 2)
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

/// Unix time in whole seconds, for the `created` fields.
pub(crate) fn unix_seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

fn nanos(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec)
}

/// A non-negative number of nanoseconds, rounded; negative and not-a-number give 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is what is wanted"
)]
pub(crate) fn from_ns_f64(value: f64) -> u64 {
    value.round() as u64
}

// Absolute due times, better than the runtime's millisecond timer: one `timerfd` and one list for each serving thread.

const DISARMED: u64 = u64::MAX;

/// The timers of one thread. Futures register a due time; [`Pacer::drive`] wakes them.
pub(crate) struct Pacer {
    /// By due time, and the number of the registration.
    waiting: RefCell<BTreeMap<(u64, u64), Waker>>,
    registered: Cell<u64>,
    armed: Cell<u64>,
    timer: AsyncFd<OwnedFd>,
}

impl Pacer {
    /// Must be called inside a tokio runtime with I/O enabled.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for descriptors that may change; an `OwnedFd` cannot"
    )]
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Rc::new(Self {
            waiting: RefCell::default(),
            registered: Cell::default(),
            armed: Cell::new(DISARMED),
            timer,
        }))
    }

    /// Ready once `at` has come; otherwise the task is woken then. A future that polls again before that should pass
    /// `registered` so that it is not entered twice.
    pub(crate) fn poll_until(
        &self,
        at: u64,
        registered: &mut u64,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if now_ns() >= at {
            *registered = 0;
            return Poll::Ready(());
        }
        if *registered != at {
            *registered = at;
            let number = self.registered.replace(self.registered.get() + 1);
            let mut waiting = self.waiting.borrow_mut();
            waiting.insert((at, number), cx.waker().clone());
            if at < self.armed.get() {
                self.arm(at);
            }
        }
        Poll::Pending
    }

    pub(crate) async fn until(&self, at: u64) {
        let mut registered = 0;
        std::future::poll_fn(|cx| self.poll_until(at, &mut registered, cx)).await;
    }

    /// Waits for so many nanoseconds from now.
    pub(crate) async fn pause(&self, ns: u64) {
        self.until(now_ns().saturating_add(ns)).await;
    }

    /// Wakes what is due, for ever. Ends only if the timer itself fails.
    pub(crate) async fn drive(self: Rc<Self>) -> io::Result<()> {
        loop {
            self.wake_due();
            // Not read: setting the timer again resets its count, and the runtime listens for edges.
            self.timer.readable().await?.clear_ready();
        }
    }

    fn wake_due(&self) {
        let now = now_ns();
        let mut waiting = self.waiting.borrow_mut();
        while let Some(due) = waiting.first_entry().filter(|due| due.key().0 <= now) {
            due.remove().wake();
        }
        let next = waiting.first_key_value();
        self.arm(next.map_or(DISARMED, |((at, _), _)| *at));
    }

    fn arm(&self, at: u64) {
        self.armed.set(at);
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = if at == DISARMED {
            zero
        } else {
            Timespec {
                tv_sec: (at / 1_000_000_000).cast_signed(),
                tv_nsec: (at % 1_000_000_000).cast_signed(),
            }
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        // The only failures are a bad descriptor or a bad time, neither of which can be made here; a lost timer would
        // show at once as a stream that stops.
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &spec).ok();
    }
}
