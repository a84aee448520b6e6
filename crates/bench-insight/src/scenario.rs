//! Scenarios: named sets of objectives for the use cases that they are about, as TOML.

use bench_schema::{
    Answer, CellRecord, Distribution, Evidence, Experiment, Finding, Interval, Known, Metric,
    RunRecord, Slo, SloOutcome, SloVerdict, Unit,
};
use serde::{Deserialize, Serialize};

use crate::draft::Draft;
use crate::{InsightError, text, view};

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
                return Err(bad("`name` is empty; set a name"));
            }
            if self
                .scenarios
                .iter()
                .take(i)
                .any(|other| other.name == scenario.name)
            {
                return Err(bad("the name is used twice; rename one of them"));
            }
            if scenario.slos.is_empty() {
                return Err(bad(
                    "`slos` is empty; write for example `slos = [\"p95:e2e=1.5s\"]`",
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

// One objective: reading it, and judging a distribution by it.

/// The verdict that a distribution gives: by the quantile's interval, else by what is known of the share within the limit, by its value where
/// nothing tells how well it is known (a published table), and `fail` where so many requests failed that the quantile is +∞.
pub fn judge(
    distribution: &Distribution,
    slo: &Slo,
) -> (Option<f64>, Option<Interval>, SloVerdict) {
    let with_failures = distribution
        .with_failures
        .as_ref()
        .and_then(|v| v.quantiles.iter().find(|(q, _)| (q - slo.q).abs() < 1e-9));
    if let Some((_, None)) = with_failures {
        return (None, None, SloVerdict::Fail);
    }
    let Some(entry) = distribution.quantile_entry(slo.q) else {
        return (None, None, SloVerdict::CannotTell);
    };
    let value = with_failures
        .and_then(|(_, value)| *value)
        .unwrap_or(entry.value);
    let by_share = || bench_metrics::verdict_of_distribution(distribution, slo.q, slo.limit);
    let ends = entry
        .interval
        .map(|i| (i.low.min(value), i.high.max(value)));
    let verdict = match ends {
        Some((_, high)) if high <= slo.limit => SloVerdict::Pass,
        Some((low, _)) if low > slo.limit => SloVerdict::Fail,
        Some(_) => by_share().unwrap_or(SloVerdict::CannotTell),
        None => by_share().unwrap_or(if value <= slo.limit {
            SloVerdict::Pass
        } else {
            SloVerdict::Fail
        }),
    };
    (Some(value), entry.interval, verdict)
}

/// Reads an objective, `[pNN:]METRIC=LIMIT[@USE_CASE]`: `ttft=200ms`, `p90:e2e=2s`, `e2e=1.5s@short-qa`. The quantile is p95
/// unless named; a time has a unit.
///
/// # Errors
/// Which part is wrong, and what is known.
pub fn parse_slo(text: &str) -> Result<Slo, String> {
    let (text, use_case) = match text.rsplit_once('@') {
        Some((rest, name)) => (rest, Some(name.trim().to_owned())),
        None => (text, None),
    };
    // `ttft.p95<=200ms`, as a target has it, is `p95:ttft=200ms`
    let text = text.replacen("<=", "=", 1);
    let (name, limit) = text
        .split_once('=')
        .ok_or_else(|| "it has no `=`; write `p95:e2e=1.5s`".to_owned())?;
    let (name, quantile) = match (name.split_once(':'), name.split_once('.')) {
        (Some((quantile, name)), _) | (None, Some((name, quantile))) => (name, Some(quantile)),
        (None, None) => (name, None),
    };
    let q = quantile.map_or(Ok(0.95), |quantile| quantile_of(quantile.trim()))?;
    let metric: Metric = name.trim().parse()?;
    let limit = crate::target::limit(limit.trim(), metric.unit())?;
    if limit <= 0.0 {
        return Err("the limit must be above 0; write `1.5s` or `200ms`".to_owned());
    }
    Ok(Slo {
        metric,
        q,
        limit,
        use_case,
    })
}

fn quantile_of(text: &str) -> Result<f64, String> {
    text.strip_prefix('p')
        .and_then(|digits| digits.parse::<f64>().ok())
        .filter(|p| *p > 0.0 && *p < 100.0)
        .map(|p| p / 100.0)
        .ok_or_else(|| format!("`{text}` is not a percentile; write p50, p95 or p99.9"))
}

// What a scenario comes to, in a sentence.

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
        "P{} of {} is {}, limit {}",
        text::level(worst.slo.q * 100.0),
        worst.slo.metric.title(),
        shown(measured),
        shown(worst.slo.limit)
    );
    let label = run
        .cell(&worst.cell)
        .map_or(worst.cell.as_str(), |cell| cell.label.as_str());
    let name = &scenario.name;
    let over = text::percent(measured / worst.slo.limit - 1.0);
    let (code, severity, claim) = match outcome.verdict {
        SloVerdict::Pass => (
            Answer::ScenarioMet,
            0.0,
            format!("scenario `{name}` can be served: {what} in {label}"),
        ),
        SloVerdict::Fail => (
            Answer::ScenarioMissed,
            1.0,
            format!("scenario `{name}` cannot be served: {what}, {over} over"),
        ),
        SloVerdict::CannotTell => (
            Answer::ScenarioUndecided,
            0.0,
            format!("cannot tell whether scenario `{name}` can be served: {what}"),
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

#[cfg(test)]
#[path = "../tests/unit/scenario.rs"]
mod tests;
