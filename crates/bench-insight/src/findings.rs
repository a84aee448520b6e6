//! What a run says: the answers to what was asked, the causes that were found, the facts.

mod capacity;
mod facts;
mod lengths;
mod objectives;

use bench_schema::{
    Analysis, Answer, Cause, CellRecord, Code, Fact, Factor, Finding, Known, Load, RunRecord,
    ScalingRow,
};

use crate::InsightError;
use crate::analysis::analyse_run;
use crate::capacity::CapacityAssumptions;
use crate::diagnosis;
use crate::samples::CellSamples;
use crate::scenario::{ScenarioSet, scenario_findings};
use crate::view;

pub use capacity::{capacity_doubts, planning_findings};
pub use facts::RATES_DIFFER;
pub(crate) use lengths::prompt_effect;
pub(crate) use objectives::name as objective_name;
pub(crate) use objectives::same_objective;
pub(crate) use objectives::times_of_a_share;
pub use objectives::{is_unmeasured, objectives_of, times_to_decide};

/// Everything that the run says: answers first (missed before undecided before met), then causes, the costliest first, then
/// facts; empty for a run without data.
///
/// `samples` are the single requests, one entry per cell; without them causes that are a matter of time are not looked for, and
/// no run is called healthy. Figures across cells are taken from `run.analysis`, or made where it is empty.
pub fn findings(run: &RunRecord, samples: &[CellSamples]) -> Vec<Finding> {
    let stored = &run.analysis;
    let analysis = if stored.scaling.is_empty() && stored.fits.is_empty() {
        analyse_run(run, samples)
    } else {
        stored.clone()
    };
    let mut all = objectives::all(run);
    // what misses an objective costs its users something, whether a cause is found or not
    let missed = all.iter().any(|f| f.code == Answer::SloMissed.into());
    let causes = diagnosis::causes(run, samples).into_iter();
    all.extend(causes.filter(|f| !missed || !of_health(f)));
    let capacity = capacity::all(run);
    all.extend(
        capacity
            .into_iter()
            .filter(|f| !diagnosis::mixes_levels(&all, f))
            .collect::<Vec<_>>(),
    );
    let analysis = Analysis {
        scaling: of_one_speed(analysis.scaling, &all),
        ..analysis
    };
    let facts = facts::all(run, samples, &analysis, &all).into_iter();
    let facts = facts.filter(|fact| !is_of_time(run, samples, &all, fact));
    all.extend(facts.collect::<Vec<_>>());
    ordered(all)
}

/// The rows of series whose first cell is of one speed: what others are held against is no mean over two.
pub(crate) fn of_one_speed(rows: Vec<ScalingRow>, found: &[Finding]) -> Vec<ScalingRow> {
    let mut kept: Vec<ScalingRow> = Vec::new();
    let mut is_sound = true;
    for row in rows {
        if row.throughput_gain == Some(0.0) {
            is_sound = !diagnosis::is_no_base(found, &row.cell);
        }
        if is_sound || row.throughput_gain.is_none() {
            kept.push(row);
        }
    }
    kept
}

/// Whether what is told of lengths may be a level that moved while cells were measured one after another.
fn is_of_time(run: &RunRecord, samples: &[CellSamples], found: &[Finding], fact: &Finding) -> bool {
    let lengths = [Fact::PromptLength, Fact::OutputLength].map(Code::from);
    let effect = fact.figure(&Known::LatencyPenalty.into());
    lengths.contains(&fact.code)
        && (diagnosis::of_moving_levels(found, fact)
            || effect
                .is_some_and(|effect| diagnosis::moves_as_much(run, samples, &fact.cells, effect)))
}

/// [`findings`] together with what scenarios and planning assumptions add, in one order.
///
/// # Errors
/// As [`scenario_findings`](crate::scenario_findings) and [`planning_findings`].
pub fn findings_with(
    run: &RunRecord,
    samples: &[CellSamples],
    scenarios: &ScenarioSet,
    assumptions: &CapacityAssumptions,
) -> Result<Vec<Finding>, InsightError> {
    let mut all = findings(run, samples);
    let of_scenarios = scenario_findings(scenarios, run)?;
    all.retain(|f| !is_told_by(&of_scenarios, f));
    all.extend(of_scenarios);
    let planned = planning_findings(run, assumptions)?;
    all.extend(
        planned
            .into_iter()
            .filter(|f| !diagnosis::mixes_levels(&all, f))
            .collect::<Vec<_>>(),
    );
    Ok(ordered(all))
}

/// Whether scenarios tell all that a finding about objectives does: the same values in the same cells, held against the same limits.
fn is_told_by(of_scenarios: &[Finding], about: &Finding) -> bool {
    let codes = [Answer::SloMissed, Answer::SloMet, Answer::SloUndecided].map(Code::from);
    let told = |figure: Known, finding: &Finding| -> Vec<(Option<String>, u64)> {
        let own = finding.evidence.iter();
        let own = own.filter(|e| e.figure == figure.into());
        own.map(|e| (e.cell.clone(), e.value.to_bits())).collect()
    };
    let both = |finding: &Finding| [Known::Measured, Known::Limit].map(|of| told(of, finding));
    let by: Vec<_> = of_scenarios.iter().map(both).collect();
    let [measured, limits] = both(about);
    let mut pairs = measured.iter().zip(&limits);
    codes.contains(&about.code)
        && !measured.is_empty()
        && measured.len() == limits.len()
        && pairs.all(|(value, limit)| {
            by.iter()
                .any(|[m, l]| m.contains(value) && l.contains(limit))
        })
}

