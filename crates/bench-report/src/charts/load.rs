//! Throughput and latency over the levels of a load, and configurations beside each other.

use bench_schema::{Benchmark, CellRecord, Metric, Rates, RunRecord};
use serde_json::json;

use super::{
    apart, at_levels, labels, level_words, levels, limits, quantile_ms, span_words, times,
};
use crate::figure::{Bounded, Figure, Plot, category_axis, value_axis};
use crate::number::short;
use crate::table::{Sheet, Table};
use crate::tables;

/// Output against load with the fitted law and the ideal, of tokens or of requests; those of requests are the chart to begin with
/// where no tokens are known.
pub(super) fn throughput(run: &RunRecord, tokens: bool) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let counted = counts_tokens(run);
    let (id, what, unit, axis) = match (tokens, counted) {
        (true, true) => ("throughput", "Output", "tokens/s", "output (tokens/s)"),
        (true, false) => return None,
        (false, true) => (
            "request-rate",
            "The request rate",
            "requests/s",
            "requests/s",
        ),
        (false, false) => ("throughput", "The request rate", "requests/s", "requests/s"),
    };
    let seen: Vec<_> = cells.iter().map(|cell| rate(cell, tokens)).collect();
    let values: Vec<Option<f64>> = seen.iter().map(|r| r.map(|r| r.0)).collect();
    let series = if tokens { "output tokens/s" } else { unit };
    let mut plot = at_levels(&name, &at, axis).bars_within(series, "@0", &seen, (0, 1));
    let is_open = cells.iter().any(|cell| cell.load.is_open());
    if let Some(ideal) = proportional(&values, &at).filter(|_| !is_open) {
        plot = plot
            .levels("linear scaling from the first level", "@muted", &ideal)
            .with("lineStyle", json!({"type": "dashed", "width": 1.5}))
            .with("showSymbol", false.into());
    }
    if let Some(fitted) = usl(run, &at).filter(|_| tokens) {
        plot = plot
            .levels("fitted scalability law (USL)", "@1", &fitted)
            .with("showSymbol", false.into())
            .with("smooth", 0.3.into());
    }
    let title = along(what, unit, &name, &at, &seen)?;
    let figure = Figure::new(id, title, plot);
    let note = format!(
        "Rates over the steady-state window of each cell that has one, {}.",
        figure.within()
    );
    Some(figure.note(note).table(tables::sweep(run)))
}

/// What rates do along the levels, as far as their intervals tell: a rate without one, as that of a cell with a single answer, is compared
/// with nothing where others have theirs.
fn along(
    what: &str,
    unit: &str,
    name: &str,
    at: &[f64],
    seen: &[Option<Bounded>],
) -> Option<String> {
    let known = at.iter().zip(seen);
    let mut known: Vec<(f64, Bounded)> = known.filter_map(|(at, r)| Some((*at, (*r)?))).collect();
    if known.iter().any(|(_, (_, ends))| ends.is_some()) {
        known.retain(|(_, (_, ends))| ends.is_some());
    }
    let ends = |(value, ends): Bounded| ends.unwrap_or((value, value));
    let below = |a: Bounded, b: Bounded| a.0 < b.0 && ends(a).1 < ends(b).0;
    let [(from, first), .., (to, last)] = *known.as_slice() else {
        let (level, (value, _)) = *known.first()?;
        let level = level_words(name, level);
        return Some(format!("{what} at {level}: {} {unit}", short(value)));
    };
    let best = known.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (x, y) = (short(first.0), short(last.0));
    let span = span_words(name, from, to);
    Some(if below(first, best.1) && below(last, best.1) {
        let (level, peak) = (level_words(name, best.0), short(best.1.0));
        format!("{what} is highest at {level}: {x} → {peak} → {y} {unit} from {span}")
    } else if is_alike(last.0 / first.0) {
        format!("{what} stays about the same from {span}: {x} and {y} {unit}")
    } else if below(first, last) {
        let gain = times(last.0 / first.0);
        format!("{what} rises {gain} from {span}: {x} → {y} {unit}")
    } else if below(last, first) {
        format!("{what} falls from {x} to {y} {unit} from {span}")
    } else {
        format!("{what} does not differ measurably from {span}: {x} and {y} {unit}")
    })
}

/// The headline rate of a cell with its interval.
pub(crate) fn rate(cell: &CellRecord, tokens: bool) -> Option<Bounded> {
    let rates = cell.headline_rates()?;
    let (value, interval) = if tokens {
        (
            rates.output_tokens_per_s?,
            rates.output_tokens_per_s_interval,
        )
    } else {
        (rates.requests_per_s?, rates.requests_per_s_interval)
    };
    Some((value, interval.map(|i| (i.low, i.high))))
}

/// In tokens where they are known, else in requests.
pub(super) fn output(cell: &CellRecord) -> Option<Bounded> {
    rate(cell, true).or_else(|| rate(cell, false))
}

pub(super) fn counts_tokens(run: &RunRecord) -> bool {
    run.cells.iter().any(|cell| rate(cell, true).is_some())
}

