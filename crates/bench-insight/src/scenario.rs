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
struct Line<'a> {
    cell: &'a CellRecord,
    slo: &'a Slo,
    /// Absent where it is +∞ or nothing was measured.
    measured: Option<f64>,
    verdict: SloVerdict,
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
            let mut before = self.scenarios.iter().take(i);
            if before.any(|other| other.name == scenario.name) {
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
}

fn same(a: &Slo, b: &Slo) -> bool {
    a.use_case == b.use_case && crate::findings::same_objective(a, b)
}

/// From the outcomes that the run stores, else from its distributions; nothing where a cell has none of its use cases.
fn line<'a>(cell: &'a CellRecord, slo: &'a Slo) -> Option<Line<'a>> {
    let made = |measured, verdict| Line {
        cell,
        slo,
        measured,
        verdict,
    };
    let stored = |outcomes: &'a [SloOutcome]| outcomes.iter().find(|o| same(&o.slo, slo));
    let group = slo.use_case.as_ref().map(|name| {
        let mut groups = cell.groups.iter();
        groups.find(|g| (g.by == "use_case" || g.by == "category") && g.name == *name)
    });
    let found = stored(&cell.slos).or_else(|| stored(&group.flatten()?.slos));
    if let Some(outcome) = found {
        return Some(made(outcome.measured, outcome.verdict));
    }
    let distribution = match group {
        None => cell.headline(slo.metric)?,
        Some(group) => view::of_group(cell, group?, slo.metric)?,
    };
    let (measured, _, verdict) = judge(distribution, slo);
    Some(made(measured, verdict))
}

// One objective: reading it, and judging a distribution by it.

/// The verdict that a published table gives: by the quantile's interval, or by its value where it has none, and `fail` where so many requests
/// failed that the quantile is +∞. Objectives of a run are judged by its requests.
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
    let (low, high) = entry
        .interval
        .map_or((value, value), |i| (i.low.min(value), i.high.max(value)));
    let verdict = match (low <= slo.limit, high <= slo.limit) {
        (_, true) => SloVerdict::Pass,
        (false, _) => SloVerdict::Fail,
        _ => SloVerdict::CannotTell,
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
    let q = quantile.map_or(Ok(0.95), |quantile| {
        let known = bench_metrics::parse_quantile(quantile.trim());
        known.ok_or_else(|| format!("`{quantile}` is not a percentile; write p50, p95 or p99.9"))
    })?;
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

// What a scenario comes to, in a sentence.

/// One finding for each scenario that could be judged: whether the server can carry it, and at which load.
///
/// # Errors
/// As [`ScenarioSet::check`].
pub fn scenario_findings(set: &ScenarioSet, run: &RunRecord) -> Result<Vec<Finding>, InsightError> {
    let mut found = Vec::new();
    for scenario in &set.scenarios {
        found.extend(finding(scenario, &scenario.objectives()?, run));
    }
    Ok(found)
}

/// Met where some cell passes all objectives, missed where some objective fails in every cell that was judged. Without an interval (a published table), the value
/// alone decides.
fn finding(scenario: &Scenario, objectives: &[Slo], run: &RunRecord) -> Option<Finding> {
    let cells = run.cells.iter();
    let judged = cells.map(|cell| objectives.iter().filter_map(move |slo| line(cell, slo)));
    let mut judged: Vec<Vec<Line<'_>>> = judged.map(Iterator::collect).collect();
    judged.retain(|own| !own.is_empty());
    let passes = |own: &&Vec<Line<'_>>| own.iter().all(|line| line.verdict == SloVerdict::Pass);
    let fails = |own: &Vec<Line<'_>>| own.iter().any(|line| line.verdict == SloVerdict::Fail);
    let rate = |own: &[Line<'_>]| view::requests_per_s(own.first()?.cell);
    let passing = judged.iter().filter(passes);
    let best = passing.max_by(|a, b| {
        let [a, b] = [a, b].map(|own| rate(own).unwrap_or(0.0));
        a.total_cmp(&b)
    });
    let verdict = if best.is_some() {
        SloVerdict::Pass
    } else if judged.iter().all(fails) {
        SloVerdict::Fail
    } else {
        SloVerdict::CannotTell
    };
    // The line that decides: the one nearest to (or furthest beyond) its limit, in the cell that is best for it.
    let deciding = best.map_or(judged.as_slice(), std::slice::from_ref);
    let excess = |l: &Line<'_>| l.measured.map_or(f64::MAX, |m| m / l.slo.limit);
    let worst = deciding
        .iter()
        .flatten()
        .max_by(|a, b| excess(a).total_cmp(&excess(b)))?;
    let measured = worst.measured?;
    let what = words(worst.slo, measured);
    let (label, name) = (&worst.cell.label, &scenario.name);
    let over = text::percent(measured / worst.slo.limit - 1.0);
    let (code, severity, claim) = match verdict {
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
    found.cells = vec![worst.cell.id.clone()];
    Some(found)
}

/// What was measured of an objective, and its limit.
fn words(slo: &Slo, measured: f64) -> String {
    let shown = match slo.metric.unit() {
        Unit::Ns => text::time,
        _ => text::number,
    };
    let (q, title) = (text::level(slo.q * 100.0), slo.metric.title());
    let (measured, limit) = (shown(measured), shown(slo.limit));
    format!("P{q} of {title} is {measured}, limit {limit}")
}

fn evidence(scenario: &Scenario, line: &Line<'_>, figure: Known, value: f64) -> Evidence {
    Evidence {
        cell: Some(line.cell.id.clone()),
        of: Some(scenario.name.clone()),
        ..Evidence::new(figure.into(), value, line.slo.metric.unit())
    }
}

#[cfg(test)]
#[path = "../tests/unit/scenario.rs"]
mod tests;
