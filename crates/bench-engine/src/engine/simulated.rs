//! The simulated scheduler in real time: steps that compute nothing and take as long as computing would.

use std::rc::Rc;
use std::sync::Arc;

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use tokio::sync::mpsc;

use super::Submission;
use super::batch::Batch;
use super::scheduler::{Id, Plan};
use crate::clock::Pacer;
use crate::clock::now_ns;
use crate::conditions::Conditions;
use crate::config::Simulation;
use crate::fault::mix;
use crate::local::Local;

/// The loop of the simulated scheduler.
pub(crate) struct Driver {
    config: Simulation,
    vocabulary: u32,
    batch: Batch,
    rng: ChaCha12Rng,
    conditions: Arc<Conditions>,
    pacer: Rc<Pacer>,
}

impl Driver {
    pub(crate) fn new(config: Simulation, vocabulary: u32, local: &Local) -> Self {
        Self {
            batch: Batch::new(config.scheduler.clone(), Arc::clone(&local.server.metrics)),
            rng: ChaCha12Rng::seed_from_u64(local.server.config.seed),
            conditions: Arc::clone(&local.server.conditions),
            pacer: Rc::clone(&local.pacer),
            config,
            vocabulary,
        }
    }

    /// Runs until nobody can submit any more.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Submission>) {
        let mut begin = 0;
        loop {
            if self.batch.scheduler.is_idle() {
                let Some(first) = inbox.recv().await else {
                    return;
                };
                self.batch.add(first);
                begin = now_ns();
            }
            while let Ok(more) = inbox.try_recv() {
                self.batch.add(more);
            }
            self.batch.reap();
            let plan = self.batch.plan(begin);
            // The end follows from the beginning, not from when this thread woke: steps do not drift.
            let end = self.end_of(&plan, begin);
            self.pacer.until(end).await;
            for item in &plan.items {
                let token = item.sample.then(|| self.token(item.id));
                self.batch.deliver(item, token, end, false);
            }
            begin = end;
        }
    }

    fn end_of(&mut self, plan: &Plan, begin: u64) -> u64 {
        let ns = step_ns(&self.config, plan, &mut self.rng);
        let cold: u64 = plan
            .admitted
            .iter()
            .map(|_| self.conditions.cold_request_ns())
            .sum();
        let cold = cold + self.conditions.cold_shape_ns(plan.items.len());
        self.conditions.done(begin, ns) + cold
    }

    fn token(&self, id: Id) -> u32 {
        let (seed, made) = self
            .batch
            .request(id)
            .map_or((0, 0), |(request, made)| (request.seed, made));
        let id = mix(seed ^ (u64::from(made) << 32)) % u64::from(self.vocabulary);
        u32::try_from(id).unwrap_or(0)
    }
}

/// How long a step takes: its fixed part, its decodes, what they attend to, and the prompts beside them.
fn step_ns(config: &Simulation, plan: &Plan, rng: &mut ChaCha12Rng) -> f64 {
    if plan.items.is_empty() {
        return 0.0;
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
    (fixed + batch + attention + prefill) * (config.jitter * z).exp()
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
        assert!((ns - (5e6 + 1e6 + 1e6 + 20e6)).abs() < 1e-3, "{ns}");
        let idle = step_ns(
            &config,
            &Plan::default(),
            &mut ChaCha12Rng::seed_from_u64(1),
        );
        assert!(idle.abs() < 1e-9);
    }
}
