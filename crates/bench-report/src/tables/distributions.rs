//! Every distribution of every cell.

use bench_schema::{Metric, RunRecord, Unit};

use super::groups::unbounded;
use super::trust_mark;
use crate::table::{Cell, Column, Table};

/// One row for each cell and metric of `metrics` that it has, latencies in milliseconds.
pub(crate) fn distributions(run: &RunRecord, metrics: &[Metric], title: &str) -> Option<Table> {
    let unit = metrics.first().map_or(Unit::Ns, |metric| metric.unit());
    let (scale, unit_words) = scale_of(unit);
    let mut columns = vec![
        Column::text("cell"),
        Column::text("metric"),
        Column::number("n", ""),
    ];
    let numbers = [
        "mean", "± 95 %", "sd", "min", "p50", "p90", "p95", "p99", "p99.9", "max",
    ];
    columns.extend(numbers.map(|name| Column::number(name, unit_words)));
    columns.push(Column::number("CoV", "%"));
    let mut table = Table::new(title, columns);
    for cell in &run.cells {
        for metric in metrics {
            let Some(seen) = cell.metrics.get(metric) else {
                continue;
            };
            let half = seen.mean_interval.map(|i| (i.high - i.low) / 2.0 / scale);
            let quantile = |q: f64| {
                Cell::quantile(seen.quantile_entry(q), scale).marked(unbounded(Some(seen), q))
            };
            let mut row = vec![
                Cell::text(super::label(cell)).marked(trust_mark(run, cell)),
                Cell::text(metric.title()),
                Cell::count(seen.n),
                Cell::number(seen.mean / scale),
                Cell::number(half),
                Cell::number(seen.sd.map(|sd| sd / scale)),
                Cell::number(seen.min / scale),
            ];
            row.extend([0.5, 0.9, 0.95, 0.99, 0.999].map(quantile));
            row.extend([
                Cell::number(seen.max / scale),
                Cell::number(seen.cov.map(|cov| cov * 100.0)),
            ]);
            table.push(row);
        }
    }
    table.without_empty_columns().not_empty()
}

/// What a stored value is divided by to be shown, and the unit it then has.
pub(crate) fn scale_of(unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::Ns => (1e6, "ms"),
        Unit::Tokens => (1.0, "tokens"),
        Unit::TokensPerS => (1.0, "tok/s"),
        Unit::RequestsPerS => (1.0, "req/s"),
        Unit::Bytes => (1024.0 * 1024.0, "MiB"),
        Unit::Ratio => (0.01, "%"),
        Unit::Watts => (1.0, "W"),
        Unit::Joules => (1.0, "J"),
        Unit::Celsius => (1.0, "°C"),
        Unit::Hertz => (1e6, "MHz"),
        Unit::BytesPerS => (1024.0 * 1024.0, "MiB/s"),
        Unit::Count => (1.0, ""),
    }
}
