//! Reading late on purpose: with kernel stamps it costs no accuracy, and saves most of the wake-ups.
//!
//! A thread that has nothing to do goes to sleep in `epoll_wait` and is woken by the next token, of whichever stream. Asked to
//! pause first, it finds all tokens of the pause ready at once. The pause stays well below the gap between two tokens of one
//! stream, so that a read still holds one token and its stamp is exact; and it ends early when a request is due to be sent.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bench_schema::{Nanos, Stamp};

use crate::{Clock, ReadMark};

#[cfg(target_os = "linux")]
use crate::Timer;

/// How long gaps are collected before the pause is set anew.
const WINDOW: Nanos = Nanos::from_millis(50);
/// A pause that nobody confirms ends: streams are over, and the next thing to happen is not a token.
const VALID: Nanos = Nanos::from_millis(200);
/// The pause is at most this part of the gap that 99 % of the gaps exceed.
const PART_OF_GAP: i64 = 8;
/// Events that a pause must be expected to gather; below that it costs a wake-up more than it saves.
const WORTHWHILE_EVENTS: f64 = 2.0;
/// A window with fewer gaps says nothing.
const FEWEST_GAPS: u64 = 20;

/// The pause of one worker thread; shared by its runtime, which pauses, and its client, which knows how long.
///
/// ```no_run
/// # use bench_client::{Clock, LateReading};
/// # use bench_schema::Nanos;
/// let clock = Clock::start();
/// let late = LateReading::new(clock.clone(), Nanos::from_millis(1));
/// let runtime = tokio::runtime::Builder::new_current_thread()
///     .enable_all()
///     .on_thread_park(late.park_hook())
///     .build()?;
/// // client.read_late(&late); late.interrupt_for(&timer);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct LateReading {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    most: Nanos,
    pause: AtomicI64,
    valid_until: AtomicI64,
    #[cfg(target_os = "linux")]
    timer: std::sync::OnceLock<Arc<std::os::fd::OwnedFd>>,
}

impl LateReading {
    /// No pause yet, and never one longer than `most`.
    pub fn new(clock: Clock, most: Nanos) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                most: most.or_zero(),
                pause: AtomicI64::new(0),
                valid_until: AtomicI64::new(i64::MIN),
                #[cfg(target_os = "linux")]
                timer: std::sync::OnceLock::new(),
            }),
        }
    }

    /// What the thread's runtime does before it sleeps (`Builder::on_thread_park`).
    pub fn park_hook(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.wait()
    }

    /// End pauses when this timer's next due time comes. One timer; later calls change nothing.
    #[cfg(target_os = "linux")]
    pub fn interrupt_for(&self, timer: &Timer) {
        let _first = self.shared.timer.get_or_init(|| timer.descriptor());
    }

    /// The pause that is in force now; zero for none.
    pub fn pause(&self) -> Nanos {
        let valid = self.shared.valid_until.load(Ordering::Relaxed);
        if self.shared.clock.now().get() > valid {
            return Nanos::ZERO;
        }
        Nanos::new(self.shared.pause.load(Ordering::Relaxed))
    }

    fn set(&self, pause: Nanos, now: Stamp) {
        let pause = pause.min(self.shared.most);
        self.shared.pause.store(pause.get(), Ordering::Relaxed);
        let until = now + VALID;
        self.shared
            .valid_until
            .store(until.get(), Ordering::Relaxed);
    }
}

impl Shared {
    #[cfg(target_os = "linux")]
    fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        let pause = self.pause.load(Ordering::Relaxed);
        if pause <= 0 || self.clock.now().get() > self.valid_until.load(Ordering::Relaxed) {
            return;
        }
        let timeout = rustix::time::Timespec {
            tv_sec: pause / 1_000_000_000,
            tv_nsec: pause % 1_000_000_000,
        };
        // A signal or an error ends the pause early, which does no harm.
        let _ended = match self.timer.get() {
            Some(timer) => poll(&mut [PollFd::new(timer, PollFlags::IN)], Some(&timeout)),
            None => poll(&mut [], Some(&timeout)),
        };
    }

    /// Without kernel stamps nothing sets a pause.
    #[cfg(not(target_os = "linux"))]
    fn wait(&self) {}
}

impl fmt::Debug for LateReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateReading")
            .field("most", &self.shared.most)
            .field("pause", &self.pause())
            .finish_non_exhaustive()
    }
}

/// Gaps between events by their power of two.
type Octaves = [u32; 64];

/// Watches the gaps between the events of a client's streams and sets the pause by them.
#[derive(Debug)]
pub(crate) struct Rhythm {
    late: LateReading,
    began: Cell<Stamp>,
    gaps: Cell<u64>,
    octaves: Box<[Cell<u32>; 64]>,
}

