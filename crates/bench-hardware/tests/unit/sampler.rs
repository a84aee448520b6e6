//! Ticks.

use super::*;

#[test]
fn ticks_keep_their_raster_and_count_those_that_passed_while_busy() {
    let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
    assert_eq!(ticks.next(Stamp::new(1030)), (Nanos::new(70), 0));
    // woken at 1104, busy until 1390: 1200 and 1300 are missed, 1400 is next
    assert_eq!(ticks.next(Stamp::new(1390)), (Nanos::new(10), 2));
    assert_eq!(ticks.next(Stamp::new(1401)), (Nanos::new(99), 0));
}

#[test]
fn a_clock_that_steps_back_only_waits_longer() {
    let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
    assert_eq!(ticks.next(Stamp::new(900)), (Nanos::new(200), 0));
}
