//! Use cases, length categories, endpoints, turns: the requests of a cell by a label.

use bench_schema::{CellRecord, GroupRecord, Metric, RunRecord, ScalingRow, SloVerdict};

use super::objectives::verdict_counts;
use super::{origin_words, trust_mark};
use crate::mark::Mark;
use crate::table::{Cell, Column, Table, Tone};

/// What the groups of this run are by, each once: `use_case`, `category`, ….
pub(crate) fn group_labels(run: &RunRecord) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for group in run.cells.iter().flat_map(|cell| &cell.groups) {
        if !seen.contains(&group.by) {
            seen.push(group.by.clone());
        }
    }
    seen
}

/// What a grouping is called above a table or chart.
pub(crate) fn words(by: &str) -> String {
    match by {
        "use_case" => "Use cases".to_owned(),
        "category" => "Sequence-length categories".to_owned(),
        "endpoint" => "Endpoints".to_owned(),
        "turn" => "Turns of a conversation".to_owned(),
        other => format!(
            "By {}",
            crate::text::shortened(&other.replace('_', " "), 40)
        ),
    }
}

/// The groups of one kind, numbers in order (turns), else the shorter requests first.
pub(crate) fn groups_in_order<'a>(cell: &'a CellRecord, by: &str) -> Vec<&'a GroupRecord> {
    let mut groups: Vec<&GroupRecord> = cell.groups.iter().filter(|group| group.by == by).collect();
    let mean = |group: &GroupRecord, metric| {
        let known = cell.metrics_of(group).get(&metric);
        known.map_or(0.0, |d| d.mean)
    };
    let size = |group: &GroupRecord| {
        let tokens = mean(group, Metric::InputTokens) + mean(group, Metric::OutputTokens);
        group.name.parse().unwrap_or(tokens)
    };
    // endpoints stay in the order of the URLs that were given
    if by != "endpoint" {
        groups.sort_by(|a, b| size(a).total_cmp(&size(b)));
    }
    groups
}

/// One row for each group of each cell.
pub(crate) fn groups(run: &RunRecord, by: &str) -> Option<Table> {
    // one group in each cell says what the cells' own table has said
    let divides = |cell: &CellRecord| cell.groups.iter().filter(|g| g.by == by).count() > 1;
    if !run.cells.iter().any(divides) {
        return None;
    }
    let with_groups = run
        .cells
        .iter()
        .filter(|cell| cell.groups.iter().any(|g| g.by == by))
        .count();
    let mut columns = Vec::new();
    if with_groups > 1 {
        columns.push(Column::text("cell"));
    }
    columns.extend([
        Column::text(by.replace('_', " ")),
        Column::text("objectives"),
        Column::number("n", ""),
        Column::number("no answer", ""),
        Column::text("in + out"),
        Column::number("length", "out tok"),
        Column::of("TTFT", "p50", "ms"),
        Column::of("E2E", "p50", "ms"),
        Column::of("E2E", "p95", "ms"),
        Column::of("E2E", "p99", "ms"),
        Column::number("speed", "tok/s"),
        Column::number("P95 factor", "×"),
    ]);
    let mut table = Table::new(
        format!("{}, latencies {}", words(by), origin_words(run)),
        columns,
    );
    for cell in &run.cells {
        for group in groups_in_order(cell, by) {
            table.push(row(run, cell, group, with_groups > 1));
        }
    }
    table.without_empty_columns().not_empty()
}

fn row(run: &RunRecord, cell: &CellRecord, group: &GroupRecord, name_cell: bool) -> Vec<Cell> {
    let metrics = cell.metrics_of(group);
    let headline = |metric: Metric| metrics.get(&metric.from_origin(cell.headline));
    let e2e = headline(Metric::E2e);
    let failures = (group.counts.without_answer() > 0).then_some(group.counts.without_answer());
    let quantile = |metric: Metric, q: f64| {
        Cell::quantile(headline(metric).and_then(|d| d.quantile_entry(q)), 1e6)
    };
    let mut row = Vec::new();
    if name_cell {
        row.push(Cell::text(super::label(cell)));
    }
    row.extend([
        Cell::text(crate::text::shortened(&group.name, 40)).marked(trust_mark(run, cell)),
        verdicts(cell, group),
        Cell::count(e2e.map_or(0, |d| d.n)),
        failures.map_or_else(Cell::default, Cell::count),
        category_bounds(group).map_or_else(Cell::default, Cell::text),
        Cell::number(metrics.get(&Metric::OutputTokens).map(|d| d.mean)),
        quantile(Metric::Ttft, 0.5),
        quantile(Metric::E2e, 0.5),
        quantile(Metric::E2e, 0.95),
        quantile(Metric::E2e, 0.99).marked(unbounded(e2e, 0.99)),
        Cell::number(
            metrics
                .get(&Metric::TokensPerSUser)
                .and_then(bench_schema::Distribution::p50),
        ),
        Cell::number(scaling(run, group).map(|s| s.scaling_factor)),
    ]);
    row
}

/// The total tokens that make a length category.
fn category_bounds(group: &GroupRecord) -> Option<&'static str> {
    (group.by == "category").then_some(())?;
    let all = [
        ("tiny", "below 50"),
        ("short", "50–149"),
        ("medium", "150–299"),
        ("long", "300–499"),
        ("very-long", "500 and more"),
    ];
    all.into_iter()
        .find(|(name, _)| *name == group.name)
        .map(|(_, bounds)| bounds)
}

/// The mark for a quantile that failures would make unbounded.
pub(crate) fn unbounded(seen: Option<&bench_schema::Distribution>, q: f64) -> Option<Mark> {
    let view = seen?.with_failures.as_ref()?;
    let entry = view
        .quantiles
        .iter()
        .find(|(at, _)| (at - q).abs() < 1e-9)?;
    entry.1.is_none().then_some(Mark::Failures)
}

/// The scaling row of a group: of the factor that the groups are by, named by the group.
pub(crate) fn scaling<'a>(run: &'a RunRecord, group: &GroupRecord) -> Option<&'a ScalingRow> {
    let mut rows = run.analysis.scaling.iter();
    rows.find(|row| row.factor == group.by && row.cell == group.name)
}

fn verdicts(cell: &CellRecord, group: &GroupRecord) -> Cell {
    let own = bench_insight::objectives_of(cell).into_iter();
    let own = own.filter(|(whom, _)| *whom == group.name);
    let all: Vec<SloVerdict> = own.map(|(_, outcome)| outcome.verdict).collect();
    let tone = if all.contains(&SloVerdict::Fail) {
        Tone::Bad
    } else if all.contains(&SloVerdict::CannotTell) {
        Tone::Warn
    } else {
        Tone::Good
    };
    verdict_counts(&all).map_or_else(Cell::default, |said| Cell::text(said).toned(tone))
}
