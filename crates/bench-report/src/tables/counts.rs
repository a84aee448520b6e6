//! What became of the requests that were planned.

use std::collections::BTreeMap;

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
                Cell::text(words(stage)),
                Cell::text(words(kind)),
                Cell::count(*n),
            ]);
        }
        for (stage, n) in &cell.counts.timeouts {
            table.push(vec![
                Cell::text(&label),
                Cell::text(words(stage)),
                Cell::text("timed out"),
                Cell::count(*n),
            ]);
        }
    }
    table.not_empty()
}

/// What went wrong over the whole run, the commonest first: how often, at which stage, how.
pub(crate) fn failure_counts(run: &RunRecord) -> Vec<(u64, String, String)> {
    let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
    for counts in run.cells.iter().map(|cell| &cell.counts) {
        let failed = counts.failures.iter();
        let failed = failed.map(|(stage, kind, n)| (words(stage), words(kind), *n));
        let late = counts.timeouts.iter();
        let late = late.map(|(stage, n)| (words(stage), "timed out".to_owned(), *n));
        for (stage, kind, n) in failed.chain(late) {
            *all.entry((stage, kind)).or_default() += n;
        }
    }
    let all = all.into_iter().map(|((stage, kind), n)| (n, stage, kind));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(n, ..)| std::cmp::Reverse(*n));
    all
}

fn words(name: &impl ToString) -> String {
    name.to_string().replace('_', " ")
}

/// `960 planned = 957 completed + 3 failed; plus 60 warm-up requests`.
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
        ("plus ", sum(|c| c.warmup), "warm-up requests"),
        ("", sum(|c| c.retried), "sent again"),
        (
            "",
            sum(|c| c.replaced_connections),
            "on a replaced connection",
        ),
    ];
    for (lead, n, words) in asides.into_iter().filter(|aside| aside.1 > 0) {
        line.push_str(&format!("; {lead}{n} {words}"));
    }
    line
}
