//! The one place where time is read.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bench_schema::{Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

/// Readings of the two clocks for one offset; the tightest pair counts.
const OFFSET_READINGS: usize = 5;
/// How old an offset may be. Both clocks are disciplined alike, so that their difference moves only when somebody sets the time.
const OFFSET_AGE: Nanos = Nanos::from_millis(100);
/// Differences between two offsets below this are reading error, not steps of the clock.
const STEP_FLOOR: Nanos = Nanos::new(20_000);
/// A kernel stamp older than this against the read's return hints at a clock step; the offset is sampled again before it is believed.
const IMPLAUSIBLE_LAG: Nanos = Nanos::from_millis(500);
/// Lags and closing delays of a thread that are remembered, and how many of them have to be known.
const REMEMBERED: usize = 64;
const FEWEST: usize = 8;

/// The run's clock: nanoseconds on the machine's monotonic clock since the run's epoch.
///
/// Cheap to copy to every worker; all copies share the epoch and the count of noticed clock steps.
#[derive(Clone, Debug)]
pub struct Clock {
    monotonic_epoch: i64,
    unix_epoch: i64,
    timer_epoch: tokio::time::Instant,
    steps: Arc<Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    largest: AtomicI64,
    count: AtomicU64,
}

impl Clock {
    /// A clock whose epoch is now. The wall clock is read here, once, for people.
    pub fn start() -> Self {
        let offset = sample_offset();
        let monotonic_epoch = monotonic_ns();
        Self {
            monotonic_epoch,
            unix_epoch: monotonic_epoch.saturating_add(offset),
            timer_epoch: tokio_now(),
            steps: Arc::default(),
        }
    }

    /// Now, as read through the vDSO (about 20 ns).
    pub fn now(&self) -> Stamp {
        self.at_monotonic_ns(monotonic_ns())
    }

    /// A reading of `CLOCK_MONOTONIC` in nanoseconds, on this clock. For stamps that another process of this machine took.
    pub fn at_monotonic_ns(&self, ns: i64) -> Stamp {
        Stamp::new(ns.saturating_sub(self.monotonic_epoch))
    }

    /// The stamp as nanoseconds of `CLOCK_MONOTONIC`.
    pub fn monotonic_ns_of(&self, stamp: Stamp) -> i64 {
        self.monotonic_epoch.saturating_add(stamp.get())
    }

    /// The epoch in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn monotonic_epoch_ns(&self) -> i64 {
        self.monotonic_epoch
    }

    /// The epoch on the wall clock, nanoseconds since 1970.
    pub fn unix_epoch_ns(&self) -> i64 {
        self.unix_epoch
    }

    /// The largest step that was noticed since this was last asked; absent if there was none.
    pub fn take_largest_step(&self) -> Option<Nanos> {
        let noticed = self.steps.count.swap(0, Ordering::Relaxed) > 0;
        let largest = self.steps.largest.swap(0, Ordering::Relaxed);
        noticed.then(|| Nanos::new(largest))
    }

    /// The same moment for tokio's timer (1 ms grain): for limits, never for pacing.
    pub(crate) fn timer_instant(&self, stamp: Stamp) -> tokio::time::Instant {
        let since = Duration::from_nanos(u64::try_from(stamp.get()).unwrap_or(0));
        self.timer_epoch
            .checked_add(since)
            .unwrap_or_else(|| self.timer_epoch + Duration::from_secs(1 << 30))
    }

    fn note_step(&self, step: Nanos) {
        self.steps.count.fetch_add(1, Ordering::Relaxed);
        self.steps
            .largest
            .fetch_max(step.get().saturating_abs(), Ordering::Relaxed);
    }
}

/// Turns the kernel's receive stamps, which are on the real-time clock, into stamps of the run's clock. One per worker thread.
#[derive(Debug)]
pub(crate) struct KernelStamps {
    clock: Clock,
    offset: Cell<i64>,
    sampled: Cell<Stamp>,
    /// From arrivals to their reads.
    lags: Recent,
    /// From last tokens to the closing events after them, where they were read apart.
    closings: Recent,
}

/// What nineteen of twenty of the latest durations stay below.
#[derive(Debug)]
struct Recent {
    values: RefCell<[i64; REMEMBERED]>,
    seen: Cell<usize>,
    usual: Cell<Option<Nanos>>,
}

impl Recent {
    fn new() -> Self {
        Self {
            values: RefCell::new([0; REMEMBERED]),
            seen: Cell::new(0),
            usual: Cell::new(None),
        }
    }

    fn push(&self, value: Nanos) {
        let seen = self.seen.get();
        if let Some(slot) = self.values.borrow_mut().get_mut(seen % REMEMBERED) {
            *slot = value.get();
        }
        self.seen.set(seen.wrapping_add(1));
        // Looked at now and then: a read must not pay for a sort.
        if self.seen.get().is_multiple_of(FEWEST) {
            self.usual.set(self.quantile());
        }
    }

    fn quantile(&self) -> Option<Nanos> {
        let mut sorted = *self.values.borrow();
        let known = sorted.get_mut(..self.seen.get().min(REMEMBERED))?;
        known.sort_unstable();
        known
            .get((known.len() * 19).div_ceil(20) - 1)
            .copied()
            .map(Nanos::new)
    }
}

