//! The tables of a comparison: what changed, tails and causes, and in what else the runs differ.

use std::collections::BTreeMap;

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_schema::{CellRecord, Interval, Metric, RunRecord};
use serde_json::Value;

use super::Study;
use crate::number::{fixed, short};
use crate::table::{Cell, Column, Sheet, Table, Tone};
use crate::tables::{costliest, label, scale_of};
use crate::text::shortened;

/// Every figure against the baseline; the verdict stands first, where no screen is too narrow for it.
pub(super) fn changes(held: &RunComparison) -> Table {
    let span = |i: Interval, shown: &dyn Fn(f64) -> String| {
        format!("{} to {}", shown(i.low), shown(i.high))
    };
    let values = move |row: &&ComparisonRow| {
        let (scale, unit) = scale_of(row.unit);
        let number = |value: f64| short(value / scale);
        let known = |value: f64, range: Option<Interval>| {
            range.map_or_else(|| number(value), |range| span(range, &number))
        };
        let (base, new) = (
            known(row.base, row.base_range),
            known(row.new, row.new_range),
        );
        format!("{base} → {new} {unit}")
    };
    Sheet::new()
        .column(Column::text("verdict"), |row: &&ComparisonRow| {
            verdict(row.verdict)
        })
        .text("cell", |row| shortened(&row.cell, 60))
        .text("quantity", |row| row.quantity.clone())
        .text("change", |row| row.relative.map(signed))
        .text("95 % interval", move |row| {
            row.relative_interval.map(|i| span(i, &signed))
        })
        .text("base → new", values)
        .text("requests", |row| population(row))
        .all_columns(format!("{} against {}", held.new, held.base), &held.rows)
}

/// Rows of a pull request's table.
const ROWS: usize = 40;

/// The figures that are better or worse, of many the first, and how many rows that leaves out.
pub(super) fn known_changes(held: &RunComparison) -> (Table, usize) {
    let mut table = changes(held);
    let all = table.rows.len();
    let known = |verdict| {
        matches!(
            verdict,
            ComparisonVerdict::Better | ComparisonVerdict::Worse
        )
    };
    if all > ROWS {
        let mut rows = held.rows.iter();
        table
            .rows
            .retain(|_| rows.next().is_some_and(|row| known(row.verdict)));
        table.rows.truncate(ROWS);
    }
    let left_out = all - table.rows.len();
    (table, left_out)
}

/// The tail of each point's cell, and what limits it: what to tune for each model.
pub(super) fn tails(study: &Study<'_>) -> Option<Table> {
    type Tail<'a> = (&'a str, &'a CellRecord, [Cell; 3]);
    let e2e = |cell: &CellRecord, q: f64| cell.headline(Metric::E2e)?.quantile(q);
    let over = move |cell: &CellRecord, a, b| Some(e2e(cell, a)? / e2e(cell, b)?);
    let mut sheet = Sheet::new()
        .text("run", |(name, ..): &Tail<'_>| (*name).to_owned())
        .text("cell", |(_, cell, _)| label(cell))
        .number(("E2E p50", "ms"), move |(_, cell, _)| {
            Some(e2e(cell, 0.5)? / 1e6)
        })
        .number(("P95 / P50", "×"), move |(_, cell, _)| {
            over(cell, 0.95, 0.5)
        })
        .number(("P99 / P95", "×"), move |(_, cell, _)| {
            over(cell, 0.99, 0.95)
        })
        .number(("CoV", "%"), |(_, cell, _)| {
            Some(cell.headline(Metric::E2e)?.cov? * 100.0)
        });
    for (i, name) in ["cause", "severity", "try first"].into_iter().enumerate() {
        sheet = sheet.column(Column::text(name), move |(.., cost)| {
            cost.get(i).cloned().unwrap_or_default()
        });
    }
    let rows = study.points.iter().filter_map(|point| {
        let run = *point.runs.first()?;
        let cell = study.cell_of(run)?;
        Some((point.name.as_str(), cell, costliest(run, &cell.id)))
    });
    sheet.rows("Tail latency and bottlenecks", rows)
}

/// The requests that both sides of a row are taken over: `150 pairs`, `150 and 148 requests`.
fn population(row: &ComparisonRow) -> String {
    match (row.population.as_str(), row.n) {
        ("", _) | (_, (0, 0)) => "–".to_owned(),
        ("pairs", (n, _)) => format!("{n} pairs"),
        (name, (a, b)) if a == b => format!("{a}, {}", shortened(name, 40)),
        (name, (a, b)) => format!("{a} and {b}, {}", shortened(name, 40)),
    }
}

/// `+12.3 %`; `37.5×` from ten times on.
pub(crate) fn signed(share: f64) -> String {
    let value = share * 100.0;
    if share >= 9.0 {
        return format!("{}×", short(share + 1.0));
    }
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{} %", fixed(value, usize::from(value.abs() < 99.95)))
}

pub(crate) fn verdict(verdict: ComparisonVerdict) -> Cell {
    let cell = Cell::text(verdict.as_str());
    match verdict {
        ComparisonVerdict::Better => cell.toned(Tone::Good),
        ComparisonVerdict::Worse => cell.toned(Tone::Bad),
        ComparisonVerdict::CannotTell | ComparisonVerdict::OtherLengths => cell.toned(Tone::Warn),
        ComparisonVerdict::NoDifferenceFound | ComparisonVerdict::WithinMargin => cell,
    }
}

/// Settings that every run has its own of, and that change nothing: where it was written, and tags, which have rows of their own.
const OWN: [&str; 2] = ["out", "tag"];
/// Rows shown.
const FACTS: usize = 60;

/// The facts in which the first runs of the points differ, one column for each point: what else could be the cause.
pub(super) fn differences(study: &Study<'_>) -> Option<Table> {
    let facts: Vec<BTreeMap<String, String>> = study.firsts().into_iter().map(facts).collect();
    let mut names: Vec<&String> = facts.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    let differ = |name: &&String| {
        let mut values = facts.iter().map(|facts| facts.get(*name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let mut sheet = Sheet::new().text("what", |name: &&String| shortened(name, 60));
    for (point, facts) in study.points.iter().zip(&facts) {
        let title = shortened(&point.name, 40);
        sheet = sheet.text(&title, |name| Some(shortened(facts.get(*name)?, 80)));
    }
    sheet.rows(
        "Differences between the runs",
        names.into_iter().filter(differ).take(FACTS),
    )
}

fn facts(run: &RunRecord) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("model", run.server.model.clone());
    add("server", run.server.kind.clone());
    add("server version", run.server.version.clone());
    for (name, fact) in &run.server.facts {
        add(&format!("server {name}"), Some(fact.clone()));
    }
    add("tool version", Some(run.tool.version.clone()));
    add("client host", run.host.name.clone());
    add("client CPU", run.host.cpu_model.clone());
    add("benchmark", Some(run.experiment.as_str().to_owned()));
    add("seed", Some(run.seed.to_string()));
    for (key, value) in &run.tags {
        add(&format!("tag {key}"), Some(value.clone()));
    }
    let own = |key: &str| key == "sampler_cpu_share";
    for (key, value) in run.host.facts.iter().filter(|(key, _)| !own(key)) {
        add(&key.replace('_', " "), Some(value.clone()));
    }
    flatten("config", &run.config, &mut facts);
    facts
}

fn flatten(name: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
                flatten(&format!("{name}.{key}"), value, facts);
            }
        }
        Value::Null => {}
        other => {
            let text = other
                .as_str()
                .map_or_else(|| other.to_string(), str::to_owned);
            facts.insert(name.to_owned(), text);
        }
    }
}
