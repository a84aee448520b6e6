//! When a worker's thread slept and woke. What comes to a socket that was empty wakes the thread: it came no earlier than the thread
//! can have been on its way.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bench_schema::{Nanos, Stamp};

use crate::clock::SchedStat;

/// Of a wait this much was sleep: nothing that it told of had arrived when it began. One that finds something returns at once.
const SLEEP: Nanos = Nanos::from_micros(200);
/// What the kernel takes from looking what there is to its call's return, where nobody has the core meanwhile: much less.
const RETURN: Nanos = Nanos::from_micros(100);
/// For how long after a read whose bytes' arrival is not known exactly the scheduler is asked, a microsecond or two each sleep.
const FOLLOWED: Nanos = Nanos::from_secs(10);

/// The waits of one thread for its sockets, noted by the hooks of its runtime.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// When the latest wait began.
    began: AtomicI64,
    /// When it was over; later than the thread was woken by what the scheduler took.
    ended: AtomicI64,
    /// Whether something was read since: then it did tell of what there was.
    told: AtomicBool,
    /// A moment at which nothing had arrived of what the wait before the latest did not tell of.
    nothing_at: AtomicI64,
    /// What the scheduler said when the latest wait began.
    asleep: Said,
    /// What it said when it was first asked since: the thread was woken when it was, whatever became of it later.
    awake: Said,
    /// Until when it is asked: at first for as long as nobody has read anything.
    followed_until: AtomicI64,
    scheduler: OnceLock<Option<File>>,
}

const UNTIL_A_READ: i64 = i64::MAX;
const FOR_EVER: i64 = i64::MAX - 1;

impl Wakes {
    pub(crate) fn new() -> Self {
        Self {
            began: AtomicI64::new(i64::MIN),
            ended: AtomicI64::new(i64::MIN),
            told: AtomicBool::new(false),
            nothing_at: AtomicI64::new(i64::MIN),
            asleep: Said::default(),
            awake: Said::default(),
            followed_until: AtomicI64::new(UNTIL_A_READ),
            scheduler: OnceLock::new(),
        }
    }

    /// What the scheduler said of the calling thread, which is the one that waits, when it was first asked since the latest wait; absent where
    /// it does not say it, or it need not be known.
    pub(crate) fn scheduled(&self, now: Stamp) -> Option<SchedStat> {
        self.awake.get().or_else(|| {
            let said = self.ask(now);
            self.awake.set(said);
            said
        })
    }

    /// What it says now.
    pub(crate) fn ask(&self, now: Stamp) -> Option<SchedStat> {
        if now.get() > self.followed_until.load(Ordering::Relaxed) {
            return None;
        }
        let file = self.scheduler.get_or_init(SchedStat::of_this_thread);
        SchedStat::read(file.as_ref()?)
    }

    /// A read of which it matters when the thread was woken: some that follow may be such, too.
    pub(crate) fn follow(&self, now: Stamp) {
        let until = (now + FOLLOWED).get();
        self.followed_until.fetch_max(until, Ordering::Relaxed);
    }

    /// The thread is about to wait.
    pub(crate) fn begin(&self, now: Stamp, scheduled: Option<SchedStat>) {
        let before = self.latest(self.awake.get().or(scheduled));
        self.awake.set(None);
        // A wait that told of something told of all that had arrived when the kernel looked: just before its end, if the thread then had its
        // core. One that told of nothing, as where the thread was stopped, tells that nothing had come when it began.
        let told = self.told.load(Ordering::Relaxed);
        let looked = match before.slept {
            Some(_) if told => before.ended - RETURN,
            _ => before.began,
        };
        let looked = looked.max(before.began).get();
        self.nothing_at.store(looked, Ordering::Relaxed);
        self.began.store(now.get(), Ordering::Relaxed);
        self.asleep.set(scheduled);
    }

    /// The wait is over.
    pub(crate) fn end(&self, now: Stamp) {
        self.ended.store(now.get(), Ordering::Relaxed);
        self.told.store(false, Ordering::Relaxed);
    }

    /// Something was read that has a stamp.
    pub(crate) fn note_read(&self, arrival: Stamp) {
        self.told.store(true, Ordering::Relaxed);
        if self.followed_until.load(Ordering::Relaxed) == UNTIL_A_READ {
            self.followed_until
                .store((arrival + FOLLOWED).get(), Ordering::Relaxed);
        }
    }

    /// Something was read of which nobody knows when it arrived. From now on it matters when the thread is woken.
    pub(crate) fn note_unstamped(&self) {
        self.told.store(true, Ordering::Relaxed);
        self.followed_until.store(FOR_EVER, Ordering::Relaxed);
    }

    /// A moment before which nothing had arrived of what is read now on a socket that was empty before. `latency` is how long the thread
    /// takes to be woken and to read where no other has its core; without it, it may have been woken as soon as it slept.
    pub(crate) fn nothing_before(
        &self,
        latency: Option<Nanos>,
        scheduled: Option<SchedStat>,
    ) -> Stamp {
        let Wait {
            began,
            ended,
            slept,
        } = self.latest(scheduled);
        match (slept, latency) {
            // Something that had woken it may have waited for as long as it did, whatever came after it.
            (Some(waited), Some(latency)) => began.max(ended - waited - latency),
            (Some(_), None) => began,
            (None, _) => Stamp::new(self.nothing_at.load(Ordering::Relaxed)),
        }
    }

    /// The latest wait, by what the scheduler says now.
    fn latest(&self, scheduled: Option<SchedStat>) -> Wait {
        let load = |at: &AtomicI64| at.load(Ordering::Relaxed);
        let [began, ended] = [&self.began, &self.ended].map(|at| Stamp::new(load(at)));
        let asleep = self.asleep.get().zip(scheduled);
        // Whoever got a core once more was kept off it (or stopped) when it had been woken, and nobody knows when that was.
        let once = asleep.filter(|(then, now)| now.runs == then.runs.wrapping_add(1));
        let waited = once.map(|(then, now)| now.run_queue_wait - then.run_queue_wait);
        Wait {
            began,
            ended,
            slept: waited.filter(|waited| ended - began - *waited >= SLEEP),
        }
    }
}

/// What the scheduler said of the thread once, if it was asked.
#[derive(Debug, Default)]
struct Said {
    cpu: AtomicI64,
    queued: AtomicI64,
    /// None where it was not: a thread that asks has got a core.
    runs: AtomicI64,
}

impl Said {
    fn set(&self, stat: Option<SchedStat>) {
        let stat = stat.unwrap_or_default();
        self.cpu.store(stat.cpu.get(), Ordering::Relaxed);
        self.queued
            .store(stat.run_queue_wait.get(), Ordering::Relaxed);
        self.runs.store(stat.runs, Ordering::Relaxed);
    }

    fn get(&self) -> Option<SchedStat> {
        let load = |at: &AtomicI64| at.load(Ordering::Relaxed);
        let stat = SchedStat {
            cpu: Nanos::new(load(&self.cpu)),
            run_queue_wait: Nanos::new(load(&self.queued)),
            runs: load(&self.runs),
        };
        (stat.runs > 0).then_some(stat)
    }
}

/// A wait of the thread.
struct Wait {
    began: Stamp,
    ended: Stamp,
    /// Of one in which the thread slept, was woken, and has had its core since: for how long it waited for that.
    slept: Option<Nanos>,
}

#[cfg(test)]
#[path = "../tests/unit/wakes.rs"]
mod tests;
