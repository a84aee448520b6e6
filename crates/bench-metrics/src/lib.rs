//! The arithmetic of latency measurements: percentiles, intervals, fits, scaling, goodput. Pure; no runtime.

mod blocks;
mod bootstrap;
mod cell;
mod change;
mod compare;
mod correlation;
mod counts;
mod density;
mod dip;
mod error;
mod estimate;
mod fit;
mod gaps;
mod histogram;
mod in_flight;
mod ks;
mod latency;
mod num;
mod planning;
mod precision;
mod proportion;
mod quantile;
mod repeats;
mod sample;
mod scaling;
mod steady;
mod summary;
mod tables;
mod timeline;
mod usl;

pub use blocks::{BlockMean, Part, effective_sample_size};
pub use bootstrap::{Bootstrap, block_length};
pub use cell::{CellAccumulator, CellContext, CellSummary, LengthCategories, summarise_cell};
pub use change::{Segment, change_points};
pub use compare::{
    CompareOptions, Comparison, Test, Verdict, compare_estimates, compare_means, compare_quantiles,
    compare_runs, settle,
};
pub use correlation::{pearson, spearman};
pub use counts::CountKeeper;
pub use density::{Bin, Density, Peak, bin_by_time};
pub use dip::{DipTest, dip_test};
pub use error::MetricsError;
pub use estimate::{Estimate, LEVEL};
pub use fit::{LinearFit, PowerFit, linear_fit, power_fit};
pub use gaps::{Gap, gaps, token_gaps};
pub use histogram::{Histogram, Layout, Recorder};
pub use in_flight::InFlight;
pub use ks::{GapCheck, constant_gaps, exponential_gaps, ks_distance, ks_p_value, ks_two_samples};
pub use latency::{Instants, StampEnd, latency};
pub use planning::{requests_for_mean, requests_for_quantile};
pub use precision::{Figure, Precision, Progress, events_for_rate};
pub use proportion::{wilson, wilson_effective};
pub use quantile::{QuantileEstimate, quantile_by_parts, quantile_in_time};
pub use repeats::{AcrossRuns, across_runs, between_over_within};
pub use sample::{CovClass, Sample, too_few_for, values_needed};
pub use scaling::{
    LittleCheck, decode_residual, little_check, ratio, scaling_efficiency, scaling_factor,
    trade_off_ratio,
};
pub use steady::{Flight, Steady, find_steady};
pub use summary::{QUANTILES, interval, summarise, summarise_clusters};
pub use timeline::{TimeCounts, Timeline};
pub use usl::{UslFit, usl_fit};
