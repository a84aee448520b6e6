//! The answers with the longest gap between two tokens.

use bench_schema::RunRecord;

use super::times;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables;
use crate::trace::Trace;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let worst = trace
        .stalls
        .iter()
        .max_by(|a, b| a.worst_ms.total_cmp(&b.worst_ms))?;
    let mut plot = Plot::new(
        value_axis("number of the token in its answer"),
        value_axis("gap before it (ms)"),
    )
    .point_at_items();
    let columns = vec![
        Column::text("cell"),
        Column::number("request", ""),
        Column::number("longest gap", "ms"),
        Column::number("median gap", "ms"),
    ];
    let mut table = Table::new("Answers with the longest gap of their cell", columns);
    for (i, stall) in trace.stalls.iter().enumerate() {
        let label = run
            .cells
            .get(stall.cell as usize)
            .map_or_else(String::new, tables::label);
        let points: Vec<(f64, f64)> = stall
            .gaps
            .iter()
            .map(|&(n, gap)| (f64::from(n), gap))
            .collect();
        plot = plot
            .line(&label, &format!("@{i}"), &points)
            .with("showSymbol", false.into());
        table.push(vec![
            Cell::text(&label),
            Cell::count(stall.id),
            Cell::number(stall.worst_ms),
            Cell::number(stall.median_ms),
        ]);
    }
    let title = format!(
        "The longest stall is {} ms, {} the median gap of its answer",
        short(worst.worst_ms),
        times(worst.worst_ms / worst.median_ms.max(1e-6))
    );
    Some(
        Figure::new("stalls", title, plot)
            .note(
                "The answer with the longest gap of each cell, of the four cells with the longest.",
            )
            .table(table),
    )
}
