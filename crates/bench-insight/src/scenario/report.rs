//! What a scenario comes to, in a sentence.

use bench_schema::{Answer, Evidence, Experiment, Finding, Known, RunRecord, SloVerdict, Unit};

use super::{Scenario, ScenarioLine, ScenarioOutcome, ScenarioSet};
use crate::InsightError;
use crate::draft::Draft;
use crate::text;

/// One finding for each scenario that could be judged: whether the server can carry it, and at which load.
///
/// # Errors
/// As [`ScenarioSet::check`].
pub fn scenario_findings(set: &ScenarioSet, run: &RunRecord) -> Result<Vec<Finding>, InsightError> {
    let mut found = Vec::new();
    for scenario in &set.scenarios {
        found.extend(finding(scenario, &scenario.judge(run)?, run));
    }
    Ok(found)
}

fn finding(scenario: &Scenario, outcome: &ScenarioOutcome, run: &RunRecord) -> Option<Finding> {
    // The line that decides: the one nearest to (or furthest beyond) its limit, in the cell that is best for it.
    let of_cell = |l: &&ScenarioLine| {
        outcome
            .best_cell
            .as_ref()
            .is_none_or(|best| l.cell == *best)
    };
    let excess = |l: &ScenarioLine| l.measured.map_or(f64::MAX, |m| m / l.slo.limit);
    let worst = outcome
        .lines
        .iter()
        .filter(of_cell)
        .max_by(|a, b| excess(a).total_cmp(&excess(b)))?;
    let measured = worst.measured?;
    let shown = |x: f64| {
        if worst.slo.metric.unit() == Unit::Ns {
            text::time(x)
        } else {
            text::number(x)
        }
    };
    let what = format!(
        "P{} of {} is {} for a limit of {}",
        text::level(worst.slo.q * 100.0),
        worst.slo.metric.title(),
        shown(measured),
        shown(worst.slo.limit)
    );
    let label = run
        .cell(&worst.cell)
        .map_or(worst.cell.as_str(), |cell| cell.label.as_str());
    let (code, severity, claim) = match outcome.verdict {
        SloVerdict::Pass => (
            Answer::ScenarioMet,
            0.0,
            format!("`{}` can be served: {what} in {label}", scenario.name),
        ),
        SloVerdict::Fail => (
            Answer::ScenarioMissed,
            1.0,
            format!(
                "`{}` cannot be served: {what}, {} over",
                scenario.name,
                text::percent(measured / worst.slo.limit - 1.0)
            ),
        ),
        SloVerdict::CannotTell => (
            Answer::ScenarioUndecided,
            0.0,
            format!("whether `{}` can be served is open: {what}", scenario.name),
        ),
    };
    let mut found = Draft::new(code, severity)
        .push(evidence(scenario, worst, Known::Measured, measured))
        .push(evidence(scenario, worst, Known::Limit, worst.slo.limit))
        .refuted_by(Experiment::MoreRequests)
        .saying(claim)
        .done()?;
    found.cells = vec![worst.cell.clone()];
    Some(found)
}

fn evidence(scenario: &Scenario, line: &ScenarioLine, figure: Known, value: f64) -> Evidence {
    Evidence {
        cell: Some(line.cell.clone()),
        of: Some(scenario.name.clone()),
        ..Evidence::new(figure.into(), value, line.slo.metric.unit())
    }
}
