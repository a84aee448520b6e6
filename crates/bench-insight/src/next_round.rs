//! Targets for the next round, from what limits this one, and what became of those that an earlier run set.

use bench_schema::{
    Advice, Answer, Cause, Code, Evidence, Fact, Finding, Known, Metric, RunRecord, Unit,
};
use serde::{Deserialize, Serialize};

use crate::{text, view};

/// One thing to reach in the next round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextTarget {
    /// The finding it comes from.
    pub finding: Code,
    /// The quantity: `queue share of E2E`, `P95 E2E`.
    pub quantity: String,
    /// What it is now.
    pub now: f64,
    /// What to reach.
    pub target: f64,
    /// Unit of both, as shown.
    pub unit: String,
    /// What to try first; absent where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_try: Option<Advice>,
    /// The cell; absent for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

/// What a limit should come to: the point where it stops being one.
struct Goal {
    code: Code,
    figure: Known,
    quantity: &'static str,
    target: Goes,
}

/// Where a quantity should be.
enum Goes {
    Fall(f64),
    Rise(f64),
    /// Half of the way.
    RiseHalfway(f64),
}

macro_rules! goals {
    ($($kind:ident::$code:ident $figure:ident $quantity:literal $way:ident $target:literal;)*) => {
        &[$(Goal {
            code: Code::$kind($kind::$code),
            figure: Known::$figure,
            quantity: $quantity,
            target: Goes::$way($target),
        }),*]
    };
}

const GOALS: &[Goal] = goals! {
    Cause::Queueing QueueShare "queue share of E2E" Fall 0.5;
    Cause::Prefill PrefillShare "prefill share of E2E" Fall 0.3;
    Cause::MemoryPressure KvCachePeak "peak KV cache use" Fall 0.9;
    Cause::GpuLow GpuUse "mean GPU use" Rise 0.8;
    Cause::Failing FailedShare "requests without a complete response" Fall 0.0;
    Fact::Tail TailRatio "P95 over P50 of E2E" Fall 2.0;
    Fact::Scaling Efficiency "scaling efficiency" RiseHalfway 1.0;
};

/// What to reach next: each missed objective to its limit, each limit of this run down to where it stops being one.
pub fn next_round(run: &RunRecord) -> Vec<NextTarget> {
    run.findings
        .iter()
        .filter_map(|finding| {
            if finding.code == Answer::SloMissed.into() {
                return objective(finding);
            }
            let goal = GOALS.iter().find(|goal| goal.code == finding.code)?;
            target(run, finding, goal)
        })
        .collect()
}

fn made(finding: &Finding, quantity: String, evidence: &Evidence, target: f64) -> NextTarget {
    let (unit, scale) = shown_unit(evidence.unit, evidence.figure == Known::TailRatio.into());
    NextTarget {
        finding: finding.code.clone(),
        quantity,
        now: evidence.value * scale,
        target: target * scale,
        unit: unit.to_owned(),
        first_try: finding.advice.first().cloned(),
        cell: evidence
            .cell
            .clone()
            .or_else(|| finding.cells.first().cloned()),
    }
}

fn shown_unit(unit: Unit, is_ratio: bool) -> (&'static str, f64) {
    match unit {
        Unit::Ns => ("ms", 1e-6),
        Unit::Ratio => ("%", 100.0),
        Unit::TokensPerS => ("tokens/s", 1.0),
        Unit::RequestsPerS => ("requests/s", 1.0),
        _ if is_ratio => ("×", 1.0),
        _ => ("", 1.0),
    }
}

fn objective(finding: &Finding) -> Option<NextTarget> {
    let of = |figure: Known| finding.evidence.iter().find(|e| e.figure == figure.into());
    let (now, limit) = (of(Known::Measured)?, of(Known::Limit)?);
    Some(made(finding, now.of.clone()?, now, limit.value))
}

fn target(run: &RunRecord, finding: &Finding, goal: &Goal) -> Option<NextTarget> {
    let figure = goal.figure.into();
    let evidence = finding.evidence.iter().rfind(|e| e.figure == figure)?;
    // Only devices are added to be used in full: more load may well bring less than its share.
    if goal.figure == Known::Efficiency && !is_of_devices(run, evidence) {
        return None;
    }
    let (wanted, there) = match goal.target {
        Goes::Fall(to) => (to, evidence.value <= to + 1e-9),
        Goes::Rise(to) => (to, evidence.value >= to - 1e-9),
        Goes::RiseHalfway(to) => (
            f64::midpoint(evidence.value, to),
            evidence.value >= to - 1e-9,
        ),
    };
    (!there).then(|| made(finding, goal.quantity.to_owned(), evidence, wanted))
}

fn is_of_devices(run: &RunRecord, evidence: &Evidence) -> bool {
    let row = run
        .analysis
        .scaling
        .iter()
        .rfind(|row| Some(&row.cell) == evidence.cell.as_ref());
    row.is_some_and(|row| view::DEVICE_FACTORS.contains(&row.factor.as_str()))
}

