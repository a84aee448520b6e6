//! Readings of machines and servers turned into what happened within a window: increases of counters, levels of gauges, quantiles of
//! histograms, and the figures that follow from several of them.

mod derive;
mod history;

pub use derive::{Work, summarise};
pub use history::{Bracketed, HistogramDelta, History, Point};
