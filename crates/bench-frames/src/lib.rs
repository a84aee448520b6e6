//! Many runs as polars frames: Parquet, CSV, pivots.
//!
//! [`write_run`] writes a run of any length with bounded memory: a row for each request, for each content event, for each value that was read,
//! and for each cell with its figures. The latencies are those of `bench-metrics`, in milliseconds; what is not known is null, never NaN.
//! [`pivot_cells`] puts a figure of many runs side by side, [`along`] their best cells along an axis, [`series`] one figure in the order of time.
//!
//! ```no_run
//! # fn grid(runs: &[(String, &bench_schema::RunRecord)]) -> Result<(), bench_frames::FramesError> {
//! let frame = bench_frames::cells(runs)?;
//! let (table, trust) = bench_frames::pivot_cells(&frame, "gpus", "concurrency", "e2e.p95")?;
//! # Ok(())
//! # }
//! ```

mod cells;
mod figures;
mod journals;
mod table;
mod write;

pub use cells::cells;
pub use figures::{Series, along, history, pivot_cells, series};
/// The crate that the frames are of, so that who reads them needs no other version of it.
pub use polars;
pub use table::{run_dirs, run_name};
pub use write::{Format, partition, write_run};

use std::io;
use std::path::{Path, PathBuf};

use polars::prelude::PolarsError;

/// Why a frame could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum FramesError {
    /// A file could not be written.
    #[error("cannot write {path}: {source}; make room or choose another folder")]
    Write { path: PathBuf, source: io::Error },
    /// No run was given.
    #[error("no runs were given; name run directories, or a folder that holds some")]
    NoRuns,
    /// A column that is not there.
    #[error(
        "there is no column `{name}`; the columns are {known}, and of each metric its mean, p50, p90, p95 and p99, such as e2e.p95"
    )]
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

impl FramesError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}
