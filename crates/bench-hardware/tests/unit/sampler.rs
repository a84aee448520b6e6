//! Ticks.

use super::*;

#[test]
fn ticks_keep_their_raster_and_count_those_that_passed_while_busy() {
    let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
    assert_eq!(ticks.next(Stamp::new(1030)), (Nanos::new(108), 0));
    // due at 1138, busy until 1390: 1276 and 1314 are missed, 1453 is next, and then 1591
    assert_eq!(ticks.next(Stamp::new(1390)), (Nanos::new(63), 2));
    assert_eq!(ticks.next(Stamp::new(1454)), (Nanos::new(137), 0));
}

/// Bursts that came each second, for a fifth of it, lay between all readings of each half second.
#[test]
fn what_happens_at_even_intervals_is_met() {
    let every = Nanos::from_millis(500);
    for start in (0..1000).step_by(50) {
        let mut ticks = Ticks::new(Stamp::EPOCH + Nanos::from_millis(start), every);
        let mut now = Stamp::EPOCH + Nanos::from_millis(start);
        let mut met = 0;
        for _ in 0..28 {
            let (wait, missed) = ticks.next(now);
            assert_eq!(missed, 0);
            now = now + wait;
            met += u32::from((now - Stamp::EPOCH).get() % 1_000_000_000 < 215_000_000);
        }
        assert!((4..=8).contains(&met), "{met} of 28 from {start} ms");
    }
}

#[test]
fn a_clock_that_steps_back_only_waits_longer() {
    let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
    assert_eq!(ticks.next(Stamp::new(900)), (Nanos::new(238), 0));
}
