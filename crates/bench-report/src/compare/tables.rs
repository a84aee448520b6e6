//! The tables of a comparison.

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_schema::Metric;

use super::points::Study;
use crate::markdown::conclusions::fastest;
use crate::number::{fixed, short};
use crate::table::{Cell, Column, Table, Tone};
use crate::tables::{costliest, label, scale_of};
use crate::text::shortened;

/// Every figure against the baseline; the verdict stands first, where no screen is too narrow for it.
pub(super) fn changes(held: &RunComparison) -> Table {
    let columns = [
        "verdict",
        "cell",
        "quantity",
        "change",
        "95 % interval",
        "base",
        "new",
        "of",
    ];
    let title = format!("{} against {}", held.new, held.base);
    let mut table = Table::new(title, columns.map(Column::text).to_vec());
    for row in &held.rows {
        let (scale, unit) = scale_of(row.unit);
        let number = |value: f64| format!("{} {unit}", short(value / scale));
        let interval = row.relative_interval.map_or_else(
            || "–".to_owned(),
            |i| format!("{} to {}", signed(i.low), signed(i.high)),
        );
        table.push(vec![
            verdict(row),
            Cell::text(shortened(&row.cell, 60)),
            Cell::text(&row.quantity),
            Cell::text(row.relative.map_or_else(|| "–".to_owned(), signed)),
            Cell::text(interval),
            Cell::text(number(row.base)),
            Cell::text(number(row.new)),
            Cell::text(population(row)),
        ]);
    }
    table
}

/// Rows of a pull request's table.
const ROWS: usize = 40;

/// The figures that are better or worse, of many the first, and how many rows that leaves out.
pub(super) fn known_changes(held: &RunComparison) -> (Table, usize) {
    let mut table = changes(held);
    let all = table.rows.len();
    let known = |verdict| {
        matches!(
            verdict,
            ComparisonVerdict::Better | ComparisonVerdict::Worse
        )
    };
    if all > ROWS {
        let mut rows = held.rows.iter();
        table
            .rows
            .retain(|_| rows.next().is_some_and(|row| known(row.verdict)));
        table.rows.truncate(ROWS);
    }
    let left_out = all - table.rows.len();
    (table, left_out)
}

/// The tail of each point's fastest cell, and what limits the run: what to tune for each model.
pub(super) fn tails(study: &Study<'_>) -> Table {
    let columns = vec![
        Column::text("of"),
        Column::text("cell"),
        Column::number("E2E p50", "ms"),
        Column::number("P95 / P50", "×"),
        Column::number("P99 / P95", "×"),
        Column::number("CoV", "%"),
        Column::text("cause"),
        Column::text("costs"),
        Column::text("try first"),
    ];
    let mut table = Table::new("Tails, and what limits each", columns);
    for point in &study.points {
        let Some((run, cell)) = point
            .runs
            .first()
            .and_then(|run| Some((run, fastest(run)?)))
        else {
            continue;
        };
        let e2e = cell.headline(Metric::E2e);
        let at = |q: f64| e2e.and_then(|d| d.quantile(q));
        let over = |a: f64, b: f64| Some(at(a)? / at(b)?);
        let mut row = vec![
            Cell::text(&point.name),
            Cell::text(label(cell)),
            Cell::number(at(0.5).map(|ns| ns / 1e6)),
            Cell::number(over(0.95, 0.5)),
            Cell::number(over(0.99, 0.95)),
            Cell::number(e2e.and_then(|d| d.cov).map(|cov| cov * 100.0)),
        ];
        row.extend(costliest(run, None));
        table.push(row);
    }
    table.without_empty_columns()
}

/// The requests that both sides of a row are taken over: `150 pairs`, `150 and 148 requests`.
fn population(row: &ComparisonRow) -> String {
    match (row.population.as_str(), row.n) {
        ("", _) | (_, (0, 0)) => "–".to_owned(),
        ("pairs", (n, _)) => format!("{n} pairs"),
        (name, (a, b)) if a == b => format!("{a}, {}", shortened(name, 40)),
        (name, (a, b)) => format!("{a} and {b}, {}", shortened(name, 40)),
    }
}

/// `+12.3 %`.
pub(super) fn signed(share: f64) -> String {
    let value = share * 100.0;
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{} %", fixed(value, usize::from(value.abs() < 99.95)))
}

fn verdict(row: &ComparisonRow) -> Cell {
    let cell = Cell::text(row.verdict.as_str());
    match row.verdict {
        ComparisonVerdict::Better => cell.toned(Tone::Good),
        ComparisonVerdict::Worse => cell.toned(Tone::Bad),
        ComparisonVerdict::CannotTell => cell.toned(Tone::Warn),
        ComparisonVerdict::NoDifferenceFound => cell,
    }
}
