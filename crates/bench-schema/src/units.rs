//! Time as integers: [`Stamp`] is a point, [`Nanos`] a difference; only the sums that make sense exist.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

use serde::{Deserialize, Serialize};

/// A difference between two [`Stamp`]s, in nanoseconds; negative where the first came later.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(i64);

/// A point on the run's monotonic clock: nanoseconds since the run's epoch.
///
/// Signed, because a kernel's arrival stamp may be converted to just before the epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Stamp(i64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest difference, about 292 years.
    pub const MAX: Self = Self(i64::MAX);

    /// From whole nanoseconds.
    pub const fn new(ns: i64) -> Self {
        Self(ns)
    }

    /// From whole microseconds.
    pub const fn from_micros(us: i64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From whole seconds.
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// From fractional seconds, rounded to the nanosecond; saturates, and NaN is zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self::from_f64(s * 1e9)
    }

    /// From fractional nanoseconds, rounded; saturates, and NaN is zero.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` from f64 saturates, which is what the docs promise"
    )]
    pub fn from_f64(ns: f64) -> Self {
        Self(ns.round() as i64)
    }

    /// Whole nanoseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Nanoseconds as a float, for statistics; exact below 2^53 ns (104 days).
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Milliseconds, for people.
    pub fn as_millis_f64(self) -> f64 {
        self.as_f64() / 1e6
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.as_f64() / 1e9
    }

    /// This difference as a [`std::time::Duration`]; zero where it is negative.
    pub fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// The larger of this and zero.
    #[must_use]
    pub fn or_zero(self) -> Self {
        self.max(Self::ZERO)
    }

    /// From a duration; saturates at [`Nanos::MAX`].
    pub fn from_duration(d: std::time::Duration) -> Self {
        Self(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Stamp {
    /// The run's epoch.
    pub const EPOCH: Self = Self(0);

    /// From whole nanoseconds since the epoch.
    pub const fn new(ns: i64) -> Self {
        Self(ns)
    }

    /// Whole nanoseconds since the epoch.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Sub for Stamp {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Stamp {
    type Output = Self;
    fn add(self, by: Nanos) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub<Nanos> for Stamp {
    type Output = Self;
    fn sub(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Nanos {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// The integer part of a float as a count: negative and NaN become 0, too large saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` from f64 saturates at both ends, which is what the docs promise"
)]
pub const fn whole(x: f64) -> u64 {
    x as u64
}

/// The same as an index.
pub fn index(x: f64) -> usize {
    usize::try_from(whole(x)).unwrap_or(usize::MAX)
}

/// So many of something as words: `1 cell`, `12 cells`, `1,200 requests`. The number may be written out already.
pub fn counted(n: impl fmt::Display, what: &str) -> String {
    let n = n.to_string();
    let plural = if n == "1" { "" } else { "s" };
    format!("{n} {what}{plural}")
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Three significant figures with a fitting unit: `950 ns`, `12.3 µs`, `1.24 ms`, `2.50 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_f64();
        let (value, unit) = match ns.abs() {
            a if a < 1e3 => return write!(f, "{} ns", self.0),
            a if a < 1e6 => (ns / 1e3, "µs"),
            a if a < 1e9 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let digits = match value.abs() {
            a if a < 9.995 => 2,
            a if a < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}
