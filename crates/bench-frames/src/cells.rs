//! A row for each cell, and its latencies as histograms.

use std::collections::BTreeMap;

use bench_metrics::{Histogram, Layout};
use bench_schema::{CellRecord, CountOf, Counts, Metric, Rates, RunRecord, Unit, whole};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::journals::{Request, name, scaled};
use crate::table::{Run, Table, labelled};

/// Quantiles that have columns.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Whether this is the part of a column's name that says which figure of a metric it has.
pub(crate) fn is_statistic(name: &str) -> bool {
    name == "mean" || QUANTILES.iter().any(|(known, _)| *known == name)
}

/// The cells of runs with their figures, each run with the name that the column `run` is to have.
///
/// Columns: `run`, `experiment`, `started_at`, `trust` (the run's), `cell_trust` (of the reasons that name the cell or none), `complete`, `seed`, `model`, `server`, `server_version`, `cell`, `label`, `plan`,
/// `repeats`, `headline` (where its latencies begin: `sent` or `due`); counts (`planned`, `completed`, `failed`, `timed_out`, `truncated`, `cancelled`, `unsent`); rates of the headline window
/// (`requests_per_s`, `output_tokens_per_s`, `total_tokens_per_s`, `mean_in_flight`); `goodput_per_s`, `attainment`; `lag_p99_ms`;
/// `gpu_use` (mean) and `gpu_memory` (peak), shares; for
/// every metric `KEY_ms.mean`, `.p50`, `.p90`, `.p95`, `.p99` (of completed requests, from `sent` and, as `KEY_due`, from `due`); then load, tags and
/// factors as [`write_run`](crate::write_run) has them.
///
/// # Errors
/// [`FramesError::NoRuns`].
pub fn cells(runs: &[(String, &RunRecord)]) -> Result<DataFrame, FramesError> {
    if runs.is_empty() {
        return Err(FramesError::NoRuns);
    }
    let named = runs.iter().map(|(name, record)| Run {
        name: name.clone(),
        record,
    });
    frame(&named.collect::<Vec<_>>())
}

type Of<'a> = (&'a Run<'a>, &'a CellRecord);

pub(crate) fn frame(runs: &[Run<'_>]) -> Result<DataFrame, FramesError> {
    let mut table = rates(counts(identity(Table::new())));
    for &metric in Metric::ALL {
        let column = |figure: &str| format!("{}.{figure}", name(metric));
        table = table.number(column("mean"), move |(_, cell)| {
            Some(scaled(metric, cell.metrics.get(&metric)?.mean))
        });
        for (figure, q) in QUANTILES {
            table = table.number(column(figure), move |(_, cell)| {
                Some(scaled(metric, cell.metrics.get(&metric)?.quantile(q)?))
            });
        }
    }
    let mut table = labelled(table, runs, |(run, cell)| (run.record, Some(*cell)));
    for run in runs {
        for cell in &run.record.cells {
            table.push(&(run, cell));
        }
    }
    table.frame()
}

fn identity<'a>(table: Table<'a, Of<'a>>) -> Table<'a, Of<'a>> {
    table
        .text("run", |(run, _)| Some(run.name.clone()))
        .text("experiment", |(run, _)| {
            Some(run.record.experiment.as_str())
        })
        .text("started_at", |(run, _)| Some(run.record.started_at.clone()))
        .text("trust", |(run, _)| Some(run.record.trust.verdict.as_str()))
        .text("cell_trust", |(run, cell)| {
            Some(run.record.trust.of_cell(&cell.id).as_str())
        })
        .flag("complete", |(run, _)| Some(run.record.complete))
        .whole("seed", |(run, _)| Some(run.record.seed))
        .text("model", |(run, _)| run.record.server.model.clone())
        .text("server", |(run, _)| run.record.server.kind.clone())
        .text("server_version", |(run, _)| {
            run.record.server.version.clone()
        })
        .text("cell", |(_, cell)| Some(cell.id.clone()))
        .text("label", |(_, cell)| Some(cell.label.clone()))
        .text("plan", |(_, cell)| cell.plan.hash.clone())
        .whole("repeats", |(_, cell)| Some(cell.repeats))
        .text("headline", |(_, cell)| Some(cell.headline.as_str()))
}

type Rate = fn(&Rates) -> Option<f64>;

fn counts<'a>(mut table: Table<'a, Of<'a>>) -> Table<'a, Of<'a>> {
    let planned: (&str, CountOf) = ("planned", |c| c.planned);
    for (name, of) in [planned].into_iter().chain(Counts::ENDS) {
        table = table.whole(name, move |(_, cell)| Some(of(&cell.counts)));
    }
    table
}

fn rates<'a>(mut table: Table<'a, Of<'a>>) -> Table<'a, Of<'a>> {
    let all: [(&str, Rate); 4] = [
        ("requests_per_s", |rates| rates.requests_per_s),
        ("output_tokens_per_s", |rates| rates.output_tokens_per_s),
        ("total_tokens_per_s", |rates| rates.total_tokens_per_s),
        ("mean_in_flight", |rates| Some(rates.mean_in_flight)),
    ];
    for (name, of) in all {
        table = table.number(name, move |(_, cell)| of(cell.headline_rates()?));
    }
    table
        .number("goodput_per_s", |(_, cell)| {
            Some(cell.goodput.as_ref()?.requests_per_s)
        })
        .number("attainment", |(_, cell)| {
            Some(cell.goodput.as_ref()?.attainment)
        })
        .number("lag_p99_ms", |(_, cell)| {
            Some(cell.client.lag.as_ref()?.p99.as_millis_f64())
        })
        .number("gpu_use", |(_, cell)| read(cell, "gpu_utilisation_mean"))
        .number("gpu_memory", |(_, cell)| {
            read(cell, "gpu_memory_peak_share")
        })
}

/// A figure that readings gave.
fn read(cell: &CellRecord, name: &str) -> Option<f64> {
    Some(cell.hardware.as_ref()?.derived.get(name)?.value)
}

// The latencies of cells as counts, which add up over runs, shards and days where percentiles do not.

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
