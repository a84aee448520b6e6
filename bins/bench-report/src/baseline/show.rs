//! Baselines as text: the list, one as a reference document, and targets: those that a baseline set and how far they got, and those of the
//! next round.

use bench_insight::{Judged, NextTarget, Target, TargetProgress, next_round, progress, targets};
use bench_report::findings::{advice, headline};
use bench_report::{Cell, Column as Heading, Table, measured_words as measured, plain_text};
use bench_schema::{CellRecord, Metric, RunRecord, SloVerdict, TargetOutcome, TrustVerdict};
use serde::Serialize;

use super::store::Manifest;
use crate::error::CommandError;
use crate::run_folder::RunFolder;

/// Findings below this severity are praise or remarks, no limits.
const LIMIT: f64 = 0.03;
/// Limits that are listed.
const MOST: usize = 5;

/// Every baseline, a row each.
pub(super) fn list(known: &[Manifest]) -> Table {
    let row = |one: &Manifest| {
        let first = one.runs.first();
        let verdict = one.runs.iter().map(|run| run.trust).max();
        [
            one.name.clone(),
            one.saved_at.clone(),
            one.runs.len().to_string(),
            first.map_or_else(String::new, |run| run.benchmark.clone()),
            first.and_then(|run| run.model.clone()).unwrap_or_default(),
            verdict.map_or("", TrustVerdict::as_str).to_owned(),
            one.note.clone().unwrap_or_default(),
        ]
    };
    let headings = [
        "name",
        "saved",
        "runs",
        "benchmark",
        "model",
        "trust",
        "note",
    ];
    Table::of_rows("Baselines", headings, known.iter().map(row))
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

/// One column of the reference table: heading, unit, what its values are divided by, figure.
type Column = (
    &'static str,
    &'static str,
    f64,
    fn(&CellRecord) -> Option<f64>,
);

fn quantile(cell: &CellRecord, metric: Metric, q: f64) -> Option<f64> {
    cell.headline(metric)?.quantile(q)
}

const COLUMNS: &[Column] = &[
    ("requests", "req/s", 1.0, |c| {
        c.headline_rates()?.requests_per_s
    }),
    ("output", "tok/s", 1.0, |c| {
        c.headline_rates()?.output_tokens_per_s
    }),
    ("TTFT p50", "ms", 1e6, |c| quantile(c, Metric::Ttft, 0.5)),
    ("TTFT p95", "ms", 1e6, |c| quantile(c, Metric::Ttft, 0.95)),
    ("ITL p50", "ms", 1e6, |c| quantile(c, Metric::Itl, 0.5)),
    ("E2E p50", "ms", 1e6, |c| quantile(c, Metric::E2e, 0.5)),
    ("E2E p95", "ms", 1e6, |c| quantile(c, Metric::E2e, 0.95)),
    ("E2E p99", "ms", 1e6, |c| quantile(c, Metric::E2e, 0.99)),
];

/// What runs that searched for a capacity found.
fn found(runs: &[RunFolder]) -> Table {
    let words = |run: &RunFolder| {
        let title = run.record.title.clone();
        Some([title, bench_report::capacity_words(&run.record)?])
    };
    let rows = runs.iter().filter_map(words);
    Table::of_rows("Capacity", ["run", "found"], rows)
}

/// The numbers of every cell: means over the runs that have the figure.
fn numbers(runs: &[RunFolder]) -> Table {
    let mut columns = vec![Heading::text("cell")];
    columns.extend(
        COLUMNS
            .iter()
            .map(|(name, unit, ..)| Heading::number(*name, unit)),
    );
    let mut table = Table::new("Numbers", columns);
    for cell in runs.first().iter().flat_map(|run| &run.record.cells) {
        let mut row = vec![Cell::text(&cell.id)];
        for (_, _, scale, figure) in COLUMNS {
            let values: Vec<f64> = runs
                .iter()
                .filter_map(|run| figure(run.record.cell(&cell.id)?))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            row.push(Cell::number((!values.is_empty()).then_some(mean / scale)));
        }
        table.push(row);
    }
    table
}

/// What limited the first run, the most severe first.
fn limits(runs: &[RunFolder]) -> Table {
    let findings = runs.first().map_or(&[][..], |run| &run.record.findings);
    let grave = findings.iter().filter(|f| f.severity >= LIMIT).take(MOST);
    let rows = grave.map(|f| [format!("{:.2}", f.severity), headline(f)]);
    Table::of_rows("Limits", ["severity", "bottleneck"], rows)
}

/// A baseline as a page: when, what, numbers, limits, targets.
pub(super) fn document(
    manifest: &Manifest,
    runs: &[RunFolder],
    markdown: bool,
) -> Result<String, CommandError> {
    let head = if markdown { "# " } else { "" };
    let safe = if markdown {
        bench_report::markdown_text
    } else {
        plain_text
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
    let goals = match runs.first() {
        Some(first) => outcomes(&manifest.goals, &first.record)?,
        None => Vec::new(),
    };
    let goals = goals.into_iter().map(|outcome| {
        let met = reached(&outcome, ["yes", "cannot tell", "no"]);
        [outcome.target, met.to_owned()]
    });
    let own = Table::of_rows("Goals", ["goal", "met by the baseline"], goals);
    let round = runs.first().map(|run| next_round(&run.record));
    let round = next(&round.unwrap_or_default());
    for table in [found(runs), numbers(runs), limits(runs), own, round] {
        out += &table.section(markdown);
    }
    Ok(out)
}

/// A goal that somebody set by hand, before and now.
#[derive(Debug, Serialize)]
struct OwnGoal {
    /// As written.
    goal: String,
    /// Its quantity when the baseline was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<f64>,
    /// Its quantity now.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<f64>,
    met: bool,
    /// `reached`, `cannot tell` or `not reached`.
    outcome: &'static str,
}

/// How goals come out by a stored record.
fn outcomes(goals: &[String], run: &RunRecord) -> Result<Vec<TargetOutcome>, CommandError> {
    let goals = Target::parse_all(goals)?;
    Ok(targets(&goals, run, &Judged::new()))
}

/// The word for a goal that is met, that nobody can tell of, or that is missed.
fn reached(outcome: &TargetOutcome, [met, cannot_tell, missed]: [&'static str; 3]) -> &'static str {
    match outcome.verdict {
        _ if outcome.met => met,
        Some(SloVerdict::CannotTell) => cannot_tell,
        _ => missed,
    }
}

/// Where a run stands with the targets of a baseline.
#[derive(Debug, Serialize)]
pub(crate) struct Goals {
    own: Vec<OwnGoal>,
    targets: Vec<TargetProgress>,
    next_round: Vec<NextTarget>,
}

/// Splits and checks what `--goal` holds.
pub(super) fn read(lists: &[String]) -> Result<Vec<String>, CommandError> {
    let goals: Vec<String> = lists
        .iter()
        .flat_map(|list| list.split(','))
        .map(|goal| goal.trim().to_owned())
        .filter(|goal| !goal.is_empty())
        .collect();
    for goal in &goals {
        Target::parse(goal)?;
    }
    Ok(goals)
}

/// Goals whose quantity a run does not have: a slip of the pen, or a latency that failures make unbounded.
pub(super) fn unmeasured(
    goals: &[String],
    runs: &[RunFolder],
) -> Result<Vec<String>, CommandError> {
    let mut notes = Vec::new();
    for run in runs {
        for outcome in outcomes(goals, &run.record)? {
            if outcome.measured.is_none() {
                notes.push(format!(
                    "goal {}: {} does not have this quantity, or failures make it unbounded",
                    outcome.target,
                    run.path.display()
                ));
            }
        }
    }
    Ok(notes)
}

impl Goals {
    pub(super) fn of(
        own: &[String],
        base: &RunRecord,
        new: &RunRecord,
    ) -> Result<Self, CommandError> {
        let (before, now) = (outcomes(own, base)?, outcomes(own, new)?);
        let joined = |(before, now): (TargetOutcome, TargetOutcome)| OwnGoal {
            before: before.measured,
            now: now.measured,
            met: now.met,
            outcome: reached(&now, ["reached", "cannot tell", "not reached"]),
            goal: now.target,
        };
        Ok(Self {
            own: before.into_iter().zip(now).map(joined).collect(),
            targets: progress(base, new),
            next_round: next_round(new),
        })
    }

    /// Both lists, for a terminal or for Markdown.
    pub(crate) fn text(&self, markdown: bool) -> String {
        let own = self.own.iter().map(|goal| {
            [
                goal.goal.clone(),
                measured(&goal.goal, goal.before),
                measured(&goal.goal, goal.now),
                "as written".to_owned(),
                goal.outcome.to_owned(),
            ]
        });
        let targets = self.targets.iter().map(|progress| {
            let target = &progress.target;
            let now = progress.measured.map(|x| target.shown(x));
            [
                target.subject(),
                target.shown(target.now),
                now.unwrap_or_else(|| "unknown".to_owned()),
                target.shown(target.target),
                progress.outcome.as_str().to_owned(),
            ]
        });
        let columns = ["target", "before", "now", "goal", "outcome"];
        let set = Table::of_rows("Targets of the baseline", columns, own.chain(targets));
        set.section(markdown) + &next(&self.next_round).section(markdown)
    }
}

/// What to reach next.
pub(super) fn next(targets: &[NextTarget]) -> Table {
    let row = |target: &NextTarget| {
        let first = target.first_try.as_ref().map(advice);
        [
            target.subject(),
            target.shown(target.now),
            target.shown(target.target),
            first.unwrap_or_default(),
        ]
    };
    let columns = ["quantity", "now", "target", "try first"];
    Table::of_rows(
        "Targets of the next round",
        columns,
        targets.iter().map(row),
    )
}
