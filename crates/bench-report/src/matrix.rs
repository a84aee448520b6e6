//! What the settings of a server came to: each with its figures, what each parameter does, and what is best.

use bench_insight::{Against, BaselineDrift, ParameterEffect, ServerMatrix, SettingRow};
use bench_schema::{Interval, Metric, TrustVerdict};

use crate::compare::bullets;
use crate::compare::tables::{signed, verdict};
use crate::number::{percent, short};
use crate::table::{Cell, Column, Mark, Sheet, Table, Tone};
use crate::tables::scale_of;
use crate::text;

/// The tables for a terminal, with what was found first.
pub fn terminal(matrix: &ServerMatrix) -> String {
    let found = format!("{}\n\n", text::plain(&matrix.summary()));
    let notes = notes(matrix).into_iter();
    let notes = notes.map(|note| format!("note: {}\n", text::plain(&note)));
    found + &tables(matrix, false) + &notes.collect::<String>() + "\n"
}

/// The same for a document.
pub fn markdown(matrix: &ServerMatrix) -> String {
    let found = text::markdown_sentence(&matrix.summary());
    let (tables, notes) = (tables(matrix, true), bullets(&notes(matrix)));
    format!("# Server settings\n\n{found}\n{tables}\n{notes}")
}

fn tables(matrix: &ServerMatrix, markdown: bool) -> String {
    let all = [settings(matrix), effects(matrix)];
    all.iter().map(|table| table.section(markdown)).collect()
}

/// The latencies beside the figure.
const P95: [Metric; 3] = [Metric::Ttft, Metric::Itl, Metric::E2e];

/// Every setting with its figures, the best first, those without a figure last.
fn settings(matrix: &ServerMatrix) -> Table {
    type Row<'a> = (bool, &'a SettingRow);
    let (scale, unit) = scale_of(matrix.unit);
    let known = |value: Option<f64>| value.map(short);
    let mut sheet = Sheet::new();
    let named = matrix.settings.first();
    for name in named.iter().flat_map(|row| row.values.keys()) {
        sheet = sheet.text(name, move |(_, row): &Row<'_>| {
            row.values.get(name).cloned()
        });
    }
    let figure = if unit.is_empty() { "result" } else { unit };
    sheet = sheet
        .column(Column::text(figure), move |(_, row)| {
            let verdict = row.value.map(|_| row.trust);
            Cell::words(known(row.value.map(|value| value / scale)))
                .marked(verdict.and_then(Mark::of))
        })
        .text("95 %", move |(_, row)| {
            let ends =
                |i: Interval| format!("{} to {}", short(i.low / scale), short(i.high / scale));
            row.interval.map(ends)
        });
    for (i, name) in ["against best", "verdict", "95 %"].into_iter().enumerate() {
        sheet = sheet.column(Column::text(name), move |(is_best, row)| {
            match (is_best, i) {
                (true, 0) => Cell::text("best").toned(Tone::Good),
                (true, _) => Cell::default(),
                (false, i) => against(row.against_best.as_ref(), i),
            }
        });
    }
    for metric in P95 {
        let title = format!("{} p95 ms", metric.title());
        sheet = sheet.text(&title, move |(_, row)| {
            known(row.p95.get(&metric).map(|time| time / 1e6))
        });
    }
    let mut rows: Vec<Row<'_>> = (matrix.settings.iter().enumerate())
        .map(|(place, row)| (Some(place) == matrix.best, row))
        .collect();
    let rank = |row: &SettingRow| {
        let worse = row
            .value
            .and_then(|value| matrix.direction.for_the_worse(value));
        worse.unwrap_or(f64::INFINITY)
    };
    rows.sort_by(|a, b| b.0.cmp(&a.0).then(rank(a.1).total_cmp(&rank(b.1))));
    let front = |(_, row): &Row<'_>| if row.on_front { "yes" } else { "" }.to_owned();
    sheet
        .text("front", front)
        .text("runs", |(_, row)| match row.failures.len() {
            0 => row.runs.to_string(),
            n => format!("{}, {n} failed", row.runs),
        })
        .all_columns(format!("Settings by {}, best first", matrix.figure), rows)
}

/// How a setting or a change stands: by how much, the verdict, its interval.
fn against(held: Option<&Against>, column: usize) -> Cell {
    held.map_or_else(Cell::default, |held| match column {
        0 => Cell::text(signed(held.relative)),
        1 => verdict(held.verdict),
        _ => Cell::words(held.interval.map(|i| span(i.low.max(-1.0), i.high))),
    })
}

