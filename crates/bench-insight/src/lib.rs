//! The meaning of the numbers: answers, causes with their evidence, facts, capacity, what to try. Pure.
//!
//! Functions from results to statements; nothing here reads a clock, a file or a socket. `analysis` relates the cells of a run
//! to each other, [`trust`] says whether they should be believed, [`targets`] decides gates, [`findings`] says what the numbers
//! mean. A statement is made only where the data carries it: what was not measured is not mentioned, and no text holds a NaN.
//! `docs/insight.md` lists every cause: how it is decided, what rules it out, what it cannot tell.

mod advice;
mod analysis;
mod capacity;
mod compare;
mod conclude;
mod diagnosis;
mod draft;
mod facts;
mod findings;
mod lengths;
mod matrix;
mod next_round;
mod outages;
mod samples;
mod scenario;
mod search;
mod server_phases;
mod signals;
mod target;
mod text;
mod trust;
mod view;

pub use advice::how_to_vary;
pub use analysis::{analyse_run, best_cell, line_of_answers, scaling_by_tag};
pub use capacity::{Bound, CapacityAssumptions, CapacityFigure, capacity, capacity_found};
pub use compare::{
    BLOCK, ComparedSamples, ComparisonRow, ComparisonVerdict, GateOutcome, GateVerdict,
    LevelChange, RegressionRule, RunComparison, Trend, compare, gate, trend_figures,
};
pub use conclude::{
    Asked, CellConclusion, CellEvidence, Concluded, Conclusion, EndedRequest, PooledStop,
    conclude_run,
};
pub use facts::{Bunch, CellFacts, FactKeeper, Outage, Stall, TrustFacts};
pub use findings::{
    RATES_DIFFER, capacity_doubts, findings, findings_by_tag, findings_with, is_unmeasured,
    objectives_of, planning_findings, times_to_decide,
};
pub use matrix::{
    Against, BaselineDrift, MeasuredSetting, ParameterEffect, ServerMatrix, SettingRow,
    server_matrix,
};
pub use next_round::{NextTarget, next_round};
pub use next_round::{ProgressOutcome, TargetProgress, progress};
pub use samples::{CellSamples, Lost, LostSample, RequestSample, SampleKeeper, Silence};
pub use scenario::{Scenario, ScenarioSet, judge, parse_slo, scenario_findings};
pub use search::{NextStage, SearchAsked, nearest_stage};
pub use server_phases::server_phases;
pub use signals::{Level, Signal};
pub use target::{Judged, PlannedCell, Target, targets};
pub use text::rounded;
pub use trust::trust;

/// A gate, an objective or a scenario that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum InsightError {
    /// A `--target` that is not one.
    #[error("target `{target}`: {problem}")]
    BadTarget { target: String, problem: String },
    /// A regression rule that is not one.
    #[error("regression rule `{rule}`: {problem}")]
    BadRule { rule: String, problem: String },
    /// A regression rule whose figure is not among what these two sides could be compared by.
    #[error("regression rule `{rule}`: {problem}")]
    NotCompared { rule: String, problem: String },
    /// A scenario whose objectives cannot be checked.
    #[error("scenario `{scenario}`: {problem}")]
    BadScenario { scenario: String, problem: String },
    /// An objective that cannot be read.
    #[error("objective `{objective}`: {problem}")]
    BadObjective { objective: String, problem: String },
    /// A price, a think time or another assumption that makes no sense.
    #[error("{name} is {value}; {next}")]
    BadAssumption {
        name: String,
        value: String,
        next: String,
    },
}
