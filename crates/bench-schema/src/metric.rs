//! The names of what is measured, and the summary of a sample of it. `docs/metrics.md` defines each one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

names! {
    /// Where a latency begins.
    Origin {
        Sent "sent" "The last byte of the request was handed to the socket: service time.";
        Due "due" "The schedule wanted it to start: response time, free of coordinated omission.";
    }
}

names! {
    /// Which way is better.
    Direction {
        Lower "lower" "Less is better.";
        Higher "higher" "More is better.";
        Neutral "neutral" "Neither.";
    }
}

names! {
    /// Unit of a stored number.
    Unit {
        Ns "ns" "Nanoseconds.";
        Tokens "tokens" "Tokens.";
        TokensPerS "tokens_per_s" "Tokens per second.";
        RequestsPerS "requests_per_s" "Requests per second.";
        Bytes "bytes" "Bytes.";
        BytesPerS "bytes_per_s" "Bytes per second.";
        Ratio "ratio" "A share, 0 to 1.";
        Count "count" "A plain number.";
        Watts "watts" "Watts.";
        Joules "joules" "Joules.";
        Celsius "celsius" "Degrees Celsius.";
        Hertz "hertz" "Hertz.";
    }
}

impl Direction {
    /// A change as one for the worse: positive where it is worse, negative where it is better. `None` where neither is.
    pub fn for_the_worse(self, change: f64) -> Option<f64> {
        match self {
            Self::Lower => Some(change),
            Self::Higher => Some(-change),
            Self::Neutral => None,
        }
    }
}

macro_rules! metrics {
    ($($variant:ident $key:literal $title:literal $unit:ident $direction:ident;)*) => {
        /// A quantity that has a value for each request, or for each token gap.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        pub enum Metric {
            $(#[doc = concat!($title, "; see `docs/metrics.md`.")] #[serde(rename = $key)] $variant,)*
        }

        impl Metric {
            /// All of them, in the order of the tables.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The key in results, configuration and exports.
            pub fn key(self) -> &'static str {
                match self { $(Self::$variant => $key),* }
            }

            /// The name in tables and charts.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }

            /// The unit it is stored in.
            pub fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit),* }
            }

            /// Which way is better.
            pub fn direction(self) -> Direction {
                match self { $(Self::$variant => Direction::$direction),* }
            }
        }
    };
}

metrics! {
    Ttft "ttft" "TTFT" Ns Lower;
    TtftDue "ttft_due" "TTFT from due" Ns Lower;
    Ttfa "ttfa" "TTFA" Ns Lower;
    TtfaDue "ttfa_due" "TTFA from due" Ns Lower;
    Ttst "ttst" "TTST" Ns Lower;
    Icl "icl" "ICL" Ns Lower;
    Itl "itl" "ITL" Ns Lower;
    Tpot "tpot" "TPOT" Ns Lower;
    E2e "e2e" "E2E" Ns Lower;
    E2eDue "e2e_due" "E2E from due" Ns Lower;
    NormalisedLatency "normalised_latency" "E2E per token" Ns Lower;
    Queue "queue" "Queue time" Ns Lower;
    Prefill "prefill" "Prefill phase" Ns Lower;
    Decode "decode" "Decode phase" Ns Lower;
    Tail "tail" "Tail" Ns Lower;
    Lateness "lateness" "Lateness" Ns Lower;
    Connect "connect" "Connection set-up" Ns Lower;
    TokensPerSUser "tokens_per_s_user" "Tokens/s per user" TokensPerS Higher;
    InputTokens "input_tokens" "Input tokens" Tokens Neutral;
    OutputTokens "output_tokens" "Output tokens" Tokens Neutral;
    TokensPerChunk "tokens_per_chunk" "Tokens per chunk" Tokens Neutral;
}

impl Metric {
    /// Whether groups of a cell have it: what users feel, and lengths. What tells of the client and of the protocol is the
    /// cell's alone, since each distribution of each group is half a kilobyte of `run.json`.
    pub fn is_told_of_groups(self) -> bool {
        !matches!(
            self,
            Self::Ttst
                | Self::NormalisedLatency
                | Self::Decode
                | Self::Tail
                | Self::Lateness
                | Self::Connect
                | Self::TokensPerChunk
        )
    }

