//! The charts of a run: each in its own file, each absent where the run has no data for it.

mod factors;
mod lengths;
pub(crate) mod load;
mod machines;
mod over_time;
pub(crate) mod phases;
mod search;
pub(crate) mod shapes;

use bench_schema::{CellRecord, Distribution, Metric, Origin, RunRecord, Slo};

use charming::component::Axis;

use crate::figure::{Bounded, Figure, Plot, category_axis, level_axis, value_axis};
use crate::tables;
use crate::text::shortened;
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
    let figures = |all: Vec<Figure>| all.into_iter().map(Some);
    let mut load = vec![
        search::attainment(run),
        load::throughput(run, true),
        load::throughput(run, false),
        load::speedup(run),
        load::tradeoff(run),
    ];
    load.extend(figures(load::sweep(run)));
    load.extend([factors::map(run), factors::pareto(run)]);
    load.push(load::configurations(run));
    let traced = |figure: fn(&RunRecord, &Trace) -> Option<Figure>| figure(run, trace?);
    let latency = vec![
        shapes::percentiles(run),
        traced(shapes::cdf),
        traced(shapes::distributions),
        traced(shapes::histogram),
        lengths::use_cases(run),
    ];
    let mut length = vec![
        lengths::latency(run),
        lengths::speed(run),
        lengths::categories(run),
    ];
    let time = vec![phases::queue(run), phases::shares(run), phases::times(run)];
    let mut steady = vec![shapes::means(run), shapes::classes(run)];
    if let Some(trace) = trace {
        length.extend(figures(lengths::scatter(run, trace)));
        steady.extend(figures(shapes::over_time(run, trace)));
        steady.push(shapes::median_p95(run, trace));
    }
    let mut over_time = vec![
        traced(over_time::flowing),
        traced(over_time::timeline),
        traced(over_time::heatmap),
        traced(over_time::stalls),
    ];
    over_time.extend(figures(machines::over_time(run, readings)));
    over_time.push(machines::utilisation(run));
    over_time.push(traced(over_time::lag));
    vec![
        section("load", "Throughput and load", load),
        section("latency", "Latency", latency),
        section("length", "Effect of length", length),
        section("time", "Where the time goes", time),
        section("consistency", "Consistency", steady),
        section("timeline", "Over time", over_time),
    ]
}

/// The charts that answer a benchmark's question, the most telling first.
const FIRST: [&str; 8] = [
    "capacity",
    "throughput",
    "length-latency",
    "categories",
    "use-cases",
    "factor-map",
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
            cells
                .iter()
                .filter_map(|cell| tables::load_level(&cell.load)),
        ),
        None => category_axis(labels(cells)),
    }
}

fn cells_with<'a, T>(
    run: &'a RunRecord,
    of: impl Fn(&'a CellRecord) -> Option<T>,
) -> (Vec<&'a CellRecord>, Vec<T>) {
    let cells = run.cells.iter();
    cells.filter_map(|cell| Some((cell, of(cell)?))).unzip()
}

/// A plot over the levels of a load.
fn at_levels(name: &str, at: &[f64], axis: &str) -> Plot {
    Plot::new(level_axis(name, at.iter().copied()), value_axis(axis))
}

/// A quantile of a cell's headline in milliseconds, with its interval.
pub(crate) fn quantile_ms(cell: &CellRecord, metric: Metric, q: f64) -> Option<Bounded> {
    entry_ms(cell.headline(metric), q)
}

fn entry_ms(seen: Option<&Distribution>, q: f64) -> Option<Bounded> {
    let entry = seen?.quantile_entry(q)?;
    let ends = entry.interval.map(|i| (i.low / 1e6, i.high / 1e6));
    Some((entry.value / 1e6, ends))
}

/// The same for a headline, which rests on no value that its table marks as one of few.
fn borne_ms(seen: Option<&Distribution>, q: f64) -> Option<Bounded> {
    let few = seen?.quantile_entry(q)?.few_samples;
    entry_ms(seen, q).filter(|_| !few)
}

/// The distinct objectives on a metric, as limit in milliseconds and words; of one that is for a use case its name is among them.
fn limits(run: &RunRecord, metric: Metric) -> Vec<(f64, String)> {
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (whom, slo) in objectives(run, metric) {
        let limit = tables::limit_words(slo);
        let words = match whom {
            EVERYBODY => limit,
            whom => format!("{}: {limit}", shortened(whom, 10)),
        };
        if !seen.iter().any(|(_, known)| *known == words) {
            seen.push((slo.limit / 1e6, words));
        }
    }
    seen
}

/// Whom an objective is for that is for no use case.
const EVERYBODY: &str = "all requests";

/// The objectives on a metric, and whom each is for.
fn objectives(run: &RunRecord, metric: Metric) -> impl Iterator<Item = (&str, &Slo)> {
    let all = run.cells.iter().flat_map(bench_insight::objectives_of);
    all.map(|(whom, outcome)| (whom, &outcome.slo))
        .filter(move |(_, slo)| slo.metric.from_origin(Origin::Sent) == metric)
}

/// Whether the intervals of two values exclude that they are the same; where one has none, whether they differ by more than 5 %.
fn apart(a: Bounded, b: Bounded) -> bool {
    match (a.1, b.1) {
        (Some(a), Some(b)) => a.1 < b.0 || b.1 < a.0,
        _ => (b.0 / a.0 - 1.0).abs() > 0.05,
    }
}

/// The cells that make a sweep of one load factor: two levels at least, each once.
fn levels(run: &RunRecord) -> Option<(Vec<&CellRecord>, Vec<f64>, String)> {
    let mut seen: Vec<(&CellRecord, f64)> = run
        .cells
        .iter()
        .map(|cell| Some((cell, tables::load_level(&cell.load)?)))
        .collect::<Option<_>>()?;
    seen.sort_by(|a, b| a.1.total_cmp(&b.1));
    let repeated = seen
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if (a.1 - b.1).abs() < f64::EPSILON));
    let mut kinds = run.cells.iter().map(|cell| cell.load.is_open());
    let open = kinds.clone().any(|open| open);
    let mixed = open && !kinds.all(|open| open);
    let ramps = run.cells.iter().any(|cell| cell.load.ramp().is_some());
    // The stages of a search have a figure of their own.
    let searched = run.analysis.capacity.is_some();
    if searched || seen.len() < 2 || repeated || mixed || ramps {
        return None;
    }
    let name = if open {
        "requested rate (requests/s)"
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

/// ` at c8`, where that is one of several cells.
fn at_cell(cells: usize, cell: &CellRecord) -> String {
    if cells > 1 {
        format!(" at {}", tables::label(cell))
    } else {
        String::new()
    }
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
    level_words(name, format!("{from} to {to}"))
}

/// `×` with sensible figures.
fn times(ratio: f64) -> String {
    format!("{}×", crate::number::short(ratio))
}
