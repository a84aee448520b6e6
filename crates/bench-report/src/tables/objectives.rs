//! Objectives and gates, and how they came out.

use bench_schema::{Metric, RunRecord, SloOutcome, SloVerdict};

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
    let noted = run.targets.iter().any(|outcome| outcome.note.is_some());
    let mut columns = vec![
        Column::text("target"),
        Column::text("measured"),
        Column::text("decided by"),
        Column::text("met"),
    ];
    columns.extend(noted.then(|| Column::text("note")));
    let mut table = Table::new("Targets", columns);
    for outcome in &run.targets {
        let mut cells = vec![
            Cell::text(text::shortened(&outcome.target, 60)),
            measured(&outcome.target, outcome.measured),
            outcome
                .cell
                .as_deref()
                .map_or_else(Cell::default, |cell| Cell::text(text::shortened(cell, 60))),
            match outcome.verdict {
                _ if outcome.met => Cell::text("yes").toned(Tone::Good),
                Some(SloVerdict::CannotTell) => Cell::text("cannot tell").toned(Tone::Warn),
                _ => Cell::text("NO").toned(Tone::Bad),
            },
        ];
        let note = outcome.note.as_deref();
        cells.extend(noted.then(|| note.map_or_else(Cell::default, Cell::text)));
        table.push(cells);
    }
    table.not_empty()
}

/// What a target measured, in the unit that its quantity has: `ttft.p95<=200ms` is told in milliseconds.
fn measured(target: &str, value: Option<f64>) -> Cell {
    let Some(value) = value else {
        return Cell::default();
    };
    // `concurrency=1:ttft.p95<=200ms`: scope, quantity, limit.
    let quantity = target.rsplit(':').next().unwrap_or(target);
    let end = quantity
        .find(['<', '>', '=', '!'])
        .unwrap_or(quantity.len());
    let name = quantity.get(..end).unwrap_or(quantity).trim();
    let metric = name.split('.').next().unwrap_or(name).parse::<Metric>();
    let (scale, unit) = match (metric, name) {
        (Ok(metric), _) => scale_of(metric.unit()),
        (_, "requests_per_s" | "goodput" | "goodput_per_s") => (1.0, "req/s"),
        (_, name) if name.ends_with("tokens_per_s") => (1.0, "tok/s"),
        _ => (1.0, ""),
    };
    let words = format!("{} {unit}", number::short(value / scale));
    Cell::text(words.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Value;

    #[test]
    fn a_target_is_told_in_its_own_unit() {
        let told = |target, value| match measured(target, Some(value)).value {
            Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        assert_eq!(told("ttft.p95<=1ms", 68_197_116.3), "68.2 ms");
        assert_eq!(told("concurrency=1:requests_per_s>0.5", 0.84), "0.84 req/s");
        assert_eq!(told("output_tokens_per_s>30", 41.46), "41.5 tok/s");
        assert_eq!(told("failed==0", 0.0), "0");
    }
}
