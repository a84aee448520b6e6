//! Baselines as text: the list, and one as a reference document.

use bench_insight::{NextTarget, next_round, targets};
use bench_schema::{CellRecord, Metric, Nanos, TrustVerdict};
use serde::Serialize;

use super::goals::{next, section};
use super::store::Manifest;
use crate::error::CommandError;
use crate::grid::{Grid, LONGEST, clean};
use crate::run_folder::RunFolder;

/// Findings below this severity are praise or remarks, no limits.
const LIMIT: f64 = 0.03;
/// Limits that are listed.
const MOST: usize = 5;

/// Every baseline, a row each.
pub(super) fn list(known: &[Manifest]) -> Grid {
    let mut grid = Grid::of_words(&[
        "name",
        "saved",
        "runs",
        "benchmark",
        "model",
        "trust",
        "note",
    ]);
    for one in known {
        let first = one.runs.first();
        let verdict = one.runs.iter().map(|run| run.trust).max();
        grid.push(vec![
            one.name.clone(),
            one.saved_at.clone(),
            one.runs.len().to_string(),
            first.map_or_else(String::new, |run| run.benchmark.clone()),
            first.and_then(|run| run.model.clone()).unwrap_or_default(),
            verdict.map_or("", TrustVerdict::as_str).to_owned(),
            one.note.clone().unwrap_or_default(),
        ]);
    }
    grid
}

/// A baseline for programs.
#[derive(Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    next_round: Vec<NextTarget>,
}

impl<'a> Whole<'a> {
    pub(super) fn of(manifest: &'a Manifest, runs: &[RunFolder]) -> Self {
        let first = runs.first();
        Self {
            manifest,
            next_round: first.map_or_else(Vec::new, |run| next_round(&run.record)),
        }
    }
}

/// One column of the reference table.
type Column = (&'static str, fn(&CellRecord) -> Option<f64>, bool);

fn quantile(cell: &CellRecord, metric: Metric, q: f64) -> Option<f64> {
    cell.headline(metric)?.quantile(q)
}

/// Name, figure, whether it is a time.
const COLUMNS: &[Column] = &[
    (
        "requests/s",
        |c| Some(c.headline_rates()?.requests_per_s),
        false,
    ),
    (
        "output tokens/s",
        |c| c.headline_rates()?.output_tokens_per_s,
        false,
    ),
    ("TTFT p50", |c| quantile(c, Metric::Ttft, 0.5), true),
    ("TTFT p95", |c| quantile(c, Metric::Ttft, 0.95), true),
    ("ITL p50", |c| quantile(c, Metric::Itl, 0.5), true),
    ("E2E p50", |c| quantile(c, Metric::E2e, 0.5), true),
    ("E2E p95", |c| quantile(c, Metric::E2e, 0.95), true),
    ("E2E p99", |c| quantile(c, Metric::E2e, 0.99), true),
];

/// The numbers of every cell: means over the runs that have the figure.
fn numbers(runs: &[RunFolder]) -> Grid {
    let mut head = vec!["cell"];
    head.extend(COLUMNS.iter().map(|(name, ..)| *name));
    let mut grid = Grid::of_numbers(&head);
    for cell in runs.first().iter().flat_map(|run| &run.record.cells) {
        let mut row = vec![cell.id.clone()];
        for (_, figure, is_time) in COLUMNS {
            let values: Vec<f64> = runs
                .iter()
                .filter_map(|run| figure(run.record.cell(&cell.id)?))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            row.push(match (values.is_empty(), is_time) {
                (true, _) => "–".to_owned(),
                (false, true) => Nanos::from_f64(mean).to_string(),
                (false, false) if mean >= 100.0 => format!("{mean:.0}"),
                (false, false) => format!("{mean:.2}"),
            });
        }
        grid.push(row);
    }
    grid
}

/// What limited the first run, the most severe first.
fn limits(runs: &[RunFolder]) -> Grid {
    let mut grid = Grid::of_words(&["severity", "what limits it"]);
    let findings = runs.first().map_or(&[][..], |run| &run.record.findings);
    for finding in findings.iter().filter(|f| f.severity >= LIMIT).take(MOST) {
        grid.push(vec![
            format!("{:.2}", finding.severity),
            bench_report::findings::headline(finding),
        ]);
    }
    grid
}

/// A baseline as a page: when, what, numbers, limits, targets.
pub(super) fn document(
    manifest: &Manifest,
    runs: &[RunFolder],
    markdown: bool,
) -> Result<String, CommandError> {
    let head = if markdown { "# " } else { "" };
    let safe = |text: &str| match (clean(text, LONGEST), markdown) {
        (text, true) => bench_report::markdown_text(&text),
        (text, false) => text,
    };
    let mut out = format!(
        "{head}baseline {}, saved {}\n",
        safe(&manifest.name),
        safe(&manifest.saved_at)
    );
    let item = if markdown { "\n- " } else { "  " };
    for run in &manifest.runs {
        out += &format!(
            "{item}{} ({}, {})\n",
            safe(&run.title),
            safe(&run.started_at),
            run.trust.as_str()
        );
    }
    if let Some(note) = &manifest.note {
        out += &format!("{item}note: {}\n", safe(note));
    }
    if !markdown {
        out.push('\n');
    }
    let mut own = Grid::of_words(&["goal", "met by the baseline"]);
    if let Some(first) = runs.first() {
        for outcome in targets(&manifest.goals, &first.record.cells)? {
            let met = if outcome.met { "yes" } else { "no" };
            own.push(vec![outcome.target, met.to_owned()]);
        }
    }
    let round = runs.first().map(|run| next_round(&run.record));
    for (title, grid) in [
        ("Numbers", numbers(runs)),
        ("Limits", limits(runs)),
        ("Goals", own),
        (
            "Targets of the next round",
            next(&round.unwrap_or_default()),
        ),
    ] {
        if !grid.is_empty() {
            out += &section(title, &grid, markdown);
        }
    }
    Ok(out)
}
