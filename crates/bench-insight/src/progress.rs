//! What became of the targets that an earlier run set.

use bench_schema::RunRecord;
use serde::{Deserialize, Serialize};

use crate::next_round::{NextTarget, measure, next_round};

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
