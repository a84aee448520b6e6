//! Batching reads: a pause before a worker's thread sleeps lets the tokens of several streams gather, so that one wake-up reads
//! them all. With kernel stamps this costs no accuracy and saves most of the wake-ups.
//!
//! The pause stays well below the gap between two tokens of one stream, so that a read still holds one token and its stamp is
//! exact. It ends early enough before a request is due to be sent that the work it gathers does not delay that. There is none while a
//! request is being sent, and while the worker has anything to do; what the worker is woken for meanwhile ends it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

use bench_schema::{Nanos, Stamp};
use futures_util::task::AtomicWaker;

use crate::wakes::Wakes;
use crate::{Clock, ReadMark, Timer};

/// How long gaps are collected before the pause is set anew.
const WINDOW: Nanos = Nanos::from_millis(50);
/// A pause that nobody confirms ends: streams are over, and the next thing to happen is not a token.
const VALID: Nanos = Nanos::from_millis(200);
/// The pause is at most this part of the gap that 99 % of the gaps exceed, so that a read still holds one token of a stream.
const PART_OF_GAP: i64 = 8;
/// Where the next request waits for an answer, as in a closed loop, it is at most this part of the time that answers take.
const PART_OF_ANSWER: i64 = 1_000;
/// So much later than asked for a thread may be awake again.
const OVERSLEPT: Nanos = Nanos::from_micros(100);
/// Events that a pause must be expected to gather; below that it costs a wake-up more than it saves.
const WORTHWHILE_EVENTS: i64 = 2;
/// A window with fewer gaps says nothing.
const FEWEST_GAPS: usize = 20;

/// The pause of one worker thread; shared by its runtime, which pauses, and its client, which knows how long.
///
/// ```no_run
/// # use bench_client::{Clock, ReadBatching};
/// # use bench_schema::Nanos;
/// let clock = Clock::start();
/// let batching = ReadBatching::new(clock.clone(), Nanos::from_millis(1));
/// let runtime = tokio::runtime::Builder::new_current_thread()
///     .enable_all()
///     .on_thread_park(batching.park_hook())
///     .on_thread_unpark(batching.wake_hook())
///     .build()?;
/// // client.batch_reads(&batching); batching.give_way_to(&timer);
/// runtime.block_on(batching.around(async { /* the worker's work */ }));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ReadBatching {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    most: Nanos,
    pause: AtomicI64,
    /// A shorter one gathers too little to be made.
    least: AtomicI64,
    valid_until: AtomicI64,
    longest: AtomicI64,
    /// Requests that are not out yet.
    unsent: AtomicUsize,
    /// Whether the worker was woken since it was last run.
    woken: AtomicBool,
    worker: AtomicWaker,
    thread: OnceLock<Thread>,
    wakes: Arc<Wakes>,
    /// When each of the thread's timers will want it ([`Timer::next`]). Those that are gone drop out.
    timers: Mutex<Vec<Weak<AtomicI64>>>,
}

