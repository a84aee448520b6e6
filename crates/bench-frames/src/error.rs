//! What can go wrong with frames.

use std::io;
use std::path::{Path, PathBuf};

use bench_schema::{SchemaError, UnreadablePart};
use polars::prelude::PolarsError;

/// Why a frame could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FramesError {
    /// A file of a run could not be read.
    #[error(
        "cannot read {path}: {source}; give a run directory, which holds run.json and requests.jsonl"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A `run.json` of something else.
    #[error("{path} is not a result: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SchemaError,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}; make room or choose another folder")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No run was given.
    #[error("no runs were given; name run directories, or a folder that holds some")]
    NoRuns,
    /// A column that is not there.
    #[error("there is no column `{name}`; known are {known}")]
    NoColumn {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A column that is no number.
    #[error("column `{name}` holds {dtype}, not numbers; pivot a number such as e2e_ms")]
    NotANumber {
        /// What was asked for.
        name: String,
        /// What it holds.
        dtype: String,
    },
    /// Different cells in one place of a pivot.
    #[error(
        "{place} has several cells ({cells}); choose rows and columns that tell them apart, such as `cell` or a factor"
    )]
    SeveralCells {
        /// The place.
        place: String,
        /// What fell into it.
        cells: String,
    },
    /// Polars could not do it.
    #[error("polars: {0}; please report this with the run")]
    Polars(#[from] PolarsError),
}

impl From<UnreadablePart> for FramesError {
    fn from(UnreadablePart { path, source }: UnreadablePart) -> Self {
        Self::Read { path, source }
    }
}

impl FramesError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}
