//! Reading late on purpose: with kernel stamps it costs no accuracy, and saves most of the wake-ups.
//!
//! A thread that has nothing to do goes to sleep in `epoll_wait` and is woken by the next token, of whichever stream. Asked to
//! pause first, it finds all tokens of the pause ready at once. The pause stays well below the gap between two tokens of one
//! stream, so that a read still holds one token and its stamp is exact; and there is none when a request is soon due to be
//! sent, which what the pause gathered could delay.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use bench_schema::{Nanos, Stamp};

use crate::{Clock, ReadMark, Timer};

/// How long gaps are collected before the pause is set anew.
const WINDOW: Nanos = Nanos::from_millis(50);
/// A pause that nobody confirms ends: streams are over, and the next thing to happen is not a token.
const VALID: Nanos = Nanos::from_millis(200);
/// The pause is at most this part of the gap that 99 % of the gaps exceed: the lag that it makes stays below a tenth of the
/// median gap, where the lag would begin to speak against the run.
const PART_OF_GAP: i64 = 12;
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
/// // client.read_late(&late); late.give_way_to(&timer);
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
    /// When the thread's timer will want it, if it has one ([`Timer::next`]).
    next: OnceLock<Arc<AtomicI64>>,
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
                next: OnceLock::new(),
            }),
        }
    }

    /// What the thread's runtime does before it sleeps (`Builder::on_thread_park`).
    pub fn park_hook(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.wait()
    }

    /// Make no pause that what this timer waits for could be delayed by. One timer; later calls change nothing.
    pub fn give_way_to(&self, timer: &Timer) {
        let _first = self.shared.next.get_or_init(|| timer.next());
    }

    /// The pause that is in force now; zero for none.
    pub fn pause(&self) -> Nanos {
        self.shared.pause_at(self.shared.clock.now())
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
    /// Zero for none. What a pause gathers takes no longer to handle than to gather, unless the core is full: a request that is due
    /// within two pauses is waited for without one.
    fn pause_at(&self, now: Stamp) -> Nanos {
        let pause = Nanos::new(self.pause.load(Ordering::Relaxed));
        let valid_until = Stamp::new(self.valid_until.load(Ordering::Relaxed));
        let next = self.next.get().map(|next| next.load(Ordering::Relaxed));
        let soon = next.is_some_and(|next| next < (now + pause + pause).get());
        if soon || now > valid_until {
            return Nanos::ZERO;
        }
        pause
    }

    fn wait(&self) {
        let pause = self.pause_at(self.clock.now());
        if pause > Nanos::ZERO {
            std::thread::sleep(pause.to_duration());
        }
    }
}

impl fmt::Debug for LateReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateReading")
            .field("most", &self.shared.most)
            .field("pause", &self.pause())
            .finish_non_exhaustive()
    }
}

/// Gaps between events, four classes to each power of two.
type Classes = [u32; CLASSES];
const CLASSES: usize = 4 * 64;

/// The class of a gap: its power of two, and the two bits below it.
fn class_of(gap: Nanos) -> usize {
    let gap = u64::try_from(gap.get()).unwrap_or(0).max(4);
    let octave = gap.ilog2();
    let quarter = (gap >> (octave - 2)) & 3;
    usize::try_from(u64::from(octave) * 4 + quarter).unwrap_or(0)
}

/// The shortest gap of a class.
fn shortest_of(class: usize) -> i64 {
    let (octave, quarter) = (class / 4, class % 4);
    let (Ok(octave), Ok(quarter)) = (u32::try_from(octave), i64::try_from(quarter)) else {
        return 0;
    };
    (4 + quarter)
        .checked_shl(octave.saturating_sub(2).min(60))
        .unwrap_or(0)
}

/// Watches the gaps between the events of a client's streams and sets the pause by them.
#[derive(Debug)]
pub(crate) struct Rhythm {
    late: LateReading,
    began: Cell<Stamp>,
    gaps: Cell<u64>,
    classes: Box<[Cell<u32>; CLASSES]>,
}

