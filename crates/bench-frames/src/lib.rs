//! Many runs as polars frames: Parquet, CSV, pivots.
//!
//! [`requests`] has a row for each request, [`tokens`] for each content event, [`readings`] for each value that was read, [`cells`]
//! for each cell with its figures. Journals are streamed, in batches: [`write_run`] writes a run of any length as Parquet with
//! bounded memory. The latencies are those of `bench-metrics`, in milliseconds; what is not known is null, never NaN.
//! [`pivot_cells`] puts a figure of many runs side by side.
//!
//! ```no_run
//! use bench_frames::{cells, pivot_cells, run_dirs};
//!
//! let runs = run_dirs("results".as_ref());
//! let frame = cells(&runs)?;
//! let (table, trust) = pivot_cells(&frame, "gpus", "concurrency", "e2e.p95")?;
//! # Ok::<(), bench_frames::FramesError>(())
//! ```

mod cells;
mod figures;
mod histograms;
mod journals;
mod table;
mod write;

pub use cells::{cells, cells_of};
pub use figures::pivot_cells;
pub use journals::{readings, requests, tokens};
/// The crate that the frames are of, so that who reads them needs no other version of it.
pub use polars;
pub use table::{run_dirs, run_name};
pub use write::{Format, partition, read_parquet, write_frame, write_run};

use std::io;
use std::path::{Path, PathBuf};

use bench_schema::{SchemaError, UnreadablePart};
use polars::prelude::PolarsError;

/// Why a frame could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum FramesError {
    /// A file of a run could not be read.
    #[error(
        "cannot read {path}: {source}; give a run directory, which holds run.json and requests.jsonl"
    )]
    Read { path: PathBuf, source: io::Error },
    /// A `run.json` of something else.
    #[error("{path} is not a result: {source}")]
    Schema { path: PathBuf, source: SchemaError },
    /// A file could not be written.
    #[error("cannot write {path}: {source}; make room or choose another folder")]
    Write { path: PathBuf, source: io::Error },
    /// No run was given.
    #[error("no runs were given; name run directories, or a folder that holds some")]
    NoRuns,
    /// A column that is not there.
    #[error("there is no column `{name}`; known are {known}")]
    NoColumn { name: String, known: String },
    /// A column that is no number.
    #[error("column `{name}` holds {dtype}, not numbers; pivot a number such as e2e.p95")]
    NotANumber { name: String, dtype: String },
    /// Different cells in one place of a pivot.
    #[error(
        "{place} has several cells ({cells}); choose rows and columns that tell them apart, such as `cell` or a factor"
    )]
    SeveralCells { place: String, cells: String },
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
