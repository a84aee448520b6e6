//! A closed loop whose number in flight moves, by time or by requests.

use std::sync::atomic::{AtomicU64, Ordering};

use bench_client::Clock;
use bench_schema::{ConcurrencyRamp, Nanos, Stamp};
use tokio::sync::watch;

/// Says how many slots of a closed loop may work. Slots have ranks from 0; a slot works while its rank is below the level.
pub(crate) struct ConcurrencyLimiter {
    ramp: ConcurrencyRamp,
    pace: Pace,
    level: watch::Sender<u32>,
}

/// What the ramp stretches over.
enum Pace {
    Time {
        start: Stamp,
        length: Nanos,
    },
    /// How many requests there will be, and how many were taken.
    Requests {
        all: u64,
        taken: AtomicU64,
    },
}

impl ConcurrencyLimiter {
    /// A limiter that moves by time where the phase has a length, else by this number of requests.
    pub(crate) fn new(
        ramp: &ConcurrencyRamp,
        start: Stamp,
        length: Option<Nanos>,
        requests: u64,
    ) -> Self {
        let pace = match length {
            Some(length) => Pace::Time { start, length },
            None => Pace::Requests {
                all: requests.max(1),
                taken: AtomicU64::new(0),
            },
        };
        Self {
            ramp: ramp.clone(),
            pace,
            level: watch::Sender::new(ramp.level(0)),
        }
    }

    /// Wait until the slot of this rank may work; whether it had to wait.
    pub(crate) async fn open_for(&self, rank: u32) -> bool {
        if *self.level.borrow() > rank {
            return false;
        }
        // the sender lives as long as the limiter, so waiting cannot fail
        let mut level = self.level.subscribe();
        level.wait_for(|level| *level > rank).await.is_ok()
    }

    /// So many more requests were taken up.
    pub(crate) fn taken(&self, more: u64) {
        if let Pace::Requests { all, taken } = &self.pace {
            let before = taken.fetch_add(more, Ordering::Relaxed);
            let stretch = stretch_at(before + more, *all, self.ramp.stretches());
            self.set(self.ramp.level(stretch));
        }
    }

    /// Nothing more is to be done: whoever waits may look for himself.
    pub(crate) fn open_for_all(&self) {
        self.level.send_replace(u32::MAX);
    }

    /// Move with the time; never returns.
    pub(crate) async fn move_with(&self, clock: &Clock) {
        if let Pace::Time { start, length } = self.pace {
            for stretch in 1..self.ramp.stretches() {
                let at = start + begin_of(stretch, length, self.ramp.stretches());
                tokio::time::sleep((at - clock.now()).to_duration()).await;
                self.set(self.ramp.level(stretch));
            }
        }
        std::future::pending::<()>().await;
    }

    /// A level, unless all are let through.
    fn set(&self, to: u32) {
        self.level.send_if_modified(|level| {
            let moves = *level != to && *level != u32::MAX;
            if moves {
                *level = to;
            }
            moves
        });
    }
}

/// The stretch that the next request belongs to, after so many of all.
fn stretch_at(taken: u64, all: u64, stretches: u64) -> u64 {
    let at = u128::from(taken) * u128::from(stretches) / u128::from(all.max(1));
    u64::try_from(at)
        .unwrap_or(u64::MAX)
        .min(stretches.saturating_sub(1))
}

/// When a stretch begins.
fn begin_of(stretch: u64, length: Nanos, stretches: u64) -> Nanos {
    Nanos::from_secs_f64(length.as_secs_f64() * stretch as f64 / stretches.max(1) as f64)
}

#[cfg(test)]
#[path = "../tests/unit/limiter.rs"]
mod tests;
