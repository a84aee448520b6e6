//! Cells and their distributions as CSV.

use bench_schema::{Metric, RunRecord};

use crate::table::{Cell, Column, Table};
use crate::tables;

/// One line for each cell: its factors, rates, counts and the main percentiles in milliseconds, at full precision. What is
/// not known is an empty field.
pub fn cells(run: &RunRecord) -> String {
    let mut factors: Vec<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys())
        .collect();
    factors.sort();
    factors.dedup();
    let mut columns = vec![Column::text("cell")];
    columns.extend(factors.iter().map(|name| Column::text(name.as_str())));
    let fixed = [
        "load",
        "planned",
        "completed",
        "failed",
        "requests_per_s",
        "output_tokens_per_s",
        "mean_in_flight",
    ];
    columns.extend(fixed.map(Column::text));
    let shown = [Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e];
    for metric in shown {
        columns.extend(
            ["mean", "p50", "p95", "p99"]
                .map(|figure| Column::text(format!("{}_{figure}_ms", metric.key()))),
        );
    }
    let mut table = Table::new("", columns);
    for cell in &run.cells {
        let rates = cell.headline_rates();
        let mut row = vec![Cell::text(&cell.id)];
        row.extend(factors.iter().map(|name| {
            cell.factors
                .get(*name)
                .map_or_else(Cell::default, |f| Cell::text(f.to_string()))
        }));
        let failed = cell.counts.without_answer();
        row.extend([
            Cell::number(tables::load_level(&cell.load).0),
            Cell::count(cell.counts.planned),
            Cell::count(cell.counts.completed),
            Cell::count(failed),
            Cell::number(rates.map(|r| r.requests_per_s)),
            Cell::number(rates.and_then(|r| r.output_tokens_per_s)),
            Cell::number(rates.map(|r| r.mean_in_flight)),
        ]);
        for metric in shown {
            let seen = cell.headline(metric);
            row.push(Cell::number(seen.map(|d| d.mean / 1e6)));
            row.extend(
                [0.5, 0.95, 0.99]
                    .map(|q| Cell::number(seen.and_then(|d| d.quantile(q)).map(|ns| ns / 1e6))),
            );
        }
        table.push(row);
    }
    table.to_csv()
}

/// One line for each metric of each cell, with its unit: milliseconds, tokens, tokens/s.
pub fn distributions(run: &RunRecord) -> String {
    let names = [
        "cell", "metric", "unit", "n", "mean", "sd", "min", "p50", "p90", "p95", "p99", "p99.9",
        "max",
    ];
    let mut table = Table::new("", names.map(Column::text).to_vec());
    for cell in &run.cells {
        for (metric, seen) in &cell.metrics {
            let (scale, unit) = tables::scale_of(metric.unit());
            let number = |value: Option<f64>| Cell::number(value.map(|x| x / scale));
            let mut row = vec![
                Cell::text(&cell.id),
                Cell::text(metric.key()),
                Cell::text(unit),
                Cell::count(seen.n),
                number(Some(seen.mean)),
                number(seen.sd),
                number(Some(seen.min)),
            ];
            row.extend([0.5, 0.9, 0.95, 0.99, 0.999].map(|q| number(seen.quantile(q))));
            row.push(number(Some(seen.max)));
            table.push(row);
        }
    }
    table.to_csv()
}
