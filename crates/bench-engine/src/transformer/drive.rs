//! The thread that computes: takes requests in, asks the scheduler, steps the model, hands tokens out.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use rayon::prelude::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use tokio::sync::{mpsc, watch};

use crate::EngineError;
use crate::clock::now_ns;
use crate::config::Limits;
use crate::engine::Submission;
use crate::engine::batch::Batch;
use crate::engine::scheduler::{Id, Plan};
use crate::fault::mix;
use crate::metrics::Metrics;
use crate::transformer::Loaded;
use crate::transformer::model::{Cache, Stretch};

/// How the thread hears of requests and of the end.
pub(crate) struct Inlet {
    pub(crate) inbox: mpsc::Receiver<Submission>,
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Starts the thread; it ends with the server.
pub(crate) fn start(
    loaded: Loaded,
    limits: Limits,
    inlet: Inlet,
    metrics: Arc<Metrics>,
) -> Result<JoinHandle<()>, EngineError> {
    let failed = |source| EngineError::Start {
        what: "computing threads",
        source,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(loaded.threads)
        .thread_name(|at| format!("compute-{at}"))
        .start_handler(|_| {
            // A client on the same processors is woken for each token: arithmetic waits for it, not the other way round.
            // On Linux "this process" is this thread, and a refusal changes nothing that is computed.
            #[cfg(target_os = "linux")]
            let _refused = rustix::process::setpriority_process(None, 5);
        })
        .build()
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let waiter = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(failed)?;
    let mut compute = Compute {
        loaded,
        batch: Batch::new(limits, metrics),
        caches: HashMap::new(),
    };
    let Inlet { mut inbox, stopped } = inlet;
    let body = move || {
        while !*stopped.borrow() {
            if compute.batch.scheduler.is_idle() {
                let Some(first) = waiter.block_on(next(&mut inbox, stopped.clone())) else {
                    return;
                };
                compute.batch.add(first);
            }
            while let Ok(more) = inbox.try_recv() {
                compute.batch.add(more);
            }
            pool.install(|| compute.step());
        }
    };
    std::thread::Builder::new()
        .name("model".into())
        .spawn(body)
        .map_err(failed)
}

async fn next(
    inbox: &mut mpsc::Receiver<Submission>,
    mut stopped: watch::Receiver<bool>,
) -> Option<Submission> {
    tokio::select! {
        submission = inbox.recv() => submission,
        _ = stopped.wait_for(|stop| *stop) => None,
    }
}

struct Compute {
    loaded: Loaded,
    batch: Batch,
    caches: HashMap<Id, Cache>,
}

impl Compute {
    fn step(&mut self) {
        for id in self.batch.reap() {
            self.caches.remove(&id);
        }
        let plan = self.batch.plan(now_ns());
        for id in plan.preempted.iter().chain(&plan.starved) {
            self.caches.remove(id);
        }
        if plan.items.is_empty() {
            return;
        }
        let tokens = self.compute(&plan);
        let due = now_ns();
        for (item, token) in plan.items.iter().zip(tokens) {
            let is_end = token.is_some_and(|token| self.loaded.ends.contains(&token));
            if self.batch.deliver(item, token, due, is_end) {
                self.caches.remove(&item.id);
            }
        }
    }

    /// The token that comes of each item, for those where one does.
    fn compute(&mut self, plan: &Plan) -> Vec<Option<u32>> {
        let model = &self.loaded.model;
        let mut caches: Vec<Cache> = plan
            .items
            .iter()
            .map(|item| {
                self.caches
                    .remove(&item.id)
                    .unwrap_or_else(|| model.cache())
            })
            .collect();
        let mut stretches: Vec<Stretch<'_>> = plan
            .items
            .iter()
            .zip(&mut caches)
            .map(|(item, cache)| {
                let tokens =
                    &self.batch.scheduler.tokens(item.id)[item.from..item.from + item.count];
                Stretch {
                    cache,
                    tokens,
                    from: item.from,
                    wanted: item.sample,
                }
            })
            .collect();
        let logits = model.step(&mut stretches);
        let wanted: Vec<(f32, u64, u32)> = plan
            .items
            .iter()
            .filter(|item| item.sample)
            .map(|item| {
                let request = self.batch.request(item.id);
                request.map_or((0.0, 0, 0), |(request, made)| {
                    (request.temperature, request.seed, made)
                })
            })
            .collect();
        let vocabulary = model.shape().vocabulary;
        let drawn: Vec<u32> = wanted
            .par_iter()
            .enumerate()
            .map(|(at, (temperature, seed, made))| {
                sample(
                    &logits[at * vocabulary..(at + 1) * vocabulary],
                    *temperature,
                    *seed,
                    *made,
                )
            })
            .collect();
        self.caches
            .extend(plan.items.iter().map(|item| item.id).zip(caches));
        let mut drawn = drawn.into_iter();
        plan.items
            .iter()
            .map(|item| if item.sample { drawn.next() } else { None })
            .collect()
    }
}

// From logits to a token.

/// The likeliest id at temperature 0, else one drawn by its share; the same for the same seed and number.
pub(crate) fn sample(logits: &[f32], temperature: f32, seed: u64, number: u32) -> u32 {
    let (best, most) =
        logits
            .iter()
            .enumerate()
            .fold((0, f32::NEG_INFINITY), |best, (at, value)| {
                if *value > best.1 { (at, *value) } else { best }
            });
    let id = if temperature > 0.0 {
        draw(logits, temperature, most, mix(seed ^ u64::from(number)))
    } else {
        best
    };
    u32::try_from(id).unwrap_or(0)
}

fn draw(logits: &[f32], temperature: f32, most: f32, bits: u64) -> usize {
    let share = |value: f32| ((value - most) / temperature).exp();
    let total: f32 = logits.iter().map(|value| share(*value)).sum();
    let mut left = (bits >> 40) as f32 / (1u32 << 24) as f32 * total;
    for (at, value) in logits.iter().enumerate() {
        left -= share(*value);
        if left < 0.0 {
            return at;
        }
    }
    logits.len().saturating_sub(1)
}

#[cfg(test)]
#[path = "../../tests/unit/transformer_drive.rs"]
mod tests;
