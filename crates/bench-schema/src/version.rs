//! The version of the results format.

use serde::{Deserialize, Serialize};

use crate::SchemaError;

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
