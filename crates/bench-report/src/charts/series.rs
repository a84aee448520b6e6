//! Readings of machines and server under one time axis, a chart for each unit, with the cells marked.

use bench_schema::{RunRecord, Unit};
use serde_json::{Value, json};

use crate::figure::{Figure, Plot, time_axis, value_axis};
use crate::number::{rounded, short};
use crate::tables;
use crate::trace::Series;

pub(super) fn figures(run: &RunRecord, readings: &[Series]) -> Vec<Figure> {
    let mut units: Vec<Unit> = Vec::new();
    for series in readings {
        if !units.contains(&series.unit) {
            units.push(series.unit);
        }
    }
    units
        .into_iter()
        .filter_map(|unit| figure(run, readings, unit))
        .collect()
}

fn figure(run: &RunRecord, readings: &[Series], unit: Unit) -> Option<Figure> {
    let (scale, unit_words) = tables::scale_of(unit);
    let words = words(unit, unit_words);
    let mut plot = Plot::new(time_axis(run.duration.as_secs_f64()), value_axis(&words));
    let mut most: Option<(String, f64)> = None;
    for (i, series) in readings
        .iter()
        .filter(|series| series.unit == unit)
        .enumerate()
    {
        let name = format!(
            "{} {}",
            tables::source_words(&series.key),
            series
                .key
                .name
                .trim_start_matches("vllm:")
                .replace('_', " ")
        );
        let points: Vec<(f64, f64)> = series.points.iter().map(|p| (p.0, p.1 / scale)).collect();
        let peak = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
        if most.as_ref().is_none_or(|(_, highest)| peak > *highest) {
            most = Some((crate::text::shortened(&name, 44), peak));
        }
        plot = plot
            .line(&name, &format!("@{i}"), &points)
            .with("showSymbol", false.into());
        if i == 0 {
            plot = plot.with("markArea", cells(run));
        }
    }
    let (name, peak) = most?;
    let id = format!("series-{}", format!("{unit:?}").to_lowercase());
    let space = if unit_words.is_empty() { "" } else { " " };
    Some(
        Figure::new(
            id,
            format!("{name} reaches {}{space}{unit_words}", short(peak)),
            plot,
        )
        .note("Shaded: the cells of the run."),
    )
}

fn words(unit: Unit, unit_words: &str) -> String {
    match unit {
        Unit::Ratio => "share (%)".to_owned(),
        Unit::Count => "number".to_owned(),
        _ => unit_words.to_owned(),
    }
}

/// Every second cell shaded.
fn cells(run: &RunRecord) -> Value {
    let spans = run
        .cells
        .iter()
        .filter_map(|cell| cell.windows.whole.as_ref().or(cell.windows.steady.as_ref()))
        .map(|r| r.window);
    let data: Vec<Value> = spans.step_by(2).take(60).map(|w| json!([{"xAxis": rounded(w.from.as_secs_f64())}, {"xAxis": rounded(w.to.as_secs_f64())}])).collect();
    json!({"silent": true, "itemStyle": {"color": "@split", "opacity": 0.8}, "data": data})
}
