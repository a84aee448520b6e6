//! How far requests of a cell differ: percentiles, standard deviation, classes of the coefficient of variation.

use bench_schema::{CellRecord, Distribution, Metric, RunRecord};
use serde_json::json;

use super::{cells_axis, cells_with, limits, quantile_ms, times};
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::table::{Sheet, Table};
use crate::tables;

/// Percentiles and the roles of their colours, from calm to alarming.
const PERCENTILES: [(f64, &str, &str); 4] = [
    (0.5, "p50", "@good"),
    (0.9, "p90", "@5"),
    (0.95, "p95", "@warn"),
    (0.99, "p99", "@bad"),
];

/// Percentile bars of E2E, one group for each cell.
pub(super) fn percentiles(run: &RunRecord) -> Option<Figure> {
    let (cells, _) = cells_with(run, |cell| cell.headline(Metric::E2e));
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"));
    for (i, (q, name, color)) in PERCENTILES.into_iter().enumerate() {
        let seen = cells.iter().map(|cell| quantile_ms(cell, Metric::E2e, q));
        let seen: Vec<_> = seen.collect();
        plot = plot.bars_within(name, color, &seen, (i, PERCENTILES.len()));
    }
    for (limit, words) in limits(run, Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let at = |cell: &CellRecord, q| Some(quantile_ms(cell, Metric::E2e, q)?.0);
    let ratio = |cell: &CellRecord| Some(at(cell, 0.95)? / at(cell, 0.5)?);
    let ratios = cells.iter().filter_map(|cell| Some((*cell, ratio(cell)?)));
    let (worst, widest) = ratios.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (label, widest) = (tables::label(worst), times(widest));
    let title = match cells.len() {
        1 => format!("The p95 of E2E is {widest} its median"),
        _ => format!("The tail is widest at {label}: p95 is {widest} the median"),
    };
    let metric = Metric::E2e.from_origin(worst.headline);
    let table = tables::distributions(run, &[metric], "E2E percentiles");
    let height = if cells.len() > 6 { 430 } else { 340 };
    let figure = Figure::new("percentiles", title, plot.height(height));
    Some(figure.note("Whiskers are 95 % intervals.").table(table))
}

/// Upper ends of the classes in percent, their words and the roles of their colours.
const CLASSES: [(f64, &str, &str); 4] = [
    (5.0, "consistent", "@good"),
    (10.0, "mostly consistent", "@5"),
    (20.0, "noticeable variation", "@warn"),
    (f64::INFINITY, "unstable", "@bad"),
];

/// Mean E2E ± one standard deviation.
pub(super) fn means(run: &RunRecord) -> Option<Figure> {
    let known = |cell: &CellRecord| {
        let seen = cell.headline(Metric::E2e)?;
        Some((seen.mean / 1e6, seen.sd? / 1e6, seen.cov?))
    };
    let (cells, seen) = cells_with(run, known);
    if cells.len() < 2 {
        return None;
    }
    let within =
        |&(mean, sd, _): &(f64, f64, f64)| Some((mean, Some(((mean - sd).max(0.0), mean + sd))));
    let points: Vec<_> = seen.iter().map(within).collect();
    let plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"));
    let plot = plot.points_within("mean ± sd", "@0", &points);
    let widest = cells
        .iter()
        .zip(&seen)
        .max_by(|a, b| a.1.2.total_cmp(&b.1.2))?;
    let title = format!(
        "One standard deviation is at most {} % of the mean ({})",
        short(widest.1.2 * 100.0),
        tables::label(widest.0)
    );
    let figure = Figure::new("consistency", title, plot);
    let note = "Points are means, whiskers one standard deviation.";
    Some(figure.note(note).table(table(run)))
}

/// CoV of each cell, coloured by class.
pub(super) fn classes(run: &RunRecord) -> Option<Figure> {
    let percent = |cell: &CellRecord| Some(cell.headline(Metric::E2e)?.cov? * 100.0);
    let (cells, covs) = cells_with(run, percent);
    let worst = covs.iter().copied().reduce(f64::max)?;
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("CoV of E2E (%)"));
    // A series for each class, so that the legend says what the colours mean; they share one place.
    for (_, words, color) in CLASSES {
        let of_class = |&cov: &f64| Some(cov).filter(|&cov| class(cov) == words);
        let values: Vec<Option<f64>> = covs.iter().map(of_class).collect();
        if values.iter().any(Option::is_some) {
            plot = plot
                .bars(words, color, &values)
                .with("barGap", json!("-100%"));
        }
    }
    for (end, words, color) in CLASSES.into_iter().take(2) {
        let words = format!("{words} below {end} %");
        plot = plot.level_line(end, &words, color, 0.0);
    }
    let (said, of_worst) = (short(worst), class(worst));
    let title = match covs.iter().filter(|&&cov| cov >= 5.0).count() {
        _ if covs.len() == 1 => format!("E2E is {of_worst}: CoV {said} %"),
        0 => format!("Every cell is consistent: CoV at most {said} %"),
        n => format!(
            "{n} of {} cells vary by more than 5 %, the worst by {said} % ({of_worst})",
            covs.len()
        ),
    };
    let note = "Classes: below 5 % consistent, 5 to 10 % mostly, 10 to 20 % noticeable, above that unstable. A cell of mixed lengths varies by design.";
    let figure = Figure::new("cov", title, plot.linear());
    Some(figure.note(note).table(table(run)))
}

fn class(cov: f64) -> &'static str {
    let found = CLASSES.iter().find(|(end, ..)| cov < *end);
    found.map_or("unstable", |(_, words, _)| words)
}

fn table(run: &RunRecord) -> Option<Table> {
    let (cells, seen) = cells_with(run, |cell| cell.headline(Metric::E2e));
    Sheet::new()
        .text("cell", |(cell, _): &(&CellRecord, &Distribution)| {
            tables::label(cell)
        })
        .number(("mean", "ms"), |(_, seen)| seen.mean / 1e6)
        .number(("sd", "ms"), |(_, seen)| seen.sd.map(|sd| sd / 1e6))
        .number(("CoV", "%"), |(_, seen)| seen.cov.map(|cov| cov * 100.0))
        .text("class", |(_, seen)| {
            seen.cov.map(|cov| class(cov * 100.0).to_owned())
        })
        .rows("Consistency of E2E", cells.into_iter().zip(seen))
}
