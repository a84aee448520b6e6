//! How steady latency is: means with their spread, and classes of the coefficient of variation.

use bench_schema::{Metric, RunRecord};
use serde_json::json;

use super::cells_axis;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables;

/// Upper ends of the classes in percent, their words and the roles of their colours.
const CLASSES: [(f64, &str, &str); 4] = [
    (5.0, "consistent", "@good"),
    (10.0, "mostly consistent", "@5"),
    (20.0, "noticeable variation", "@warn"),
    (f64::INFINITY, "unstable", "@bad"),
];

/// Mean E2E ± one standard deviation.
pub(super) fn means(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.headline(Metric::E2e).is_some_and(|d| d.sd.is_some()))
        .collect();
    if cells.len() < 2 {
        return None;
    }
    let seen: Vec<_> = cells
        .iter()
        .filter_map(|cell| cell.headline(Metric::E2e))
        .collect();
    let means: Vec<Option<f64>> = seen.iter().map(|d| Some(d.mean / 1e6)).collect();
    let spans: Vec<_> = (0_u32..)
        .zip(&seen)
        .filter_map(|(i, d)| {
            d.sd.map(|sd| {
                (
                    f64::from(i),
                    (d.mean - sd).max(0.0) / 1e6,
                    (d.mean + sd) / 1e6,
                )
            })
        })
        .collect();
    let plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"))
        .levels("mean ± sd", "@0", &means)
        .with("lineStyle", json!({"width": 0}))
        .whiskers("mean ± sd", "@0", &spans, (0, 1));
    let widest = cells
        .iter()
        .zip(&seen)
        .filter_map(|(cell, d)| Some((cell, d.cov?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let title = format!(
        "One standard deviation is at most {} % of the mean ({})",
        short(widest.1 * 100.0),
        tables::label(widest.0)
    );
    Some(
        Figure::new("consistency", title, plot)
            .note("Points are means, whiskers one standard deviation.")
            .table(table(run)),
    )
}

/// CoV of each cell, coloured by class.
pub(super) fn classes(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.headline(Metric::E2e).is_some_and(|d| d.cov.is_some()))
        .collect();
    let covs: Vec<f64> = cells
        .iter()
        .filter_map(|cell| cell.headline(Metric::E2e)?.cov)
        .map(|cov| cov * 100.0)
        .collect();
    let worst = covs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if covs.is_empty() {
        return None;
    }
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("CoV of E2E (%)"));
    // A series for each class, so that the legend says what the colours mean; they share one place.
    for (_, words, color) in CLASSES {
        let of_class = |&cov: &f64| Some(cov).filter(|&cov| class(cov).0 == words);
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
    plot = plot.linear();
    let title = match covs.iter().filter(|&&cov| cov >= 5.0).count() {
        _ if covs.len() == 1 => format!("E2E is {}: CoV {} %", class(worst).0, short(worst)),
        0 => format!("Every cell is consistent: CoV at most {} %", short(worst)),
        n => format!(
            "{n} of {} cells vary by more than 5 %, the worst by {} % ({})",
            covs.len(),
            short(worst),
            class(worst).0
        ),
    };
    let note = "Classes: below 5 % consistent, 5 to 10 % mostly, 10 to 20 % noticeable, above that unstable. A cell of mixed lengths varies by design.";
    Some(Figure::new("cov", title, plot).note(note).table(table(run)))
}

fn class(cov: f64) -> (&'static str, &'static str) {
    CLASSES
        .iter()
        .find(|(end, ..)| cov < *end)
        .map_or(("unstable", "@bad"), |(_, words, color)| (words, color))
}

fn table(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::number("mean", "ms"),
        Column::number("sd", "ms"),
        Column::number("CoV", "%"),
        Column::text("class"),
    ];
    let mut table = Table::new("Consistency of E2E", columns);
    for cell in &run.cells {
        let Some(seen) = cell.headline(Metric::E2e) else {
            continue;
        };
        table.push(vec![
            Cell::text(tables::label(cell)),
            Cell::number(seen.mean / 1e6),
            Cell::number(seen.sd.map(|sd| sd / 1e6)),
            Cell::number(seen.cov.map(|cov| cov * 100.0)),
            seen.cov
                .map_or_else(Cell::default, |cov| Cell::text(class(cov * 100.0).0)),
        ]);
    }
    table.not_empty()
}
