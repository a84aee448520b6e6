//! The tables of a comparison.

use bench_metrics::{CompareOptions, Verdict};
use bench_schema::{CellRecord, Metric};

use super::change::{Change, Measure};
use super::points::{Point, Study};
use crate::mark::Mark;
use crate::markdown::conclusions::fastest;
use crate::number::{fixed, short};
use crate::table::{Cell, Column, Table, Tone};

/// One row for each point: its best cell.
pub(super) fn points(study: &Study<'_>) -> Table {
    let name = study.axis.clone().unwrap_or_else(|| "run".to_owned());
    let columns = vec![
        Column::text(crate::text::shortened(&name, 40)),
        Column::number("runs", ""),
        Column::text("trust"),
        Column::text("best cell"),
        Column::number("output", "tok/s"),
        Column::number("requests", "req/s"),
        Column::of("TTFT", "p50", "ms"),
        Column::of("TTFT", "p95", "ms"),
        Column::of("E2E", "p50", "ms"),
        Column::of("E2E", "p95", "ms"),
    ];
    let mut table = Table::new("Each point at its best cell", columns);
    for point in &study.points {
        let Some(run) = point.runs.first() else {
            continue;
        };
        let best = fastest(run);
        let worst = point.runs.iter().map(|run| run.trust.verdict).max();
        let rates = best.and_then(CellRecord::headline_rates);
        let quantile = |metric: Metric, q: f64| {
            Cell::quantile(
                best.and_then(|cell| cell.headline(metric)?.quantile_entry(q)),
                1e6,
            )
        };
        table.push(vec![
            Cell::text(&point.name),
            Cell::count(point.runs.len() as u64),
            worst.map_or_else(Cell::default, |verdict| {
                Cell::text(crate::terminal::verdict_word(verdict).to_lowercase())
            }),
            best.map_or_else(Cell::default, |cell| Cell::text(crate::tables::label(cell))),
            Cell::number(rates.and_then(|r| r.output_tokens_per_s)),
            Cell::number(rates.map(|r| r.requests_per_s)),
            quantile(Metric::Ttft, 0.5),
            quantile(Metric::Ttft, 0.95),
            quantile(Metric::E2e, 0.5),
            quantile(Metric::E2e, 0.95),
        ]);
    }
    table.without_empty_columns()
}

/// The best output (or request) rate of a point: the mean over its runs.
pub(super) fn best_rate(point: &Point<'_>) -> Option<f64> {
    let rates: Vec<f64> = point
        .runs
        .iter()
        .filter_map(|run| {
            let rates = fastest(run)?.headline_rates()?;
            Some(rates.output_tokens_per_s.unwrap_or(rates.requests_per_s))
        })
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Scaling of the best rate along a numeric axis: X(N) / X(base) over N / base.
pub(super) fn scaling(study: &Study<'_>) -> Option<Table> {
    let base = study.baseline()?;
    let (level, rate) = (
        base.level.filter(|&x| x > 0.0)?,
        best_rate(base).filter(|&x| x > 0.0)?,
    );
    if !study.numeric() {
        return None;
    }
    let columns = vec![
        Column::number(
            crate::text::shortened(study.axis.as_deref().unwrap_or("level"), 40),
            "",
        ),
        Column::number("best rate", "/s"),
        Column::number("scaling factor", "×"),
        Column::number("scaling efficiency", "%"),
    ];
    let mut table = Table::new("Scaling along the axis", columns);
    for point in &study.points {
        let (Some(n), Some(x)) = (point.level, best_rate(point)) else {
            continue;
        };
        table.push(vec![
            Cell::number(n),
            Cell::number(x),
            Cell::number(x / rate),
            Cell::number(x / rate * level / n * 100.0),
        ]);
    }
    table.not_empty()
}

/// Every figure of a point against the baseline.
pub(super) fn changes(study: &Study<'_>, point: &Point<'_>) -> Table {
    let base = study.baseline().map_or("", |base| base.name.as_str());
    let columns = vec![
        Column::text("cell"),
        Column::text("figure"),
        Column::text("base"),
        Column::text("new"),
        Column::text("change"),
        Column::text("95 % interval"),
        Column::text("p, corrected"),
        Column::text("verdict"),
    ];
    let mut table = Table::new(format!("{} against {base}", point.name), columns);
    let run = point.runs.first();
    for change in &point.changes {
        let label = run.and_then(|run| run.cell(&change.cell)).map_or_else(
            || crate::text::shortened(&change.cell, 60),
            crate::tables::label,
        );
        let (unit, scale) = change.measure.unit();
        let number = |value: f64| Cell::text(format!("{} {unit}", short(value / scale)));
        let few = few_samples(point, change).then_some(Mark::FewSamples);
        table.push(vec![
            Cell::text(label),
            Cell::text(change.measure.title()),
            number(change.comparison.base),
            number(change.comparison.new).marked(few),
            Cell::text(relative(change)),
            Cell::text(interval(change)),
            Cell::text(p_words(change.comparison.adjusted_p)),
            verdict(change),
        ]);
    }
    table
}

fn few_samples(point: &Point<'_>, change: &Change) -> bool {
    let Measure::Quantile(metric, q) = change.measure else {
        return false;
    };
    let cell = point.runs.first().and_then(|run| run.cell(&change.cell));
    cell.and_then(|cell| cell.headline(metric)?.quantile_entry(q))
        .is_some_and(|entry| entry.few_samples)
}

/// `+12.3 %`.
pub(super) fn relative(change: &Change) -> String {
    change
        .comparison
        .relative()
        .map_or_else(|| "–".to_owned(), |r| percent(r.value))
}

fn percent(share: f64) -> String {
    let value = share * 100.0;
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{} %", fixed(value, usize::from(value.abs() < 99.95)))
}

fn interval(change: &Change) -> String {
    let bounds = change.comparison.relative().and_then(|r| r.bounds());
    bounds.map_or_else(
        || "unbounded".to_owned(),
        |(low, high)| format!("{} … {}", percent(low), percent(high)),
    )
}

fn p_words(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        fixed(p, 3)
    }
}

fn verdict(change: &Change) -> Cell {
    match change.comparison.verdict(&CompareOptions::default()) {
        None => Cell::default(),
        Some(verdict) => {
            let cell = Cell::text(verdict.as_str());
            match verdict {
                Verdict::Better => cell.toned(Tone::Good),
                Verdict::Worse => cell.toned(Tone::Bad),
                Verdict::CannotTell => cell.toned(Tone::Warn),
                Verdict::NoDifferenceFound => cell,
            }
        }
    }
}