    /// The same latency from the other origin; itself where it has only one.
    #[must_use]
    pub fn from_origin(self, origin: Origin) -> Self {
        match (self, origin) {
            (Self::Ttft | Self::TtftDue, Origin::Sent) => Self::Ttft,
            (Self::Ttft | Self::TtftDue, Origin::Due) => Self::TtftDue,
            (Self::Ttfa | Self::TtfaDue, Origin::Sent) => Self::Ttfa,
            (Self::Ttfa | Self::TtfaDue, Origin::Due) => Self::TtfaDue,
            (Self::E2e | Self::E2eDue, Origin::Sent) => Self::E2e,
            (Self::E2e | Self::E2eDue, Origin::Due) => Self::E2eDue,
            (other, _) => other,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl FromStr for Metric {
    type Err = String;

    /// By key.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|metric| metric.key() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|metric| metric.key()).collect();
                format!("unknown metric `{text}`; known are {}", known.join(", "))
            })
    }
}

/// An interval that covers the true value with the stated confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence; 0.95 where it does not say.
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    pub confidence: f64,
}

fn usual() -> f64 {
    0.95
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_usual(confidence: &f64) -> bool {
    confidence.total_cmp(&usual()).is_eq()
}

/// A sample of at least one value, summarised.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Unit of every value here.
    pub unit: Unit,
    /// How many values.
    pub n: u64,
    /// How many independent values these are worth; absent where it was not estimated.
    pub effective_n: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Interval of the mean.
    pub mean_interval: Option<Interval>,
    /// Standard deviation with n − 1; absent for one value.
    pub sd: Option<f64>,
    /// sd / mean; absent for one value or a mean that is not positive.
    pub cov: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// p50, p90, p95, p99, p99.9, in this order, and whatever else was asked for.
    pub quantiles: Vec<Quantile>,
    /// The same with each failed request as +∞; absent where nothing failed.
    pub with_failures: Option<FailureView>,
    /// Share of values that rest on a stamp that is not exact.
    pub bounded_share: Option<f64>,
    /// Largest relative error of the values, where a histogram stood in for the exact sample.
    pub resolution: Option<f64>,
}

impl Distribution {
    /// The value at quantile `q` (0.5 is the median), where it was computed.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantile_entry(q).map(|entry| entry.value)
    }

    /// The entry at quantile `q`, with its interval and mark.
    pub fn quantile_entry(&self, q: f64) -> Option<&Quantile> {
        self.quantiles
            .iter()
            .find(|entry| (entry.q - q).abs() < 1e-9)
    }

    /// The median.
    pub fn p50(&self) -> Option<f64> {
        self.quantile(0.5)
    }
}

/// One quantile of a sample.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Quantile {
    /// 0 to 1.
    pub q: f64,
    /// Type 7 (linear interpolation between order statistics).
    pub value: f64,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Fewer than 10 / (1 − q) values stand behind it: to be printed with a mark. Not stored where `n` tells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub few_samples: bool,
    /// The least it can be within the bounds of its stamps; absent where it can be no less.
    #[serde(alias = "other_end")]
    pub at_least: Option<f64>,
    /// The most it can be within the bounds of its stamps; absent where it can be no more.
    pub at_most: Option<f64>,
}

impl Quantile {
    /// How many values a quantile needs: 10 / (1 − `q`).
    pub fn values_needed(q: f64) -> f64 {
        // the slack keeps 10 / (1 − 0.9) = 99.999… from being 100 by luck only
        (10.0 / (1.0 - q) - 1e-6).ceil()
    }

    /// How far the truth may lie from the value within the bounds of its stamps, in the value's unit; zero where all are exact.
    pub fn stamp_error(&self) -> f64 {
        let off = |end: Option<f64>| end.map_or(0.0, |end| (end - self.value).abs());
        off(self.at_least).max(off(self.at_most))
    }
}

/// Quantiles of a sample in which each failed request counts as +∞.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FailureView {
    /// Values and failures together.
    pub n: u64,
    /// Failures among them.
    pub failed: u64,
    /// Quantile and value; no value where it is +∞.
    pub quantiles: Vec<(f64, Option<f64>)>,
}
