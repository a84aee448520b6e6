//! Targets for the next round, from what limits this one.

use bench_schema::{Finding, RunRecord};
use serde::{Deserialize, Serialize};

/// One thing to reach in the next round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextTarget {
    /// The finding it comes from.
    pub finding: String,
    /// The quantity: `queue share`, `P95 over P50 of E2E`.
    pub quantity: String,
    /// What it is now.
    pub now: f64,
    /// What to reach.
    pub target: f64,
    /// Unit of both, as shown.
    pub unit: String,
    /// What to try first; absent where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_try: Option<String>,
    /// The cell; absent for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

/// Code of the finding, name (or its beginning) of the evidence, quantity for people, and the target made of the value.
type Goal = (&'static str, &'static str, &'static str, fn(f64) -> f64);

/// What each limit should come down (or up) to: the point where it stops being one.
const GOALS: &[Goal] = &[
    ("queueing", "queue share", "queue share of E2E", |_| 50.0),
    ("tail_gap", "P95 over P50", "P95 over P50 of E2E", |_| 2.0),
    ("low_gpu_use", "mean GPU use", "mean GPU use", |_| 80.0),
    ("memory_pressure", "peak use", "peak memory use", |_| 90.0),
    (
        "prefill_bound",
        "prefill share",
        "prefill share of E2E",
        |_| 30.0,
    ),
    ("high_variance", "CoV", "coefficient of variation", |_| 50.0),
    (
        "scaling_efficiency",
        "efficiency at",
        "scaling efficiency",
        |now| f64::midpoint(now, 100.0),
    ),
    (
        "failures",
        "their share",
        "requests without a whole answer",
        |_| 0.0,
    ),
];

/// Findings whose figure should rise; the others' should fall.
const WANT_MORE: &[&str] = &["low_gpu_use", "scaling_efficiency"];

/// What to reach next, the most severe first: each limit of this run down to where it stops being one, each missed objective to
/// its limit.
pub fn next_round(run: &RunRecord) -> Vec<NextTarget> {
    run.findings.iter().filter_map(target).collect()
}

fn target(finding: &Finding) -> Option<NextTarget> {
    let made =
        |quantity: String, now: f64, goal: f64, unit: &str, cell: Option<String>| NextTarget {
            finding: finding.code.clone(),
            quantity,
            now,
            target: goal,
            unit: unit.to_owned(),
            first_try: finding.actions.first().cloned(),
            cell,
        };
    if finding.code == "slo_missed" {
        let named = |name: &str| finding.evidence.iter().find(|e| e.name == name);
        let (now, limit) = (named("measured")?, named("limit")?);
        let quantity = finding
            .claim
            .split(" is ")
            .next()
            .unwrap_or("the objective")
            .to_owned();
        return Some(made(
            quantity,
            now.value,
            limit.value,
            &now.unit,
            now.cell.clone(),
        ));
    }
    let (_, prefix, quantity, goal) = GOALS.iter().find(|(code, ..)| *code == finding.code)?;
    let evidence = finding
        .evidence
        .iter()
        .rfind(|e| e.name.starts_with(prefix))?;
    let goal = goal(evidence.value);
    // A finding that praises, or one raised by another number, has nothing to reach.
    let wants_more = WANT_MORE.contains(&finding.code.as_str());
    let there = if wants_more {
        evidence.value >= goal - 1e-9
    } else {
        evidence.value <= goal + 1e-9
    };
    (!there).then(|| {
        made(
            (*quantity).to_owned(),
            evidence.value,
            goal,
            &evidence.unit,
            evidence.cell.clone(),
        )
    })
}

impl NextTarget {
    /// `queue share of E2E: from 85.5 % to 50.0 %`.
    pub fn sentence(&self) -> String {
        format!(
            "{}: from {} to {}",
            self.quantity,
            self.shown(self.now),
            self.shown(self.target)
        )
    }
}
