//! Prompt lengths by the server's own tokenizer, asked before a measurement and remembered during it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use bench_client::{Clock, Fetcher, Probe};
use bench_workload::{CountWith, TokenCounter};

use crate::RunError;

/// Results and documentation call it this.
pub(crate) const NAME: &str = "server /tokenize";

/// A token counter that asks `/tokenize`, or `None` where the server has none.
///
/// Every answer is remembered: a plan that was walked once before the measurement asks nothing during it.
pub(crate) fn token_counter(
    fetcher: &Fetcher,
    model: &str,
    clock: &Clock,
) -> Result<Option<Arc<dyn TokenCounter>>, RunError> {
    let probe = Probe::new(fetcher.clone(), clock.clone())
        .map_err(|error| RunError::Client(error.to_string()))?;
    let model = model.to_owned();
    if !matches!(probe.tokenize(&model, "one two three"), Ok(Some(_))) {
        return Ok(None);
    }
    let known: Mutex<HashMap<u64, u64>> = Mutex::default();
    let count = move |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        let remembered = known.lock().ok().and_then(|known| known.get(&key).copied());
        if let Some(count) = remembered {
            return Ok(count);
        }
        let count = match probe.tokenize(&model, text) {
            Ok(Some(tokenized)) => tokenized.count,
            Ok(None) => return Err("the server has no /tokenize any more".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        if let Ok(mut known) = known.lock() {
            known.insert(key, count);
        }
        Ok(count)
    };
    Ok(Some(Arc::new(CountWith::new(NAME, count))))
}
