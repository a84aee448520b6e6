//! When a worker's thread slept and woke. What comes to a socket that was empty wakes the thread: it came no earlier than the thread
//! can have been on its way.

use std::sync::atomic::{AtomicI64, Ordering};

use bench_schema::{Nanos, Stamp};

/// A wait that took this long was a sleep: nothing that it told of had arrived when it began. One that finds something returns at once.
const SLEEP: Nanos = Nanos::from_micros(200);

/// The waits of one thread for its sockets, noted by the hooks of its runtime.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// When the latest wait began.
    began: AtomicI64,
    /// When it was over; later than the thread was woken by what the scheduler took.
    ended: AtomicI64,
    /// The earliest arrival that was read since.
    arrival: AtomicI64,
    /// A moment at which nothing had arrived of what the wait before the latest did not tell of.
    nothing_at: AtomicI64,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        Self {
            began: AtomicI64::new(i64::MIN),
            ended: AtomicI64::new(i64::MIN),
            arrival: AtomicI64::new(i64::MAX),
            nothing_at: AtomicI64::new(i64::MIN),
        }
    }

    /// The thread is about to wait.
    pub(crate) fn begin(&self, now: Stamp) {
        let began = self.began.swap(now.get(), Ordering::Relaxed);
        // A wait that told of what arrived then told of all that had arrived by then.
        let arrival = self.arrival.swap(i64::MAX, Ordering::Relaxed);
        let told = Some(arrival).filter(|at| *at < i64::MAX);
        let nothing_at = told.map_or(began, |at| at.max(began));
        self.nothing_at.store(nothing_at, Ordering::Relaxed);
    }

    /// The wait is over.
    pub(crate) fn end(&self, now: Stamp) {
        self.ended.store(now.get(), Ordering::Relaxed);
    }

    /// When the latest wait was over.
    pub(crate) fn ended(&self) -> Stamp {
        Stamp::new(self.ended.load(Ordering::Relaxed))
    }

    /// Something was read that had arrived at `arrival`.
    pub(crate) fn note_arrival(&self, arrival: Stamp) {
        self.arrival.fetch_min(arrival.get(), Ordering::Relaxed);
    }

    /// A moment before which nothing had arrived of what is read now on a socket that was empty before. `latency` is how long the thread
    /// takes to be woken and to read; without it, it may have been woken as soon as it slept.
    pub(crate) fn nothing_before(&self, latency: Option<Nanos>) -> Stamp {
        let load = |at: &AtomicI64| Stamp::new(at.load(Ordering::Relaxed));
        let (began, ended) = (load(&self.began), self.ended());
        if ended - began < SLEEP {
            return load(&self.nothing_at);
        }
        latency.map_or(began, |latency| began.max(ended - latency))
    }
}

#[cfg(test)]
#[path = "../tests/unit/wakes.rs"]
mod tests;
