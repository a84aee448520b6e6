//! Readings of machines and server: over time with the cells shaded, and in each cell.

use std::collections::BTreeMap;

use bench_insight::Signal;
use bench_schema::{ResourceSummary, RunRecord};
use serde_json::{Value, json};

use super::{at_cell, capital, cells_axis, cells_with};
use crate::figure::{Bounded, Figure, Plot, time_axis, value_axis};
use crate::number::{ends, fixed, rounded, short};
use crate::table::Sheet;
use crate::tables;
use crate::trace::{Series, Topic, place};

/// A chart for each question that readings answer.
pub(super) fn over_time(run: &RunRecord, readings: &[Series]) -> Vec<Figure> {
    let figure = |topic: Topic| {
        let of: Vec<&Series> = readings.iter().filter(|s| s.topic == topic).collect();
        topic_over_time(run, topic, &of)
    };
    Topic::all().filter_map(figure).collect()
}

fn topic_over_time(run: &RunRecord, topic: Topic, all: &[&Series]) -> Option<Figure> {
    let first = all.first()?;
    let (id, words, _) = topic.shown();
    let mut axis = value_axis(words);
    if topic.is_share() {
        axis = axis.min(0.0).max(100.0);
    } else if topic == Topic::GpuClock {
        axis = axis.scale(true);
    }
    let mut plot = Plot::new(time_axis(run.duration.as_secs_f64()), axis).linear();
    for (i, series) in all.iter().enumerate() {
        plot = plot.curve(&series.name, &format!("@{i}"), &series.points);
        if i == 0 {
            plot = plot.with("markArea", shaded_cells(run));
        }
    }
    let table = Sheet::new()
        .text("series", |(name, _): &(&String, Extent)| (*name).clone())
        .number(("mean", ""), |(_, seen)| seen.mean)
        .number(("least", ""), |(_, seen)| seen.least)
        .number(("most", ""), |(_, seen)| seen.most)
        .rows(capital(words), all.iter().map(|s| (&s.name, extent(s))));
    let id = format!("over-time-{id}");
    let figure = Figure::new(id, title(run, topic, first, all), plot);
    Some(
        figure
            .note("Grey shading: every second cell of the run.")
            .table(table),
    )
}

/// Mean, least and most of a series.
struct Extent {
    mean: f64,
    least: f64,
    most: f64,
}

fn extent(series: &Series) -> Extent {
    let values = || series.points.iter().map(|p| p.1);
    let (least, most) = ends(values()).unwrap_or_default();
    let mean = values().sum::<f64>() / series.points.len().max(1) as f64;
    Extent { mean, least, most }
}

fn title(run: &RunRecord, topic: Topic, first: &Series, all: &[&Series]) -> String {
    let seen = extent(first);
    let (name, mean, least, most) = (
        &first.name,
        short(seen.mean),
        short(seen.least),
        short(seen.most),
    );
    match topic {
        // As the tables have it: a point of the chart is a mean, and between the cells are warm-ups.
        Topic::Queue => {
            let peak = |signal| tables::peak(run, signal).map(short);
            let waiting = peak(Signal::Waiting).map(|n| format!(" and {n} wait"));
            let running = match peak(Signal::Running).unwrap_or(most) {
                n if n == "1" => "1 request runs".to_owned(),
                n => format!("{n} requests run"),
            };
            format!(
                "At most {running}{} in the server during measurement",
                waiting.unwrap_or_default()
            )
        }
        Topic::Cache => {
            let peak = tables::peak(run, Signal::KvCache).map(|share| short(share * 100.0));
            format!(
                "{name} during measurement: at most {} %",
                peak.unwrap_or(most)
            )
        }
        Topic::ServerTokens => {
            format!("The server reports {mean} tokens/s on average, {most} at most")
        }
        Topic::Gpu => format!("{name} is busy {mean} % of the time"),
        Topic::GpuMemory => format!("{name} uses at most {}", memory_words(seen.most)),
        Topic::Power => format!("{name} draws {mean} W on average, {most} W at most"),
        Topic::Temperature => format!("{name} reaches {most} °C"),
        Topic::GpuClock if least == most => format!("{name} runs at {most} MHz"),
        Topic::GpuClock => format!("{name} runs at {least} to {most} MHz"),
        Topic::Cpu => cpu(run, first, seen.mean, all),
        Topic::Contention => format!("On this host {name} {mean} % of the time"),
        Topic::Memory => {
            let memory = memory_words(seen.most);
            format!("{} uses at most {memory}", capital(&the(name)))
        }
        Topic::Asked => format!("{name}: {mean} on average, {most} at most"),
    }
}