impl Rhythm {
    pub(crate) fn new(late: LateReading) -> Self {
        Self {
            began: Cell::new(late.shared.clock.now()),
            late,
            gaps: Cell::new(0),
            octaves: Box::new(std::array::from_fn(|_| Cell::new(0))),
        }
    }

    /// A read brought `events` events of a stream whose last ones had arrived at `before`.
    pub(crate) fn note(&self, before: Option<Stamp>, mark: ReadMark, events: usize) {
        if let Some(before) = before {
            self.count(mark.arrival - before);
        }
        for _ in 1..events {
            // They shared a read: a pause may be the cause.
            self.count(Nanos::ZERO);
        }
        if mark.returned - self.began.get() > WINDOW {
            self.decide(mark.returned);
        }
    }

    fn count(&self, gap: Nanos) {
        let octave = u64::try_from(gap.get()).unwrap_or(0).checked_ilog2();
        let index = usize::try_from(octave.unwrap_or(0)).unwrap_or(0);
        if let Some(cell) = self.octaves.get(index) {
            cell.set(cell.get().saturating_add(1));
        }
        self.gaps.set(self.gaps.get() + 1);
    }

    fn decide(&self, now: Stamp) {
        let window = now - self.began.get();
        let octaves: Octaves = std::array::from_fn(|i| self.octaves.get(i).map_or(0, Cell::take));
        let gaps = self.gaps.take();
        self.began.set(now);
        self.late.set(
            pause_for(&octaves, gaps, window, self.late.shared.most),
            now,
        );
    }
}

/// The longest pause that keeps tokens of one stream apart; none if it would gather too little.
fn pause_for(octaves: &Octaves, gaps: u64, window: Nanos, most: Nanos) -> Nanos {
    if gaps < FEWEST_GAPS {
        return Nanos::ZERO;
    }
    let mut below = 0_u64;
    let shortest = octaves.iter().position(|&n| {
        below += u64::from(n);
        below * 100 > gaps
    });
    let octave = shortest
        .and_then(|octave| u32::try_from(octave).ok())
        .unwrap_or(0);
    let gap = 1_i64.checked_shl(octave.min(62)).unwrap_or(0);
    let pause = Nanos::new(gap / PART_OF_GAP).min(most);
    let expected = gaps as f64 * (pause.as_f64() / window.as_f64());
    if expected < WORTHWHILE_EVENTS {
        Nanos::ZERO
    } else {
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` gaps of `gap` ns in 50 ms.
    fn pause(counts: &[(i64, u32)]) -> Nanos {
        let mut octaves = [0; 64];
        let mut gaps = 0;
        for &(gap, n) in counts {
            octaves[usize::try_from(gap.max(1).ilog2()).unwrap()] += n;
            gaps += u64::from(n);
        }
        pause_for(&octaves, gaps, WINDOW, Nanos::from_millis(1))
    }

    #[test]
    fn the_pause_is_well_below_the_gap_between_tokens() {
        // 256 streams, 5 ms: 2,560 events in 50 ms; the octave of 5 ms begins at 4.19 ms, an eighth of it is 0.52 ms.
        assert_eq!(pause(&[(5_000_000, 2560)]), Nanos::new((1 << 22) / 8));
        // 64 streams, 10 ms: 8.39 ms / 8 is beyond the most that was asked for.
        assert_eq!(pause(&[(10_000_000, 320)]), Nanos::from_millis(1));
    }

    #[test]
    fn a_pause_that_gathers_nothing_is_not_made() {
        assert_eq!(pause(&[(10_000_000, 30)]), Nanos::ZERO);
        assert_eq!(pause(&[(10_000_000, 5)]), Nanos::ZERO);
    }

    #[test]
    fn tokens_that_share_a_read_or_come_quickly_end_the_pause() {
        assert_eq!(pause(&[(5_000_000, 2500), (0, 60)]), Nanos::ZERO);
        assert_eq!(
            pause(&[(20_000, 5000)]),
            Nanos::ZERO,
            "the bound: 2 µs would gather nothing"
        );
    }

    #[test]
    fn a_pause_ends_by_itself_when_no_tokens_confirm_it() {
        let clock = Clock::start();
        let late = LateReading::new(clock.clone(), Nanos::from_millis(1));
        late.set(Nanos::from_millis(5), clock.now());
        assert_eq!(
            late.pause(),
            Nanos::from_millis(1),
            "never more than the most"
        );
        late.set(Nanos::from_millis(1), clock.now() - VALID - Nanos::new(1));
        assert_eq!(late.pause(), Nanos::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pausing_runtime_still_wakes_for_a_request_that_is_due() {
        let clock = Clock::start();
        let late = LateReading::new(clock.clone(), Nanos::from_secs(3600));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(late.park_hook())
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
            late.interrupt_for(&timer);
            // An hour's pause, if nothing ended it.
            late.set(Nanos::from_secs(3600), clock.now());
            let due = clock.now() + Nanos::from_millis(3);
            assert!(timer.wait_until(due).await >= due);
        });
    }
}
