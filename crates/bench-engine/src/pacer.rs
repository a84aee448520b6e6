//! Absolute due times, better than the runtime's millisecond timer: one `timerfd` and one heap for each serving thread.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::clock::now_ns;

const DISARMED: u64 = u64::MAX;

/// The timer heap of one thread. Futures register a due time; [`Pacer::drive`] wakes them.
pub(crate) struct Pacer {
    heap: RefCell<BinaryHeap<Reverse<Due>>>,
    armed: Cell<u64>,
    timer: AsyncFd<OwnedFd>,
}

struct Due {
    at: u64,
    waker: Waker,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
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
            heap: RefCell::default(),
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
            self.heap.borrow_mut().push(Reverse(Due {
                at,
                waker: cx.waker().clone(),
            }));
            if at < self.armed.get() {
                self.arm(at);
            }
        }
        Poll::Pending
    }

    /// Waits until `at`.
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
        let mut heap = self.heap.borrow_mut();
        while heap.peek().is_some_and(|due| due.0.at <= now) {
            if let Some(Reverse(due)) = heap.pop() {
                due.waker.wake();
            }
        }
        let next = heap.peek().map_or(DISARMED, |due| due.0.at);
        drop(heap);
        self.arm(next);
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
