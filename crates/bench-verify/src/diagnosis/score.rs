//! What a run said against its label, and what all runs come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bench_schema::{Cause, CellRecord, Finding, Load, Metric, RunRecord, Trust, TrustVerdict};
use serde_json::{Value, json};

use super::{Trial, disturbs};
use crate::programs::{Known, Ran};
use crate::truth::{Check, Matched};

/// What has to be reached.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Share of faulty runs whose true cause is named first.
    pub first: f64,
    /// Share in which it is among the first three.
    pub third: f64,
    /// Forbidden findings a run.
    pub forbidden: f64,
    /// Share of healthy runs without an alarm.
    pub quiet: f64,
    /// Share of runs whose verdict is wrong.
    pub trust: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first: 0.80,
            third: 0.95,
            forbidden: 0.2,
            quiet: 0.95,
            trust: 0.02,
        }
    }
}

/// Counts over runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// Runs that are not judged, and in nothing below.
    disturbed: usize,
    runs: usize,
    faulty: usize,
    first: usize,
    third: usize,
    forbidden: usize,
    healthy: usize,
    quiet: usize,
    trust_wrong: usize,
    advised: usize,
    advice_right: usize,
    numbers: usize,
    numbers_off: usize,
}

impl Score {
    /// Over some runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Judged>) -> Self {
        let mut score = Self::default();
        for run in runs {
            score.add(run);
        }
        score
    }

    fn add(&mut self, run: &Judged) {
        let one = usize::from;
        if run.disturbed {
            self.disturbed += 1;
            return;
        }
        self.runs += 1;
        self.faulty += one(run.has_cause);
        self.first += one(run.has_cause && run.place == Some(0));
        self.third += one(run.has_cause && run.place.is_some_and(|place| place < 3));
        self.forbidden += run.forbidden.len();
        self.healthy += one(run.healthy);
        self.quiet += one(run.healthy && run.forbidden.is_empty());
        self.trust_wrong += one(!run.trust.1);
        self.advised += one(run.advice.is_some());
        self.advice_right += one(run.advice == Some(true));
        if run.trust.0 == "trusted" {
            self.numbers += run.numbers.len();
            self.numbers_off += run.off().count();
        }
    }

    /// Whether the limits are kept.
    pub fn holds(&self, limits: Limits) -> bool {
        let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
        let recalled = share(self.first, self.faulty) >= limits.first
            && share(self.third, self.faulty) >= limits.third;
        (self.faulty == 0 || recalled)
            && share(self.forbidden, self.runs) <= limits.forbidden
            && (self.healthy == 0 || share(self.quiet, self.healthy) >= limits.quiet)
            && share(self.trust_wrong, self.runs) <= limits.trust
    }

    /// A line for each quantity, with its limit.
    pub fn table(&self, limits: Limits) -> String {
        let of = |part: usize, of: usize| {
            let share = 100.0 * part as f64 / of.max(1) as f64;
            format!("{part} of {of} ({share:.0} %)")
        };
        let least = |limit: f64| format!("≥ {:.0} %", limit * 100.0);
        let most = |limit: f64| format!("≤ {:.0} %", limit * 100.0);
        let none = || "–".to_owned();
        let forbidden = format!("{:.2}", self.forbidden as f64 / self.runs.max(1) as f64);
        let all = self.disturbed + self.runs;
        let rows = [
            (
                "true cause named first",
                of(self.first, self.faulty),
                least(limits.first),
            ),
            (
                "among the first three",
                of(self.third, self.faulty),
                least(limits.third),
            ),
            (
                "forbidden findings a run",
                forbidden,
                format!("≤ {}", limits.forbidden),
            ),
            (
                "healthy runs without an alarm",
                of(self.quiet, self.healthy),
                least(limits.quiet),
            ),
            (
                "wrong verdicts of trust",
                of(self.trust_wrong, self.runs),
                most(limits.trust),
            ),
            (
                "advice that fits its cause",
                of(self.advice_right, self.advised),
                none(),
            ),
            (
                "figures of trusted runs beyond 2 % (rates 3 %)",
                of(self.numbers_off, self.numbers),
                none(),
            ),
            (
                "not judged: the machine was taken from them",
                of(self.disturbed, all),
                none(),
            ),
        ];
        let mut out = String::from("| over all runs | | limit |\n|---|---|---|\n");
        for (name, value, limit) in rows {
            // Writing to a string cannot fail.
            writeln!(out, "| {name} | {value} | {limit} |").ok();
        }
        out
    }
}

/// A line for each situation.
pub fn by_situation(runs: &[Judged]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut of: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for run in runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
        of.entry(&run.name).or_default().push(run);
    }
    let mut out = String::from(
        "| situation | runs | first | in three | forbidden | trust wrong | figures off |\n|---|---|---|---|---|---|---|\n",
    );
    for name in names {
        let Some(runs) = of.get(name) else { continue };
        let score = Score::of(runs.iter().copied());
        let recall = |part: usize| {
            if score.faulty == 0 {
                "–".to_owned()
            } else {
                part.to_string()
            }
        };
        let forbidden = runs
            .iter()
            .flat_map(|run| &run.forbidden)
            .map(|cause| cause.as_str());
        let trust = runs
            .iter()
            .filter(|run| !run.trust.1)
            .map(|run| run.trust.0);
        let off = runs
            .iter()
            .flat_map(|run| run.off())
            .map(|(_, check)| check.name);
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            score.runs,
            recall(score.first),
            recall(score.third),
            tally(forbidden),
            tally(trust),
            tally(off),
        )
        .ok();
    }
    out
}

/// Each of them with how often it is there, if more than once.
fn tally<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    let word = |(name, count): (&str, usize)| match count {
        1 => name.to_owned(),
        _ => format!("{count} {name}"),
    };
    let words: Vec<String> = counts.into_iter().map(word).collect();
    words.join(", ")
}

// What a run said, against its label.

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
    let rate = cell.headline_rates().and_then(|rates| rates.requests_per_s);
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
