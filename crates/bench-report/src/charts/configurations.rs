//! Configurations beside each other, where cells are more than levels of one load.

use bench_schema::{Benchmark, RunRecord};

use super::{labels, levels, times};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    if run.cells.len() < 2 || run.experiment == Benchmark::Latency || levels(run).is_some() {
        return None;
    }
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.headline_rates().is_some())
        .collect();
    let rates: Vec<_> = cells
        .iter()
        .filter_map(|cell| cell.headline_rates())
        .collect();
    let tokens: Vec<Option<f64>> = rates.iter().map(|r| r.output_tokens_per_s).collect();
    let requests: Vec<Option<f64>> = rates.iter().map(|r| Some(r.requests_per_s)).collect();
    let plot = Plot::new(
        category_axis(labels(&cells)),
        value_axis("output (tokens/s)"),
    )
    .second_y(value_axis("requests/s"))
    .bars("output tokens/s", "@0", &tokens)
    .bars("requests/s", "@1", &requests)
    .with("yAxisIndex", 1.into());
    let best = tokens
        .iter()
        .flatten()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let least = tokens
        .iter()
        .flatten()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let title = if best.is_finite() && least > 0.0 {
        format!(
            "Output differs {} between cells: {} to {} tokens/s",
            times(best / least),
            short(least),
            short(best)
        )
    } else {
        "Throughput of each cell".to_owned()
    };
    Some(Figure::new("configurations", title, plot).table(table(run)))
}

pub(super) fn table(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::number("requests", "req/s"),
        Column::number("output", "tok/s"),
        Column::number("input + output", "tok/s"),
        Column::number("in flight", "mean"),
    ];
    let mut table = Table::new("Rates of each cell", columns);
    for cell in &run.cells {
        let Some(rates) = cell.headline_rates() else {
            continue;
        };
        table.push(vec![
            Cell::text(tables::label(cell)),
            Cell::number(rates.requests_per_s),
            Cell::number(rates.output_tokens_per_s),
            Cell::number(rates.total_tokens_per_s),
            Cell::number(rates.mean_in_flight),
        ]);
    }
    table.not_empty()
}
