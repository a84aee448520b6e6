//! Cells of several crossed factors: which combination has the highest output, and at which latency.

use std::cmp::Ordering;

use bench_schema::{Benchmark, CellRecord, Factor, Metric, RunRecord};
use charming::element::NameLocation;

use super::load::{counts_tokens, output, rates_table};
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

/// The columns are the load if cells differ in it, else the last factor. Lengths of a latency grid are no setting to choose.
fn crossed<'a>(run: &'a RunRecord) -> Option<Crossed<'a>> {
    (run.experiment != Benchmark::Latency).then_some(())?;
    let mut names = tables::shown_factors(run);
    let whole = |cell: &CellRecord| names.iter().all(|name| cell.factors.contains_key(name));
    if names.len() < 2 || levels(run).is_some() || !run.cells.iter().all(whole) {
        return None;
    }
    let of_load = |name: &String| matches!(name.as_str(), "concurrency" | "rate");
    let at = names.iter().position(of_load).unwrap_or(names.len() - 1);
    let along = names.remove(at);
    let mut columns: Vec<&Factor> = Vec::new();
    let mut rows: Vec<(Vec<&Factor>, String)> = Vec::new();
    let row = |cell: &'a CellRecord| -> Option<Vec<&'a Factor>> {
        names.iter().map(|name| cell.factors.get(name)).collect()
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
        let own = row(cell)?;
        if !rows.iter().any(|(levels, _)| *levels == own) {
            rows.push((own, words(cell)));
        }
    }
    columns.sort_by(|a, b| compared(a, b));
    rows.sort_by(|(a, _), (b, _)| {
        let levels = a.iter().zip(b).map(|(a, b)| compared(a, b));
        levels.fold(Ordering::Equal, Ordering::then)
    });
    let place = |cell: &'a CellRecord| {
        let column = cell.factors.get(&along)?;
        let column = columns.iter().position(|level| *level == column)?;
        let own = row(cell)?;
        Some((column, rows.iter().position(|(levels, _)| *levels == own)?))
    };
    let cells = run.cells.iter();
    let cells = cells.filter_map(|cell| place(cell).map(|(x, y)| (x, y, cell)));
    Some(Crossed {
        cells: cells.collect(),
        columns,
        rows: rows.iter().map(|(_, words)| words.clone()).collect(),
        others: names.join(", ").replace('_', " "),
        along: along.replace('_', " "),
    })
    .filter(|crossed| crossed.columns.len() > 1 && crossed.rows.len() > 1)
}

/// Numbers by their size, then names.
fn compared(a: &Factor, b: &Factor) -> Ordering {
    match (a, b) {
        (Factor::Number(a), Factor::Number(b)) => a.total_cmp(b),
        (Factor::Name(a), Factor::Name(b)) => a.cmp(b),
        (Factor::Number(_), Factor::Name(_)) => Ordering::Less,
        (Factor::Name(_), Factor::Number(_)) => Ordering::Greater,
    }
}

fn figure(cell: &CellRecord) -> Option<f64> {
    Some(output(cell)?.0)
}

fn unit(run: &RunRecord) -> &'static str {
    if counts_tokens(run) {
        "tokens/s"
    } else {
        "requests/s"
    }
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
        "Output is {} to {} {unit}, highest at {} {} and {} {}",
        short(low),
        short(high),
        crossed.along,
        crossed.columns.get(best.0)?,
        crossed.others,
        crossed.rows.get(best.1)?
    );
    let note = format!(
        "Output in {unit}, over the steady part of each cell if there is one. Each row is one value of {}.",
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
        let labels = own.iter();
        let labels = labels.filter_map(|(x, point)| Some((*point, crossed.columns.get(*x)?)));
        plot = plot
            .line(name, &format!("@{}", row % COLOURS), &points)
            .label_points(labels);
    }
    // no other combination has both higher output and a lower P95
    let mut front: Vec<(f64, f64)> = (all.iter().copied())
        .filter(|(x, y)| {
            !all.iter()
                .any(|(a, b)| a >= x && b <= y && (a > x || b < y))
        })
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let title = format!(
        "{} of {} combinations are on the Pareto front of output and P95 latency",
        front.len(),
        all.len()
    );
    let plot = plot
        .line("front", "@muted", &front)
        .with("lineStyle", serde_json::json!({"type": "dashed"}));
    let note = format!(
        "Each line is one value of {}; the label of a point is its {}. A combination is on the front if no other has both higher output and a lower P95.",
        crossed.others, crossed.along
    );
    let figure = Figure::new("factor-pareto", title, plot).note(note);
    Some(figure.table(rates_table(run)))
}

/// Lines that can be told apart by colour.
const COLOURS: usize = 8;

#[cfg(test)]
#[path = "../../tests/unit/charts_factors.rs"]
mod tests;
