use bench_schema::RunRecord;
use proptest::prelude::*;

use super::*;

/// A cell with these rules.
fn cell(rules: &[&str]) -> CellRecord {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut cell = RunRecord::from_json(stored).unwrap().cells.remove(0);
    cell.stop.precision = rules.iter().map(|rule| (*rule).to_owned()).collect();
    cell
}

fn request(at: i64, values: &[Option<f64>]) -> EndedRequest {
    let (at, values) = (Stamp::new(at), values.to_vec());
    EndedRequest {
        at,
        values,
        record: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Shards tell of their requests in batches, each shard in its own order, late and one after another: what is decided on so many requests is what one
    /// program decides that looks at as many.
    #[test]
    fn shards_together_decide_what_one_program_would(
        times in proptest::collection::vec((50.0_f64..150.0, 0.0_f64..1.0), 150..900),
        shards in 2_usize..5,
        batch in 1_usize..40,
    ) {
        let rules = ["p50:ttft=8%", "mean:e2e=5%"];
        let all: Vec<_> = times.iter().zip(1_i64..).map(|(&(ttft, failed), at)| {
            let ttft = (failed > 0.1).then_some(ttft);
            request(at, &[ttft, ttft.map(|ttft| 3.0 * ttft)])
        }).collect();
        let mut pooled = PooledStop::new(&cell(&rules), &Asked::default());
        let mut told = Vec::new();
        let mut queues: Vec<_> = (0..shards)
            .map(|shard| all.iter().skip(shard).step_by(shards).cloned().collect::<Vec<_>>().into_iter())
            .collect();
        while !pooled.is_enough() && queues.iter().any(|queue| queue.len() > 0) {
            for queue in queues.iter_mut().rev() {
                if pooled.is_enough() {
                    break;
                }
                let some: Vec<_> = queue.by_ref().take(batch).collect();
                told.extend(some.iter().cloned());
                pooled.add(some);
            }
        }
        // one program that has the same requests, in the order in which they ended
        told.sort_by_key(|request| request.at);
        let values = |metric: Metric| -> Vec<f64> {
            let place = usize::from(metric == Metric::E2e);
            told.iter().filter_map(|request| request.values[place]).collect()
        };
        let alone = StopRule::of(&cell(&rules)).outcomes(values);
        let reached = alone.iter().all(|outcome| outcome.reached);
        // in the end it may not have been looked any more
        let holds = if pooled.is_enough() { reached } else { told.len() == all.len() };
        prop_assert!(holds);
    }
}

#[test]
fn a_rule_that_no_shard_could_meet_alone_is_met_by_all_of_them() {
    let rules = cell(&["mean:ttft=50%"]);
    let of_shard =
        |shard: i64| (0..34).map(move |n| request(4 * n + shard, &[Some(100.0 + (n % 7) as f64)]));
    let mut alone = PooledStop::new(&rules, &Asked::default());
    alone.add(of_shard(0));
    assert!(!alone.is_enough(), "34 requests are too few");
    let mut pooled = PooledStop::new(&rules, &Asked::default());
    for shard in 0..3 {
        assert!(!pooled.is_enough());
        pooled.add(of_shard(shard));
    }
    assert!(pooled.is_enough());
}

#[test]
fn without_a_rule_nothing_ends() {
    let mut pooled = PooledStop::new(&cell(&[]), &Asked::default());
    pooled.add((0..5_000).map(|at| request(at, &[])));
    assert!(!pooled.is_enough());
}

/// The requests that were in flight when a rule was met may widen the interval again.
#[test]
fn a_rule_that_ended_its_cell_was_reached() {
    let mut stop = StopRule::of(&cell(&["mean:ttft=5%"]));
    let calm: Vec<f64> = (0..400).map(|n| 100.0 + f64::from(n % 7)).collect();
    stop.look(calm.len(), |_| calm.clone());
    assert!(stop.is_enough());
    let wild = calm.into_iter().chain([1e6, 2e6]).collect::<Vec<_>>();
    let outcomes = stop.outcomes(|_| wild.clone());
    assert!(outcomes[0].reached && outcomes[0].half_width.is_none_or(|width| width > 0.05));
}
