//! The client under load: one worker thread, as a run has them.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_client::{Client, Clock, ReadBatching, Target, thread_schedstat};
use bench_schema::{Exchange, GenerationRequest, Nanos, Prompt, Sampling};
use tokio::task::{JoinSet, LocalSet};

use crate::compare::resident_bytes;
use crate::options::Options;

/// What the worker saw and what it cost.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) exchanges: Vec<(String, Exchange)>,
    pub(crate) clock: Clock,
    pub(crate) cpu: Nanos,
    pub(crate) waited: Nanos,
    /// Resident memory of the process when half of the answers had begun.
    pub(crate) resident: u64,
}

/// Run the load on a thread of its own and join it.
pub(crate) fn measure(options: &Options, target: &Target) -> Result<Measured, String> {
    let over = Arc::new(AtomicBool::new(false));
    let burner = options.busy.then(|| {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    });
    let (options, target) = (options.clone(), Arc::new(target.clone()));
    let worker = std::thread::spawn(move || work(&options, target));
    let measured = worker
        .join()
        .map_err(|_| "the worker panicked".to_owned())?;
    over.store(true, Ordering::Relaxed);
    if let Some(burner) = burner {
        burner
            .join()
            .map_err(|_| "the burner panicked".to_owned())?;
    }
    measured
}

fn work(options: &Options, target: Arc<Target>) -> Result<Measured, String> {
    let clock = Clock::start();
    let batching = ReadBatching::new(clock.clone(), Nanos::new(options.late_us * 1_000));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(batching.park_hook())
        .on_thread_unpark(batching.wake_hook())
        .build()
        .map_err(|error| error.to_string())?;
    let tasks = LocalSet::new();
    runtime.block_on(batching.around(tasks.run_until(async {
        let mut client = Client::new(target, clock.clone()).map_err(|error| error.to_string())?;
        client.batch_reads(&batching);
        let client = Rc::new(client);
        let before = thread_schedstat().unwrap_or_default();
        let (exchanges, resident) = load(options, &client).await;
        let after = thread_schedstat().unwrap_or_default();
        Ok(Measured {
            exchanges,
            clock,
            cpu: after.cpu - before.cpu,
            waited: after.run_queue_wait - before.run_queue_wait,
            resident,
        })
    })))
}

async fn load(options: &Options, client: &Rc<Client>) -> (Vec<(String, Exchange)>, u64) {
    let mut streams = JoinSet::new();
    for stream in 0..options.streams {
        let (client, rounds, question) = (Rc::clone(client), options.rounds, question(options));
        streams.spawn_local(async move {
            let mut own = Vec::with_capacity(rounds);
            for round in 0..rounds {
                let id = format!("s{stream}-{round}");
                let exchange = client.send(&question, &id).await;
                own.push((id, exchange));
            }
            own
        });
    }
    // The middle of the first answers, when all streams are open.
    let middle = options.ttft_ms + options.itl_ms * f64::from(options.tokens) / 2.0;
    tokio::time::sleep(Nanos::from_secs_f64(middle / 1e3).to_duration()).await;
    let resident = resident_bytes();
    let mut exchanges = Vec::new();
    while let Some(done) = streams.join_next().await {
        exchanges.extend(done.unwrap_or_default());
    }
    (exchanges, resident)
}

fn question(options: &Options) -> GenerationRequest {
    GenerationRequest {
        prompt: Prompt::Text("Tell me the truth.".into()),
        max_tokens: Some(options.tokens),
        min_tokens: None,
        ignore_eos: true,
        sampling: Sampling::default(),
        stream: true,
        extra_body: None,
    }
}
