//! What distinguishes one cell from another.

use std::fmt;

use serde::{Deserialize, Serialize};

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