/// The same quantity in another run, in the target's unit: also where that run has no such finding.
pub(crate) fn measure(target: &NextTarget, run: &RunRecord) -> Option<f64> {
    let percent = |share: f64| share * 100.0;
    if target.finding == Cause::Failing.into() {
        return lost_share(run, target.cell.as_deref()).map(percent);
    }
    let cell = run.cell(target.cell.as_deref()?)?;
    let phases = cell.phases.as_ref();
    let told = phases.filter(|p| p.queue_source != "none");
    let signal = |signal: crate::signals::Signal| signal.of(cell);
    match &target.finding {
        Code::Cause(Cause::Queueing) => told.map(|p| percent(p.queue)),
        Code::Cause(Cause::Prefill) => phases.map(|p| percent(p.prefill)),
        Code::Cause(Cause::MemoryPressure) => {
            signal(crate::signals::Signal::KvCache).map(|l| percent(l.peak))
        }
        Code::Cause(Cause::GpuLow) => {
            signal(crate::signals::Signal::GpuUse).map(|l| percent(l.mean))
        }
        Code::Fact(Fact::Tail) => {
            let at = |q| view::quantile(cell, Metric::E2e, q);
            Some(at(0.95)? / at(0.5)?)
        }
        Code::Fact(Fact::Scaling) => {
            let analysis = crate::analyse_run(run, &[]);
            let row = analysis.scaling.iter().find(|row| row.cell == cell.id)?;
            row.efficiency.map(percent)
        }
        Code::Answer(Answer::SloMissed) => measured_objective(target, cell),
        _ => None,
    }
}

fn measured_objective(target: &NextTarget, cell: &bench_schema::CellRecord) -> Option<f64> {
    let groups = cell.groups.iter().flat_map(|group| group.slos.iter());
    cell.slos.iter().chain(groups).find_map(|outcome| {
        let scale = shown_unit(outcome.slo.metric.unit(), false).1;
        let limit = outcome.slo.limit * scale;
        let same = crate::findings::objective_name(outcome) == target.quantity
            && (limit - target.target).abs() <= 1e-9 * limit.abs();
        outcome.measured.filter(|_| same).map(|value| value * scale)
    })
}

/// Of the cell that the target is about, or of the run.
fn lost_share(run: &RunRecord, of: Option<&str>) -> Option<f64> {
    let cells = || {
        run.cells
            .iter()
            .filter(|cell| of.is_none_or(|id| cell.id == id))
    };
    let sum = |count: fn(&bench_schema::Counts) -> u64| -> u64 {
        cells().map(|cell| count(&cell.counts)).sum()
    };
    let planned = sum(|c| c.planned);
    let lost = sum(bench_schema::Counts::went_wrong);
    (planned > 0).then(|| lost as f64 / planned as f64)
}

impl NextTarget {
    /// A value in the target's unit: `85.5 %`.
    pub fn shown(&self, value: f64) -> String {
        if self.unit.is_empty() {
            text::number(value)
        } else {
            format!("{} {}", text::number(value), self.unit)
        }
    }

    /// The quantity, and the cell where there is one: `queue share of E2E (c16)`.
    pub fn subject(&self) -> String {
        match &self.cell {
            Some(cell) => format!("{} ({cell})", self.quantity),
            None => self.quantity.clone(),
        }
    }
}

// What became of the targets that an earlier run set.

/// A target of an earlier run, and where a later one stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetProgress {
    /// As the earlier run set it; its `now` is what was measured then.
    pub target: NextTarget,
    /// What was measured since, in the target's unit; absent where the later run does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// How far it got.
    pub outcome: ProgressOutcome,
}

/// How far a target got. It compares measured values; whether a difference is more than chance is what a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressOutcome {
    /// At the target, or beyond it.
    Reached,
    /// Nearer than before.
    Closer,
    /// As far away as before, or farther.
    NoCloser,
    /// The later run has no such figure.
    NotMeasured,
}

impl ProgressOutcome {
    /// The words used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Closer => "closer",
            Self::NoCloser => "no closer",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Where `new` stands with each target that [`next_round`] makes of `base`, in the same order; cells are matched by id.
pub fn progress(base: &RunRecord, new: &RunRecord) -> Vec<TargetProgress> {
    next_round(base)
        .into_iter()
        .map(|target| {
            let measured = measure(&target, new).filter(|x| x.is_finite());
            TargetProgress {
                outcome: outcome(&target, measured),
                measured,
                target,
            }
        })
        .collect()
}

fn outcome(target: &NextTarget, measured: Option<f64>) -> ProgressOutcome {
    let Some(measured) = measured else {
        return ProgressOutcome::NotMeasured;
    };
    let wants_less = target.target < target.now;
    let slack = 1e-9 * target.target.abs();
    let there = if wants_less {
        measured <= target.target + slack
    } else {
        measured >= target.target - slack
    };
    if there {
        ProgressOutcome::Reached
    } else if (measured - target.target).abs() < (target.now - target.target).abs() - slack {
        ProgressOutcome::Closer
    } else {
        ProgressOutcome::NoCloser
    }
}
