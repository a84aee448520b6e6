//! The arithmetic of latency measurements: percentiles, intervals, fits, scaling, goodput. Pure; no runtime.
//!
//! Every number is defined in `docs/metrics.md`. Nothing here reads a clock, starts a thread or does I/O; what is random is
//! seeded; what is not known is `None`.
//!
//! Three ways in:
//!
//! - **In a service**: a lock-free [`Recorder`], whose snapshots summarise, merge and subtract.
//! - **On plain values**: [`summarise`] for a distribution with intervals that survive autocorrelation, [`compare_means`],
//!   [`compare_quantiles`] and [`compare_runs`] for "is it better?", [`usl_fit`], [`linear_fit`], [`power_fit`] for scaling.
//! - **On records of a benchmark**: [`summarise_cell`], or a [`CellAccumulator`] that takes them one by one.
//!
//! ```
//! use std::time::Duration;
//! use bench_metrics::Recorder;
//! use bench_schema::Unit;
//!
//! let recorder = Recorder::default();
//! for ms in 1..=1_000 {
//!     recorder.record(Duration::from_millis(ms));
//! }
//! let summary = recorder.snapshot().summary(Unit::Ns).unwrap();
//! let p99 = summary.quantile_entry(0.99).unwrap();
//! assert!((p99.value / 1e6 - 990.0).abs() < 3.0);
//! assert!(!p99.few_samples && p99.interval.is_some());
//! ```

mod blocks;
mod cell;
mod change;
mod compare;
mod counts;
mod estimate;
mod fit;
mod gaps;
mod histogram;
mod in_flight;
mod latency;
mod memory;
mod num;
mod objective;
mod packed;
mod precision;
mod quantile;
pub mod readings;
mod sample;
mod scaling;
mod search;
mod steady;
mod summary;
mod tables;
mod timeline;

pub use blocks::{BlockMean, Part};
pub use cell::{
    CellAccumulator, CellContext, CellSummary, LengthCategories, Threshold, summarise_cell,
};
pub use change::{Segment, bin_by_time, weighted_change_points};
pub use compare::{
    CompareOptions, Comparison, FEWEST_BLOCKS, Looks, Test, Verdict, compare_estimates,
    compare_means, compare_paired_quantiles, compare_pairs, compare_quantiles, compare_runs,
    compare_runs_in_turns, mean_of_runs, paired_figures, settle, straightened,
};
pub use counts::CountKeeper;
pub use estimate::wilson;
pub use estimate::{Estimate, LEVEL};
pub use fit::{LinearFit, PowerFit, linear_fit, plane_slopes, power_fit, proportional_fit};
pub use gaps::{Gap, gaps, token_gaps};
pub use histogram::{Histogram, Layout, Recorder};
pub use in_flight::InFlight;
pub use latency::{Instants, Within, latency};
pub use memory::{Memory, lag_one};
pub use objective::{
    outcome_of_distribution, share_interval, share_within, values_to_decide, verdict,
};
pub use packed::{IntReader, PackedInts, presence};
pub use precision::{Figure, Precision, Progress, parse_quantile};
pub use quantile::{QuantileEstimate, quantile_in_time};
pub use sample::{CovClass, Sample, values_needed};
pub use scaling::{UslFit, usl_fit};
pub use scaling::{
    decode_residual, little_check, scaling_efficiency, scaling_factor, trade_off_ratio,
};
pub use search::{Budget, Crossing, Found, Measure, Next, Search, Stage, WARM_UP};
pub use steady::{Flight, Steady, find_steady};
pub use summary::{QUANTILES, interval, summarise, summarise_clusters};
pub use tables::z_critical;
pub use timeline::{TimeCounts, Timeline};

/// Why an arithmetic function could not take its input.
///
/// "Not enough data for an answer" is not an error: such functions return `Option`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum MetricsError {
    /// A sample needs at least one value.
    #[error("a sample needs at least one value; keep it absent instead")]
    EmptySample,
    /// A value was NaN or infinite.
    #[error("value {index} of the sample is {value}; leave out what was not measured")]
    NotFinite { index: usize, value: f64 },
    /// Two histograms with different bucket layouts were to be merged or subtracted.
    #[error(
        "histograms of {left} and {right} precision bits cannot be combined; record both with the same precision"
    )]
    DifferentPrecision { left: u32, right: u32 },
    /// A precision rule could not be read.
    #[error("precision rule `{text}`: {problem}; write it as `p99:ttft=5%` or `mean:e2e=2%`")]
    BadPrecision { text: String, problem: String },
}
