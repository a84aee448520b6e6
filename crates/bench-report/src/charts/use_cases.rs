//! Use cases: P50, P95 and P99 with the objectives that are for them.

use bench_schema::{CellRecord, GroupRecord, Metric, RunRecord};

use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cell = cell_with(run, "use_case")?;
    let groups = groups_of(cell, "use_case");
    let mut plot = Plot::new(
        category_axis(groups.iter().map(|g| &g.name)),
        value_axis("E2E (ms)"),
    );
    for (i, (q, name, color)) in [
        (0.5, "p50", "@good"),
        (0.95, "p95", "@warn"),
        (0.99, "p99", "@bad"),
    ]
    .into_iter()
    .enumerate()
    {
        let entry = |group: &&GroupRecord| e2e(cell, group)?.quantile_entry(q).cloned();
        let values: Vec<Option<f64>> = groups
            .iter()
            .map(|g| entry(g).map(|e| e.value / 1e6))
            .collect();
        let spans = (0_u32..).zip(&groups).filter_map(|(x, g)| {
            entry(g)?
                .interval
                .map(|iv| (f64::from(x), iv.low / 1e6, iv.high / 1e6))
        });
        let spans: Vec<_> = spans.collect();
        plot = plot
            .bars(name, color, &values)
            .whiskers(name, color, &spans, (i, 3));
    }
    for (limit, words) in super::limits(run, Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let p95 = |group: &&GroupRecord| e2e(cell, group)?.quantile(0.95);
    let (slowest, worst) = groups
        .iter()
        .filter_map(|g| Some((g, p95(g)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let title = format!(
        "The slowest use case is {}: p95 {} ms",
        crate::text::shortened(&slowest.name, 40),
        short(worst / 1e6)
    );
    Some(
        Figure::new("use-cases", title, plot)
            .note(format!(
                "Of {}; whiskers are 95 % intervals.",
                tables::label(cell)
            ))
            .table(tables::groups(run, "use_case")),
    )
}

/// The last cell that this kind of group divides: the one under most load in a sweep.
pub(super) fn cell_with<'a>(run: &'a RunRecord, by: &str) -> Option<&'a CellRecord> {
    run.cells
        .iter()
        .rev()
        .find(|cell| cell.groups.iter().filter(|group| group.by == by).count() > 1)
}

pub(super) fn groups_of<'a>(cell: &'a CellRecord, by: &str) -> Vec<&'a GroupRecord> {
    tables::groups_in_order(cell, by)
}

pub(super) fn e2e<'a>(
    cell: &CellRecord,
    group: &'a GroupRecord,
) -> Option<&'a bench_schema::Distribution> {
    group.metrics.get(&Metric::E2e.from_origin(cell.headline))
}