impl KernelStamps {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            offset: Cell::new(sample_offset()),
            sampled: Cell::new(clock.now()),
            lags: Recent::new(),
            closings: Recent::new(),
            clock,
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The arrival on the run's clock of a segment that the kernel stamped at `realtime_ns`, for a read that returned at `returned`.
    ///
    /// Never later than `returned`: what the conversion leaves beyond it (a clock step, the two clocks' reading error) is cut off.
    pub(crate) fn arrival(&self, realtime_ns: i64, returned: Stamp) -> Stamp {
        if returned - self.sampled.get() > OFFSET_AGE {
            self.resample(returned);
        }
        let arrival = self.convert(realtime_ns);
        if arrival <= returned && returned - arrival < IMPLAUSIBLE_LAG {
            return arrival;
        }
        self.resample(returned);
        self.convert(realtime_ns).min(returned)
    }

    /// A read took this long from the arrival of its last segment.
    pub(crate) fn note_lag(&self, lag: Nanos) {
        self.lags.push(lag);
    }

    /// The closing events of an answer came this long after its last token, which had been read before them.
    pub(crate) fn note_closing(&self, delay: Nanos) {
        self.closings.push(delay);
    }

    /// How long before its closing events a last token arrived that was read together with them; absent while that is not known.
    ///
    /// What was read apart tells how long a server takes to close, rather too long: the slow ones are read apart. Where nothing is, it
    /// takes less than this thread takes to be woken.
    pub(crate) fn closing(&self) -> Option<Nanos> {
        let (apart, lag) = (self.closings.usual.get(), self.lags.usual.get());
        apart.into_iter().chain(lag).min()
    }

    fn convert(&self, realtime_ns: i64) -> Stamp {
        self.clock
            .at_monotonic_ns(realtime_ns.saturating_sub(self.offset.get()))
    }

    fn resample(&self, now: Stamp) {
        let fresh = sample_offset();
        let moved = Nanos::new(fresh.saturating_sub(self.offset.get()));
        if moved.get().saturating_abs() > STEP_FLOOR.get() {
            self.clock.note_step(moved);
        }
        self.offset.set(fresh);
        self.sampled.set(now);
    }
}

/// Real time minus monotonic time, from the tightest of several pairs of readings.
fn sample_offset() -> i64 {
    let mut best = (i64::MAX, 0);
    for _ in 0..OFFSET_READINGS {
        let before = monotonic_ns();
        let real = ns(clock_gettime(ClockId::Realtime));
        let after = monotonic_ns();
        let width = after.saturating_sub(before);
        if width < best.0 {
            let middle = before.saturating_add(width / 2);
            best = (width, real.saturating_sub(middle));
        }
    }
    best.1
}

fn monotonic_ns() -> i64 {
    ns(clock_gettime(ClockId::Monotonic))
}

fn ns(time: rustix::time::Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock; tokio's timers count from this reading"
)]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_stamp_taken_now_converts_to_now() {
        let clock = Clock::start();
        let stamps = KernelStamps::new(clock.clone());
        let before = clock.now();
        let real = ns(clock_gettime(ClockId::Realtime));
        let after = clock.now();
        let arrival = stamps.arrival(real, after);
        // The offset's own error is half the tightest pair of readings, well under this slack.
        let slack = Nanos::new(50_000);
        assert!(arrival >= before - slack && arrival <= after);
        assert_eq!(clock.take_largest_step(), None);
    }

    #[test]
    fn a_stamp_from_the_future_is_cut_to_the_moment_the_read_returned() {
        let clock = Clock::start();
        let stamps = KernelStamps::new(clock.clone());
        let returned = clock.now();
        let future = ns(clock_gettime(ClockId::Realtime)) + 3_600_000_000_000;
        assert_eq!(stamps.arrival(future, returned), returned);
    }

    #[test]
    fn a_step_of_the_real_time_clock_is_noticed_and_mended() {
        let clock = Clock::start();
        let stamps = KernelStamps::new(clock.clone());
        // As if somebody had set the time two seconds forward after the offset was sampled.
        stamps.offset.set(stamps.offset.get() - 2_000_000_000);
        let real = ns(clock_gettime(ClockId::Realtime));
        let returned = clock.now();
        let arrival = stamps.arrival(real, returned);
        assert!(returned - arrival < Nanos::from_millis(400), "{arrival:?}");
        let step = clock.take_largest_step().unwrap();
        assert!((step - Nanos::from_secs(2)).get().abs() < 1_000_000);
        assert_eq!(clock.take_largest_step(), None, "it belongs to one cell");
    }

    #[test]
    fn how_long_closing_takes_is_what_was_seen_apart_or_else_below_the_lag_of_reads_and_a_stall_is_neither()
     {
        let stamps = KernelStamps::new(Clock::start());
        let usual = Nanos::new(50_000);
        (1..FEWEST).for_each(|_| stamps.note_lag(usual));
        assert_eq!(stamps.closing(), None);
        stamps.note_lag(usual);
        assert_eq!(stamps.closing(), Some(usual));
        stamps.note_lag(Nanos::from_millis(5));
        (0..31).for_each(|_| stamps.note_lag(usual));
        assert_eq!(stamps.closing(), Some(usual));
        // One in ten is no stall.
        for _ in 0..8 {
            stamps.note_lag(Nanos::from_millis(1));
            (0..7).for_each(|_| stamps.note_lag(usual));
        }
        assert_eq!(stamps.closing(), Some(Nanos::from_millis(1)));
        (0..FEWEST).for_each(|_| stamps.note_closing(Nanos::new(20_000)));
        assert_eq!(stamps.closing(), Some(Nanos::new(20_000)));
    }

    #[test]
    fn stamps_and_monotonic_nanoseconds_convert_both_ways() {
        let clock = Clock::start();
        let stamp = Stamp::new(1_234_567);
        assert_eq!(clock.at_monotonic_ns(clock.monotonic_ns_of(stamp)), stamp);
        assert_eq!(
            clock.monotonic_ns_of(Stamp::EPOCH),
            clock.monotonic_epoch_ns()
        );
    }
}
