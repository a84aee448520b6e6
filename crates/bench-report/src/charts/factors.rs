//! Cells that cross several factors: which combination serves the most, and what that costs in latency.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bench_schema::{CellRecord, Factor, Metric, RunRecord};
use charming::element::NameLocation;

use super::load::{labelled, rate, rates_table};
use super::{levels, quantile_ms};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::{ends, short};
use crate::tables;
use crate::text::shortened;

/// The combinations of at least two factors: the levels of the first as columns, those of all others together as rows.
struct Crossed<'a> {
    along: String,
    others: String,
    columns: Vec<&'a Factor>,
    rows: Vec<String>,
    /// Place of each cell in both.
    cells: Vec<(usize, usize, &'a CellRecord)>,
}

/// The load, where cells differ in it, else the last factor.
fn crossed(run: &RunRecord) -> Option<Crossed<'_>> {
    let mut names = tables::shown_factors(run);
    let whole = |cell: &CellRecord| names.iter().all(|name| cell.factors.contains_key(name));
    if names.len() < 2 || levels(run).is_some() || !run.cells.iter().all(whole) {
        return None;
    }
    let of_load = |name: &String| matches!(name.as_str(), "concurrency" | "rate");
    let at = names.iter().position(of_load).unwrap_or(names.len() - 1);
    let along = names.remove(at);
    let mut columns: Vec<&Factor> = Vec::new();
    let mut rows: BTreeMap<Vec<(u8, u64, String)>, String> = BTreeMap::new();
    let key = |cell: &CellRecord| -> Option<Vec<(u8, u64, String)>> {
        let levels = names
            .iter()
            .map(|name| Some(order(cell.factors.get(name)?)));
        levels.collect()
    };
    let words = |cell: &CellRecord| {
        let words = names.iter().filter_map(|name| cell.factors.get(name));
        let words: Vec<String> = words.map(ToString::to_string).collect();
        shortened(&words.join(", "), 32)
    };
    for cell in &run.cells {
        let column = cell.factors.get(&along)?;
        if !columns.contains(&column) {
            columns.push(column);
        }
        rows.insert(key(cell)?, words(cell));
    }
    columns.sort_by(|a, b| compared(a, b));
    let place = |cell: &CellRecord| {
        let column = cell.factors.get(&along)?;
        let column = columns.iter().position(|level| *level == column)?;
        let own = key(cell)?;
        Some((column, rows.keys().position(|row| *row == own)?))
    };
    let cells = run.cells.iter();
    let cells = cells.filter_map(|cell| place(cell).map(|(x, y)| (x, y, cell)));
    Some(Crossed {
        cells: cells.collect(),
        columns,
        rows: rows.into_values().collect(),
        others: names.join(", ").replace('_', " "),
        along: along.replace('_', " "),
    })
    .filter(|crossed| crossed.columns.len() > 1 && crossed.rows.len() > 1)
}

/// Numbers by their size, then names.
fn order(level: &Factor) -> (u8, u64, String) {
    match level {
        // those of positive numbers are in the numbers' order
        Factor::Number(n) => (0, n.max(0.0).to_bits(), String::new()),
        Factor::Name(name) => (1, 0, name.clone()),
    }
}

fn compared(a: &Factor, b: &Factor) -> Ordering {
    order(a).cmp(&order(b))
}

fn figure(cell: &CellRecord) -> Option<f64> {
    Some(rate(cell, true).or_else(|| rate(cell, false))?.0)
}

fn unit(run: &RunRecord) -> &'static str {
    let counted = run.cells.iter().any(|cell| rate(cell, true).is_some());
    if counted { "tokens/s" } else { "requests/s" }
}

/// Output by combination, as a heat map.
pub(super) fn map(run: &RunRecord) -> Option<Figure> {
    let crossed = crossed(run)?;
    let seen = crossed.cells.iter();
    let seen: Vec<(usize, usize, f64)> = seen
        .filter_map(|(x, y, cell)| Some((*x, *y, figure(cell)?)))
        .collect();
    let best = seen.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let (low, high) = ends(seen.iter().map(|cell| cell.2))?;
    let x = category_axis(crossed.columns.iter().map(ToString::to_string))
        .name(&crossed.along)
        .name_location(NameLocation::Middle);
    let y = category_axis(crossed.rows.iter().cloned());
    let plot = Plot::new(x, y)
        .heat(&seen, ["most", "none"])
        .with("label", serde_json::json!({"show": true}))
        .point_at_items();
    let unit = unit(run);
    let title = format!(
        "{} to {} {unit}: the most at {} {} and {} {}",
        short(low),
        short(high),
        crossed.along,
        crossed.columns.get(best.0)?,
        crossed.others,
        crossed.rows.get(best.1)?
    );
    let note = format!(
        "Output in {unit}, over the steady part of a cell where it has one; a row for each {}.",
        crossed.others
    );
    let figure = Figure::new("factor-map", title, plot).note(note);
    Some(figure.table(rates_table(run)))
}

/// Output against P95 of E2E, a line for each combination of the other factors.
pub(super) fn pareto(run: &RunRecord) -> Option<Figure> {
    let crossed = crossed(run)?;
    let point = |cell: &CellRecord| Some((figure(cell)?, quantile_ms(cell, Metric::E2e, 0.95)?.0));
    let all: Vec<(f64, f64)> = (crossed.cells.iter())
        .filter_map(|(_, _, cell)| point(cell))
        .collect();
    let unit = unit(run);
    let mut plot = Plot::new(value_axis(unit), value_axis("E2E p95 (ms)")).point_at_items();
    for (row, name) in crossed.rows.iter().enumerate() {
        let mut own: Vec<_> = (crossed.cells.iter())
            .filter(|(_, y, _)| *y == row)
            .filter_map(|(x, _, cell)| Some((*x, point(cell)?)))
            .collect();
        own.sort_by_key(|(x, _)| *x);
        let points: Vec<(f64, f64)> = own.iter().map(|(_, point)| *point).collect();
        let labels = own
            .iter()
            .filter_map(|(x, point)| Some(labelled(*point, &crossed.columns.get(*x)?.to_string())));
        plot = plot
            .line(name, &format!("@{}", row % COLOURS), &points)
            .with("data", labels.collect())
            .with("labelLayout", serde_json::json!({"hideOverlap": true}));
    }
    // than which no other has both more output and a lower P95
    let mut front: Vec<(f64, f64)> = (all.iter().copied())
        .filter(|(x, y)| {
            !all.iter()
                .any(|(a, b)| a >= x && b <= y && (a > x || b < y))
        })
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let title = format!(
        "{} of {} combinations are on the front of output against latency",
        front.len(),
        all.len()
    );
    let plot = plot
        .line("front", "@muted", &front)
        .with("lineStyle", serde_json::json!({"type": "dashed"}));
    let note = format!(
        "A line for each {}; the number on a point is its {}. On the front: no other combination has both more output and a lower P95.",
        crossed.others, crossed.along
    );
    let figure = Figure::new("factor-pareto", title, plot).note(note);
    Some(figure.table(rates_table(run)))
}

/// Lines that can be told apart by colour.
const COLOURS: usize = 8;
