//! Speedup and scaling efficiency against the first level.

use bench_schema::RunRecord;

use super::{level_words, levels, times};
use crate::figure::{Figure, Plot, level_axis, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| run.analysis.scaling.iter().find(|row| row.cell == cell.id))
        .collect();
    let speedup: Vec<Option<f64>> = rows
        .iter()
        .map(|row| row.map(|r| r.scaling_factor))
        .collect();
    let efficiency: Vec<Option<f64>> = rows
        .iter()
        .map(|row| row.and_then(|r| r.efficiency).map(|e| e * 100.0))
        .collect();
    if speedup.iter().flatten().count() < 2 || efficiency.iter().flatten().count() < 2 {
        return None;
    }
    let plot = Plot::new(
        level_axis(&name, at.iter().copied()),
        value_axis("speedup (×)"),
    )
    .second_y(value_axis("efficiency (%)").min(0.0))
    .bars("speedup", "@2", &speedup)
    .levels("efficiency", "@1", &efficiency)
    .with("yAxisIndex", 1.into());
    let (last, share) = (
        speedup.iter().flatten().last()?,
        efficiency.iter().flatten().last()?,
    );
    let level = at.last()?;
    let title = format!(
        "At {} the speedup is {}: {} % of proportional scaling",
        level_words(&name, level),
        times(*last),
        short(*share)
    );
    Some(Figure::new("speedup", title, plot).note("Speedup: rate over the first level's. Efficiency: speedup over the ratio of the levels.").table(tables::scaling(run)))
}