/// `1.97 of 2 CPUs are in use on average; the server takes 1.20, this client 0.06`.
fn cpu(run: &RunRecord, first: &Series, mean: f64, all: &[&Series]) -> String {
    let is_whole = first.name == "whole host";
    let parts = all.iter().skip(usize::from(is_whole));
    let parts = parts.map(|s| format!("{} {}", the(&s.name), fixed(extent(s).mean, 2)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if !is_whole {
        return format!("CPUs in use on average: {parts}");
    }
    let of = run
        .host
        .cpus
        .map_or_else(String::new, |n| format!(" of {n}"));
    let takes = if parts.is_empty() {
        parts
    } else {
        format!(": {parts}")
    };
    format!("{}{of} CPUs are in use on average{takes}", fixed(mean, 2))
}

fn memory_words(gib: f64) -> String {
    if gib < 1.0 {
        format!("{} MiB", short(gib * 1024.0))
    } else {
        format!("{} GiB", short(gib))
    }
}

fn the(name: &str) -> String {
    if name.starts_with("this ") {
        name.to_owned()
    } else {
        format!("the {name}")
    }
}

/// Every second cell shaded.
pub(super) fn shaded_cells(run: &RunRecord) -> Value {
    let windows = run.cells.iter().map(|cell| &cell.windows);
    let spans = windows.filter_map(|windows| windows.whole.as_ref().or(windows.steady.as_ref()));
    let spans: Vec<_> = spans.map(|rates| rates.window).step_by(2).collect();
    areas(&spans, &json!({"color": "@split", "opacity": 0.8}))
}

/// Stretches of time behind the lines.
pub(super) fn areas(spans: &[bench_schema::Window], style: &Value) -> Value {
    let ends = |w: &bench_schema::Window| json!([{"xAxis": rounded(w.from.as_secs_f64())}, {"xAxis": rounded(w.to.as_secs_f64())}]);
    let data: Vec<Value> = spans.iter().take(60).map(ends).collect();
    json!({"silent": true, "itemStyle": style, "data": data})
}

const SHOWN: usize = 6;

/// A series: its question, its rank within that, its name.
type Key = (Topic, u8, String);

/// Mean and peak of GPUs and CPUs in each cell.
pub(super) fn utilisation(run: &RunRecord) -> Option<Figure> {
    let (cells, hardware) = cells_with(run, |cell| cell.hardware.as_ref());
    let mut series: BTreeMap<Key, Vec<Option<Bounded>>> = BTreeMap::new();
    for (i, hardware) in hardware.iter().enumerate() {
        for (key, value) in hardware.resources.iter().filter_map(|r| used(run, r)) {
            let values = series.entry(key).or_insert_with(|| vec![None; cells.len()]);
            values
                .get_mut(i)
                .into_iter()
                .for_each(|slot| *slot = Some(value));
        }
    }
    // Topics are in reading order: GPUs come before CPUs.
    let (lead, values) = series.first_key_value()?;
    let known = values
        .iter()
        .zip(&cells)
        .filter_map(|(v, cell)| Some(((*v)?.0, cell)));
    let (busy, cell) = known.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (at, busy) = (at_cell(cells.len(), cell), short(busy));
    let title = match lead {
        (Topic::Gpu, ..) => format!("{} is busy {busy} % on average{at}", name(lead)),
        (.., who) => format!("The {who} keeps the CPUs busy {busy} % on average{at}"),
    };
    let axis = value_axis("utilisation (%)").min(0.0).max(100.0);
    let mut plot = Plot::new(cells_axis(run, &cells), axis);
    let shown = series.len().min(SHOWN);
    for (i, (key, values)) in series.iter().take(SHOWN).enumerate() {
        plot = plot.bars_within(&name(key), &format!("@{i}"), values, (i, shown));
    }
    let note = "Bars are means over each cell; whiskers show the peak. CPU is the share of all CPUs of this host.";
    let figure = Figure::new("utilisation", title, plot).note(note);
    Some(figure.table(tables::hardware(run)))
}

fn name((topic, _, name): &Key) -> String {
    match topic {
        Topic::Gpu => name.clone(),
        _ => format!("CPU, {name}"),
    }
}

/// The mean, with a whisker to the peak, in percent.
fn used(run: &RunRecord, resource: &ResourceSummary) -> Option<(Key, Bounded)> {
    let (topic, name, rank) = place(&resource.series, resource.unit)?;
    let scale = match topic {
        Topic::Gpu => 100.0,
        Topic::Cpu => 100.0 / f64::from(run.host.cpus.filter(|&n| n > 0)?),
        _ => return None,
    };
    let (mean, peak) = (resource.mean * scale, (resource.peak * scale).min(100.0));
    Some(((topic, rank, name), (mean, Some((mean, peak)))))
}
