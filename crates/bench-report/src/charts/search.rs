//! The search for a capacity: the share within each objective against load, with what was fitted and the capacity.

use bench_schema::{CapacityRecord, CellRecord, ObjectiveCapacity, RunRecord};
use charming::component::Axis;
use serde_json::json;

use crate::figure::{Figure, Plot, log_axis, value_axis};
use crate::number::{rounded, short};
use crate::tables;

/// Loads that a fitted line is drawn through.
const STEPS: u32 = 60;

/// The axis of loads: where they are near each other it has even ticks, since a logarithmic one would have none between its ends.
fn across(name: &str, least: f64, most: f64) -> Axis {
    const NEAR: f64 = 8.0;
    if most > NEAR * least {
        return log_axis(name, (least, most));
    }
    let step = 10_f64.powf((most - least).log10().floor());
    let (from, to) = ((least / step).floor() * step, (most / step).ceil() * step);
    value_axis(name).min(rounded(from)).max(rounded(to))
}

/// Attainment against load; absent where no capacity was searched, or no stage tells.
pub(super) fn attainment(run: &RunRecord) -> Option<Figure> {
    let found = run.analysis.capacity.as_ref()?;
    let stages: Vec<(f64, &CellRecord)> = tables::stages(run, found)
        .filter_map(|cell| Some((tables::load_level(&cell.load)?, cell)))
        .collect();
    let loads = || stages.iter().map(|(load, _)| *load);
    let (least, most) = (
        loads().reduce(f64::min)? / 1.15,
        loads().reduce(f64::max)? * 1.15,
    );
    let unit = tables::capacity_unit(run, found);
    let name = match found.factor.as_str() {
        "rate" => "requested rate (requests/s)",
        _ => "concurrency",
    };
    let mut plot = Plot::new(
        across(name, least, most),
        value_axis("requests within the limit (%)")
            .min(0.0)
            .max(100.0),
    )
    .height(380)
    .linear()
    .point_at_items();
    let told: Vec<(f64, &CellRecord)> = (stages.iter().copied())
        .filter(|(_, cell)| !found.left_out.contains_key(&cell.id))
        .collect();
    for (i, own) in found.objectives.iter().enumerate() {
        let role = format!("@{i}");
        let name = tables::slo_words(&own.slo);
        plot = points(plot, (&name, &role), i, &told);
        if let Some(curve) = fitted(own, least, most) {
            plot = plot.dashed(&name, &role, &curve);
        }
    }
    plot = what_is_asked(plot, found, least);
    let title = match (found.value, found.low, found.high) {
        (Some(value), Some(low), Some(high)) => {
            plot = mark(plot, value, (low, high));
            format!(
                "The objectives are met up to {} {unit} (95 % CI {} to {})",
                short(value),
                short(low),
                short(high)
            )
        }
        _ => "No capacity was found: share of requests that meet the objectives at each stage"
            .to_owned(),
    };
    let left_out = match found.left_out.len() {
        0 => "",
        _ => " Stages in which the client was the limit or the server was away are excluded.",
    };
    let note = format!(
        "Each point is a stage of the search with its 95 % confidence interval. Dashed: the curve fitted near the capacity. Band: the confidence interval of the capacity.{left_out}"
    );
    Some(Figure::new("capacity", title, plot).note(note))
}

/// A line at each share that is asked for.
fn what_is_asked(mut plot: Plot, found: &CapacityRecord, least: f64) -> Plot {
    let mut asked: Vec<f64> = found.objectives.iter().map(|own| own.slo.q).collect();
    asked.sort_by(f64::total_cmp);
    asked.dedup();
    for q in asked {
        let words = format!("required: {} %", short(q * 100.0));
        // the axis, the intervals and its own name fill the upper left corner
        let below = "insideEndBottom";
        plot = plot.level_line_at(below, (q * 100.0, &words), "@muted", least);
    }
    plot
}

fn points(
    plot: Plot,
    (name, role): (&str, &str),
    objective: usize,
    told: &[(f64, &CellRecord)],
) -> Plot {
    let seen: Vec<(f64, f64, f64, f64)> = told
        .iter()
        .filter_map(|(load, cell)| {
            let share = cell.slos.get(objective)?.within?;
            let interval = bench_metrics::share_interval(&share);
            Some((
                *load,
                share.value * 100.0,
                interval.low * 100.0,
                interval.high * 100.0,
            ))
        })
        .collect();
    let values: Vec<(f64, f64)> = seen.iter().map(|s| (s.0, s.1)).collect();
    let spans: Vec<(f64, f64, f64)> = seen.iter().map(|s| (s.0, s.2, s.3)).collect();
    plot.points(name, role, &values)
        .whiskers(name, role, &spans, (0, 1))
}

/// The curve of an objective where it is more than a guess: near its crossing.
fn fitted(own: &ObjectiveCapacity, least: f64, most: f64) -> Option<Vec<(f64, f64)>> {
    let (value, slope) = (own.value?, own.slope?);
    let odds = (own.slo.q / (1.0 - own.slo.q)).ln();
    let (from, to) = ((value / 1.5).max(least), (value * 1.5).min(most));
    let at = |step: u32| from * (to / from).powf(f64::from(step) / f64::from(STEPS));
    let share = |load: f64| 100.0 / (1.0 + (slope * (load / value - 1.0) - odds).exp());
    (from < to).then(|| {
        (0..=STEPS)
            .map(at)
            .map(|load| (load, share(load)))
            .collect()
    })
}

/// The capacity as a line, its interval as a band; the title has both in figures.
fn mark(plot: Plot, value: f64, (low, high): (f64, f64)) -> Plot {
    let line = json!({"silent": true, "symbol": "none", "lineStyle": {"color": "@bad", "type": "solid", "width": 1.5},
        "label": {"show": false}, "data": [{"xAxis": rounded(value)}]});
    let band = json!({"silent": true, "itemStyle": {"color": "@bad", "opacity": 0.1}, "data": [[{"xAxis": rounded(low)}, {"xAxis": rounded(high)}]]});
    plot.curve("", "@bad", &[])
        .with("markLine", line)
        .with("markArea", band)
}
