//! The names of what is measured. `docs/metrics.md` defines each one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a latency begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The last byte of the request was handed to the socket: service time.
    Sent,
    /// The schedule wanted it to start: response time, free of coordinated omission.
    Due,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neutral,
}

/// Unit of a stored number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Tokens.
    Tokens,
    /// Tokens per second.
    TokensPerS,
    /// Requests per second.
    RequestsPerS,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// A share, 0 to 1.
    Ratio,
    /// A plain number.
    Count,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
    /// Degrees Celsius.
    Celsius,
    /// Hertz.
    Hertz,
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
