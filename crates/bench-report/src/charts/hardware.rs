//! Utilisation of GPUs and CPUs in each cell.

use std::collections::BTreeMap;

use bench_schema::{ReadingSource, RunRecord, Unit};

use super::cells_axis;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;

/// Series shown.
const SHOWN: usize = 4;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.hardware.is_some())
        .collect();
    let mut series: BTreeMap<String, Vec<Option<(f64, f64)>>> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate() {
        let resources = cell.hardware.iter().flat_map(|h| &h.resources);
        for r in
            resources.filter(|r| r.unit == Unit::Ratio && wanted(r.series.source, &r.series.name))
        {
            let name = format!(
                "{} {}",
                tables::source_words(&r.series),
                crate::text::shortened(&r.series.name.replace('_', " "), 24)
            );
            let values = series
                .entry(name)
                .or_insert_with(|| vec![None; cells.len()]);
            if let Some(value) = values.get_mut(i) {
                *value = Some((r.mean * 100.0, r.peak * 100.0));
            }
        }
    }
    let most = series.iter().filter_map(|(name, values)| {
        Some((name, values.iter().flatten().map(|v| v.1).reduce(f64::max)?))
    });
    let (busiest, peak) = most.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let title = format!("{busiest} peaks at {} %", short(peak));
    let mut plot = Plot::new(
        cells_axis(run, &cells),
        value_axis("utilisation (%)").min(0.0).max(100.0),
    );
    let shown = series.len().min(SHOWN);
    for (i, (name, values)) in series.iter().take(SHOWN).enumerate() {
        let means: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| v.0)).collect();
        let peaks: Vec<_> = (0_u32..)
            .zip(values)
            .filter_map(|(x, v)| v.map(|v| (f64::from(x), v.0, v.1)))
            .collect();
        plot = plot.bars(name, &format!("@{i}"), &means).whiskers(
            name,
            &format!("@{i}"),
            &peaks,
            (i, shown),
        );
    }
    Some(
        Figure::new("utilisation", title, plot)
            .note("Bars are means over each cell, whiskers reach to the peak.")
            .table(tables::hardware(run)),
    )
}

fn wanted(source: ReadingSource, name: &str) -> bool {
    let name = name.to_lowercase();
    let machine = matches!(
        source,
        ReadingSource::Gpu
            | ReadingSource::Dcgm
            | ReadingSource::Host
            | ReadingSource::ServerProcess
            | ReadingSource::Client
    );
    machine && (name.contains("util") || name.contains("cpu")) && !name.contains("mem")
}
