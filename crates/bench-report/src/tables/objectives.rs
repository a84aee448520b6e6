//! Objectives and gates, and how they came out.

use bench_schema::{Metric, RunRecord, SloOutcome, SloVerdict};

use super::distributions::scale_of;
use crate::table::{Cell, Column, Table, Tone};
use crate::{number, text};

/// One row for each objective in each cell; the verdict stands first, where no screen is too narrow for it.
pub(crate) fn objectives(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("verdict"),
        Column::text("objective"),
        Column::text("measured"),
        Column::text("cell"),
        Column::text("for"),
        Column::number("met by", "% of planned"),
        Column::text("95 % interval"),
        Column::text("to decide"),
    ];
    let mut table = Table::new("Objectives", columns);
    for cell in &run.cells {
        for (whom, outcome) in bench_insight::objectives_of(cell) {
            table.push(row(&super::label(cell), whom, outcome));
        }
    }
    table.without_empty_columns().not_empty()
}

/// `9 pass, 2 FAIL, 1 cannot tell`; nothing of none.
pub(crate) fn verdict_counts(verdicts: &[SloVerdict]) -> Option<String> {
    let all = [SloVerdict::Pass, SloVerdict::Fail, SloVerdict::CannotTell];
    let said: Vec<String> = all
        .into_iter()
        .map(|verdict| (verdicts.iter().filter(|v| **v == verdict).count(), verdict))
        .filter(|(n, _)| *n > 0)
        .map(|(n, verdict)| match verdicts {
            [_] => verdict_words(verdict).to_owned(),
            _ => format!("{n} {}", verdict_words(verdict)),
        })
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn row(cell: &str, whom: &str, outcome: &SloOutcome) -> Vec<Cell> {
    let interval = outcome.attainment_interval;
    vec![
        Cell::text(verdict_words(outcome.verdict)).toned(match outcome.verdict {
            SloVerdict::Pass => Tone::Good,
            SloVerdict::Fail => Tone::Bad,
            SloVerdict::CannotTell => Tone::Warn,
        }),
        Cell::text(objective_words(outcome)),
        Cell::text(
            outcome
                .measured
                .map_or_else(|| "unbounded or none".to_owned(), |m| amount(outcome, m)),
        ),
        Cell::text(cell),
        Cell::text(text::shortened(whom, 40)),
        Cell::number(outcome.attainment * 100.0),
        Cell::text(format!(
            "{}–{}",
            number::short(interval.low * 100.0),
            number::short(interval.high * 100.0)
        )),
        bench_insight::times_to_decide(outcome).map_or_else(Cell::default, |times| {
            Cell::text(if times > 100.0 {
                "over 100 × the requests".to_owned()
            } else {
                format!("{times} × the requests")
            })
        }),
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
    let columns = ["met", "target", "measured", "decided by", "note"].map(Column::text);
    let mut table = Table::new("Targets", columns.to_vec());
    for outcome in &run.targets {
        let text = |text: Option<&str>| {
            text.map_or_else(Cell::default, |text| Cell::text(text::shortened(text, 200)))
        };
        table.push(vec![
            match outcome.verdict {
                _ if outcome.met => Cell::text("yes").toned(Tone::Good),
                Some(SloVerdict::CannotTell) => Cell::text("cannot tell").toned(Tone::Warn),
                _ => Cell::text("NO").toned(Tone::Bad),
            },
            Cell::text(text::shortened(&outcome.target, 60)),
            Cell::text(measured_words(&outcome.target, outcome.measured)),
            text(outcome.cell.as_deref()),
            text(outcome.note.as_deref()),
        ]);
    }
    table.without_empty_columns().not_empty()
}

/// What a target measured, in the unit that its quantity has: `ttft.p95<=200ms` is told in milliseconds.
pub(crate) fn measured_words(target: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "–".to_owned();
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
    words.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_told_in_its_own_unit() {
        let told = |target, value| measured_words(target, Some(value));
        assert_eq!(told("ttft.p95<=1ms", 68_197_116.3), "68.2 ms");
        assert_eq!(told("concurrency=1:requests_per_s>0.5", 0.84), "0.84 req/s");
        assert_eq!(told("output_tokens_per_s>30", 41.46), "41.5 tok/s");
        assert_eq!(told("failed==0", 0.0), "0");
    }
}
