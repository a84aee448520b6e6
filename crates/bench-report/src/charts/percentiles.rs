//! Percentile bars of E2E, one group for each cell.

use bench_schema::{Metric, RunRecord};

use super::{cells_axis, interval_ms, limits, quantile_ms, times};
use crate::figure::{Figure, Plot, value_axis};
use crate::tables;

/// Percentiles and the roles of their colours, from calm to alarming.
const SHOWN: [(f64, &str, &str); 4] = [
    (0.5, "p50", "@good"),
    (0.9, "p90", "@5"),
    (0.95, "p95", "@warn"),
    (0.99, "p99", "@bad"),
];

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.headline(Metric::E2e).is_some())
        .collect();
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"));
    for (i, (q, name, color)) in SHOWN.into_iter().enumerate() {
        let values: Vec<Option<f64>> = cells
            .iter()
            .map(|cell| quantile_ms(cell, Metric::E2e, q))
            .collect();
        let spans = (0_u32..).zip(&cells).filter_map(|(x, cell)| {
            interval_ms(cell, Metric::E2e, q).map(|iv| (f64::from(x), iv.0, iv.1))
        });
        let spans: Vec<_> = spans.collect();
        plot = plot
            .bars(name, color, &values)
            .whiskers(name, color, &spans, (i, SHOWN.len()));
    }
    for (limit, words) in limits(run, Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let ratio = |cell: &&bench_schema::CellRecord| {
        Some(quantile_ms(cell, Metric::E2e, 0.95)? / quantile_ms(cell, Metric::E2e, 0.5)?)
    };
    let (worst, widest) = cells
        .iter()
        .filter_map(|cell| Some((cell, ratio(cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let title = match cells.len() {
        1 => format!("The p95 of E2E is {} its median", times(widest)),
        _ => format!(
            "The tail is widest at {}: p95 is {} the median",
            tables::label(worst),
            times(widest)
        ),
    };
    let table = tables::distributions(
        run,
        &[Metric::E2e.from_origin(worst.headline)],
        "E2E percentiles",
    );
    let wide = if cells.len() > 6 { 430 } else { 340 };
    Some(
        Figure::new("percentiles", title, plot.height(wide))
            .note("Whiskers are 95 % intervals.")
            .table(table),
    )
}
