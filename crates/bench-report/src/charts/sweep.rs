//! TTFT, gaps between tokens and E2E at p50 and p95 against load.

use bench_schema::{CellRecord, Metric, RunRecord};

use super::{interval_ms, levels, limits, quantile_ms, span_words, times};
use crate::figure::{Figure, Plot, level_axis, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figures(run: &RunRecord) -> Vec<Figure> {
    let Some((cells, at, name)) = levels(run) else {
        return Vec::new();
    };
    let metrics = [Metric::Ttft, tables::gap_metric(run), Metric::E2e];
    metrics
        .into_iter()
        .filter_map(|metric| figure(run, &cells, (&at, &name), metric))
        .collect()
}

fn figure(
    run: &RunRecord,
    cells: &[&CellRecord],
    axis: (&[f64], &str),
    metric: Metric,
) -> Option<Figure> {
    let (at, name) = axis;
    let title_of = metric.title();
    let mut plot = Plot::new(
        level_axis(name, at.iter().copied()),
        value_axis(&format!("{title_of} (ms)")),
    );
    let mut seen = 0;
    for (q, color) in [(0.5, "@0"), (0.95, "@1")] {
        let series = if q < 0.9 { "p50" } else { "p95" };
        let values: Vec<Option<f64>> = cells
            .iter()
            .map(|cell| quantile_ms(cell, metric, q))
            .collect();
        seen += values.iter().flatten().count();
        let spans = (0_u32..).zip(cells).filter_map(|(i, cell)| {
            interval_ms(cell, metric, q).map(|iv| (f64::from(i), iv.0, iv.1))
        });
        plot = plot.levels(series, color, &values).whiskers(
            series,
            color,
            &spans.collect::<Vec<_>>(),
            (0, 1),
        );
    }
    if seen < 2 {
        return None;
    }
    for (limit, words) in limits(run, metric) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let title = title(metric, cells, (at.first()?, at.last()?, name))?;
    let id = format!("sweep-{}", metric.key());
    Some(
        Figure::new(id, title, plot)
            .note(format!(
                "p50 and p95 with 95 % intervals, {}.",
                tables::origin_words(run)
            ))
            .table(tables::sweep(run)),
    )
}

/// How the median goes from the first level to the last; a change within the intervals is none.
fn title(metric: Metric, cells: &[&CellRecord], axis: (&f64, &f64, &str)) -> Option<String> {
    let (from, to, name) = axis;
    let (first, last) = (cells.first()?, cells.last()?);
    let (before, after) = (
        quantile_ms(first, metric, 0.5)?,
        quantile_ms(last, metric, 0.5)?,
    );
    let apart = match (
        interval_ms(first, metric, 0.5),
        interval_ms(last, metric, 0.5),
    ) {
        (Some(a), Some(b)) => a.1 < b.0 || b.1 < a.0,
        _ => (after / before - 1.0).abs() > 0.05,
    };
    let how = match after / before {
        ratio if apart && ratio > 1.0 => format!("grows {}", times(ratio)),
        ratio if apart && ratio < 1.0 => format!("falls to {}", times(ratio)),
        ratio if (ratio - 1.0).abs() <= 0.05 => "stays about the same".to_owned(),
        _ => "does not change beyond its intervals".to_owned(),
    };
    Some(format!(
        "{} p50 {how} from {}: {} → {} ms",
        metric.title(),
        span_words(name, *from, *to),
        short(before),
        short(after)
    ))
}
