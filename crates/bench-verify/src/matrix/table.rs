//! The matrix as a table for docs/verification.md.

use std::fmt::Write as _;

use super::{Check, Judged};

/// The columns that hold times: the names of their checks.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("TTFT p50, p99", &["TTFT p50", "TTFT p99"]),
    ("ITL p50, p99", &["ITL p50", "ITL p99"]),
    ("E2E p50, p99", &["E2E p50", "E2E p99"]),
    (
        "lateness p50, p99, last / first",
        &["lateness p50", "lateness p99"],
    ),
    ("offered/s", &["offered/s"]),
    ("requests/s", &["requests/s"]),
    ("vLLM TTFT p99", &["vLLM TTFT p99"]),
    ("connections", &[]),
];

/// A table of all rows, and what falls short below it.
pub fn markdown(rows: &[Judged]) -> String {
    let mut out = String::from("| row |");
    // Writing to a string cannot fail.
    for (title, _) in COLUMNS {
        write!(out, " {title} |").ok();
    }
    out.push_str(" counts | within |\n|---|");
    out.push_str(&"---|".repeat(COLUMNS.len() + 2));
    out.push('\n');
    for row in rows {
        write!(out, "| {} |", row.name).ok();
        for (_, names) in COLUMNS {
            write!(out, " {} |", cell(row, names)).ok();
        }
        let exact = row.checks.iter().filter(|check| !check.timing);
        let broken = exact.filter(|check| !check.holds()).count();
        let counts = if broken == 0 { "right" } else { "**wrong**" };
        let passed = row.failed().next().is_none();
        let verdict = if passed { "yes" } else { "**no**" };
        writeln!(out, " {counts} | {verdict} |").ok();
    }
    for row in rows {
        for check in row.failed() {
            writeln!(
                out,
                "\n- **{}**: {} {} where {} is so (limit {})",
                row.name,
                check.name,
                number(check.said),
                number(check.so),
                number(check.limit)
            )
            .ok();
        }
    }
    out
}

fn cell(row: &Judged, names: &[&str]) -> String {
    if names.is_empty() {
        let (streams, used, unused) = row.connections;
        return match unused {
            0 => format!("{used} for {streams}"),
            _ => format!("{used} for {streams}, **{unused} unused**"),
        };
    }
    let shown: Vec<String> = names
        .iter()
        .filter_map(|name| row.checks.iter().find(|check| check.name == *name))
        .map(figure)
        .collect();
    shown.join(", ")
}

/// What was said / what was so; bold where it is beyond its limit.
fn figure(check: &Check) -> String {
    let text = format!("{} / {}", number(check.said), number(check.so));
    if check.holds() {
        text
    } else {
        format!("**{text}**")
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.1}")
    } else if value.abs() >= 1.0 || value.abs() < 1e-9 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}
