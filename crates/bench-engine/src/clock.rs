//! The engine's clock: nanoseconds that another process on this machine can compare with its own.
//!
//! `std::time::Instant` hides its number. A ledger is only worth something if the client, in another process, can lay
//! its own stamps beside it, so the engine reads `CLOCK_MONOTONIC` itself and gives the distance to the wall clock.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` now, in nanoseconds since an unspecified start, the same for every process of this boot.
pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic).unsigned_abs()
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in nanoseconds; add it to a monotonic stamp to get Unix time.
///
/// The two clocks are read one after the other: the error is tens of nanoseconds unless the thread is interrupted, so
/// the narrowest of a few tries is taken.
pub fn realtime_offset_ns() -> i64 {
    (0..4)
        .map(|_| {
            let before = nanos(ClockId::Monotonic);
            let wall = nanos(ClockId::Realtime);
            let after = nanos(ClockId::Monotonic);
            (after - before, wall - before - (after - before) / 2)
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

/// Unix time in whole seconds, for the `created` fields.
pub(crate) fn unix_seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

fn nanos(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec)
}

/// A non-negative number of nanoseconds, rounded; negative and not-a-number give 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is what is wanted"
)]
pub(crate) fn from_ns_f64(value: f64) -> u64 {
    value.round() as u64
}
