//! The meaning of the numbers: findings with evidence, bottlenecks, regimes, capacity, what to try. Pure.
//!
//! Functions from results to statements; nothing here reads a clock, a file or a socket. [`analysis`] relates the cells of a run
//! to each other, [`trust`] says whether they should be believed, [`targets`] decides gates, [`findings`] says what the numbers
//! mean. A statement is made only where the data carries it: what was not measured is not mentioned, and no text holds a NaN.
//! `docs/insight.md` lists every finding: when it is raised, from what, how severe it is, what to try.

mod analysis;
mod bottleneck;
mod capacity;
mod compare;
mod draft;
mod error;
mod facts;
mod findings;
mod lengths;
mod next_round;
mod outages;
mod progress;
mod regimes;
mod scenario;
mod server_phases;
mod signals;
mod target;
mod text;
mod trust;
mod tuning;
mod view;

pub use analysis::{analyse_run, analysis, scaling_by_tag};
pub use bottleneck::{Bottleneck, BottleneckKind, bottlenecks};
pub use capacity::{CapacityAssumptions, CapacityFigure, capacity};
pub use compare::{
    ComparedSamples, ComparisonRow, ComparisonVerdict, GateOutcome, GateVerdict, RegressionRule,
    RunComparison, compare, gate,
};
pub use error::InsightError;
pub use facts::{
    CellFacts, CellSamples, FactKeeper, Outage, RequestSample, SampleKeeper, Stall, TrustFacts,
};
pub use findings::{findings, findings_by_tag, findings_with, planning_findings};
pub use next_round::{NextTarget, next_round};
pub use progress::{ProgressOutcome, TargetProgress, progress};
pub use regimes::{Mode, Regime, RegimeSeries, Regimes, regimes};
pub use scenario::{
    Scenario, ScenarioLine, ScenarioOutcome, ScenarioSet, judge, parse_slo, scenario_findings,
};
pub use server_phases::server_phases;
pub use target::{Target, targets};
pub use trust::trust;
