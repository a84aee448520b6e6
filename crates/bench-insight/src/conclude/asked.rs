//! What a run's results are held against, from the configuration that is stored with it.

use bench_metrics::Figure;
use bench_schema::{Metric, RunRecord, Slo, SloVerdict, TargetOutcome};
use serde::Deserialize as _;
use serde_json::Value;

use crate::InsightError;
use crate::SearchAsked;
use crate::scenario::{ScenarioSet, parse_slo};
use crate::target::Target;

/// What a run's results are held against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Objectives that were given one by one.
    pub slos: Vec<Slo>,
    /// Named sets of objectives.
    pub scenarios: ScenarioSet,
    /// The share that has to be within each objective, where it is not the objective's own.
    pub attain: Option<f64>,
    /// The search for a capacity, where one was asked for.
    pub search: Option<SearchAsked>,
    /// Gates, in the order given.
    pub targets: Vec<Target>,
    /// Price of the server per hour, in any currency.
    pub price_per_hour: Option<f64>,
    /// Whether answers of exactly the asked length were asked for.
    pub ignore_eos: bool,
}

impl Asked {
    /// From the configuration that a result stores. That of schema 1 has texts only, and its scenarios lay in a file of their own: they are
    /// not known.
    ///
    /// # Errors
    /// [`InsightError::BadObjective`] for an objective that cannot be read, [`InsightError::BadTarget`] for a target.
    pub fn of(config: &Value) -> Result<Self, InsightError> {
        let bad = |objective: &str, problem: String| InsightError::BadObjective {
            objective: objective.to_owned(),
            problem,
        };
        let slos = texts(config, "slo")
            .into_iter()
            .map(|text| parse_slo(&text).map_err(|problem| bad(&text, problem)));
        let scenarios = config.get("scenario_set").map(ScenarioSet::deserialize);
        Ok(Self {
            slos: slos.collect::<Result<_, _>>()?,
            scenarios: scenarios
                .transpose()
                .map_err(|error| bad("scenario_set", error.to_string()))?
                .unwrap_or_default(),
            attain: texts(config, "attain")
                .first()
                .and_then(|text| text.parse().ok()),
            search: crate::search::asked(|key| texts(config, key).into_iter().next()),
            targets: Target::parse_all(&texts(config, "target"))?,
            price_per_hour: texts(config, "price_per_hour")
                .first()
                .and_then(|text| text.parse().ok()),
            ignore_eos: texts(config, "ignore_eos")
                .iter()
                .any(|text| text == "true"),
        })
    }

    /// Objectives that were given one by one, and those of the scenarios.
    pub fn all_slos(&self) -> Vec<Slo> {
        let mut all = self.slos.clone();
        all.extend(self.scenarios.slos().unwrap_or_default());
        if let Some(attain) = self.attain {
            for slo in &mut all {
                slo.q = attain;
            }
        }
        all
    }
}

/// Quantiles that the user asked to know, and that the run does not decide anything about: of a precision rule, or of a target that nobody can
/// tell. What is met or missed holds for as many values as there are.
pub(super) fn quantiles(run: &RunRecord, targets: &[Target]) -> Vec<(Metric, f64)> {
    let is_open = |of: &TargetOutcome| of.verdict == Some(SloVerdict::CannotTell);
    let gates = targets.iter().zip(&run.targets);
    let mut all: Vec<(Metric, f64)> = gates
        .filter_map(|(gate, outcome)| gate.quantile().filter(|_| is_open(outcome)))
        .collect();
    let rules = run.cells.iter().flat_map(|cell| &cell.stop.precision);
    all.extend(rules.filter_map(|text| {
        let rule: bench_metrics::Precision = text.parse().ok()?;
        match rule.figure {
            Figure::Quantile(q) => Some((rule.metric, q)),
            Figure::Mean => None,
        }
    }));
    all
}

/// The texts of a key: a single value or a list of them; none where it was not set.
fn texts(config: &Value, key: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    match config.get(key) {
        Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Datasets whose prompts share their beginnings, or repeat, on purpose.
pub(super) fn repeats_prompts(dataset: &str) -> bool {
    let kind = dataset.split(':').next().unwrap_or_default();
    matches!(kind, "prefix" | "multiturn") || dataset == "study:gpt2"
}

#[cfg(test)]
#[path = "../../tests/unit/conclude_asked.rs"]
mod tests;
