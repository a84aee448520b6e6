//! Use cases and sequence-length categories: P50, P95 and P99 of E2E with the objectives.

use bench_schema::{CellRecord, Distribution, GroupRecord, Metric, RunRecord};

use super::{limits, times};
use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::short;
use crate::tables;
use crate::text::shortened;

/// Bars, one group of them for each use case.
pub(super) fn use_cases(run: &RunRecord) -> Option<Figure> {
    let groups = Groups::of(run, "use_case")?;
    let (slowest, worst) = groups.p95().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let title = format!(
        "The slowest use case is {}: p95 {} ms",
        shortened(&slowest.name, 40),
        short(worst / 1e6)
    );
    Some(groups.figure(
        "use-cases",
        title,
        |plot, (i, name, color), values, spans| {
            plot.bars(name, color, values)
                .whiskers(name, color, spans, (i, QUANTILES.len()))
        },
    ))
}

/// Lines over the categories, the smallest first.
pub(super) fn categories(run: &RunRecord) -> Option<Figure> {
    let groups = Groups::of(run, "category")?;
    let ((first, of_first), (last, of_last)) = (groups.p95().next()?, groups.p95().last()?);
    let title = format!(
        "The p95 of {} requests is {} that of {} ones",
        shortened(&last.name, 30),
        times(of_last / of_first),
        shortened(&first.name, 30)
    );
    Some(groups.figure(
        "categories",
        title,
        |plot, (_, name, color), values, spans| {
            plot.levels(name, color, values)
                .whiskers(name, color, spans, (0, 1))
        },
    ))
}

const QUANTILES: [(f64, &str, &str); 3] = [
    (0.5, "p50", "@good"),
    (0.95, "p95", "@warn"),
    (0.99, "p99", "@bad"),
];

/// The groups of one kind in the last cell that they divide: the one under most load in a sweep.
struct Groups<'a> {
    run: &'a RunRecord,
    by: &'static str,
    cell: &'a CellRecord,
    all: Vec<&'a GroupRecord>,
}

impl<'a> Groups<'a> {
    fn of(run: &'a RunRecord, by: &'static str) -> Option<Self> {
        let mut cells = run.cells.iter().rev();
        let cell = cells.find(|cell| cell.groups.iter().filter(|g| g.by == by).count() > 1)?;
        let all = tables::groups_in_order(cell, by);
        Some(Self { run, by, cell, all })
    }

    fn e2e(&self, group: &'a GroupRecord) -> Option<&'a Distribution> {
        let metrics = self.cell.metrics_of(group);
        metrics.get(&Metric::E2e.from_origin(self.cell.headline))
    }

    fn p95(&self) -> impl Iterator<Item = (&'a GroupRecord, f64)> {
        let groups = self.all.iter();
        groups.filter_map(|group| Some((*group, self.e2e(group)?.quantile(0.95)?)))
    }

    fn figure(
        &self,
        id: &str,
        title: String,
        add: impl Fn(Plot, (usize, &str, &str), &[Option<f64>], &[(f64, f64, f64)]) -> Plot,
    ) -> Figure {
        let names = self.all.iter().map(|group| &group.name);
        let mut plot = Plot::new(category_axis(names), value_axis("E2E (ms)"));
        for (i, (q, name, color)) in QUANTILES.into_iter().enumerate() {
            let entry = |group: &&'a GroupRecord| self.e2e(group)?.quantile_entry(q);
            let groups = self.all.iter();
            let values: Vec<_> = groups.map(|g| entry(g).map(|e| e.value / 1e6)).collect();
            let spans = (0_u32..).zip(&self.all).filter_map(|(x, g)| {
                let interval = entry(g)?.interval?;
                Some((f64::from(x), interval.low / 1e6, interval.high / 1e6))
            });
            plot = add(plot, (i, name, color), &values, &spans.collect::<Vec<_>>());
        }
        for (limit, words) in limits(self.run, Metric::E2e) {
            plot = plot.limit(limit, &words, 0.0);
        }
        let label = tables::label(self.cell);
        Figure::new(id, title, plot)
            .note(format!("Of {label}; whiskers are 95 % intervals."))
            .table(tables::groups(self.run, self.by))
    }
}
