//! What became of the requests that were planned.

use bench_schema::{Counts, RunRecord};

use super::trust_mark;
use crate::table::{Cell, Column, Table};

/// One row for each cell, where some request of the run has no whole answer; else nothing.
pub(crate) fn counts(run: &RunRecord) -> Option<Table> {
    if run
        .cells
        .iter()
        .all(|cell| cell.counts.without_answer() == 0)
    {
        return None;
    }
    let titles = [
        "planned",
        "completed",
        "failed",
        "timed out",
        "truncated",
        "cancelled",
        "unsent",
        "warm-up",
    ];
    let mut columns = vec![Column::text("cell")];
    columns.extend(titles.map(|title| Column::number(title, "")));
    let mut table = Table::new(
        "Requests: planned is always the sum of the rest, warm-up apart",
        columns,
    );
    for cell in &run.cells {
        let c = &cell.counts;
        let all = [
            c.planned,
            c.completed,
            c.failed,
            c.timed_out,
            c.truncated,
            c.cancelled,
            c.unsent,
            c.warmup,
        ];
        let mut row = vec![Cell::text(super::label(cell)).marked(trust_mark(run, cell))];
        row.extend(all.map(Cell::count));
        table.push(row);
    }
    table.not_empty()
}

/// Failures and time-outs by cell, stage and kind, with the commonest message.
pub(crate) fn failures(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::text("stage"),
        Column::text("kind"),
        Column::number("requests", ""),
    ];
    let mut table = Table::new("Failures by stage and kind", columns);
    for cell in &run.cells {
        let label = super::label(cell);
        for (stage, kind, n) in &cell.counts.failures {
            table.push(vec![
                Cell::text(&label),
                words(stage),
                words(kind),
                Cell::count(*n),
            ]);
        }
        for (stage, n) in &cell.counts.timeouts {
            table.push(vec![
                Cell::text(&label),
                words(stage),
                Cell::text("timed out"),
                Cell::count(*n),
            ]);
        }
    }
    table.not_empty()
}

fn words(name: &impl ToString) -> Cell {
    Cell::text(name.to_string().replace('_', " "))
}

/// `960 planned = 957 completed + 3 failed; 60 before as warm-up`.
pub(crate) fn summary_line(run: &RunRecord) -> String {
    let sum =
        |pick: fn(&Counts) -> u64| run.cells.iter().map(|cell| pick(&cell.counts)).sum::<u64>();
    let parts: [(u64, &str); 6] = [
        (sum(|c| c.completed), "completed"),
        (sum(|c| c.failed), "failed"),
        (sum(|c| c.timed_out), "timed out"),
        (sum(|c| c.truncated), "truncated"),
        (sum(|c| c.cancelled), "cancelled"),
        (sum(|c| c.unsent), "never sent"),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(n, word)| *n > 0 || *word == "completed")
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    let mut line = format!("{} planned = {}", sum(|c| c.planned), said.join(" + "));
    let asides = [
        (sum(|c| c.warmup), "before as warm-up"),
        (sum(|c| c.retried), "sent again"),
        (sum(|c| c.replaced_connections), "on a replaced connection"),
    ];
    for (n, words) in asides.into_iter().filter(|(n, _)| *n > 0) {
        line.push_str(&format!("; {n} {words}"));
    }
    line
}
