//! Latency over time as a heat map: how many requests ended when, and how long they took.

use std::collections::BTreeMap;

use bench_metrics::Sample;
use charming::element::{AxisLabel, NameLocation};

use crate::figure::{Figure, Plot, category_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::trace::{Row, Trace, bin};

const COLUMNS: usize = 60;
const ROWS: usize = 24;
/// Rows of the table.
const PARTS: usize = 12;

pub(super) fn figure(trace: &Trace) -> Option<Figure> {
    let seen: Vec<(f64, f64)> = trace
        .rows
        .iter()
        .filter_map(|row: &Row| Some((row.end, row.e2e_ms()?)))
        .filter(|p| p.1 > 0.0)
        .collect();
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        })
    };
    let (from, to) = spread(&mut seen.iter().map(|p| p.0));
    let (low, high) = spread(&mut seen.iter().map(|p| p.1.ln()));
    if seen.len() < 20 || to <= from || high <= low {
        return None;
    }
    let mut counts: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (at, ms) in &seen {
        *counts
            .entry((bin(*at, from, to, COLUMNS), bin(ms.ln(), low, high, ROWS)))
            .or_default() += 1.0;
    }
    let cells: Vec<(usize, usize, f64)> = counts.into_iter().map(|((x, y), n)| (x, y, n)).collect();
    let middle = |i: usize, n: usize, a: f64, b: f64| a + (b - a) * (i as f64 + 0.5) / n as f64;
    let x = category_axis((0..COLUMNS).map(|i| format!("{:.1}", middle(i, COLUMNS, from, to))))
        .name("time since the run began (s)")
        .name_location(NameLocation::Middle);
    let y = category_axis((0..ROWS).map(|i| short(middle(i, ROWS, low, high).exp())))
        .name("E2E (ms)")
        .axis_label(AxisLabel::new().interval(3.0));
    let plot = Plot::new(x, y).heat(&cells).point_at_items().height(360);
    let mut rows = [0.0; ROWS];
    for (_, row, n) in &cells {
        if let Some(sum) = rows.get_mut(*row) {
            *sum += n;
        }
    }
    let densest = (0..ROWS).zip(rows).max_by(|a, b| a.1.total_cmp(&b.1))?.0;
    let title = format!(
        "E2E is between {} and {} ms, most often near {} ms",
        short(low.exp()),
        short(high.exp()),
        short(middle(densest, ROWS, low, high).exp())
    );
    Some(Figure::new("heatmap", title, plot).note("The stronger the colour, the more requests; rows are equal ratios. Bands are regimes, columns that climb are queues that build up.").table(table(trace, (from, to))))
}

/// The same in fewer parts, as numbers.
fn table(trace: &Trace, (from, to): (f64, f64)) -> Option<Table> {
    let mut columns = vec![Column::text("time (s)"), Column::number("requests", "")];
    columns.extend(["p50", "p95", "max"].map(|name| Column::of("E2E", name, "ms")));
    let mut table = Table::new("Requests by the time at which they ended", columns);
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); PARTS];
    for row in &trace.rows {
        if let Some(part) = parts.get_mut(bin(row.end, from, to, PARTS)) {
            part.extend(row.e2e_ms());
        }
    }
    let width = (to - from) / PARTS as f64;
    for (i, values) in parts.iter().enumerate() {
        let start = from + i as f64 * width;
        let sample = Sample::of(values);
        let quantile = |q: f64| Cell::number(sample.as_ref().map(|s| s.quantile(q)));
        table.push(vec![
            Cell::text(format!("{start:.1} to {:.1}", start + width)),
            Cell::count(values.len() as u64),
            quantile(0.5),
            quantile(0.95),
            quantile(1.0),
        ]);
    }
    table.not_empty()
}
