//! What can be wrong with a stored result.

use std::fmt;

use crate::version::{SCHEMA_MAJOR, SCHEMA_NAME};

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
