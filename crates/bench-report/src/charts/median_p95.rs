//! Median speed against the p95 of latency, a point for each bin of time.

use bench_metrics::Sample;
use bench_schema::RunRecord;

use super::violins::{BINS, ENOUGH, tail};
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables;
use crate::trace::{Row, Trace};

/// Cells, or runs, that can be told apart by colour.
const SHOWN: usize = 8;

/// The p95 of E2E in milliseconds and the median speed in tokens/s of each part of time that has both.
pub(crate) type Points = Vec<(f64, f64)>;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let step = run.cells.len().div_ceil(SHOWN).max(1);
    let all: Vec<(String, Points)> = (0_u32..)
        .zip(&run.cells)
        .step_by(step)
        .map(|(i, cell)| (tables::label(cell), points(trace, i)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let note = format!(
        "Each point is one of {BINS} equal parts of a cell's time; a cell whose points fall into groups works in several regimes."
    );
    of(&all).map(|figure| figure.note(note))
}

pub(crate) fn points(trace: &Trace, cell: u32) -> Points {
    trace
        .binned(cell, BINS)
        .iter()
        .filter_map(|rows| Some((tail(rows, 0.95)?, median_speed(rows)?)))
        .collect()
}

/// The same for anything that has points.
pub(crate) fn of(all: &[(String, Points)]) -> Option<Figure> {
    let points = || all.iter().flat_map(|(_, points)| points);
    if points().count() < 3 {
        return None;
    }
    let mut plot = Plot::new(
        value_axis("p95 of E2E (ms)").scale(true),
        value_axis("median speed of an answer (tokens/s)").scale(true),
    )
    .point_at_items();
    let columns = vec![
        Column::text("of"),
        Column::number("parts of time", ""),
        Column::of("median speed", "least", "tok/s"),
        Column::of("median speed", "most", "tok/s"),
        Column::of("p95 of E2E", "least", "ms"),
        Column::of("p95 of E2E", "most", "ms"),
        Column::of("speed while p95 is", "low", "tok/s"),
        Column::of("speed while p95 is", "high", "tok/s"),
    ];
    let mut table = Table::new("Parts of time", columns);
    let mut told = Vec::new();
    for (i, (name, points)) in all.iter().take(SHOWN).enumerate() {
        plot = plot.points(name, &format!("@{i}"), points);
        let (speed, p95) = (
            range(points.iter().map(|p| p.1)),
            range(points.iter().map(|p| p.0)),
        );
        let mut row = vec![Cell::text(name), Cell::count(points.len() as u64)];
        row.extend([speed.0, speed.1, p95.0, p95.1].map(Cell::number));
        let halves = halves(points);
        row.extend([halves.map(|h| h.0), halves.map(|h| h.1)].map(Cell::number));
        if let Some((low, high)) = halves.filter(|(low, _)| *low > 0.0) {
            told.push(held(name, low, high));
        }
        table.push(row);
    }
    let (speed, p95) = (range(points().map(|p| p.1)), range(points().map(|p| p.0)));
    let title = format!(
        "Between parts of time the median speed moves from {} to {} tokens/s, the p95 of E2E from {} to {} ms",
        short(speed.0),
        short(speed.1),
        short(p95.0),
        short(p95.1)
    );
    let title = match told.len() {
        0 | 1 => title,
        _ => format!("Where p95 is high, {}", told.join("; ")),
    };
    Some(Figure::new("median-p95", title, plot).table(table))
}

/// Mean speed in the half of the parts with the lower p95, and in the other; of fewer than six parts it says nothing.
fn halves(points: &Points) -> Option<(f64, f64)> {
    let mut points = points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = points.split_at(points.len() / 2);
    let mean = |part: &[(f64, f64)]| part.iter().map(|p| p.1).sum::<f64>() / part.len() as f64;
    (points.len() >= 6).then(|| (mean(low), mean(high)))
}

/// A speed counts as kept within a tenth.
fn held(name: &str, low: f64, high: f64) -> String {
    let change = high / low - 1.0;
    let (low, high) = (short(low), short(high));
    if change.abs() < 0.1 {
        format!("{name} keeps its speed ({low} and {high} tokens/s)")
    } else if change < 0.0 {
        format!("{name} slows from {low} to {high} tokens/s")
    } else {
        format!("{name} is faster, {low} and {high} tokens/s")
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

fn median_speed(rows: &[Row]) -> Option<f64> {
    let speeds: Vec<f64> = rows.iter().filter_map(Row::speed).collect();
    Sample::of(&speeds)
        .filter(|sample| sample.len() >= ENOUGH)
        .map(|sample| sample.median())
}
