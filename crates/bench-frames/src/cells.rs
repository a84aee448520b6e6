//! A row for each cell.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bench_schema::{CellRecord, Metric, Origin, RunRecord};
use polars::prelude::DataFrame;

use crate::FramesError;
use crate::requests::{name, scaled};
use crate::run::{Labels, Run, open_all};
use crate::table::{Column, Kind, Sink, Table, Value, Whole};

/// Quantiles that have columns.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// The cells of runs with their figures, as `run.json` has them.
///
/// Columns: `run` (its folder's name), `experiment`, `started_at`, `trust`, `complete`, `seed`, `model`, `server`, `server_version`, `cell`, `label`, `plan`,
/// `repeats`, `headline` (where its latencies begin: `sent` or `due`); counts (`planned`, `completed`, `failed`, `timed_out`, `truncated`, `cancelled`, `unsent`); rates of the headline window
/// (`requests_per_s`, `output_tokens_per_s`, `total_tokens_per_s`, `mean_in_flight`); `goodput_per_s`, `attainment`; `lag_p99_ms`; for
/// every metric `KEY_ms.mean`, `.p50`, `.p90`, `.p95`, `.p99` (of completed requests, from `sent` and, as `KEY_due`, from `due`); then load, tags and
/// factors as in [`crate::requests`].
///
/// # Errors
/// As for [`crate::requests`].
pub fn cells(dirs: &[impl AsRef<Path>]) -> Result<DataFrame, FramesError> {
    let mut whole = Whole::default();
    stream_cells(&open_all(dirs)?, &mut whole)?;
    Ok(whole.finish())
}

/// The same of runs that were read, or recovered, already, each with the name that `run` is to have.
///
/// # Errors
/// [`FramesError::NoRuns`].
pub fn cells_of(runs: &[(String, &RunRecord)]) -> Result<DataFrame, FramesError> {
    if runs.is_empty() {
        return Err(FramesError::NoRuns);
    }
    let named = runs.iter().map(|(name, record)| Run {
        dir: PathBuf::new(),
        name: name.clone(),
        record: Cow::Borrowed(record),
    });
    let runs: Vec<Run<'_>> = named.collect();
    let mut whole = Whole::default();
    stream_cells(&runs, &mut whole)?;
    Ok(whole.finish())
}

/// The same into a sink.
pub(crate) fn stream_cells(runs: &[Run<'_>], sink: &mut dyn Sink) -> Result<(), FramesError> {
    let labels = Labels::of(runs);
    let mut table = Table::new(columns(&labels));
    for run in runs {
        for cell in &run.record.cells {
            let mut row = identity(run, cell);
            row.extend(counts(cell));
            row.extend(rates(cell));
            for &metric in Metric::ALL {
                row.extend(distribution(cell, metric));
            }
            row.extend(labels.values(run, Some(cell)));
            table.push(row);
        }
    }
    sink.batch(table.take()?)
}

fn columns(labels: &Labels) -> Vec<Column> {
    let fixed = [
        ("run", Kind::Text),
        ("experiment", Kind::Text),
        ("started_at", Kind::Text),
        ("trust", Kind::Text),
        ("complete", Kind::Flag),
        ("seed", Kind::Whole),
        ("model", Kind::Text),
        ("server", Kind::Text),
        ("server_version", Kind::Text),
        ("cell", Kind::Text),
        ("label", Kind::Text),
        ("plan", Kind::Text),
        ("repeats", Kind::Whole),
        ("headline", Kind::Text),
        ("planned", Kind::Whole),
        ("completed", Kind::Whole),
        ("failed", Kind::Whole),
        ("timed_out", Kind::Whole),
        ("truncated", Kind::Whole),
        ("cancelled", Kind::Whole),
        ("unsent", Kind::Whole),
        ("requests_per_s", Kind::Number),
        ("output_tokens_per_s", Kind::Number),
        ("total_tokens_per_s", Kind::Number),
        ("mean_in_flight", Kind::Number),
        ("goodput_per_s", Kind::Number),
        ("attainment", Kind::Number),
        ("lag_p99_ms", Kind::Number),
    ];
    let mut all: Vec<Column> = fixed.map(|(name, kind)| Column::new(name, kind)).into();
    for &metric in Metric::ALL {
        let figures = std::iter::once("mean").chain(QUANTILES.map(|(name, _)| name));
        all.extend(
            figures.map(|figure| Column::new(format!("{}.{figure}", name(metric)), Kind::Number)),
        );
    }
    all.extend(labels.columns());
    all
}

fn identity(run: &Run<'_>, cell: &CellRecord) -> Vec<Value> {
    let record = &run.record;
    vec![
        Value::text(Some(&run.name)),
        Value::text(Some(record.experiment.name())),
        Value::text(Some(&record.started_at)),
        Value::text(Some(record.trust.verdict.as_str())),
        Value::flag(record.complete),
        Value::whole(Some(record.seed)),
        Value::text(record.server.model.as_ref()),
        Value::text(record.server.kind.as_ref()),
        Value::text(record.server.version.as_ref()),
        Value::text(Some(&cell.id)),
        Value::text(Some(&cell.label)),
        Value::text(Some(&cell.plan.hash).filter(|hash| !hash.is_empty())),
        Value::whole(Some(cell.repeats.into())),
        Value::text(Some(match cell.headline {
            Origin::Sent => "sent",
            Origin::Due => "due",
        })),
    ]
}

fn counts(cell: &CellRecord) -> [Value; 7] {
    let counts = &cell.counts;
    [
        counts.planned,
        counts.completed,
        counts.failed,
        counts.timed_out,
        counts.truncated,
        counts.cancelled,
        counts.unsent,
    ]
    .map(|n| Value::whole(Some(n)))
}

fn rates(cell: &CellRecord) -> [Value; 7] {
    let rates = cell.headline_rates();
    let goodput = cell.goodput.as_ref();
    let lag = cell.client.lag.as_ref();
    [
        rates.map(|rates| rates.requests_per_s),
        rates.and_then(|rates| rates.output_tokens_per_s),
        rates.and_then(|rates| rates.total_tokens_per_s),
        rates.map(|rates| rates.mean_in_flight),
        goodput.map(|goodput| goodput.requests_per_s),
        goodput.map(|goodput| goodput.attainment),
        lag.map(|lag| lag.p99.as_millis_f64()),
    ]
    .map(Value::number)
}

fn distribution(cell: &CellRecord, metric: Metric) -> Vec<Value> {
    let seen = cell.metrics.get(&metric);
    let mean = seen.map(|seen| seen.mean);
    let quantiles = QUANTILES.map(|(_, q)| seen.and_then(|seen| seen.quantile(q)));
    std::iter::once(mean)
        .chain(quantiles)
        .map(|value| Value::number(value.map(|value| scaled(metric, value))))
        .collect()
}
