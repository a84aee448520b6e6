//! Many runs as polars frames: Parquet, CSV, pivots.
//!
//! [`requests`] has a row for each request, [`tokens`] for each content event, [`readings`] for each value that was read, [`cells`]
//! for each cell with its figures. Journals are streamed, in batches: [`write_run`] writes a run of any length as Parquet with
//! bounded memory. The latencies are those of `bench-metrics`, in milliseconds; what is not known is null, never NaN.
//! Quantiles are linear between order statistics ([`pivot`]), as everywhere in this workspace.
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
mod lines;
mod pivot;
mod readings;
mod requests;
mod run;
mod table;
mod tokens;
mod write;

pub use cells::cells;
pub use error::FramesError;
pub use pivot::{Statistic, pivot};
pub use readings::readings;
pub use requests::requests;
pub use run::run_dirs;
pub use tokens::tokens;
pub use write::{read_parquet, write_csv, write_parquet, write_run, write_run_csv};
