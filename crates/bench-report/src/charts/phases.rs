//! Shares of waiting, prefill and decode in each cell.

use bench_schema::{CellRecord, Metric, PhaseShares, RunRecord};

use super::{capital, cells_axis};
use crate::figure::{Figure, Plot, value_axis};
use crate::number::{percent, short};
use crate::table::{Cell, Column, Table};
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.phases.is_some())
        .collect();
    let phases: Vec<&PhaseShares> = cells
        .iter()
        .filter_map(|cell| cell.phases.as_ref())
        .collect();
    let last = phases.last()?;
    let share = |pick: fn(&PhaseShares) -> f64| -> Vec<(f64, f64)> {
        phases.iter().map(|p| (pick(p) * 100.0, 100.0)).collect()
    };
    let mut plot = Plot::new(
        cells_axis(run, &cells),
        value_axis("share of the mean response time (%)").max(100.0),
    );
    let any_queue = phases.iter().any(|p| p.queue > 0.0);
    if any_queue {
        plot = plot.stacked_shares("waiting", "@bad", &share(|p| p.queue));
    }
    let first = tables::first_phase(cells.iter().copied());
    plot = plot
        .stacked_shares(first, "@1", &share(|p| p.prefill))
        .stacked_shares("decode", "@0", &share(|p| p.decode));
    let parts = [
        ("waiting", last.queue),
        (last.first_phase(), last.prefill),
        ("decode", last.decode),
    ];
    let (name, value) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = if cells.len() > 1 {
        format!(" at {}", tables::label(cells.last()?))
    } else {
        String::new()
    };
    let title = format!(
        "{} takes {} % of the time{at}",
        capital(name),
        percent(value)
    );
    let note = if first != "prefill" {
        "Nothing tells the time in the server's queue: what passes before the first token is waiting or prefill; decode is first to last token."
    } else if last.queue_source == "estimate" {
        "Waiting is an estimate: TTFT less that at the lowest load."
    } else {
        "Prefill is TTFT less the waiting that is known; decode is first to last token."
    };
    Some(
        Figure::new("phases", title, plot)
            .note(note)
            .table(tables::phases(run)),
    )
}

/// The mean of each phase in milliseconds: shares of the mean response time, times that.
pub(crate) fn means_ms(cell: &CellRecord) -> Option<[f64; 3]> {
    let (phases, mean) = (cell.phases.as_ref()?, cell.headline(Metric::E2e)?.mean);
    Some([phases.queue, phases.prefill, phases.decode].map(|share| share * mean / 1e6))
}

/// Prefill against decode in milliseconds.
pub(super) fn times(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| means_ms(cell).is_some())
        .collect();
    let means: Vec<[f64; 3]> = cells.iter().filter_map(|cell| means_ms(cell)).collect();
    if means.len() < 2 {
        return None;
    }
    let of = |i: usize| -> Vec<Option<f64>> { means.iter().map(|m| m.get(i).copied()).collect() };
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("mean time (ms)"));
    if means.iter().any(|m| m[0] > 0.0) {
        plot = plot.bars("waiting", "@bad", &of(0));
    }
    let first = tables::first_phase(cells.iter().copied());
    plot = plot.bars(first, "@1", &of(1)).bars("decode", "@0", &of(2));
    let range = |i: usize| {
        let values = || means.iter().filter_map(|m| m.get(i).copied());
        let (low, high) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        );
        format!("{} to {} ms", short(low), short(high))
    };
    let title = format!("{} takes {}, decode {}", capital(first), range(1), range(2));
    Some(
        Figure::new("phase-times", title, plot)
            .note("Means over the completed requests of each cell.")
            .table(table(&cells, &means)),
    )
}

fn table(cells: &[&CellRecord], means: &[[f64; 3]]) -> Option<Table> {
    let mut columns = vec![Column::text("cell")];
    let first = tables::first_phase(cells.iter().copied());
    columns.extend(["waiting", first, "decode"].map(|name| Column::number(name, "ms")));
    let mut table = Table::new("Mean time of each phase", columns);
    for (cell, means) in cells.iter().zip(means) {
        let mut row = vec![Cell::text(tables::label(cell))];
        row.extend(means.map(Cell::number));
        table.push(row);
    }
    table.not_empty()
}
