//! The charts of a run: each in its own file, each absent where the run has no data for it.

mod cdf;
mod configurations;
mod consistency;
mod flow;
mod groups;
mod hardware;
mod heatmap;
mod histogram;
mod itl_trace;
mod lag;
mod length;
pub(crate) mod median_p95;
mod percentiles;
pub(crate) mod phases;
mod queue;
mod scatter;
mod series;
mod speedup;
mod sweep;
mod throughput;
mod timeline;
mod tradeoff;
pub(crate) mod violins;

use bench_schema::{CellRecord, Metric, Origin, RunRecord};

use charming::component::Axis;

use crate::figure::{Figure, category_axis, level_axis};
use crate::tables;
use crate::trace::{Series, Trace};

/// Charts under one heading.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Figure>,
}

/// Everything that the data allows, in reading order.
pub(crate) fn all(run: &RunRecord, trace: Option<&Trace>, readings: &[Series]) -> Vec<Section> {
    let section = |id, title, figures: Vec<Option<Figure>>| Section {
        id,
        title,
        figures: figures.into_iter().flatten().collect(),
    };
    let mut load = vec![
        throughput::figure(run, true),
        throughput::figure(run, false),
        speedup::figure(run),
        tradeoff::figure(run),
    ];
    load.extend(sweep::figures(run).into_iter().map(Some));
    load.push(configurations::figure(run));
    let latency = vec![
        percentiles::figure(run),
        trace.and_then(|trace| cdf::figure(run, trace)),
        trace.and_then(|trace| violins::distributions(run, trace)),
        trace.and_then(|trace| histogram::figure(run, trace)),
        groups::use_cases(run),
    ];
    let mut length = vec![
        length::latency(run),
        length::speed(run),
        groups::categories(run),
    ];
    let spread = trace.map_or_else(Vec::new, |trace| scatter::figures(run, trace));
    length.extend(spread.into_iter().map(Some));
    let time = vec![queue::figure(run), phases::figure(run), phases::times(run)];
    let mut steady = vec![consistency::means(run), consistency::classes(run)];
    if let Some(trace) = trace {
        steady.extend(violins::over_time(run, trace).into_iter().map(Some));
        steady.push(median_p95::figure(run, trace));
    }
    let mut over_time = Vec::new();
    if let Some(trace) = trace {
        over_time.push(flow::figure(run, trace));
        over_time.push(timeline::figure(run, trace));
        over_time.push(heatmap::figure(trace));
        over_time.push(itl_trace::figure(run, trace));
    }
    over_time.extend(series::figures(run, readings).into_iter().map(Some));
    over_time.push(hardware::figure(run));
    over_time.push(trace.and_then(|trace| lag::figure(run, trace)));
    vec![
        section("load", "Throughput and load", load),
        section("latency", "Latency", latency),
        section("length", "Cost of length", length),
        section("time", "Where the time goes", time),
        section("consistency", "Consistency", steady),
        section("timeline", "Over time", over_time),
    ]
}

/// The charts that answer a benchmark's question, the most telling first.
const FIRST: [&str; 6] = [
    "throughput",
    "length-latency",
    "categories",
    "use-cases",
    "configurations",
    "percentiles",
];

/// Takes the chart that a page begins with out of its section.
pub(crate) fn take_first(sections: &mut [Section]) -> Option<Figure> {
    FIRST.iter().find_map(|id| {
        let mut sections = sections.iter_mut();
        sections.find_map(|section| {
            let at = section.figures.iter().position(|figure| figure.id == *id)?;
            let mut figure = section.figures.remove(at);
            // Low enough for the first screen of a laptop, with what stands above it.
            figure.height = figure.height.min(290);
            Some(figure)
        })
    })
}

/// Short names of the cells, for axes and legends.
fn labels(cells: &[&CellRecord]) -> Vec<String> {
    cells.iter().map(|cell| tables::label(cell)).collect()
}

/// The axis under cells: levels of load where they make a sweep, else their labels.
fn cells_axis(run: &RunRecord, cells: &[&CellRecord]) -> Axis {
    match levels(run) {
        Some((_, _, name)) => level_axis(
            &name,
            cells.iter().map(|cell| tables::load_level(&cell.load).0),
        ),
        None => category_axis(labels(cells)),
    }
}

/// A quantile in milliseconds with its interval, of a cell's headline.
fn quantile_ms(cell: &CellRecord, metric: Metric, q: f64) -> Option<f64> {
    cell.headline(metric)?.quantile(q).map(|ns| ns / 1e6)
}

/// The interval of a quantile in milliseconds.
fn interval_ms(cell: &CellRecord, metric: Metric, q: f64) -> Option<(f64, f64)> {
    let interval = cell.headline(metric)?.quantile_entry(q)?.interval?;
    Some((interval.low / 1e6, interval.high / 1e6))
}

/// The distinct objectives on a metric, those for one use case included, as limit in milliseconds and words.
fn limits(run: &RunRecord, metric: Metric) -> Vec<(f64, String)> {
    let mut seen: Vec<(f64, String)> = Vec::new();
    let all = run.cells.iter().flat_map(bench_insight::objectives_of);
    for (_, slo) in all.filter(|(_, o)| o.slo.metric.from_origin(Origin::Sent) == metric) {
        let words = tables::objective_words(slo);
        if !seen.iter().any(|(_, known)| *known == words) {
            seen.push((slo.slo.limit / 1e6, words));
        }
    }
    seen
}

/// The cells that make a sweep of one load factor: two levels at least, each once.
fn levels(run: &RunRecord) -> Option<(Vec<&CellRecord>, Vec<f64>, String)> {
    let mut seen: Vec<(&CellRecord, f64)> = run
        .cells
        .iter()
        .map(|cell| (cell, tables::load_level(&cell.load).0))
        .collect();
    seen.sort_by(|a, b| a.1.total_cmp(&b.1));
    let repeated = seen
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if (a.1 - b.1).abs() < f64::EPSILON));
    let kinds = run.cells.iter().map(|cell| cell.load.is_open());
    let mixed = kinds.clone().any(|open| open) && !kinds.clone().all(|open| open);
    let ramps = run.cells.iter().any(|cell| cell.load.ramp().is_some());
    if seen.len() < 2 || repeated || mixed || ramps {
        return None;
    }
    let open = run.cells.iter().any(|cell| cell.load.is_open());
    let name = if open {
        "requests/s asked for"
    } else {
        "concurrency"
    };
    let (cells, at) = seen.into_iter().unzip();
    Some((cells, at, name.to_owned()))
}

/// With its first letter large: ids and names of ours at the beginning of a sentence.
pub(crate) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// A level of load as words: `concurrency 8`, `20 requests/s`.
fn level_words(name: &str, level: impl std::fmt::Display) -> String {
    if name == "concurrency" {
        format!("{name} {level}")
    } else {
        format!("{level} requests/s")
    }
}

/// From one level to another: `concurrency 1 to 32`, `2 to 20 requests/s`.
fn span_words(name: &str, from: f64, to: f64) -> String {
    if name == "concurrency" {
        format!("{name} {from} to {to}")
    } else {
        format!("{from} to {to} requests/s")
    }
}

/// `×` with sensible figures.
fn times(ratio: f64) -> String {
    format!("{}×", crate::number::short(ratio))
}
