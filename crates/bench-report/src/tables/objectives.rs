//! Objectives and gates, and how they came out.

use bench_schema::{RunRecord, SloOutcome, SloVerdict};

use super::distributions::scale_of;
use crate::table::{Cell, Column, Table, Tone};
use crate::{number, text};

/// One row for each objective in each cell, those of groups included.
pub(crate) fn objectives(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::text("for"),
        Column::text("objective"),
        Column::text("measured"),
        Column::text("verdict"),
        Column::number("met by", "% of planned"),
        Column::text("95 % interval"),
    ];
    let mut table = Table::new("Objectives", columns);
    for cell in &run.cells {
        let groups = cell
            .groups
            .iter()
            .flat_map(|group| group.slos.iter().map(move |slo| (group.name.as_str(), slo)));
        let all = cell
            .slos
            .iter()
            .map(|slo| (slo.slo.use_case.as_deref().unwrap_or("all requests"), slo));
        for (who, slo) in all.chain(groups) {
            table.push(row(&super::label(cell), who, slo));
        }
    }
    table.not_empty()
}

fn row(cell: &str, who: &str, outcome: &SloOutcome) -> Vec<Cell> {
    let interval = outcome.attainment_interval;
    vec![
        Cell::text(cell),
        Cell::text(text::shortened(who, 40)),
        Cell::text(objective_words(outcome)),
        Cell::text(
            outcome
                .measured
                .map_or_else(|| "unbounded or none".to_owned(), |m| amount(outcome, m)),
        ),
        Cell::text(verdict_words(outcome.verdict)).toned(match outcome.verdict {
            SloVerdict::Pass => Tone::Good,
            SloVerdict::Fail => Tone::Bad,
            SloVerdict::CannotTell => Tone::Warn,
        }),
        Cell::number(outcome.attainment * 100.0),
        Cell::text(format!(
            "{}–{}",
            number::short(interval.low * 100.0),
            number::short(interval.high * 100.0)
        )),
    ]
}

fn amount(outcome: &SloOutcome, value: f64) -> String {
    let (scale, unit) = scale_of(outcome.slo.metric.unit());
    format!("{} {unit}", number::short(value / scale))
}

/// `p95 TTFT ≤ 200 ms`.
pub(crate) fn objective_words(outcome: &SloOutcome) -> String {
    let slo = &outcome.slo;
    format!(
        "{} {} ≤ {}",
        quantile_words(slo.q),
        slo.metric.title(),
        amount(outcome, slo.limit)
    )
}

/// `p95`, `p99.9`.
pub(crate) fn quantile_words(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

/// One or two words.
pub(crate) fn verdict_words(verdict: SloVerdict) -> &'static str {
    match verdict {
        SloVerdict::Pass => "pass",
        SloVerdict::Fail => "FAIL",
        SloVerdict::CannotTell => "cannot tell",
    }
}

/// One row for each `--target`.
pub(crate) fn targets(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("target"),
        Column::number("measured", ""),
        Column::text("decided by"),
        Column::text("met"),
    ];
    let mut table = Table::new("Targets", columns);
    for outcome in &run.targets {
        table.push(vec![
            Cell::text(text::shortened(&outcome.target, 60)),
            Cell::number(outcome.measured),
            outcome
                .cell
                .as_deref()
                .map_or_else(Cell::default, |cell| Cell::text(text::shortened(cell, 60))),
            Cell::text(if outcome.met { "yes" } else { "NO" }).toned(if outcome.met {
                Tone::Good
            } else {
                Tone::Bad
            }),
        ]);
    }
    table.not_empty()
}