fn span(least: f64, most: f64) -> String {
    format!("{} to {}", signed(least), signed(most))
}

/// What each parameter does.
fn effects(matrix: &ServerMatrix) -> Table {
    let mut sheet = Sheet::new()
        .text("parameter", |effect: &&ParameterEffect| {
            effect.parameter.clone()
        })
        .text("from", |effect| effect.from.clone())
        .text("to", |effect| effect.to.clone());
    for (i, name) in ["change", "verdict", "95 %"].into_iter().enumerate() {
        sheet = sheet.column(Column::text(name), move |effect| {
            against(Some(&effect.change), i)
        });
    }
    let range = |effect: &&ParameterEffect| effect.range.map(|(least, most)| span(least, most));
    sheet
        .text("range over other settings", range)
        .column(Column::text("pairs"), |effect| {
            Cell::count(effect.pairs as u64)
        })
        .all_columns(
            format!("Effect of each parameter on {}", matrix.figure),
            &matrix.effects,
        )
}

/// What failed, and how the tables are to be read.
fn notes(matrix: &ServerMatrix) -> Vec<String> {
    let failed = matrix.settings.iter().flat_map(|row| {
        let failures = row.failures.iter();
        failures.map(move |failure| {
            let mut lines = failure.lines().map(str::trim);
            let (first, last) = (lines.next().unwrap_or_default(), lines.next_back());
            let last = last.map_or_else(String::new, |last| format!(" ({last})"));
            format!("{}: {first}{last}", row.name())
        })
    });
    let mut all: Vec<String> = failed.collect();
    let without = matrix.settings.iter().filter_map(|row| {
        let why = row.why.as_ref()?;
        Some(format!("{} has no result: {why}", row.name()))
    });
    all.extend(without);
    all.extend(doubts(matrix));
    all.extend(
        matrix
            .baseline
            .as_ref()
            .and_then(|told| drift(matrix, told)),
    );
    if matrix.settings.iter().any(|row| row.runs == 1) {
        all.push("a setting measured once does not show the variation between server starts; use more --rounds".to_owned());
    }
    if matrix.settings.iter().any(|row| row.on_front) {
        all.push(
            "front: settings for which no other setting has both a better result and a lower P95 of E2E".to_owned(),
        );
    }
    all.push(format!(
        "intervals are per row; verdicts are corrected for the number of comparisons, so the probability of any false alarm is {} %",
        percent(matrix.alpha)
    ));
    all.push("among similar settings, the best result is partly luck and slightly too good; measure the best setting again before relying on it".to_owned());
    all
}

/// What the baseline shows.
fn drift(matrix: &ServerMatrix, told: &BaselineDrift) -> Option<String> {
    let (scale, unit) = scale_of(matrix.unit);
    let figures = told.figures.iter().copied();
    let least = figures.clone().reduce(f64::min)? / scale;
    let most = figures.reduce(f64::max)? / scale;
    let change = told.change.map_or_else(String::new, |change| {
        let interval = told.interval.map_or_else(String::new, |i| {
            format!(", 95 % interval {}", span(i.low, i.high))
        });
        format!(
            "; from the first to the last it changed by {}{interval}",
            signed(change)
        )
    });
    Some(format!(
        "the baseline ({}) was measured {} times in between: {} to {} {unit}{change}",
        told.name(),
        told.figures.len(),
        short(least),
        short(most)
    ))
}

/// Why settings are marked, each kind of reason once: `doubtful, 3 of 4 settings (tp=1): few_samples: …`.
fn doubts(matrix: &ServerMatrix) -> Vec<String> {
    let rows = || {
        let rows = matrix.settings.iter();
        rows.flat_map(|row| row.reasons.iter().map(move |reason| (row, reason)))
    };
    let mut codes: Vec<&str> = rows().map(|(_, reason)| reason.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    let told = codes.into_iter().filter_map(|code| {
        let same = || rows().filter(|(_, reason)| reason.code == code);
        let (row, reason) = same().max_by_key(|(_, reason)| reason.verdict)?;
        let (n, of) = (same().count(), matrix.settings.len());
        let (verdict, message) = (reason.verdict.as_str(), &reason.message);
        let text = format!(
            "{verdict}, {n} of {of} settings ({}): {code}: {message}",
            row.name()
        );
        Some((reason.verdict, text))
    });
    let mut told: Vec<(TrustVerdict, String)> = told.collect();
    told.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
    told.into_iter().map(|(_, text)| text).collect()
}
