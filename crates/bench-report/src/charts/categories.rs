//! Sequence-length categories: percentiles and the factor over the smallest.

use bench_schema::RunRecord;

use super::times;
use super::use_cases::{cell_with, e2e, groups_of};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cell = cell_with(run, "category")?;
    let groups = groups_of(cell, "category");
    if groups.len() < 2 {
        return None;
    }
    let mut plot = Plot::new(
        category_axis(groups.iter().map(|g| &g.name)),
        value_axis("E2E (ms)"),
    );
    for (q, name, color) in [
        (0.5, "p50", "@good"),
        (0.95, "p95", "@warn"),
        (0.99, "p99", "@bad"),
    ] {
        let values: Vec<Option<f64>> = groups
            .iter()
            .map(|g| e2e(cell, g)?.quantile(q).map(|ns| ns / 1e6))
            .collect();
        let spans = (0_u32..).zip(&groups).filter_map(|(x, g)| {
            let interval = e2e(cell, g)?.quantile_entry(q)?.interval?;
            Some((f64::from(x), interval.low / 1e6, interval.high / 1e6))
        });
        let spans: Vec<_> = spans.collect();
        plot = plot
            .levels(name, color, &values)
            .whiskers(name, color, &spans, (0, 1));
    }
    for (limit, words) in super::limits(run, bench_schema::Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let p95: Vec<f64> = groups
        .iter()
        .filter_map(|g| e2e(cell, g)?.quantile(0.95))
        .collect();
    let (first, last) = (p95.first()?, p95.last()?);
    let title = format!(
        "The p95 of {} requests is {} that of {} ones",
        crate::text::shortened(&groups.last()?.name, 30),
        times(last / first),
        crate::text::shortened(&groups.first()?.name, 30)
    );
    Some(
        Figure::new("categories", title, plot)
            .note(format!(
                "Of {}; whiskers are 95 % intervals.",
                tables::label(cell)
            ))
            .table(tables::groups(run, "category")),
    )
}
