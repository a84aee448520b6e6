//! The latencies of cells as counts, which add up over runs, shards and days where percentiles do not.

use std::collections::BTreeMap;

use bench_metrics::{Histogram, Layout};
use bench_schema::{Metric, Unit, whole};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::journals::{Request, scaled};
use crate::table::{Run, Table};

/// Log-linear histograms of each latency of each cell, of the requests that its percentiles are of; of all measured ones where several repeats have a
/// steady part, since it is not stored which those are.
#[derive(Default)]
pub(crate) struct Histograms {
    cells: BTreeMap<(String, &'static str), (Metric, Histogram)>,
}

/// A bucket: of which cell and latency, its middle, and how many requests fell into it.
type Bucket<'a> = (&'a str, Metric, f64, u64);

impl Histograms {
    pub(crate) fn add(&mut self, request: &Request<'_>) {
        if request.is_headline() == Some(false) {
            return;
        }
        let times = Metric::ALL
            .iter()
            .filter(|metric| metric.unit() == Unit::Ns);
        for &metric in times {
            let Some(value) = request.value(metric).filter(|value| *value >= 0.0) else {
                continue;
            };
            let of = (request.record.cell.clone(), metric.key());
            let empty = || (metric, Histogram::new(Layout::default()));
            self.cells
                .entry(of)
                .or_insert_with(empty)
                .1
                .record(whole(value.round()));
        }
    }

    /// Columns: `run`, `cell`, `metric`, `value_ms` (the middle of a bucket, within 0.2 % of each value in it), `n`.
    pub(crate) fn frame(&self, run: &Run<'_>) -> Result<DataFrame, FramesError> {
        let mut table = Table::new()
            .text("run", |_: &Bucket<'_>| Some(run.name.clone()))
            .text("cell", |(cell, ..)| Some(*cell))
            .text("metric", |(_, metric, ..)| Some(metric.key()))
            .number("value_ms", |(_, metric, middle, _)| {
                Some(scaled(*metric, *middle))
            })
            .whole("n", |(.., n)| Some(*n));
        for ((cell, _), (metric, histogram)) in &self.cells {
            for (middle, n) in histogram.buckets() {
                table.push(&(cell.as_str(), *metric, middle, n));
            }
        }
        table.frame()
    }
}
