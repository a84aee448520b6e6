//! Where the time goes: waiting, prefill and decode in each cell and around each percentile.

use bench_schema::{CellRecord, Metric, PhaseShares, RunRecord};
use charming::component::Axis;

use super::{at_cell, capital, cells_axis, cells_with};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::{ends, percent, short};
use crate::table::{Sheet, Table};
use crate::tables;

/// The roles of the phases' colours, in the order of a request.
const COLORS: [&str; 3] = ["@bad", "@1", "@0"];

/// Shares of waiting, prefill and decode in each cell.
pub(super) fn shares(run: &RunRecord) -> Option<Figure> {
    let (cells, phases) = cells_with(run, |cell| cell.phases.as_ref());
    let (cell, last) = (cells.last()?, phases.last()?);
    let first = tables::first_phase(cells.iter().copied());
    let axis = value_axis("share of mean E2E (%)").max(100.0);
    let mut plot = Plot::new(cells_axis(run, &cells), axis);
    let all: Vec<[f64; 3]> = phases.iter().map(|phases| shares_of(phases)).collect();
    for (name, color, values) in series(first, &all) {
        let parts: Vec<(f64, f64)> = values.iter().map(|x| (x * 100.0, 100.0)).collect();
        plot = plot.stacked_shares(name, color, &parts);
    }
    let (name, value) = tables::largest_phase(last);
    let at = at_cell(cells.len(), cell);
    let title = format!(
        "{} takes {} % of the time{at}",
        capital(name),
        percent(value)
    );
    let note = if first != "prefill" {
        "The server's queue time is unknown: the time before the first token is queueing or prefill. Decode is the time from first to last token."
    } else if last.queue_source == "estimate" {
        "Queue time is an estimate: TTFT minus TTFT at the lowest load."
    } else {
        "Prefill is TTFT minus the known queue time. Decode is the time from first to last token."
    };
    let figure = Figure::new("phases", title, plot).note(note);
    Some(figure.table(tables::phases(run)))
}

fn shares_of(phases: &PhaseShares) -> [f64; 3] {
    [phases.queue, phases.prefill, phases.decode]
}

/// Share of a cell's time up to which waiting is none.
const NONE: f64 = 0.005;

/// Each phase with its colour and its values; waiting only where there is any.
fn series(first: &'static str, all: &[[f64; 3]]) -> Vec<(&'static str, &'static str, Vec<f64>)> {
    let names = ["queue", first, "decode"].into_iter().zip(COLORS);
    let of = |i: usize| {
        all.iter()
            .filter_map(|means| means.get(i).copied())
            .collect()
    };
    let series = names
        .enumerate()
        .map(|(i, (name, color))| (name, color, of(i)));
    let any = all
        .iter()
        .any(|[queue, prefill, decode]| *queue > NONE * (queue + prefill + decode));
    series
        .filter(|(name, ..)| *name != "queue" || any)
        .collect()
}

/// The mean of each phase in milliseconds: shares of the mean response time, times that.
pub(crate) fn means_ms(cell: &CellRecord) -> Option<[f64; 3]> {
    let (phases, mean) = (cell.phases.as_ref()?, cell.headline(Metric::E2e)?.mean);
    Some(shares_of(phases).map(|share| share * mean / 1e6))
}

/// Prefill against decode in milliseconds.
pub(super) fn times(run: &RunRecord) -> Option<Figure> {
    let (cells, means) = cells_with(run, means_ms);
    if means.len() < 2 {
        return None;
    }
    let first = tables::first_phase(cells.iter().copied());
    let names: Vec<String> = cells.iter().map(|cell| tables::label(cell)).collect();
    let figure = |title| {
        times_of(
            ("phase-times", title),
            cells_axis(run, &cells),
            (first, &means, Plot::bars),
        )
    };
    let range = |i: usize| {
        let (low, high) = ends(means.iter().filter_map(|m| m.get(i).copied()))?;
        Some(format!("{} to {} ms", short(low), short(high)))
    };
    let title = format!(
        "{} takes {}, decode {}",
        capital(first),
        range(1)?,
        range(2)?
    );
    let note = "Means over the completed requests of each cell.";
    Some(
        figure(title)
            .note(note)
            .table(times_table(("cell", first), &names, &means)),
    )
}

