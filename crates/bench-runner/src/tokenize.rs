//! Prompt lengths by the server's own tokenizer, asked before a measurement and remembered during it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

use bench_client::{Clock, Probe, Target};
use bench_workload::{CountWith, Sizer};

use crate::RunError;

/// Results and documentation call it this.
pub(crate) const NAME: &str = "server /tokenize";

type Question = (String, Sender<Result<u64, String>>);

/// A sizer that asks `/tokenize`, or `None` where the server has none.
///
/// Questions go to a thread of its own, because prompts are made on threads that already drive a runtime. Every answer is remembered: a plan
/// that was walked once before the measurement asks nothing during it.
pub(crate) async fn sizer(
    target: &Arc<Target>,
    clock: &Clock,
) -> Result<Option<Arc<dyn Sizer>>, RunError> {
    let probe = Probe::new(Arc::clone(target), clock.clone())
        .map_err(|error| RunError::Client(error.to_string()))?;
    if !matches!(probe.tokenize("one two three").await, Ok(Some(_))) {
        return Ok(None);
    }
    let ask = Mutex::new(start(Arc::clone(target), clock.clone())?);
    let known: Mutex<HashMap<u64, u64>> = Mutex::default();
    let count = move |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        let remembered = known.lock().ok().and_then(|known| known.get(&key).copied());
        if let Some(count) = remembered {
            return Ok(count);
        }
        let (answer, receive) = mpsc::channel();
        let gone = || "the thread that asks /tokenize has ended".to_owned();
        ask.lock()
            .map_err(|_| gone())?
            .send((text.to_owned(), answer))
            .map_err(|_| gone())?;
        let count = receive.recv().map_err(|_| gone())??;
        if let Ok(mut known) = known.lock() {
            known.insert(key, count);
        }
        Ok(count)
    };
    Ok(Some(Arc::new(CountWith::new(NAME, count))))
}

/// The thread ends when the last sizer is dropped.
fn start(target: Arc<Target>, clock: Clock) -> Result<Sender<Question>, RunError> {
    let (ask, questions) = mpsc::channel::<Question>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Thread)?;
    let answer = move || {
        let Ok(probe) = Probe::new(target, clock) else {
            return;
        };
        for (text, reply) in questions {
            let count = runtime.block_on(probe.tokenize(&text));
            let count = match count {
                Ok(Some(tokenized)) => Ok(tokenized.count),
                Ok(None) => Err("the server has no /tokenize any more".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            // whoever asked may have given up
            reply.send(count).ok();
        }
    };
    std::thread::Builder::new()
        .name("tokenize".to_owned())
        .spawn(answer)
        .map_err(RunError::Thread)?;
    Ok(ask)
}
