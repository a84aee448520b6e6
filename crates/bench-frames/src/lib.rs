//! Many runs as polars frames: Parquet, CSV, pivots.
//!
//! [`requests`] has a row for each request, [`tokens`] for each content event, [`readings`] for each value that was read, [`cells`]
//! for each cell with its figures. Journals are streamed, in batches: [`write_run`] writes a run of any length as Parquet with
//! bounded memory. The latencies are those of `bench-metrics`, in milliseconds; what is not known is null, never NaN.
//! [`pivot_cells`] and [`along`] put figures of many runs side by side; statistics are those of `bench-metrics` to the last digit.
//!
//! ```no_run
//! use bench_frames::{Statistic, pivot, requests, run_dirs};
//!
//! let runs = run_dirs("results".as_ref());
//! let frame = requests(&runs)?;
//! let table = pivot(&frame, "tag.gpus", "concurrency", "e2e_ms", Statistic::Quantile(0.95))?;
//! # Ok::<(), bench_frames::FramesError>(())
//! ```

mod cells;
mod error;
mod figures;
mod journals;
mod run;
mod table;
mod write;

pub use cells::{cells, cells_of};
pub use error::FramesError;
pub use figures::{Statistic, along, pivot, pivot_cells};
pub use journals::{readings, requests, tokens};
/// The crate that the frames are of, so that who reads them needs no other version of it.
pub use polars;
pub use run::run_dirs;
pub use write::{read_parquet, write_csv, write_parquet, write_run, write_run_csv};
