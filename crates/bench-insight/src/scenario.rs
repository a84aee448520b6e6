//! Scenarios: named sets of objectives for the use cases that they are about, as TOML.

mod objective;
mod report;

use bench_schema::{CellRecord, Interval, RunRecord, Slo, SloOutcome, SloVerdict};
use serde::{Deserialize, Serialize};

use crate::InsightError;
use crate::view;
pub use objective::parse_slo;

pub use objective::judge;
pub use report::scenario_findings;

/// A file of scenarios: `[[scenario]]` tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSet {
    /// The scenarios, in the order of the file.
    #[serde(default, rename = "scenario")]
    pub scenarios: Vec<Scenario>,
}

/// One application and what it promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    #[serde(default)]
    pub description: String,
    /// Use cases (or length categories) it is made of; empty means every request.
    #[serde(default)]
    pub use_cases: Vec<String>,
    /// Its objectives, each as `p95:e2e=1.5s`; the quantile is p95 unless named.
    pub slos: Vec<String>,
}

/// How one objective of a scenario came out in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioLine {
    /// The cell.
    pub cell: String,
    /// The objective, for one use case.
    pub slo: Slo,
    /// What was measured at its quantile; absent where that is +∞ or nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Interval of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: SloVerdict,
}

/// How a scenario came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioOutcome {
    /// Its name.
    pub scenario: String,
    /// Fail if some objective fails in every cell that was judged, pass if some cell passes all, else cannot tell.
    pub verdict: SloVerdict,
    /// The cell with the most requests per second in which every objective passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_cell: Option<String>,
    /// Each objective in each cell.
    pub lines: Vec<ScenarioLine>,
}

impl ScenarioSet {
    /// Refuses what cannot be checked.
    ///
    /// # Errors
    /// [`InsightError::BadScenario`] for a name that is missing or used twice, a scenario without objectives, or an objective that
    /// cannot be read.
    pub fn check(&self) -> Result<(), InsightError> {
        for (i, scenario) in self.scenarios.iter().enumerate() {
            let bad = |problem: &str| InsightError::BadScenario {
                scenario: scenario.name.clone(),
                problem: problem.to_owned(),
            };
            if scenario.name.trim().is_empty() {
                return Err(bad("`name` is empty; give it one"));
            }
            if self
                .scenarios
                .iter()
                .take(i)
                .any(|other| other.name == scenario.name)
            {
                return Err(bad("the name is used twice; rename one"));
            }
            if scenario.slos.is_empty() {
                return Err(bad(
                    "`slos` is empty; write for instance `slos = [\"p95:e2e=1.5s\"]`",
                ));
            }
            scenario.objectives()?;
        }
        Ok(())
    }

    /// The objectives of all scenarios, each once: to be judged with those of `--slo`.
    ///
    /// # Errors
    /// As [`ScenarioSet::check`].
    pub fn slos(&self) -> Result<Vec<Slo>, InsightError> {
        let mut all: Vec<Slo> = Vec::new();
        for scenario in &self.scenarios {
            for slo in scenario.objectives()? {
                if !all.iter().any(|known| same(known, &slo)) {
                    all.push(slo);
                }
            }
        }
        Ok(all)
    }
}

impl Scenario {
    /// Its objectives, one for each use case and text.
    ///
    /// # Errors
    /// [`InsightError::BadScenario`] for a text that cannot be read.
    pub fn objectives(&self) -> Result<Vec<Slo>, InsightError> {
        let mut all = Vec::new();
        for text in &self.slos {
            let slo = parse_slo(text).map_err(|problem| InsightError::BadScenario {
                scenario: self.name.clone(),
                problem: format!("objective `{text}`: {problem}"),
            })?;
            if self.use_cases.is_empty() {
                all.push(slo);
            } else {
                all.extend(self.use_cases.iter().map(|case| Slo {
                    use_case: Some(case.clone()),
                    ..slo.clone()
                }));
            }
        }
        Ok(all)
    }

    /// How it came out in a run: from the outcomes that the run stores, else from its distributions.
    ///
    /// Without an interval (a published table), the value alone decides. Cells that have none of its use cases are not judged.
    ///
    /// # Errors
    /// As [`Scenario::objectives`].
    pub fn judge(&self, run: &RunRecord) -> Result<ScenarioOutcome, InsightError> {
        let objectives = self.objectives()?;
        let mut lines = Vec::new();
        let mut passing: Vec<&CellRecord> = Vec::new();
        let mut failing = 0_usize;
        let mut judged = 0_usize;
        for cell in &run.cells {
            let own: Vec<ScenarioLine> = objectives
                .iter()
                .filter_map(|slo| line(cell, slo))
                .collect();
            if own.is_empty() {
                continue;
            }
            judged += 1;
            failing += usize::from(own.iter().any(|l| l.verdict == SloVerdict::Fail));
            if own.iter().all(|l| l.verdict == SloVerdict::Pass) {
                passing.push(cell);
            }
            lines.extend(own);
        }
        let rate = |cell: &CellRecord| view::requests_per_s(cell).unwrap_or(0.0);
        let best = passing.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        let verdict = if best.is_some() {
            SloVerdict::Pass
        } else if judged > 0 && failing == judged {
            SloVerdict::Fail
        } else {
            SloVerdict::CannotTell
        };
        Ok(ScenarioOutcome {
            scenario: self.name.clone(),
            verdict,
            best_cell: best.map(|cell| cell.id.clone()),
            lines,
        })
    }
}

fn same(a: &Slo, b: &Slo) -> bool {
    a.use_case == b.use_case && crate::findings::same_objective(a, b)
}

fn line(cell: &CellRecord, slo: &Slo) -> Option<ScenarioLine> {
    let made = |measured, interval, verdict| ScenarioLine {
        cell: cell.id.clone(),
        slo: slo.clone(),
        measured,
        interval,
        verdict,
    };
    let stored = |outcomes: &[SloOutcome]| outcomes.iter().find(|o| same(&o.slo, slo)).cloned();
    let group = slo.use_case.as_ref().map(|name| {
        cell.groups
            .iter()
            .find(|g| (g.by == "use_case" || g.by == "category") && g.name == *name)
    });
    let found = stored(&cell.slos).or_else(|| stored(&group.flatten()?.slos));
    if let Some(outcome) = found {
        return Some(made(outcome.measured, outcome.interval, outcome.verdict));
    }
    let distribution = match group {
        None => cell.headline(slo.metric)?,
        Some(group) => view::of_group(cell, group?, slo.metric)?,
    };
    let (measured, interval, verdict) = judge(distribution, slo);
    Some(made(measured, interval, verdict))
}

#[cfg(test)]
#[path = "../tests/unit/scenario.rs"]
mod tests;
