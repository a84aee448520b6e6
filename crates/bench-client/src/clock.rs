//! The one place where time is read.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bench_schema::{Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

use crate::wakes::Wakes;

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
    /// Reads that are still expected to bring several content events each.
    several: Cell<u32>,
    /// When the thread sleeps, where that is known.
    wakes: OnceCell<Arc<Wakes>>,
    sparing: Cell<Sparing>,
}

/// What is known of how servers take it that fewer acknowledgements are sent. One connection is tried before the others.
#[derive(Clone, Copy, Debug, Default)]
struct Sparing {
    is_fine: bool,
    /// Connections on which it seemed to hold the server up.
    stalls: u32,
    /// Since when one is tried.
    tried: Option<Stamp>,
}

/// What nineteen of twenty of the latest durations stay below, and what all do.
#[derive(Debug)]
struct Recent {
    values: RefCell<[i64; REMEMBERED]>,
    seen: Cell<usize>,
    usual: Cell<Option<Nanos>>,
    longest: Cell<Option<Nanos>>,
}

impl Recent {
    fn new() -> Self {
        Self {
            values: RefCell::new([0; REMEMBERED]),
            seen: Cell::new(0),
            usual: Cell::new(None),
            longest: Cell::new(None),
        }
    }

    fn push(&self, value: Nanos) {
        let seen = self.seen.get();
        if let Some(slot) = self.values.borrow_mut().get_mut(seen % REMEMBERED) {
            *slot = value.get();
        }
        self.seen.set(seen.wrapping_add(1));
        // Looked at now and then: a read must not pay for it.
        if self.seen.get().is_multiple_of(FEWEST) {
            let mut sorted = *self.values.borrow();
            let known = sorted.get_mut(..self.seen.get().min(REMEMBERED));
            let known = known.unwrap_or_default();
            let usual = (known.len() * 19).div_ceil(20) - 1;
            let (_, usual, above) = known.select_nth_unstable(usual);
            let longest = above.iter().max().unwrap_or(usual);
            self.longest.set(Some(Nanos::new(*longest)));
            self.usual.set(Some(Nanos::new(*usual)));
        }
    }
}

impl KernelStamps {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            offset: Cell::new(sample_offset()),
            sampled: Cell::new(clock.now()),
            lags: Recent::new(),
            closings: Recent::new(),
            several: Cell::new(0),
            wakes: OnceCell::new(),
            sparing: Cell::default(),
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

    /// The thread to which this belongs tells here when it sleeps.
    pub(crate) fn follow(&self, wakes: Arc<Wakes>) {
        self.wakes.get_or_init(|| wakes);
    }

    /// A read took this long from the arrival of its last segment, which had the kernel's stamp.
    pub(crate) fn note_lag(&self, arrival: Stamp, lag: Nanos) {
        self.lags.push(lag);
        if let Some(wakes) = self.wakes.get() {
            wakes.note_read(arrival);
        }
    }

    /// A read of which nobody knows when its bytes arrived.
    pub(crate) fn note_unstamped(&self) {
        if let Some(wakes) = self.wakes.get() {
            wakes.note_unstamped();
        }
    }

    /// What the scheduler says of the thread; absent where it does not, or nobody needs it.
    pub(crate) fn scheduled(&self, now: Stamp) -> Option<SchedStat> {
        self.wakes.get()?.scheduled(now)
    }

    /// A moment before which nothing had arrived of what is read now on a socket that was empty before, by when the thread was woken for it.
    /// `lag` is from the last segment's arrival to its read; absent without stamps, when nothing tells how long the kernel takes to wake the
    /// thread.
    pub(crate) fn nothing_before(
        &self,
        lag: Option<Nanos>,
        scheduled: Option<SchedStat>,
    ) -> Option<Stamp> {
        let latency = match (lag, self.lags.longest.get()) {
            (None, _) => Some(Nanos::ZERO),
            // a thread that was held up now was not woken as it usually is
            (Some(lag), longest) => longest.filter(|longest| lag <= *longest),
        };
        Some(self.wakes.get()?.nothing_before(latency, scheduled))
    }

    /// Whether a connection is to send fewer acknowledgements from `now` on.
    pub(crate) fn may_spare(&self, now: Stamp) -> bool {
        /// A server may pause just then by itself.
        const MOST_STALLS: u32 = 3;
        /// A trial that tells nothing by then, as at the end of an answer, is over.
        const TRIAL: Nanos = Nanos::from_secs(1);
        let known = self.sparing.get();
        let untried = known.tried.is_none_or(|since| now - since > TRIAL);
        let may = known.is_fine || (untried && known.stalls < MOST_STALLS);
        if may {
            let tried = Some(now);
            self.sparing.set(Sparing { tried, ..known });
        }
        may
    }

    /// A connection that did: whether the server waited for one.
    pub(crate) fn note_spared(&self, waited: bool) {
        let known = self.sparing.get();
        self.sparing.set(Sparing {
            is_fine: known.is_fine || !waited,
            stalls: known.stalls + u32::from(waited),
            tried: None,
        });
    }

    /// The closing events of an answer came this long after its last token, which had been read before them.
    pub(crate) fn note_closing(&self, delay: Nanos) {
        self.closings.push(delay);
    }

    /// A read brought several content events: some of those that follow may, too.
    pub(crate) fn note_several(&self, returned: Stamp) {
        self.several.set(64);
        if let Some(wakes) = self.wakes.get() {
            wakes.follow(returned);
        }
    }

    /// A read brought one content event, or none.
    pub(crate) fn note_single(&self) {
        self.several.set(self.several.get().saturating_sub(1));
    }

    /// Whether one of the latest reads brought several.
    pub(crate) fn expects_several(&self) -> bool {
        self.several.get() > 0
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

// What the scheduler did to this thread.

/// CPU time of a thread, and the time in which it could have run but did not.
///
/// The second is how a client finds out that it was kept off the core: a server that spins in `sched_yield` can do so without the
/// client ever looking busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time spent running, since the thread began.
    pub cpu: Nanos,
    /// Time spent runnable and waiting for a core, since the thread began.
    pub run_queue_wait: Nanos,
    /// How often it got one, since it began.
    pub runs: i64,
}

/// The calling thread's counters, from `/proc/thread-self/schedstat`; absent where the kernel does not keep them.
pub fn thread_schedstat() -> Option<SchedStat> {
    SchedStat::read(&SchedStat::of_this_thread()?)
}

impl SchedStat {
    /// Where the calling thread's counters are, for who reads them often: whichever thread reads, they stay this one's.
    pub(crate) fn of_this_thread() -> Option<File> {
        File::open("/proc/thread-self/schedstat").ok()
    }

    /// The counters now: a system call of about a microsecond.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut text = [0; 64];
        let len = file.read_at(&mut text, 0).ok()?;
        schedstat(std::str::from_utf8(text.get(..len)?).ok()?)
    }
}

fn schedstat(line: &str) -> Option<SchedStat> {
    let mut fields = line.split_ascii_whitespace().map(str::parse::<i64>);
    Some(SchedStat {
        cpu: Nanos::new(fields.next()?.ok()?),
        run_queue_wait: Nanos::new(fields.next()?.ok()?),
        runs: fields.next()?.ok()?,
    })
}

#[cfg(test)]
#[path = "../tests/unit/clock.rs"]
mod tests;
