//! How load is offered, and when a cell ends.

use std::fmt;
use std::ops::{AddAssign, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Nanos, SchemaError};

/// The load shape of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// A fixed number of requests in flight; a new one starts when one ends.
    Closed {
        /// Requests in flight; with a ramp, the most.
        concurrency: u32,
        /// Pause of a slot between an answer and its next request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        think_time: Option<Nanos>,
        /// How the number in flight moves over the cell; absent where it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ramp: Option<ConcurrencyRamp>,
    },
    /// Requests start at times that do not depend on answers.
    Open {
        /// Requests per second that are asked for, on average; absent where the pace is a file's. In older results it is 1 there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_per_s: Option<f64>,
        /// The arrival process.
        arrival: ArrivalKind,
        /// Most requests in flight; beyond it they are `unsent`, never delayed. Absent: no cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_flight_cap: Option<u32>,
    },
}

impl Load {
    /// A closed loop of this many requests in flight, without pauses.
    pub fn closed(concurrency: u32) -> Self {
        Self::Closed {
            concurrency,
            think_time: None,
            ramp: None,
        }
    }

    /// How the number in flight is moved over the cell, where it is.
    pub fn ramp(&self) -> Option<&ConcurrencyRamp> {
        match self {
            Self::Closed { ramp, .. } => ramp.as_ref(),
            Self::Open { .. } => None,
        }
    }

    /// Whether requests come at one rate, however unevenly, rather than at one that is moved over the cell.
    pub fn has_one_rate(&self) -> bool {
        matches!(self, Self::Open { arrival, .. } if !arrival.moves())
    }

    /// Whether arrivals do not wait for answers.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// What one of `count` programs keeps in flight, the first being 0: an even share, and of what is left over one more in the first of them. A rate stays that of
    /// all: its requests are dealt out, each with its due time.
    #[must_use]
    pub fn part(&self, index: u32, count: u32) -> Self {
        self.each(|all| {
            let left_over = all.checked_rem(count).unwrap_or(0);
            all.checked_div(count).unwrap_or(all) + u32::from(index < left_over)
        })
    }

    /// What `count` programs keep in flight that each keep this.
    #[must_use]
    pub fn times(&self, count: u32) -> Self {
        self.each(|one| one.saturating_mul(count))
    }

    /// What is in flight when both are offered at once, at the rate of one of them.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let sum = |a: Option<u32>, b: Option<u32>| Some(a?.saturating_add(b?));
        let mut both = self.clone();
        match (&mut both, other) {
            (
                Self::Closed {
                    concurrency, ramp, ..
                },
                Self::Closed {
                    concurrency: more,
                    ramp: other,
                    ..
                },
            ) => {
                *concurrency = concurrency.saturating_add(*more);
                *ramp = ramp.as_ref().zip(other.as_ref()).map(|(a, b)| a.beside(b));
            }
            (
                Self::Open { in_flight_cap, .. },
                Self::Open {
                    in_flight_cap: more,
                    ..
                },
            ) => *in_flight_cap = sum(*in_flight_cap, *more),
            _ => {}
        }
        both
    }

    /// The fewest that it ever lets be in flight at once; absent where it sets no number.
    pub fn fewest_in_flight(&self) -> Option<u32> {
        match self {
            Self::Closed {
                ramp: Some(ramp), ..
            } => ramp.levels().min(),
            Self::Closed { concurrency, .. } => Some(*concurrency),
            Self::Open { in_flight_cap, .. } => *in_flight_cap,
        }
    }

    /// The same load with each number in flight replaced.
    fn each(&self, to: impl Fn(u32) -> u32) -> Self {
        let mut load = self.clone();
        match &mut load {
            Self::Closed {
                concurrency, ramp, ..
            } => {
                *concurrency = to(*concurrency);
                *ramp = (ramp.as_ref())
                    .map(|ramp| ConcurrencyRamp::of(ramp.levels().map(to).collect()));
            }
            Self::Open { in_flight_cap, .. } => *in_flight_cap = in_flight_cap.map(to),
        }
        load
    }
}

/// A number of requests in flight that moves over a cell: over its duration where it has one, else over its requests.
///
/// A slot that is no longer wanted finishes its request first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ConcurrencyRamp {
    /// One by one from a number to another, each number for an equal share of the cell.
    Line {
        /// At the start.
        from: u32,
        /// At the end.
        to: u32,
    },
    /// In steps, each for an equal share of the cell.
    Steps {
        /// The numbers, in order.
        levels: Vec<u32>,
    },
}

impl ConcurrencyRamp {
    /// The most that are in flight.
    pub fn peak(&self) -> u32 {
        match self {
            Self::Line { from, to } => *from.max(to),
            Self::Steps { levels } => levels.iter().copied().max().unwrap_or(0),
        }
    }

    /// How many different stretches it has.
    pub fn stretches(&self) -> u64 {
        match self {
            Self::Line { from, to } => u64::from(from.abs_diff(*to)) + 1,
            Self::Steps { levels } => levels.len() as u64,
        }
    }

    /// The number in flight in a stretch, counted from 0; past the end, that of the last.
    pub fn level(&self, stretch: u64) -> u32 {
        match self {
            Self::Line { from, to } => {
                let step = u32::try_from(stretch)
                    .unwrap_or(u32::MAX)
                    .min(from.abs_diff(*to));
                if from <= to { from + step } else { from - step }
            }
            Self::Steps { levels } => usize::try_from(stretch)
                .ok()
                .and_then(|at| levels.get(at))
                .or(levels.last())
                .copied()
                .unwrap_or(0),
        }
    }

