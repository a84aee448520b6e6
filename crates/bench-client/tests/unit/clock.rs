//! The clock, the conversion of kernel stamps, and what the scheduler tells.

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
    (1..FEWEST).for_each(|_| stamps.note_lag(Stamp::default(), usual));
    assert_eq!(stamps.closing(), None);
    stamps.note_lag(Stamp::default(), usual);
    assert_eq!(stamps.closing(), Some(usual));
    stamps.note_lag(Stamp::default(), Nanos::from_millis(5));
    (0..31).for_each(|_| stamps.note_lag(Stamp::default(), usual));
    assert_eq!(stamps.closing(), Some(usual));
    // One in ten is no stall.
    for _ in 0..8 {
        stamps.note_lag(Stamp::default(), Nanos::from_millis(1));
        (0..7).for_each(|_| stamps.note_lag(Stamp::default(), usual));
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

#[test]
fn the_three_fields_are_run_time_wait_and_how_often_it_ran() {
    let stat = schedstat("171309852 4120773 1215\n").unwrap();
    assert_eq!(stat.cpu, Nanos::new(171_309_852));
    assert_eq!(stat.run_queue_wait, Nanos::new(4_120_773));
    assert_eq!(stat.runs, 1215);
    assert_eq!(schedstat(""), None);
    assert_eq!(schedstat("12"), None);
}

#[cfg(target_os = "linux")]
#[test]
fn cpu_time_of_this_thread_grows_with_work() {
    let Some(before) = thread_schedstat() else {
        return;
    };
    let mut x = 1_u64;
    let after = loop {
        for i in 0..100_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
        let now = thread_schedstat().unwrap();
        if now.cpu > before.cpu {
            break now;
        }
    };
    assert!(after.run_queue_wait >= before.run_queue_wait);
}
