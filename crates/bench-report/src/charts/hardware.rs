//! Utilisation of GPUs and CPUs in each cell.

use std::collections::BTreeMap;

use bench_schema::{ResourceSummary, RunRecord};

use super::cells_axis;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;
use crate::trace::{Topic, place};

/// Series shown.
const SHOWN: usize = 6;

/// A series: its question, its rank within that, its name.
type Key = (Topic, u8, String);

/// Mean and peak of each cell, in percent.
type Values = Vec<Option<(f64, f64)>>;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.hardware.is_some())
        .collect();
    let mut series: BTreeMap<Key, Values> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate() {
        for resource in cell.hardware.iter().flat_map(|h| &h.resources) {
            let Some((key, value)) = utilisation(run, resource) else {
                continue;
            };
            let values = series.entry(key).or_insert_with(|| vec![None; cells.len()]);
            if let Some(slot) = values.get_mut(i) {
                *slot = Some(value);
            }
        }
    }
    // Topics are in reading order: GPUs come before CPUs.
    let (lead, values) = series.first_key_value()?;
    let busiest = values
        .iter()
        .zip(&cells)
        .filter_map(|(v, cell)| Some(((*v)?.0, cell)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let who = name(lead);
    let at = if cells.len() > 1 {
        format!(" at {}", tables::label(busiest.1))
    } else {
        String::new()
    };
    let title = format!(
        "{} busy {} % on average{at}",
        if lead.0 == Topic::Gpu {
            format!("{who} is")
        } else {
            format!("The {} keeps the CPUs", lead.2)
        },
        short(busiest.0)
    );
    let mut plot = Plot::new(
        cells_axis(run, &cells),
        value_axis("utilisation (%)").min(0.0).max(100.0),
    );
    let shown = series.len().min(SHOWN);
    for (i, (key, values)) in series.iter().take(SHOWN).enumerate() {
        let (name, color) = (name(key), format!("@{i}"));
        let means: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| v.0)).collect();
        let peaks: Vec<_> = (0_u32..)
            .zip(values)
            .filter_map(|(x, v)| v.map(|v| (f64::from(x), v.0, v.1)))
            .collect();
        plot = plot
            .bars(&name, &color, &means)
            .whiskers(&name, &color, &peaks, (i, shown));
    }
    Some(
        Figure::new("utilisation", title, plot)
            .note("Bars are means over each cell, whiskers reach to the peak; CPU is the share of all CPUs of this host.")
            .table(tables::hardware(run)),
    )
}

fn name((topic, _, name): &Key) -> String {
    match topic {
        Topic::Gpu => name.clone(),
        _ => format!("CPU, {name}"),
    }
}

fn utilisation(run: &RunRecord, resource: &ResourceSummary) -> Option<(Key, (f64, f64))> {
    let (topic, name, rank) = place(&resource.series, resource.unit)?;
    let scale = match topic {
        Topic::Gpu => 100.0,
        Topic::Cpu => 100.0 / f64::from(run.host.cpus.filter(|&n| n > 0)?),
        _ => return None,
    };
    let value = (resource.mean * scale, (resource.peak * scale).min(100.0));
    Some(((topic, rank, name), value))
}
