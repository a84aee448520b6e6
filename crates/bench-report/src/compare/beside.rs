//! Points of a comparison beside each other: trade-off, phases, utilisation.

use bench_schema::{CellRecord, Metric, RunRecord};
use serde_json::json;

use super::points::Study;
use crate::charts::{capital, phases::means_ms};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::markdown::conclusions::fastest;
use crate::number::{rounded, short};
use crate::table::{Cell, Column, Table};
use crate::tables;

/// Points that can be told apart by colour.
const SHOWN: usize = 8;

/// The first run of each point with its best cell.
fn best<'a>(study: &'a Study<'_>) -> Vec<(&'a str, &'a RunRecord, &'a CellRecord)> {
    let points = study.points.iter();
    points
        .filter_map(|point| {
            let run = *point.runs.first()?;
            Some((point.name.as_str(), run, fastest(run)?))
        })
        .collect()
}

/// Output against the p95 of E2E, a line for each point through its cells.
pub(super) fn tradeoff(study: &Study<'_>) -> Option<Figure> {
    let mut plot =
        Plot::new(value_axis("output (tokens/s)"), value_axis("E2E p95 (ms)")).point_at_items();
    let columns = vec![
        Column::text("run"),
        Column::text("cell"),
        Column::number("output", "tok/s"),
        Column::number("E2E p95", "ms"),
    ];
    let mut table = Table::new("Output and latency of every cell", columns);
    let mut most = 0;
    let mut best: Option<(f64, String, f64)> = None;
    for (i, point) in study.points.iter().take(SHOWN).enumerate() {
        let run = point.runs.first()?;
        let mut data = Vec::new();
        for cell in &run.cells {
            let rate = cell.headline_rates().and_then(|r| r.output_tokens_per_s);
            let p95 = cell.headline(Metric::E2e).and_then(|d| d.quantile(0.95));
            let (Some(rate), Some(p95)) = (rate, p95.map(|ns| ns / 1e6)) else {
                continue;
            };
            let level = tables::load_level(&cell.load).0.to_string();
            data.push((rate, json!({"value": [rounded(rate), rounded(p95)], "label": {"show": run.cells.len() > 1, "formatter": level, "position": "top", "fontSize": 10, "color": "@soft"}})));
            if best.as_ref().is_none_or(|(highest, ..)| rate > *highest) {
                best = Some((rate, point.name.clone(), p95));
            }
            table.push(vec![
                Cell::text(&point.name),
                Cell::text(tables::label(cell)),
                Cell::number(rate),
                Cell::number(p95),
            ]);
        }
        most = most.max(data.len());
        let data: Vec<_> = data.into_iter().map(|(_, value)| value).collect();
        plot = plot
            .line(&point.name, &format!("@{i}"), &[])
            .with("data", data.into())
            .with("labelLayout", json!({"hideOverlap": true}));
    }
    let (rate, name, p95) = best?;
    let title = format!(
        "The most output is {} tokens/s, from {name}, at a p95 of {} ms",
        short(rate),
        short(p95)
    );
    let note = "Each point is a cell; the number on it is its load. Further right is more output, lower is sooner.";
    (most > 0).then(|| {
        Figure::new("beside-tradeoff", title, plot)
            .note(note)
            .table(table)
    })
}

/// Mean time of each phase at the best cell of each point.
pub(super) fn phases(study: &Study<'_>) -> Option<Figure> {
    let best = best(study);
    let early = tables::first_phase(best.iter().map(|(_, _, cell)| *cell));
    let seen: Vec<(&str, [f64; 3])> = best
        .into_iter()
        .filter_map(|(name, _, cell)| Some((name, means_ms(cell)?)))
        .collect();
    let (first, last) = (seen.first()?, seen.last()?);
    let of = |i: usize| -> Vec<Option<f64>> { seen.iter().map(|s| s.1.get(i).copied()).collect() };
    let mut plot = Plot::new(
        category_axis(seen.iter().map(|s| s.0)),
        value_axis("mean time (ms)"),
    );
    let mut columns = vec![Column::text("run")];
    for (i, (name, color)) in [("waiting", "@bad"), (early, "@1"), ("decode", "@0")]
        .into_iter()
        .enumerate()
    {
        columns.push(Column::number(name, "ms"));
        plot = plot.stacked(name, color, &of(i));
    }
    let mut table = Table::new("Mean time of each phase", columns);
    for (name, means) in &seen {
        let mut row = vec![Cell::text(*name)];
        row.extend(means.map(Cell::number));
        table.push(row);
    }
    let title = format!(
        "{} takes {} ms in {} and {} ms in {}; decode {} and {} ms",
        capital(early),
        short(first.1[1]),
        first.0,
        short(last.1[1]),
        last.0,
        short(first.1[2]),
        short(last.1[2])
    );
    (seen.len() > 1).then(|| {
        Figure::new("beside-phases", title, plot)
            .note("Each run at its best cell; the phases stand on each other.")
            .table(table)
    })
}

/// Mean utilisation at the best cell of each point: GPUs where there are any, else the host's CPUs.
pub(super) fn utilisation(study: &Study<'_>) -> Option<Figure> {
    let seen = best(study);
    let of = |name: &str| -> Vec<Option<f64>> {
        let share =
            |cell: &CellRecord| Some(cell.hardware.as_ref()?.derived.get(name)?.value * 100.0);
        seen.iter().map(|(_, _, cell)| share(cell)).collect()
    };
    let gpus = of("gpu_utilisation_mean");
    let (what, values) = if gpus.iter().any(Option::is_some) {
        ("GPUs", gpus)
    } else {
        ("the host's CPUs", of("host_cpu_share"))
    };
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    if known.len() < 2 {
        return None;
    }
    let axis = value_axis("utilisation (%)").min(0.0).max(100.0);
    let plot = Plot::new(category_axis(seen.iter().map(|s| s.0)), axis).bars(what, "@0", &values);
    let mut table = Table::new(
        "Mean utilisation at the best cell",
        vec![Column::text("run"), Column::number(what, "%")],
    );
    for ((name, ..), value) in seen.iter().zip(&values) {
        table.push(vec![Cell::text(*name), Cell::number(*value)]);
    }
    let (low, high) = (
        known.iter().copied().fold(f64::INFINITY, f64::min),
        known.iter().copied().fold(0.0, f64::max),
    );
    let title = format!(
        "On average {what} are busy {} to {} %",
        short(low),
        short(high)
    );
    Some(
        Figure::new("beside-utilisation", title, plot)
            .note("Each run at its best cell.")
            .table(table),
    )
}