impl Rhythm {
    pub(crate) fn new(late: LateReading) -> Self {
        Self {
            began: Cell::new(late.shared.clock.now()),
            late,
            gaps: Cell::new(0),
            classes: Box::new(std::array::from_fn(|_| Cell::new(0))),
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
        if let Some(cell) = self.classes.get(class_of(gap)) {
            cell.set(cell.get().saturating_add(1));
        }
        self.gaps.set(self.gaps.get() + 1);
    }

    fn decide(&self, now: Stamp) {
        let window = now - self.began.get();
        let classes: Classes = std::array::from_fn(|i| self.classes.get(i).map_or(0, Cell::take));
        let gaps = self.gaps.take();
        self.began.set(now);
        self.late.set(
            pause_for(&classes, gaps, window, self.late.shared.most),
            now,
        );
    }
}

/// The longest pause that keeps tokens of one stream apart; none if it would gather too little.
fn pause_for(classes: &Classes, gaps: u64, window: Nanos, most: Nanos) -> Nanos {
    if gaps < FEWEST_GAPS {
        return Nanos::ZERO;
    }
    let mut below = 0_u64;
    let shortest = classes.iter().position(|&n| {
        below += u64::from(n);
        below * 100 > gaps
    });
    let gap = shortest.map_or(0, shortest_of);
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
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    /// `n` gaps of `gap` ns in 50 ms.
    fn pause(counts: &[(i64, u32)]) -> Nanos {
        let mut classes = [0; CLASSES];
        let mut gaps = 0;
        for &(gap, n) in counts {
            classes[class_of(Nanos::new(gap))] += n;
            gaps += u64::from(n);
        }
        pause_for(&classes, gaps, WINDOW, Nanos::from_millis(1))
    }

    proptest::proptest! {
        #[test]
        fn a_gap_is_at_most_a_quarter_above_the_shortest_of_its_class(gap in 4_i64..i64::MAX) {
            let shortest = shortest_of(class_of(Nanos::new(gap)));
            proptest::prop_assert!(shortest <= gap && gap - shortest <= gap / 5 + 1);
        }
    }

    #[test]
    fn the_pause_is_well_below_the_gap_between_tokens() {
        // 256 streams, 5 ms: 2,560 events in 50 ms; the class of 5 ms begins at 4.19 ms.
        assert_eq!(pause(&[(5_000_000, 2560)]), Nanos::new((1 << 22) / 12));
        // 1,024 streams, 22 ms: a twelfth is beyond the most that was asked for.
        assert_eq!(pause(&[(22_000_000, 2300)]), Nanos::from_millis(1));
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
            pause(&[(20_000, 200)]),
            Nanos::ZERO,
            "a microsecond gathers nothing"
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

    #[tokio::test]
    async fn there_is_no_pause_when_a_request_is_soon_due() {
        let clock = Clock::start();
        let late = LateReading::new(clock.clone(), Nanos::from_millis(1));
        late.set(Nanos::from_millis(1), clock.now());
        let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
        late.give_way_to(&timer);
        let now = clock.now();
        assert_eq!(late.shared.pause_at(now), Nanos::from_millis(1));
        {
            let mut wait = std::pin::pin!(timer.wait_until(now + Nanos::from_secs(100)));
            assert!(
                wait.as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
            late.set(Nanos::from_millis(1), now + Nanos::from_secs(200));
            let ahead = |ms| now + Nanos::from_secs(100) - Nanos::from_millis(ms);
            assert_eq!(late.shared.pause_at(ahead(3)), Nanos::from_millis(1));
            assert_eq!(late.shared.pause_at(ahead(1)), Nanos::ZERO);
        }
        // Given up: nothing is due any more.
        let then = now + Nanos::from_secs(100) - Nanos::from_millis(1);
        assert_eq!(late.shared.pause_at(then), Nanos::from_millis(1));
    }
}
