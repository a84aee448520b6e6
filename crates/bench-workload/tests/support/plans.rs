//! What the tests of plans share.

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, PlanHash};
use bench_workload::{Plan, PlanSpec, Planned, Seed, Shard, Words};

pub(crate) type Problem = Box<dyn std::error::Error>;

pub(crate) fn open(rate_per_s: f64, arrival: ArrivalKind) -> Load {
    Load::Open {
        rate_per_s: Some(rate_per_s),
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

/// A shard of a plan.
pub(crate) fn part(whole: &Plan, index: u64, count: u64) -> Result<Vec<Planned>, Problem> {
    let shard = Shard { index, count };
    all(&plan(PlanSpec {
        shard,
        ..whole.spec().clone()
    })?)
}

/// The sum of the digests of requests: two plans with the same ask the same at the same times.
pub(crate) fn hash(planned: &[Planned]) -> PlanHash {
    let mut sum = PlanHash::default();
    for one in planned {
        sum += one.hash();
    }
    sum
}

pub(crate) fn all(plan: &Plan) -> Result<Vec<Planned>, Problem> {
    Ok(plan.iter().collect::<Result<_, _>>()?)
}
