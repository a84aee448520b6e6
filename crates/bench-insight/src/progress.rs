//! What became of the targets that an earlier run set.

use bench_schema::{CellRecord, Metric, RunRecord};
use serde::{Deserialize, Serialize};

use crate::bottleneck::{BottleneckKind, bottlenecks};
use crate::findings::{objective_figure, objective_name};
use crate::next_round::{NextTarget, next_round};
use crate::{analyse_run, text, view};

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

/// The quantity of a target in another run: also where that run raises no such finding.
fn measure(target: &NextTarget, run: &RunRecord) -> Option<f64> {
    if target.finding == "failures" {
        return failed_percent(run);
    }
    let cell = run.cell(target.cell.as_deref()?)?;
    match target.finding.as_str() {
        "slo_missed" => objective(target, cell),
        "tail_gap" => {
            Some(view::quantile(cell, Metric::E2e, 0.95)? / view::quantile(cell, Metric::E2e, 0.5)?)
        }
        "scaling_efficiency" => efficiency_percent(run, &cell.id),
        "queueing" => share_percent(cell, BottleneckKind::Queueing).or_else(|| queue_share(cell)),
        "prefill_bound" => share_percent(cell, BottleneckKind::Prefill),
        "low_gpu_use" => share_percent(cell, BottleneckKind::LowGpuUse),
        "memory_pressure" => share_percent(cell, BottleneckKind::Memory),
        "high_variance" => share_percent(cell, BottleneckKind::Variance),
        _ => None,
    }
}

fn share_percent(cell: &CellRecord, kind: BottleneckKind) -> Option<f64> {
    let rows = bottlenecks(cell);
    let row = rows.iter().find(|row| row.kind == kind)?;
    Some(row.measured * 100.0)
}

/// A queue that is known to be empty is no bottleneck and has no row, but it is measured.
fn queue_share(cell: &CellRecord) -> Option<f64> {
    let shares = cell.phases.as_ref().filter(|p| p.queue_source != "none")?;
    Some(shares.queue * 100.0)
}

fn objective(target: &NextTarget, cell: &CellRecord) -> Option<f64> {
    let groups = cell.groups.iter().flat_map(|group| group.slos.iter());
    let found = cell.slos.iter().chain(groups).find(|outcome| {
        let limit = objective_figure(outcome.slo.metric, outcome.slo.limit);
        objective_name(outcome) == target.quantity
            && (limit - target.target).abs() <= 1e-9 * limit.abs()
    })?;
    Some(objective_figure(found.slo.metric, found.measured?))
}

fn efficiency_percent(run: &RunRecord, cell: &str) -> Option<f64> {
    let analysis = if run.analysis.scaling.is_empty() {
        analyse_run(run)
    } else {
        run.analysis.clone()
    };
    let row = analysis
        .scaling
        .iter()
        .find(|row| row.cell == cell && view::DEVICE_FACTORS.contains(&row.factor.as_str()))?;
    Some(row.efficiency? * 100.0)
}

/// As the finding counts them.
fn failed_percent(run: &RunRecord) -> Option<f64> {
    let sum = |count: fn(&bench_schema::Counts) -> u64| -> u64 {
        run.cells.iter().map(|cell| count(&cell.counts)).sum()
    };
    let sent = sum(|c| c.planned.saturating_sub(c.unsent));
    let lost = sum(|c| c.failed + c.timed_out + c.truncated);
    (sent > 0).then(|| lost as f64 / sent as f64 * 100.0)
}

impl TargetProgress {
    /// `queue share of E2E: 85.5 % before, 41.0 % now, target 50.0 %: reached`.
    pub fn sentence(&self) -> String {
        let shown = |x: f64| self.target.shown(x);
        let now = self.measured.map_or_else(|| "unknown".to_owned(), shown);
        format!(
            "{}: {} before, {now} now, target {}: {}",
            self.target.subject(),
            shown(self.target.now),
            shown(self.target.target),
            self.outcome.as_str(),
        )
    }
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
