//! The same figure of the same cell over many runs.

use bench_insight::trend_figures;
use bench_metrics::{Estimate, LEVEL};
use bench_schema::{CellRecord, RunRecord, TrustVerdict};
use polars::prelude::{DataFrame, SortMultipleOptions};

use crate::FramesError;
use crate::figures::text;
use crate::table::Table;

/// Tags that tell the versions of one thing apart; all others tell different things apart.
const VERSIONS: [&str; 4] = ["commit", "version", "revision", "build"];

/// A figure of a cell of a run.
struct Row<'a> {
    run: &'a RunRecord,
    at: &'a str,
    runs: &'a str,
    cell: &'a CellRecord,
    figure: String,
    seen: Estimate,
}

/// The figures of a run that have a history: a row for each of each cell; none of a run that is incomplete or not trusted.
///
/// Columns: `started_at`; `at`, the run's version (its tag `commit`, `version`, `revision` or `build`), else its start; `runs`, what it is a run of (benchmark,
/// model, other tags); `cell`, with its dataset; `figure`, as in gates (`e2e.p95`); `value`, `low`, `high`, in milliseconds where it is a time; `confidence`.
/// Frames of several runs have the same columns, so that [`DataFrame::vstack`] joins them.
///
/// # Errors
/// [`FramesError::Polars`].
pub fn history(run: &RunRecord) -> Result<DataFrame, FramesError> {
    let version = VERSIONS.iter().find_map(|tag| run.tags.get(*tag));
    let at = version.unwrap_or(&run.started_at);
    let mut runs = vec![run.experiment.as_str().to_owned()];
    runs.extend(run.server.model.clone());
    let others = run.tags.iter();
    let others = others.filter(|(name, _)| !VERSIONS.contains(&name.as_str()));
    runs.extend(others.map(|(name, value)| format!("{name}={value}")));
    let runs = runs.join(" · ");
    let mut table = Table::new()
        .text("started_at", |row: &Row<'_>| {
            Some(row.run.started_at.clone())
        })
        .text("at", |row| Some(row.at.to_owned()))
        .text("runs", |row| Some(row.runs.to_owned()))
        .text("cell", |row| {
            Some(format!("{} · {}", row.cell.label, row.cell.plan.dataset))
        })
        .text("figure", |row| Some(row.figure.clone()))
        .number("value", |row| Some(row.seen.value))
        .number("low", |row| row.seen.low)
        .number("high", |row| row.seen.high)
        .number("confidence", |row| row.seen.low.map(|_| row.seen.level));
    if run.trust.verdict == TrustVerdict::Trusted && run.complete {
        for cell in &run.cells {
            for (figure, seen) in trend_figures(cell) {
                table.push(&Row {
                    run,
                    at,
                    runs: &runs,
                    cell,
                    figure,
                    seen,
                });
            }
        }
    }
    table.frame()
}

/// A figure over runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Of which runs: benchmark, model, tags.
    pub runs: String,
    /// Of which of their cells, with its dataset.
    pub cell: String,
    /// As in gates: `e2e.p95`.
    pub figure: String,
    /// Each run by its version or start, in the order in which they began; milliseconds where it is a time.
    pub points: Vec<(String, Estimate)>,
}

/// The histories of many runs ([`history`], joined), figure by figure, in the order of the first run that has them.
///
/// # Errors
/// [`FramesError::Polars`], where columns are missing.
pub fn series(history: &DataFrame) -> Result<Vec<Series>, FramesError> {
    let keep_order = SortMultipleOptions::default().with_maintain_order(true);
    let sorted = history.sort(["started_at"], keep_order)?;
    let mut all = Vec::new();
    for rows in sorted.partition_by_stable(["runs", "cell", "figure"], true)? {
        let [runs, cell, figure] = ["runs", "cell", "figure"].map(|name| {
            let first = rows.column(name).and_then(|column| column.get(0));
            first.map(|value| text(&value))
        });
        let number = |name: &str| -> Result<Vec<Option<f64>>, FramesError> {
            Ok(rows.column(name)?.f64()?.iter().collect())
        };
        let (values, lows, highs) = (number("value")?, number("low")?, number("high")?);
        let bounds = lows.into_iter().zip(highs).zip(number("confidence")?);
        let mut points = Vec::new();
        for ((at, value), ((low, high), level)) in
            rows.column("at")?.str()?.iter().zip(values).zip(bounds)
        {
            let estimate = value.map(|value| Estimate {
                value,
                low,
                high,
                level: level.unwrap_or(LEVEL),
            });
            points.extend(at.map(str::to_owned).zip(estimate));
        }
        all.push(Series {
            runs: runs?,
            cell: cell?,
            figure: figure?,
            points,
        });
    }
    Ok(all)
}