/// What several runs say that differ in a tag: from the fastest cell of each (of open loops, the fastest whose rate all have) a numeric one (`gpus`, `tensor_parallel`, `replicas`) as
/// scaling along it, a named one (`model`, `dataset`, `layout`) as a comparison of the rates; from the cell under least load, where
/// nothing waits, what their prompts cost. Scaling is of the mean of a level's runs, all else of its first. Empty with fewer than two levels.
pub fn findings_by_tag(tag: &str, runs: &[&RunRecord]) -> Vec<Finding> {
    let scaling = facts::scaling(&crate::scaling_by_tag(tag, runs));
    let level = |run: &RunRecord| run.tags.get(tag).cloned();
    let mut firsts: Vec<&RunRecord> = Vec::new();
    for run in runs {
        if !firsts.iter().any(|first| level(first) == level(run)) {
            firsts.push(run);
        }
    }
    let common = fastest_of_all(&firsts);
    let pick = |run| common.map_or_else(|| fastest(run), |id| RunRecord::cell(run, id));
    let found = scaling.or_else(|| facts::beside(tag, &by_tag(tag, &firsts, pick)));
    let prompts = lengths::prompt(&by_tag(tag, &firsts, quietest));
    found.into_iter().chain(prompts).collect()
}

fn fastest(run: &RunRecord) -> Option<&CellRecord> {
    fastest_where(run, |_| true)
}

fn fastest_where(run: &RunRecord, is_wanted: impl Fn(&CellRecord) -> bool) -> Option<&CellRecord> {
    let wanted = run.cells.iter().filter(|cell| is_wanted(cell));
    let rates = wanted.filter_map(|cell| Some((cell, rate(cell)?)));
    let best = rates.max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(cell, _)| cell)
}

fn rate(cell: &CellRecord) -> Option<f64> {
    view::requests_per_s(cell).filter(|_| view::is_reached(cell))
}

/// The id of the open loop in which most was served, of those whose rate each run has: what a server keeps up with, it serves at the rate that was asked
/// for, so that the fastest cells of two runs differ by what was asked.
fn fastest_of_all<'a>(runs: &[&'a RunRecord]) -> Option<&'a str> {
    let common = |cell: &CellRecord| {
        let mut same = runs.iter().map(|run| run.cell(&cell.id));
        cell.load.is_open() && same.all(|cell| cell.and_then(rate).is_some())
    };
    let first: &'a RunRecord = runs.first()?;
    Some(&fastest_where(first, common)?.id)
}

fn quietest(run: &RunRecord) -> Option<&CellRecord> {
    let level = |cell: &CellRecord| match &cell.load {
        Load::Closed { concurrency, .. } => f64::from(*concurrency),
        Load::Open { rate_per_s, .. } => rate_per_s
            .or(cell.plan.offered_rate_per_s)
            .unwrap_or(f64::INFINITY),
    };
    let cells = run.cells.iter();
    cells.min_by(|a, b| level(a).total_cmp(&level(b)))
}

/// One cell of each run, the run's tag as its only factor.
fn by_tag<'a>(
    tag: &str,
    runs: &[&'a RunRecord],
    pick: impl Fn(&'a RunRecord) -> Option<&'a CellRecord>,
) -> Vec<CellRecord> {
    runs.iter()
        .filter_map(|run| {
            let mut cell = pick(run)?.clone();
            let level = Factor::Name(run.tags.get(tag)?.clone());
            cell.id = format!("{} {}", level, cell.id);
            cell.factors = [(tag.to_owned(), level)].into();
            Some(cell)
        })
        .collect()
}

/// Findings and more of them, those of one cause together: with more, nothing is healthy.
pub(crate) fn with(mut findings: Vec<Finding>, more: Vec<Finding>) -> Vec<Finding> {
    findings.retain(|f| more.is_empty() || !of_health(f));
    for finding in more {
        match findings.iter_mut().find(|told| told.code == finding.code) {
            Some(told) => told.cells.extend(finding.cells),
            None => findings.push(finding),
        }
    }
    ordered(findings)
}

/// Whether it tells that nothing was found.
fn of_health(finding: &Finding) -> bool {
    [Cause::Healthy.into(), Answer::NotHealthy.into()].contains(&finding.code)
}

/// What was asked first, then what costs users most, then facts; each in the order in which it was made.
fn ordered(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| match finding.code {
        Code::Answer(Answer::SloCapacity | Answer::SloMissed | Answer::ScenarioMissed) => 0,
        Code::Answer(Answer::SloUndecided | Answer::ScenarioUndecided) => 1,
        Code::Answer(Answer::SloMet | Answer::ScenarioMet) => 2,
        Code::Cause(_) | Code::Answer(Answer::NotHealthy) => 3,
        Code::Answer(Answer::Capacity | Answer::Planning) => 4,
        Code::Fact(_) | Code::Other(_) => 5,
    });
    found
}
