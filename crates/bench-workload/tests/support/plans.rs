//! What the tests of plans share.

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load};
use bench_workload::{Plan, PlanSpec, Planned, Seed, Words};

pub(crate) type Problem = Box<dyn std::error::Error>;

pub(crate) fn open(rate_per_s: f64, arrival: ArrivalKind) -> Load {
    Load::Open {
        rate_per_s,
        arrival,
        in_flight_cap: None,
    }
}

pub(crate) fn spec(dataset: &str) -> Result<PlanSpec, Problem> {
    Ok(PlanSpec {
        dataset: dataset.parse()?,
        requests: Some(60),
        load: open(20.0, ArrivalKind::Poisson),
        seed: Seed::new(42),
        cell: "c8".to_owned(),
        ..PlanSpec::default()
    })
}

pub(crate) fn plan(spec: PlanSpec) -> Result<Plan, Problem> {
    Ok(Plan::new(spec, Arc::new(Words))?)
}

pub(crate) fn all(plan: &Plan) -> Result<Vec<Planned>, Problem> {
    Ok(plan.iter().collect::<Result<_, _>>()?)
}
