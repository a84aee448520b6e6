//! The version of the results format, and what can be wrong with a stored result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of the format, in every `run.json`.
pub const SCHEMA_NAME: &str = "llm-bench-run";
/// A change that old readers cannot survive raises this.
pub const SCHEMA_MAJOR: u32 = 2;
/// An addition raises this.
pub const SCHEMA_MINOR: u32 = 0;

/// What a file says of its own format: first key of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Schema {
    /// Always [`SCHEMA_NAME`].
    pub name: String,
    /// Readers refuse a larger one than their own.
    pub major: u32,
    /// Readers accept any; a larger one may carry keys they do not know.
    pub minor: u32,
}

impl Schema {
    /// The version this crate writes.
    pub fn current() -> Self {
        Self {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        }
    }

    /// Whether this crate can read a file that says this of itself.
    ///
    /// # Errors
    /// [`SchemaError::OtherFormat`] for another name, [`SchemaError::TooNew`] for a larger major version.
    pub fn check(&self) -> Result<(), SchemaError> {
        if self.name != SCHEMA_NAME {
            return Err(SchemaError::OtherFormat {
                found: self.name.clone(),
            });
        }
        if self.major > SCHEMA_MAJOR {
            return Err(SchemaError::TooNew { found: self.major });
        }
        Ok(())
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self::current()
    }
}

/// A stored result that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SchemaError {
    /// The file is of some other format.
    OtherFormat {
        /// The name it gives.
        found: String,
    },
    /// The file was written by a newer tool.
    TooNew {
        /// Its major version.
        found: u32,
    },
    /// The text is not the one that was written.
    Changed,
    /// A plan's hash is not 64 hexadecimal digits.
    PlanHash(String),
    /// The text is not JSON of the expected shape.
    Json(serde_json::Error),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFormat { found } => {
                write!(
                    f,
                    "this is a `{found}` file, not a `{SCHEMA_NAME}` one; give a run directory or its run.json"
                )
            }
            Self::TooNew { found } => write!(
                f,
                "written in schema version {found}, this program reads up to {SCHEMA_MAJOR}; use a newer bench-report"
            ),
            Self::Changed => f.write_str(
                "it was changed or damaged after it was written: its digest is of another text; take it from a copy, or make it again with `bench-report recover` \
                 (where it was changed on purpose, take out its last key, `digest`)",
            ),
            Self::PlanHash(text) => {
                write!(f, "`{text}` is no plan's hash: 64 hexadecimal digits are")
            }
            Self::Json(_) => write!(
                f,
                "not a run record: the JSON does not have the expected shape"
            ),
        }
    }
}

impl std::error::Error for SchemaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(cause) => Some(cause),
            _ => None,
        }
    }
}
