//! Targets: those that a baseline set and how far they got, and those of the next round.

use bench_insight::{NextTarget, TargetProgress, next_round, progress, targets};
use bench_report::Table;
use bench_schema::{RunRecord, TargetOutcome};
use serde::Serialize;

use crate::error::CommandError;
use crate::run_folder::RunFolder;

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
        bench_insight::Target::parse(goal)?;
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
        for outcome in targets(goals, &run.record.cells)? {
            if outcome.measured.is_none() {
                notes.push(format!(
                    "goal {}: {} has no such figure, or failures make it unbounded",
                    outcome.target,
                    run.path.display()
                ));
            }
        }
    }
    Ok(notes)
}

/// A value of a gate as people read it: gates hold times in nanoseconds.
fn shown(goal: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "unknown".to_owned();
    };
    let is_time = ["ns", "us", "µs", "ms", "s"].iter().any(|unit| {
        goal.strip_suffix(unit)
            .is_some_and(|number| number.ends_with(|c: char| c.is_ascii_digit()))
    });
    if is_time {
        bench_schema::Nanos::from_f64(value).to_string()
    } else if goal.ends_with('%') {
        format!("{:.1} %", value * 100.0)
    } else if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

impl Goals {
    pub(super) fn of(
        own: &[String],
        base: &RunRecord,
        new: &RunRecord,
    ) -> Result<Self, CommandError> {
        let before = targets(own, &base.cells)?;
        let now = targets(own, &new.cells)?;
        let joined = |(before, now): (TargetOutcome, TargetOutcome)| OwnGoal {
            goal: now.target,
            before: before.measured,
            now: now.measured,
            met: now.met,
        };
        Ok(Self {
            own: before.into_iter().zip(now).map(joined).collect(),
            targets: progress(base, new),
            next_round: next_round(new),
        })
    }

    /// Both lists, for a terminal or for Markdown.
    pub(crate) fn text(&self, markdown: bool) -> String {
        let columns = ["target", "before", "now", "goal", "outcome"];
        let mut set = Table::of_words("Targets of the baseline", &columns);
        for goal in &self.own {
            set.push_words([
                goal.goal.clone(),
                shown(&goal.goal, goal.before),
                shown(&goal.goal, goal.now),
                "as written".to_owned(),
                if goal.met { "reached" } else { "not reached" }.to_owned(),
            ]);
        }
        for progress in &self.targets {
            let target = &progress.target;
            set.push_words([
                target.subject(),
                target.shown(target.now),
                progress
                    .measured
                    .map_or_else(|| "unknown".to_owned(), |x| target.shown(x)),
                target.shown(target.target),
                progress.outcome.as_str().to_owned(),
            ]);
        }
        set.section(markdown) + &next(&self.next_round).section(markdown)
    }
}

/// What to reach next.
pub(super) fn next(targets: &[NextTarget]) -> Table {
    let columns = ["quantity", "now", "target", "try first"];
    let mut table = Table::of_words("Targets of the next round", &columns);
    for target in targets {
        table.push_words([
            target.subject(),
            target.shown(target.now),
            target.shown(target.target),
            target
                .first_try
                .as_ref()
                .map(bench_report::findings::advice)
                .unwrap_or_default(),
        ]);
    }
    table
}
