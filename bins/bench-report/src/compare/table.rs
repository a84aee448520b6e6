//! A comparison as text for a terminal.

use bench_insight::{ComparisonRow, RunComparison};
use bench_schema::Unit;

use crate::grid::{self, Grid};

const HEAD: [&str; 8] = [
    "cell",
    "quantity",
    "of",
    "base",
    "new",
    "change",
    "95 % interval",
    "verdict",
];

/// The comparison with its cautions, its rows in columns.
pub(crate) fn text(found: &RunComparison) -> String {
    let mut out = format!(
        "{} against {} ({} and {} runs): {}\n",
        clean(&found.new),
        clean(&found.base),
        found.runs.1,
        found.runs.0,
        found.summary()
    );
    out += &grid(found).text();
    for (side, cells) in [("base", &found.only_base), ("new", &found.only_new)] {
        if !cells.is_empty() {
            out += &format!("only the {side} has {}\n", clean(&cells.join(", ")));
        }
    }
    for caution in &found.cautions {
        out += &format!("note: {}\n", clean(caution));
    }
    out += &format!(
        "intervals are of each row; verdicts are corrected for {} rows, so that one false alarm among all has a chance of {}\n\n",
        found.rows.len(),
        percent(found.alpha)
    );
    out
}

/// The same for a pull request.
pub(crate) fn markdown(found: &RunComparison) -> String {
    let safe = |text: &str| bench_report::markdown_text(&clean(text));
    let mut out = format!(
        "# {} against {}\n\n{} and {} runs: {}\n\n",
        safe(&found.new),
        safe(&found.base),
        found.runs.1,
        found.runs.0,
        found.summary()
    );
    out += &grid(found).markdown();
    for (side, cells) in [("base", &found.only_base), ("new", &found.only_new)] {
        if !cells.is_empty() {
            out += &format!("\n- only the {side} has {}", safe(&cells.join(", ")));
        }
    }
    for caution in &found.cautions {
        out += &format!("\n- {}", safe(caution));
    }
    out += &format!(
        "\n- intervals are of each row; verdicts are corrected for {} rows, so that one false alarm among all has a chance of {}\n",
        found.rows.len(),
        percent(found.alpha)
    );
    out
}

fn grid(found: &RunComparison) -> Grid {
    let mut grid = Grid::new(&HEAD, 3..7);
    for one in &found.rows {
        grid.push(row(one));
    }
    grid
}

fn row(row: &ComparisonRow) -> Vec<String> {
    let change = row.relative.map_or_else(|| "–".to_owned(), signed);
    let interval = row.relative_interval.map_or_else(
        || "–".to_owned(),
        |i| format!("{} to {}", signed(i.low), signed(i.high)),
    );
    vec![
        clean(&row.cell),
        row.quantity.clone(),
        population(row),
        value(row.base, row.unit),
        value(row.new, row.unit),
        change,
        interval,
        row.verdict.as_str().to_owned(),
    ]
}

/// The requests that both sides of a row are taken over: `150 pairs`, `150 and 148 requests`.
fn population(row: &ComparisonRow) -> String {
    match (row.population.as_str(), row.n) {
        ("", _) | (_, (0, 0)) => "–".to_owned(),
        ("pairs", (n, _)) => format!("{n} pairs"),
        (name, (a, b)) if a == b => format!("{a}, {}", clean(name)),
        (name, (a, b)) => format!("{a} and {b}, {}", clean(name)),
    }
}

fn value(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => bench_schema::Nanos::from_f64(x).to_string(),
        Unit::Ratio => percent(x),
        _ if x.abs() >= 1000.0 => format!("{x:.0}"),
        _ => format!("{x:.2}"),
    }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Names come from files.
fn clean(text: &str) -> String {
    grid::clean(text, 200)
}
