//! What the numbers say: every rule over a run, the most severe first.

mod capacity;
mod cpu;
mod groups;
mod lengths;
mod load;
mod measurement;
mod objectives;
mod phases;
mod regimes;
mod resources;
mod spread;
mod workloads;

use bench_schema::{Analysis, CellRecord, Factor, Finding, RunRecord};

use crate::InsightError;
use crate::analysis::analyse_run;
use crate::capacity::CapacityAssumptions;
use crate::facts::CellSamples;
use crate::scenario::{ScenarioSet, scenario_findings};
use crate::view;

pub use capacity::planning_findings;
pub(crate) use lengths::prompt_effect;
pub(crate) use objectives::{in_ms as objective_figure, name as objective_name};

/// A run with its figures across cells: what every rule looks at.
pub(crate) struct Scene<'a> {
    pub(crate) run: &'a RunRecord,
    pub(crate) analysis: Analysis,
    pub(crate) samples: &'a [CellSamples],
}

impl Scene<'_> {
    /// What kind of server it is, for the names of parameters.
    pub(crate) fn server(&self) -> Option<&str> {
        self.run.server.kind.as_deref()
    }
}

/// One group of rules.
type Rule = fn(&Scene<'_>) -> Vec<Finding>;

const RULES: &[Rule] = &[
    measurement::all,
    objectives::all,
    phases::all,
    resources::all,
    load::all,
    lengths::all,
    spread::all,
    groups::all,
    workloads::all,
    regimes::all,
    capacity::all,
];

/// Everything that the run says, the most severe first; empty for a run without data.
///
/// `samples` are the single requests, one entry per cell, for what is a matter of time (regimes, change points, head-of-line
/// blocking); without them those findings are not made. Figures across cells are taken from `run.analysis`, or made where it is
/// empty. Of several findings with the same code about the same cells, the most severe stays.
pub fn findings(run: &RunRecord, samples: &[CellSamples]) -> Vec<Finding> {
    let stored = &run.analysis;
    let analysis = if stored.scaling.is_empty() && stored.fits.is_empty() {
        analyse_run(run)
    } else {
        stored.clone()
    };
    let scene = Scene {
        run,
        analysis,
        samples,
    };
    ordered(RULES.iter().flat_map(|rule| rule(&scene)).collect())
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
    all.extend(scenario_findings(scenarios, run)?);
    all.extend(planning_findings(run, assumptions)?);
    Ok(ordered(all))
}

/// What several runs say that differ in a tag: a numeric one (`gpus`, `tensor_parallel`, `replicas`) as scaling along it, a named
/// one (`model`, `dataset`) as a comparison of the rates, from the fastest cell of each. Empty with fewer than two levels.
pub fn findings_by_tag(tag: &str, runs: &[&RunRecord]) -> Vec<Finding> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let scene = Scene {
        run: first,
        analysis: Analysis {
            scaling: crate::scaling_by_tag(tag, runs),
            ..Analysis::default()
        },
        samples: &[],
    };
    let mut found = load::of_rows(&scene);
    found.extend(workloads::differ(&named_by_tag(tag, runs)));
    ordered(found)
}

/// The fastest cell of each run, the run's tag as its only factor.
fn named_by_tag(tag: &str, runs: &[&RunRecord]) -> Vec<CellRecord> {
    let fastest = |run: &RunRecord| {
        let rates = run
            .cells
            .iter()
            .filter_map(|cell| Some((cell, view::requests_per_s(cell)?)));
        let best = rates.max_by(|a, b| a.1.total_cmp(&b.1));
        best.map(|(cell, _)| cell.clone())
    };
    runs.iter()
        .filter_map(|run| {
            let mut cell = fastest(run)?;
            let level = Factor::Name(run.tags.get(tag)?.clone());
            cell.id = format!("{} {}", level, cell.id);
            cell.factors = [(tag.to_owned(), level)].into();
            Some(cell)
        })
        .collect()
}

/// Most severe first, then by code; the same statement about the same cells once.
fn ordered(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by(|a, b| {
        b.severity
            .total_cmp(&a.severity)
            .then_with(|| a.code.cmp(&b.code))
            .then_with(|| a.claim.cmp(&b.claim))
    });
    let mut kept: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        let repeated = kept.iter().any(|k| {
            k.code == finding.code
                && (k.claim == finding.claim
                    || (!k.cells.is_empty() && k.cells == finding.cells && k.kind == finding.kind))
        });
        if !repeated {
            kept.push(finding);
        }
    }
    kept
}
