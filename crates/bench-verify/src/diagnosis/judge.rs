//! What a run said, against its label.

use bench_schema::{Cause, CellRecord, Finding, Load, Metric, RunRecord, Trust, TrustVerdict};
use serde_json::{Value, json};

use super::{Trial, disturbs};
use crate::programs::{Known, Ran};
use crate::truth::{Check, Matched};

/// A run beside its label.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The situation's name.
    pub name: String,
    /// Its seed, and whether the server told of itself.
    pub trial: (u64, bool),
    /// Whether the machine's other tenants took so much of it that the label says nothing of the run.
    pub disturbed: bool,
    /// Whether nothing was wrong.
    pub healthy: bool,
    /// Whether there was a cause to name.
    pub has_cause: bool,
    /// The causes that were named, in order.
    pub claimed: Vec<Cause>,
    /// Place of the first right one in it, from 0.
    pub place: Option<usize>,
    /// Causes that are neither right nor true as well.
    pub forbidden: Vec<Cause>,
    /// Whether the first finding's advice is the label's; `None` where none is judged, or nothing right was claimed.
    pub advice: Option<bool>,
    /// The verdict, and whether it is right.
    pub trust: (&'static str, bool),
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Figures beside the ledger's, each of a cell.
    pub numbers: Vec<(String, Check)>,
}

pub(super) fn judge(trial: &Trial, ran: &Ran, known: &Known) -> Judged {
    let situation = &trial.situation;
    let claims: Vec<(Cause, &Finding)> = claims(&ran.run).collect();
    let claimed: Vec<Cause> = claims.iter().map(|(cause, _)| *cause).collect();
    let accepted = situation.accepted(trial.metrics);
    let place = claimed.iter().position(|cause| accepted.contains(cause));
    let is_true = |cause: &Cause| accepted.contains(cause) || situation.is_true_as_well(*cause);
    let forbidden = claimed.iter().copied().filter(|cause| !is_true(cause));
    let forbidden = forbidden.collect();
    let advice = place
        .filter(|_| !situation.advice.is_empty())
        .and_then(|at| claims.get(at))
        .map(|(_, finding)| advises(finding, &situation.advice));
    let trust = &ran.run.trust;
    Judged {
        name: situation.name.clone(),
        trial: (trial.seed, trial.metrics),
        disturbed: disturbs(known.stolen),
        healthy: situation.is_healthy(),
        has_cause: !situation.is_healthy() && !accepted.is_empty(),
        claimed,
        place,
        forbidden,
        advice,
        trust: (trust.verdict.as_str(), is_due(trial, trust, known)),
        reasons: trust
            .reasons
            .iter()
            .map(|reason| format!("{}: {}", reason.code, reason.sentence()))
            .collect(),
        numbers: numbers(ran, known),
    }
}

/// A share of stolen CPU time from which on a verdict may rest on it.
const STOLEN: f64 = 0.01;

/// Whether a verdict is one of the label's; where the machine's CPU time went to others, reasons that say so are as right.
fn is_due(trial: &Trial, trust: &Trust, known: &Known) -> bool {
    let due = |verdict| trial.situation.is_due(verdict);
    let stolen = known.stolen.is_some_and(|share| share >= STOLEN);
    let others = trust
        .reasons
        .iter()
        .filter(|reason| !reason.sentence().contains("hypervisor"));
    let of_others = others.map(|reason| reason.verdict).max();
    due(trust.verdict) || (stolen && due(of_others.unwrap_or(TrustVerdict::Trusted)))
}

/// Causes of a run in the order in which it tells them.
fn claims(run: &RunRecord) -> impl Iterator<Item = (Cause, &Finding)> {
    run.findings.iter().filter_map(|finding| {
        let cause = finding.cause().filter(|cause| *cause != Cause::Healthy)?;
        Some((cause, finding))
    })
}

/// Whether one of the words is in the advice, as it is stored.
fn advises(finding: &Finding, words: &[String]) -> bool {
    let advice = json!([finding.advice, finding.message])
        .to_string()
        .to_lowercase();
    words.iter().any(|word| advice.contains(word))
}

impl Judged {
    /// Whether the run is as it should be in every respect.
    pub fn is_right(&self) -> bool {
        let named = !self.has_cause || self.place == Some(0);
        named && self.forbidden.is_empty() && self.trust.1 && self.off().next().is_none()
    }

    /// The figures that are beyond their limits.
    pub(super) fn off(&self) -> impl Iterator<Item = &(String, Check)> {
        self.numbers.iter().filter(|(_, check)| !check.holds())
    }

    /// Everything, for a log.
    pub fn to_json(&self) -> Value {
        let number =
            |(cell, check): &(String, Check)| json!([check.name, cell, check.said, check.so]);
        let off: Vec<Value> = self.off().map(number).collect();
        json!({
            "situation": self.name, "seed": self.trial.0, "metrics": self.trial.1, "disturbed": self.disturbed, "right": self.is_right(),
            "claimed": self.claimed, "place": self.place, "forbidden": self.forbidden, "advice": self.advice,
            "trust": self.trust.0, "trust_right": self.trust.1, "reasons": self.reasons, "off": off,
        })
    }
}

/// Figures of every cell beside those of the ledgers. None where records and ledgers cannot be laid side by side.
fn numbers(ran: &Ran, known: &Known) -> Vec<(String, Check)> {
    let Ok(matched) = Matched::new(&ran.run, &ran.records, known) else {
        return Vec::new();
    };
    let of = |cell| of_cell(cell, &matched);
    ran.run.cells.iter().flat_map(of).collect()
}

fn of_cell(cell: &CellRecord, matched: &Matched<'_>) -> Vec<(String, Check)> {
    let so = matched.figures(cell);
    let said = |metric| cell.headline(metric)?.quantile(0.5);
    let rate = cell.headline_rates().map(|rates| rates.requests_per_s);
    // Closed loops in which nothing failed.
    let slots = match cell.load {
        Load::Closed {
            concurrency,
            think_time: None,
            ramp: None,
        } if cell.counts.planned == cell.counts.completed => Some(f64::from(concurrency)),
        _ => None,
    };
    let number = |name, said: Option<f64>, so: Option<f64>, (share, more): (f64, f64)| {
        let (said, so) = (said?, so?);
        let check = Check {
            name,
            said,
            so,
            limit: so * share + more,
            timing: true,
        };
        Some((cell.id.clone(), check))
    };
    let all = [
        number(
            "TTFT p50",
            said(Metric::Ttft),
            so.ttft.quantile(0.5),
            (0.02, 1e6),
        ),
        number(
            "ITL p50",
            said(Metric::Itl),
            so.itl.quantile(0.5),
            (0.02, 5e4),
        ),
        number(
            "requests/s",
            rate,
            slots.and_then(|slots| so.rate_of(slots)),
            (0.03, 0.0),
        ),
    ];
    all.into_iter().flatten().collect()
}