impl ReadBatching {
    /// No pause yet, and never one longer than `most`; with zero there is none.
    pub fn new(clock: Clock, most: Nanos) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                most: most.or_zero(),
                pause: AtomicI64::new(0),
                least: AtomicI64::new(0),
                valid_until: AtomicI64::new(i64::MIN),
                longest: AtomicI64::new(0),
                unsent: AtomicUsize::new(0),
                woken: AtomicBool::new(false),
                worker: AtomicWaker::new(),
                thread: OnceLock::new(),
                wakes: Arc::new(Wakes::new()),
                timers: Mutex::default(),
            }),
        }
    }

    /// What the thread's runtime does before it sleeps (`Builder::on_thread_park`).
    pub fn park_hook(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || {
            shared.wait();
            let now = shared.clock.now();
            shared.wakes.begin(now, shared.wakes.ask(now));
        }
    }

    /// What it does when it is woken (`Builder::on_thread_unpark`).
    pub fn wake_hook(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.wakes.end(shared.clock.now())
    }

    pub(crate) fn wakes(&self) -> Arc<Wakes> {
        Arc::clone(&self.shared.wakes)
    }

    pub(crate) fn may_pause(&self) -> bool {
        self.shared.most > Nanos::ZERO
    }

    /// Make no pause that could delay what this timer waits for, for as long as the timer lives. A worker has one timer for its whole
    /// run and says this once; a timer made later is added by another call.
    pub fn give_way_to(&self, timer: &Timer) {
        let mut timers = self.shared.timers();
        timers.retain(|timer| timer.strong_count() > 0);
        timers.push(Arc::downgrade(&timer.next()));
    }

    /// Run a worker. Its runtime is about to sleep whenever this returns, although the worker may have been woken by itself in the
    /// meantime: then there is no pause, and a pause ends when another thread wakes it.
    pub async fn around<F: Future>(&self, worker: F) -> F::Output {
        let shared = &self.shared;
        shared.thread.get_or_init(std::thread::current);
        let waker = Waker::from(Arc::clone(shared));
        let mut worker = pin!(worker);
        poll_fn(|cx| {
            shared.worker.register(cx.waker());
            shared.woken.store(false, Ordering::SeqCst);
            worker.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// No pause until this is dropped: a request is on its way out.
    pub(crate) fn hold(&self) -> Hold {
        self.shared.unsent.fetch_add(1, Ordering::Relaxed);
        Hold(Arc::clone(&self.shared))
    }

    /// The pause that is in force now; zero for none.
    pub fn pause(&self) -> Nanos {
        self.shared.pause_at(self.shared.clock.now())
    }

    /// The longest pause since this was last asked; zero where there was none.
    pub fn take_longest(&self) -> Nanos {
        Nanos::new(self.shared.longest.swap(0, Ordering::Relaxed))
    }

    /// Pause for so long, or, where something is due before, for at least so long.
    fn set(&self, pause: Nanos, least: Nanos, now: Stamp) {
        let pause = pause.min(self.shared.most);
        self.shared.pause.store(pause.get(), Ordering::Relaxed);
        self.shared.least.store(least.get(), Ordering::Relaxed);
        let until = now + VALID;
        self.shared
            .valid_until
            .store(until.get(), Ordering::Relaxed);
    }
}

impl Shared {
    /// Zero for none. What a pause gathers takes no longer to handle than to gather, unless the core is full: so it takes at most half of the
    /// time until a request is due.
    fn pause_at(&self, now: Stamp) -> Nanos {
        let load = |at: &AtomicI64| at.load(Ordering::Relaxed);
        let pause = Nanos::new(load(&self.pause));
        if now > Stamp::new(load(&self.valid_until)) {
            return Nanos::ZERO;
        }
        let free = self.next_due().map(|due| due - now);
        match free.filter(|free| *free < pause + pause) {
            None => pause,
            Some(free) => Some(Nanos::new((free - OVERSLEPT).get() / 2))
                .filter(|short| *short >= Nanos::new(load(&self.least)).max(OVERSLEPT))
                .unwrap_or(Nanos::ZERO),
        }
    }

    /// What the earliest of the thread's timers waits for.
    fn next_due(&self) -> Option<Stamp> {
        let timers = self.timers();
        let live = timers.iter().filter_map(Weak::upgrade);
        let next = live.map(|next| next.load(Ordering::Relaxed)).min();
        next.filter(|next| *next < i64::MAX).map(Stamp::new)
    }

    /// Nobody but the worker's own thread takes this lock while the run is under way.
    fn timers(&self) -> MutexGuard<'_, Vec<Weak<AtomicI64>>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        // Most clients make no pause, and need no look at the clock to know it.
        if self.pause.load(Ordering::Relaxed) == 0 || self.is_busy() {
            return;
        }
        let mut now = self.clock.now();
        let pause = self.pause_at(now);
        if pause <= Nanos::ZERO {
            return;
        }
        self.longest.fetch_max(pause.get(), Ordering::Relaxed);
        let end = now + pause;
        // A wake-up that was served long ago ends one of these at once.
        while now < end && !self.is_busy() {
            std::thread::park_timeout((end - now).to_duration());
            now = self.clock.now();
        }
    }

    /// Whether there is anything to do or to send.
    fn is_busy(&self) -> bool {
        self.woken.load(Ordering::SeqCst) || self.unsent.load(Ordering::Relaxed) > 0
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.worker.wake();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// A request that is not out yet.
pub(crate) struct Hold(Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.unsent.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for ReadBatching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBatching")
            .field("most", &self.shared.most)
            .field("pause", &self.pause())
            .finish_non_exhaustive()
    }
}

/// Watches the gaps between the events of a client's streams and sets the pause by them.
pub(crate) struct GapTracker {
    batching: ReadBatching,
    began: Cell<Stamp>,
    /// Of the window that began then.
    gaps: RefCell<Vec<Nanos>>,
    /// For how long the longest answer of this window that a request waits for has been on its way.
    longest: Cell<Option<Nanos>>,
}

impl GapTracker {
    pub(crate) fn new(batching: ReadBatching) -> Self {
        Self {
            began: Cell::new(batching.shared.clock.now()),
            batching,
            gaps: RefCell::default(),
            longest: Cell::default(),
        }
    }

    /// [`ReadBatching::hold`].
    pub(crate) fn hold(&self) -> Hold {
        self.batching.hold()
    }

    /// Whether so many events come that pauses gather several.
    pub(crate) fn is_pausing(&self) -> bool {
        self.batching.shared.pause.load(Ordering::Relaxed) > 0
    }

    /// A read brought `events` events of an answer whose last ones had arrived at `before`, and that a request waits for since it was asked for at
    /// `awaited`, if one does.
    pub(crate) fn note(
        &self,
        awaited: Option<Stamp>,
        before: Option<Stamp>,
        mark: ReadMark,
        events: usize,
    ) {
        let under_way = awaited.map(|asked| mark.arrival - asked);
        self.longest.set(self.longest.get().max(under_way));
        let mut gaps = self.gaps.borrow_mut();
        gaps.extend(before.map(|before| mark.arrival - before));
        // Others shared a read with one: a pause may be the cause.
        gaps.extend((1..events).map(|_| Nanos::ZERO));
        drop(gaps);
        if mark.returned - self.began.get() > WINDOW {
            self.decide(mark.returned);
        }
    }

    fn decide(&self, now: Stamp) {
        let window = now - self.began.get();
        self.began.set(now);
        let mut gaps = self.gaps.borrow_mut();
        let n = gaps.len();
        let short = n / 100;
        let shortest = match gaps.get(short) {
            Some(_) => *gaps.select_nth_unstable(short).1,
            None => Nanos::ZERO,
        };
        gaps.clear();
        let shared = &self.batching.shared;
        let mut pause = Nanos::new(shortest.get() / PART_OF_GAP).min(shared.most);
        if let Some(longest) = self.longest.take() {
            pause = pause.min(Nanos::new(longest.get() / PART_OF_ANSWER));
        }
        let least = Nanos::new(
            WORTHWHILE_EVENTS * window.get() / i64::try_from(n.max(1)).unwrap_or(i64::MAX),
        );
        let worthwhile = n >= FEWEST_GAPS && pause >= least;
        self.batching
            .set(if worthwhile { pause } else { Nanos::ZERO }, least, now);
    }
}

#[cfg(test)]
#[path = "../tests/unit/read_batching.rs"]
mod tests;