    /// The number of each stretch, in order.
    fn levels(&self) -> impl Iterator<Item = u32> {
        (0..self.stretches()).map(|stretch| self.level(stretch))
    }

    /// With these numbers, each for an equal share of the cell: a line where they go one by one.
    fn of(levels: Vec<u32>) -> Self {
        let goes = |step: fn(u32) -> Option<u32>| {
            let mut pairs = levels.windows(2).peekable();
            pairs.peek().is_some()
                && pairs.all(|pair| matches!(pair, &[a, b] if step(a) == Some(b)))
        };
        match levels.as_slice() {
            &[from, .., to] if goes(|a| a.checked_add(1)) || goes(|a| a.checked_sub(1)) => {
                Self::Line { from, to }
            }
            _ => Self::Steps { levels },
        }
    }

    /// Both at once, stretch by stretch.
    fn beside(&self, other: &Self) -> Self {
        let longest = self.stretches().max(other.stretches());
        let both = (0..longest).map(|at| self.level(at).saturating_add(other.level(at)));
        Self::of(both.collect())
    }
}

/// `1 to 32`, or `1 → 4 → 16`.
impl fmt::Display for ConcurrencyRamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { from, to } => write!(f, "{from} to {to}"),
            Self::Steps { levels } => {
                let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
                f.write_str(&levels.join(" → "))
            }
        }
    }
}

/// An arrival process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gamma gaps with this coefficient of variation (1 is Poisson, below 1 steadier, above burstier).
    Gamma {
        /// sd / mean of the gaps.
        cov: f64,
    },
    /// Groups that start together; the groups are evenly spaced.
    Burst {
        /// Requests in each group.
        size: u32,
    },
    /// The rate moves in a straight line over the cell.
    Ramp {
        /// Rate at the start, requests per second.
        from_per_s: f64,
        /// Rate at the end.
        to_per_s: f64,
    },
    /// The rate moves in equal steps over the cell.
    Steps {
        /// The rates, requests per second, each for an equal share of the time.
        rates_per_s: Vec<f64>,
    },
    /// A rate series from a file.
    Series {
        /// The file, as given.
        file: String,
    },
    /// Times from a trace.
    Trace {
        /// Factor on the trace's speed: 2 replays twice as fast.
        speed: f64,
    },
    /// Each of a number of users asks at an even cadence, whether or not the last answer has come.
    Users {
        /// How many users.
        users: u32,
        /// Time between two requests of one user.
        every: Nanos,
    },
}

impl ArrivalKind {
    /// Whether the rate changes over the cell, rather than being one number.
    pub fn moves(&self) -> bool {
        matches!(
            self,
            Self::Ramp { .. } | Self::Steps { .. } | Self::Series { .. } | Self::Trace { .. }
        )
    }

    /// One word, as in the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
            Self::Gamma { .. } => "gamma",
            Self::Burst { .. } => "burst",
            Self::Ramp { .. } => "ramp",
            Self::Steps { .. } => "steps",
            Self::Series { .. } => "series",
            Self::Trace { .. } => "trace",
            Self::Users { .. } => "users",
        }
    }
}

/// What ends a cell: the first of these that is reached. At least one is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StopRule {
    /// After this many measured requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// After this much time of measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
    /// When a quantile is known this well, as `p99:ttft=5%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precision: Vec<String>,
}

/// The level of one factor of an experiment: `concurrency = 8`, `prompt = "short"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Factor {
    /// A number with an order.
    Number(f64),
    /// A name without one.
    Name(String),
}

impl Factor {
    /// The number, where it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl From<u32> for Factor {
    fn from(n: u32) -> Self {
        Self::Number(f64::from(n))
    }
}

impl From<f64> for Factor {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<&str> for Factor {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// The sum, modulo 2^256, of the SHA-256 digests of planned requests.
///
/// A sum does not depend on the order in which requests were taken up, and the sum of the hashes of a plan's shards is the hash of the
/// whole plan. Nothing planned is 0. Written as 64 hexadecimal digits, the most significant first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanHash {
    high: u128,
    low: u128,
}

impl PlanHash {
    /// From the 32 bytes of a digest, read as a number, most significant first.
    pub fn of_digest(digest: [u8; 32]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| (n << 8) | u128::from(*b));
        let (high, low) = digest.split_at(16);
        Self {
            high: number(high),
            low: number(low),
        }
    }
}

impl AddAssign for PlanHash {
    fn add_assign(&mut self, other: Self) {
        let (low, carry) = self.low.overflowing_add(other.low);
        let high = self.high.wrapping_add(other.high);
        (self.high, self.low) = (high.wrapping_add(u128::from(carry)), low);
    }
}

/// Takes out of a sum what was added to it.
impl SubAssign for PlanHash {
    fn sub_assign(&mut self, other: Self) {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let high = self.high.wrapping_sub(other.high);
        (self.high, self.low) = (high.wrapping_sub(u128::from(borrow)), low);
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}{:032x}", self.high, self.low)
    }
}

impl FromStr for PlanHash {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let digits = |half| u128::from_str_radix(half, 16).ok();
        text.split_at_checked(32)
            .filter(|_| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|(high, low)| digits(high).zip(digits(low)))
            .map(|(high, low)| Self { high, low })
            .ok_or_else(|| SchemaError::PlanHash(text.to_owned()))
    }
}