/// What the first level promises, as far as the chart reaches.
fn proportional(values: &[Option<f64>], at: &[f64]) -> Option<Vec<Option<f64>>> {
    let first = values.first().copied().flatten()?;
    let base = at.first().copied().filter(|&level| level > 0.0)?;
    let best = values.iter().flatten().copied().fold(0.0, f64::max);
    let ideal = |level: &f64| Some(first * level / base).filter(|&x| x <= best * 1.6);
    Some(at.iter().map(ideal).collect())
}

/// The universal scalability law at each level, from the stored parameters.
fn usl(run: &RunRecord, at: &[f64]) -> Option<Vec<Option<f64>>> {
    let parameters = &run.analysis.fits.get("usl")?.parameters;
    let named = |name: &str| parameters.get(name).copied();
    let (lambda, sigma, kappa) = (named("lambda")?, named("sigma")?, named("kappa")?);
    let law = |n: &f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    Some(at.iter().map(|n| Some(law(n))).collect())
}

/// Speedup and scaling efficiency against the first level.
pub(super) fn speedup(run: &RunRecord) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| tables::scaling_row(run, cell))
        .collect();
    let speedup: Vec<Option<f64>> = rows
        .iter()
        .map(|row| Some((*row)?.scaling_factor))
        .collect();
    let efficiency = rows.iter().map(|row| Some((*row)?.efficiency? * 100.0));
    let efficiency: Vec<Option<f64>> = efficiency.collect();
    if speedup.iter().flatten().count() < 2 || efficiency.iter().flatten().count() < 2 {
        return None;
    }
    let plot = at_levels(&name, &at, "speedup (×)")
        .second_y(value_axis("efficiency (%)").min(0.0))
        .bars("speedup", "@2", &speedup)
        .levels("efficiency", "@1", &efficiency)
        .with("yAxisIndex", 1.into());
    let title = format!(
        "At {}, the speedup is {}: {} % of linear scaling",
        level_words(&name, at.last()?),
        times(*speedup.iter().flatten().last()?),
        short(*efficiency.iter().flatten().last()?)
    );
    let note = "Speedup: rate divided by the rate at the first level. Efficiency: speedup divided by the ratio of the levels.";
    let figure = Figure::new("speedup", title, plot).note(note);
    Some(figure.table(tables::scaling(run)))
}

/// TTFT, gaps between tokens and E2E against load.
pub(super) fn sweep(run: &RunRecord) -> Vec<Figure> {
    let metrics = [Metric::Ttft, tables::gap_metric(run), Metric::E2e];
    metrics
        .into_iter()
        .filter_map(|metric| sweep_of(run, metric))
        .collect()
}

fn sweep_of(run: &RunRecord, metric: Metric) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let mut plot = at_levels(&name, &at, &format!("{} (ms)", metric.title()));
    let mut seen = 0;
    for (series, q, color) in [("p50", 0.5, "@0"), ("p95", 0.95, "@1"), ("p99", 0.99, "@4")] {
        let values: Vec<_> = cells
            .iter()
            .map(|cell| quantile_ms(cell, metric, q))
            .collect();
        seen += values.iter().flatten().count();
        plot = plot.levels_within(series, color, &values);
    }
    if seen < 2 {
        return None;
    }
    plot = plot.limits(limits(run, metric));
    let (first, last) = (cells.first()?, cells.last()?);
    let before = quantile_ms(first, metric, 0.5)?;
    let after = quantile_ms(last, metric, 0.5)?;
    let title = format!(
        "{} p50 {} from {}: {} → {} ms",
        metric.title(),
        change(before, after),
        span_words(&name, *at.first()?, *at.last()?),
        short(before.0),
        short(after.0)
    );
    let figure = Figure::new(format!("sweep-{}", metric.key()), title, plot);
    let note = format!(
        "p50, p95 and p99, {}, {}.",
        tables::origin_words(run),
        figure.within()
    );
    Some(figure.note(note).table(tables::sweep(run)))
}

/// A ratio that would be shown as 1.00×.
pub(crate) fn is_alike(ratio: f64) -> bool {
    (ratio - 1.0).abs() < 0.01
}

/// How a median goes from the first level to the last; a change within the intervals is none.
fn change(before: Bounded, after: Bounded) -> String {
    let ratio = after.0 / before.0;
    let apart = apart(before, after);
    match ratio {
        ratio if is_alike(ratio) => "stays about the same".to_owned(),
        ratio if apart && ratio > 1.0 => format!("grows {}", times(ratio)),
        ratio if apart && ratio < 1.0 => format!("falls to {}", times(ratio)),
        ratio if (ratio - 1.0).abs() <= 0.05 => "stays about the same".to_owned(),
        _ => "does not change measurably".to_owned(),
    }
}

