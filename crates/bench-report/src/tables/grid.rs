//! Latency of one request at a time over a grid of lengths.

use bench_schema::{CellRecord, Factor, Metric, RunRecord};

use super::sweep::scaling_row;
use super::{origin_words, trust_mark};
use crate::table::{Align, Cell, Column, Table};

/// One row for each cell of the grid.
pub(crate) fn grid(run: &RunRecord) -> Option<Table> {
    let factors = shown_factors(run);
    let mut columns: Vec<Column> = factors
        .iter()
        .map(|name| factor_column(run, name))
        .collect();
    if factors.is_empty() {
        columns.push(Column::text("cell"));
    }
    columns.extend([
        Column::number("n", ""),
        Column::of("E2E", "mean", "ms"),
        Column::of("E2E", "sd", "ms"),
        Column::number("CoV", "%"),
        Column::of("E2E", "p50", "ms"),
        Column::of("E2E", "p95", "ms"),
        Column::of("E2E", "p99", "ms"),
        Column::of("TTFT", "p50", "ms"),
        Column::number("per token", "ms/tok"),
        Column::number("speed", "tok/s"),
        Column::number("scaling", "×"),
        Column::number("prompt adds", "ms"),
        Column::number("sent", "tokens"),
    ]);
    // The group `E2E` must be contiguous: CoV is of the same latency, so it stands within.
    for column in columns.iter_mut().filter(|c| c.title == "CoV") {
        "E2E".clone_into(&mut column.group);
    }
    let mut table = Table::new(
        format!(
            "Latency grid, one cell a row, latencies {}",
            origin_words(run)
        ),
        columns,
    );
    for cell in &run.cells {
        table.push(row(run, cell, &factors));
    }
    table.without_empty_columns().not_empty()
}

/// Factors in which cells differ, in a fixed order: prompt, then output, then the rest by name.
pub(crate) fn shown_factors(run: &RunRecord) -> Vec<String> {
    let mut names: Vec<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys())
        .collect();
    names.sort();
    names.dedup();
    let differs = |name: &&String| {
        let mut levels = run.cells.iter().map(|cell| cell.factors.get(*name));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let rank = |name: &String| match name.as_str() {
        "prompt" | "prompt_tokens" | "input_tokens" => 0,
        "output_tokens" => 1,
        _ => 2,
    };
    let mut shown: Vec<String> = names.into_iter().filter(differs).cloned().collect();
    shown.sort_by_key(rank);
    shown
}

fn factor_column(run: &RunRecord, name: &str) -> Column {
    let numeric = run.cells.iter().all(|cell| {
        cell.factors
            .get(name)
            .is_none_or(|f| f.as_number().is_some())
    });
    let (title, unit) = match name {
        "output_tokens" => ("output".to_owned(), "tokens"),
        "input_tokens" | "prompt_tokens" => ("prompt".to_owned(), "tokens"),
        other => (crate::text::shortened(&other.replace('_', " "), 24), ""),
    };
    let align = if numeric { Align::Right } else { Align::Left };
    Column {
        group: String::new(),
        title,
        unit: if numeric { unit } else { "" },
        align,
    }
}

/// The level of a factor as a cell.
pub(crate) fn factor_cell(factor: Option<&Factor>) -> Cell {
    match factor {
        Some(Factor::Number(n)) => Cell::text(n.to_string()),
        Some(Factor::Name(name)) => Cell::text(crate::text::shortened(name, 40)),
        None => Cell::default(),
    }
}

/// The first cell with another prompt and otherwise the same factors, answers as long.
fn first_prompt<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a CellRecord> {
    let is_prompt =
        |name: &&String| matches!(name.as_str(), "prompt" | "prompt_tokens" | "input_tokens");
    let prompt = cell.factors.keys().find(is_prompt)?;
    let alike = |other: &&CellRecord| {
        let mut factors = other.factors.clone();
        factors.insert(prompt.clone(), cell.factors.get(prompt)?.clone());
        (other.factors.contains_key(prompt) && factors == cell.factors).then_some(())
    };
    let first = run.cells.iter().find(|other| alike(other).is_some())?;
    (first.id != cell.id).then_some(first)
}

fn row(run: &RunRecord, cell: &CellRecord, factors: &[String]) -> Vec<Cell> {
    let mut row: Vec<Cell> = factors
        .iter()
        .map(|name| factor_cell(cell.factors.get(name)))
        .collect();
    if row.is_empty() {
        row.push(Cell::text(super::label(cell)));
    }
    if let Some(first) = row.first_mut() {
        first.marks.extend(trust_mark(run, cell));
    }
    let e2e = cell.headline(Metric::E2e);
    let quantile = |q: f64| Cell::quantile(e2e.and_then(|d| d.quantile_entry(q)), 1e6);
    let per_token = cell.analysis.ms_per_token;
    let ttft = cell
        .headline(Metric::Ttft)
        .and_then(|d| d.quantile_entry(0.5));
    row.extend([
        e2e.map_or_else(Cell::default, |d| Cell::count(d.n)),
        Cell::number(e2e.map(|d| d.mean / 1e6)),
        Cell::number(e2e.and_then(|d| d.sd).map(|sd| sd / 1e6)),
        Cell::number(e2e.and_then(|d| d.cov).map(|cov| cov * 100.0)),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        Cell::quantile(ttft, 1e6),
        Cell::number(per_token),
        Cell::number(per_token.filter(|&ms| ms > 0.0).map(|ms| 1000.0 / ms)),
        Cell::number(scaling_row(run, cell).map(|s| s.scaling_factor)),
        Cell::number(first_prompt(run, cell).and_then(|first| {
            let mean = first.headline(Metric::E2e)?.mean;
            Some((e2e?.mean - mean) / 1e6)
        })),
        Cell::number(cell.metrics.get(&Metric::InputTokens).map(|d| d.mean)),
    ]);
    row
}
