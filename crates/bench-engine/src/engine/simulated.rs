//! The simulated scheduler in real time: steps that compute nothing and take as long as computing would.

use std::sync::Arc;

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use tokio::sync::mpsc;

use super::Submission;
use super::batch::Batch;
use super::scheduler::Plan;
use crate::clock::{from_ns_f64, now_ns};
use crate::config::Simulation;
use crate::fault::mix;
use crate::metrics::Metrics;
use crate::pacer::Pacer;

/// Runs the scheduler until nobody can submit any more.
pub(crate) async fn drive(
    config: Simulation,
    seed: u64,
    vocabulary: u32,
    mut inbox: mpsc::Receiver<Submission>,
    (metrics, pacer): (Arc<Metrics>, std::rc::Rc<Pacer>),
) {
    let mut batch = Batch::new(config.scheduler.clone(), metrics);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut begin = 0;
    loop {
        if batch.scheduler.is_idle() {
            let Some(first) = inbox.recv().await else {
                return;
            };
            batch.add(first);
            begin = now_ns();
        }
        while let Ok(more) = inbox.try_recv() {
            batch.add(more);
        }
        batch.reap();
        let plan = batch.plan(begin);
        // The end follows from the beginning, not from when this thread woke: steps do not drift.
        let end = begin + step_ns(&config, &plan, &mut rng);
        pacer.until(end).await;
        for item in &plan.items {
            let token = item.sample.then(|| {
                let (seed, made) = batch
                    .request(item.id)
                    .map_or((0, 0), |(request, made)| (request.seed, made));
                u32::try_from(mix(seed ^ (u64::from(made) << 32)) % u64::from(vocabulary))
                    .unwrap_or(0)
            });
            batch.deliver(item, token, end, false);
        }
        begin = end;
    }
}

/// How long a step takes: its fixed part, its decodes, what they attend to, and the prompts beside them.
fn step_ns(config: &Simulation, plan: &Plan, rng: &mut ChaCha12Rng) -> u64 {
    if plan.items.is_empty() {
        return 0;
    }
    let decodes = plan
        .items
        .iter()
        .filter(|item| item.count == 1 && item.sample);
    let context: usize = decodes.clone().map(|item| item.from).sum();
    let decoding = decodes.count();
    let tokens: usize = plan.items.iter().map(|item| item.count).sum();
    let prefill =
        (tokens - decoding) as f64 / config.prefill_tokens_per_s.max(f64::MIN_POSITIVE) * 1e9;
    let fixed = config.step_ms * 1e6;
    let batch = config.step_ms_per_sequence * 1e6 * decoding as f64;
    let attention = config.step_us_per_context_token * 1e3 * context as f64;
    let z: f64 = if config.jitter > 0.0 {
        StandardNormal.sample(rng)
    } else {
        0.0
    };
    from_ns_f64((fixed + batch + attention + prefill) * (config.jitter * z).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scheduler::Item;

    #[test]
    fn a_step_costs_its_base_its_decodes_their_context_and_its_prompt() {
        let config = Simulation {
            step_ms: 5.0,
            step_ms_per_sequence: 1.0,
            step_us_per_context_token: 10.0,
            prefill_tokens_per_s: 1000.0,
            jitter: 0.0,
            ..Simulation::default()
        };
        let decode = Item {
            id: 1,
            from: 100,
            count: 1,
            sample: true,
        };
        let prompt = Item {
            id: 2,
            from: 0,
            count: 20,
            sample: true,
        };
        let plan = Plan {
            items: vec![decode, prompt],
            ..Plan::default()
        };
        let ns = step_ns(&config, &plan, &mut ChaCha12Rng::seed_from_u64(1));
        assert_eq!(ns, 5_000_000 + 1_000_000 + 1_000_000 + 20_000_000);
        assert_eq!(
            step_ns(
                &config,
                &Plan::default(),
                &mut ChaCha12Rng::seed_from_u64(1)
            ),
            0
        );
    }
}