/// Latency against throughput: each point a level of load.
pub(super) fn tradeoff(run: &RunRecord) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let tokens = counts_tokens(run);
    let unit = if tokens {
        "output (tokens/s)"
    } else {
        "requests/s"
    };
    let mut plot = Plot::new(value_axis(unit), value_axis("E2E (ms)")).point_at_items();
    for (series, q, color) in [("E2E p95", 0.95, "@1"), ("E2E p50", 0.5, "@0")] {
        let seen = cells.iter().zip(&at).filter_map(|(cell, level)| {
            Some((
                output(cell)?.0,
                quantile_ms(cell, Metric::E2e, q)?.0,
                *level,
            ))
        });
        let seen: Vec<(f64, f64, f64)> = seen.collect();
        let points: Vec<(f64, f64)> = seen.iter().map(|p| (p.0, p.1)).collect();
        plot = plot.line(series, color, &points);
        if q > 0.9 {
            plot = plot.label_points(seen.iter().map(|p| ((p.0, p.1), p.2)));
        }
    }
    plot = plot.limits(limits(run, Metric::E2e));
    let (first, last) = (cells.first()?, cells.last()?);
    let p95 = |cell| quantile_ms(cell, Metric::E2e, 0.95);
    let what = if tokens { "output" } else { "request rate" };
    let span = span_words(&name, *at.first()?, *at.last()?);
    let title = traded(
        what,
        (output(first)?, output(last)?),
        (p95(first)?, p95(last)?),
    ) + &format!(", {span}");
    let note = format!("Each point is one load level, labelled with its {name}.");
    let figure = Figure::new("tradeoff", title, plot).note(note);
    Some(figure.table(tables::sweep(run)))
}

/// What more load gave and what that cost, as far as the intervals tell.
fn traded(what: &str, rates: (Bounded, Bounded), p95: (Bounded, Bounded)) -> String {
    let of = |(before, after): (Bounded, Bounded)| after.0 / before.0;
    let (gain, cost) = (of(rates), of(p95));
    let (gained, costs) = (times(gain), times(cost));
    let at = if apart(p95.0, p95.1) {
        format!("at {costs} the p95 latency")
    } else {
        // of the same requests it may differ all the same: the intervals are as wide as lengths make them
        let [before, after] = [p95.0.0, p95.1.0].map(short);
        format!("at a p95 latency of {before} and {after} ms, whose intervals overlap")
    };
    if !apart(rates.0, rates.1) {
        format!("More load changes the {what} by no more than its intervals, {at}")
    } else if gain > 1.0 && cost > 1.0 && apart(p95.0, p95.1) {
        format!("{gained} the {what} costs {costs} the p95 latency")
    } else {
        format!("{gained} the {what} {at}")
    }
}

/// Configurations beside each other, where cells are more than levels of one load.
pub(super) fn configurations(run: &RunRecord) -> Option<Figure> {
    if run.cells.len() < 2 || run.experiment == Benchmark::Latency || levels(run).is_some() {
        return None;
    }
    let (cells, rates) = super::cells_with(run, CellRecord::headline_rates);
    let outputs: Vec<Option<Bounded>> = cells.iter().map(|cell| rate(cell, true)).collect();
    let tokens: Vec<Option<f64>> = outputs.iter().map(|r| r.map(|r| r.0)).collect();
    let requests: Vec<Option<f64>> = rates.iter().map(|r| r.requests_per_s).collect();
    let axis = value_axis("output (tokens/s)");
    let plot = Plot::new(category_axis(labels(&cells)), axis)
        .second_y(value_axis("requests/s"))
        .bars("output tokens/s", "@0", &tokens)
        .bars("requests/s", "@1", &requests)
        .with("yAxisIndex", 1.into());
    let known = || outputs.iter().flatten().copied();
    let by_value = |a: &Bounded, b: &Bounded| a.0.total_cmp(&b.0);
    let title = match known().min_by(by_value).zip(known().max_by(by_value)) {
        Some((low, high)) if low.0 > 0.0 => {
            let (by, from, to) = (times(high.0 / low.0), short(low.0), short(high.0));
            if apart(low, high) {
                format!("Output differs {by} between cells: {from} to {to} tokens/s")
            } else {
                format!(
                    "Output is {from} to {to} tokens/s in all cells, which their intervals do not tell apart"
                )
            }
        }
        _ => "Throughput of each cell".to_owned(),
    };
    Some(Figure::new("configurations", title, plot).table(rates_table(run)))
}

pub(super) fn rates_table(run: &RunRecord) -> Option<Table> {
    let (cells, rates) = super::cells_with(run, CellRecord::headline_rates);
    Sheet::new()
        .text("cell", |(cell, _): &(&CellRecord, &Rates)| {
            tables::label(cell)
        })
        .number(("requests", "req/s"), |(_, rates)| rates.requests_per_s)
        .number(("output", "tok/s"), |(_, rates)| rates.output_tokens_per_s)
        .number(("input + output", "tok/s"), |(_, rates)| {
            rates.total_tokens_per_s
        })
        .number(("in flight", "mean"), |(_, rates)| rates.mean_in_flight)
        .rows("Rates of each cell", cells.into_iter().zip(rates))
}

#[cfg(test)]
#[path = "../../tests/unit/charts_load.rs"]
mod tests;