/// How values become a series of a plot.
pub(crate) type Add = fn(Plot, &str, &str, &[Option<f64>]) -> Plot;

/// Mean times of the phases, one group for each name on the axis.
pub(crate) fn times_of(
    (id, title): (&str, String),
    axis: Axis,
    (first, means, add): (&'static str, &[[f64; 3]], Add),
) -> Figure {
    let mut plot = Plot::new(axis, value_axis("mean time (ms)"));
    for (name, color, values) in series(first, means) {
        let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
        plot = add(plot, name, color, &values);
    }
    Figure::new(id, title, plot)
}

/// The same as numbers.
pub(crate) fn times_table(
    (of, first): (&str, &str),
    names: &[String],
    means: &[[f64; 3]],
) -> Option<Table> {
    Sheet::new()
        .text(of, |(name, _): &(&String, &[f64; 3])| (*name).clone())
        .number(("queue", "ms"), |(_, means)| means[0])
        .number((first, "ms"), |(_, means)| means[1])
        .number(("decode", "ms"), |(_, means)| means[2])
        .rows("Mean time of each phase", names.iter().zip(means))
}

/// Waiting against generating, per percentile of E2E.
pub(super) fn queue(run: &RunRecord) -> Option<Figure> {
    // The cell that waits most is the one worth a look.
    let known = |cell: &&CellRecord| {
        cell.phases
            .as_ref()
            .is_some_and(|p| !p.by_percentile.is_empty())
    };
    let share = |cell: &CellRecord| cell.phases.as_ref().map_or(0.0, |phases| phases.queue);
    let with = run.cells.iter().filter(known);
    let cell = with.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let phases = cell.phases.as_ref()?;
    let all = phases.by_percentile.iter();
    let names = all.clone().map(|p| tables::quantile_words(p.0));
    let parts = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
        let all = all.clone();
        all.map(|p| (pick(p) / 1e6, (p.1 + p.2) / 1e6)).collect()
    };
    let plot = Plot::new(category_axis(names), value_axis("E2E (ms)"))
        .stacked_shares("queue", "@bad", &parts(|p| p.1))
        .stacked_shares("generation", "@good", &parts(|p| p.2));
    let (share, label) = (percent(phases.queue), tables::label(cell));
    let told = match phases.queue_source.as_str() {
        "response" => Some("as reported in the server's responses"),
        "server_metrics" | "held_back" => Some(
            "taken from the server's metrics at the same percentile; where its histogram buckets are coarse, it is TTFT minus the server's mean prefill time, within the bucket",
        ),
        "estimate" => Some("an estimate: TTFT minus TTFT at the lowest load"),
        _ => None,
    };
    let of = format!("{share} % of mean E2E at {label}");
    let title = match told {
        None => format!("Waiting in the client is {of}; the server does not report its queue time"),
        Some(_) if phases.queue < NONE => format!("Queueing is negligible: {of}"),
        Some(_) => format!("Queueing is {of}"),
    };
    let source = told.unwrap_or("time in the client (the server does not report its own)");
    let note = format!("Requests around each percentile of E2E; queue time is {source}.");
    let table = Sheet::new()
        .text("percentile", |p: &&(f64, f64, f64)| {
            tables::quantile_words(p.0)
        })
        .number(("queue", "ms"), |p| p.1 / 1e6)
        .number(("generation", "ms"), |p| p.2 / 1e6)
        .number(("queue", "%"), |p| {
            (p.1 + p.2 > 0.0).then(|| p.1 * 100.0 / (p.1 + p.2))
        })
        .rows(format!("Queue and generation time, {label}"), all.clone());
    Some(Figure::new("queue", title, plot).note(note).table(table))
}
