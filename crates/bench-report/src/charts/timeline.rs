//! Requests as bars over time: waiting for the first token, then generating.

use bench_metrics::Sample;
use bench_schema::RunRecord;
use charming::element::{AxisLabel, AxisTick};
use serde_json::{Value, json};

use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables;
use crate::trace::{Row, Trace};

/// Requests shown: more would be thinner than a line.
const SHOWN: usize = 80;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    // The cell in which most is under way at once, around its middle.
    let busiest = (0_u32..)
        .zip(&run.cells)
        .max_by(|a, b| in_flight(a.1).total_cmp(&in_flight(b.1)))?;
    let rows: Vec<&Row> = trace
        .rows
        .iter()
        .filter(|row| row.cell == busiest.0)
        .collect();
    let from = (rows.len() / 2).saturating_sub(SHOWN / 2);
    let shown: Vec<&Row> = rows.into_iter().skip(from).take(SHOWN).collect();
    if shown.is_empty() {
        return None;
    }
    let data: Vec<Value> = shown
        .iter()
        .enumerate()
        .map(|(i, row)| bar(i, row))
        .collect();
    let failed = shown.iter().filter(|row| !row.completed).count();
    let mut plot = bars(&data);
    if failed > 0 {
        plot = plot.custom("no whole answer", "@bad", "span", json!({"data": []}));
    }
    let (n, label) = (shown.len(), tables::label(busiest.1));
    let median = |pick: fn(&Row) -> Option<f64>| {
        let values: Vec<f64> = shown.iter().filter_map(|row| pick(row)).collect();
        Sample::of(&values).map_or_else(|| "–".to_owned(), |sample| short(sample.median()))
    };
    let mut title = format!(
        "A request waits {} ms for its first token and is generated for {} ms: {n} of {label}",
        median(waiting),
        median(generating)
    );
    if failed > 0 {
        title.push_str(&format!(", {failed} without a whole answer"));
    }
    Some(
        Figure::new("requests", title, plot.point_at_items().height(460))
            .note("One row for each request around the middle of the cell, in the order they began; the title's figures are their medians.")
            .table(table(&shown)),
    )
}

/// A row for each request.
fn bars(data: &[Value]) -> Plot {
    let names = (1..=data.len()).map(|i| i.to_string());
    let x = value_axis("time since the run began (s)").scale(true);
    let y = category_axis(names)
        .inverse(true)
        .axis_label(AxisLabel::new().show(false))
        .axis_tick(AxisTick::new().show(false));
    let bars = json!({"data": data, "encode": {"x": [1, 2], "y": 0}, "clip": true});
    // Without names at the left, half of the first number under the axis would leave the chart.
    let grid = json!([{"left": 28, "right": 28, "top": 64, "bottom": 36, "containLabel": true}]);
    Plot::new(x, y)
        .custom("waiting for the first token", "@1", "span", bars)
        .custom("generating", "@0", "span", json!({"data": []}))
        .root("grid", grid)
}

/// To the first token, milliseconds.
fn waiting(row: &Row) -> Option<f64> {
    Some((row.first? - row.start) * 1e3)
}

/// From the first token to the last, milliseconds.
fn generating(row: &Row) -> Option<f64> {
    Some((row.end - row.first?) * 1e3)
}

fn table(shown: &[&Row]) -> Option<Table> {
    let columns = vec![
        Column::number("began", "s"),
        Column::number("waited", "ms"),
        Column::number("generated", "ms"),
        Column::number("output", "tokens"),
        Column::text("whole answer"),
    ];
    let mut table = Table::new("The requests shown", columns);
    for row in shown {
        table.push(vec![
            Cell::number(row.start),
            Cell::number(waiting(row)),
            Cell::number(generating(row)),
            row.tokens
                .map_or_else(Cell::default, |n| Cell::count(u64::from(n))),
            Cell::text(if row.completed { "yes" } else { "no" }),
        ]);
    }
    table.not_empty()
}

fn in_flight(cell: &bench_schema::CellRecord) -> f64 {
    cell.headline_rates()
        .map_or(0.0, |rates| rates.mean_in_flight)
}

fn bar(i: usize, row: &Row) -> Value {
    let figures = |x: f64| (x * 1e4).round() / 1e4;
    let first = row.first.unwrap_or(row.end);
    let generating = if row.completed { "@0" } else { "@bad" };
    let parts = json!([
        [figures(row.start), figures(first), "@1"],
        [figures(first), figures(row.end), generating]
    ]);
    json!({"value": [i, figures(row.start), figures(row.end)], "parts": parts})
}
