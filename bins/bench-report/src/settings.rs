//! What the re-aggregation needs of a stored configuration: its texts, as the benchmarks wrote them into `run.json`.

use std::path::Path;

use bench_schema::{RunRecord, Slo};

use crate::error::CommandError;

/// The texts of a key: a text or a list of texts; none where it was not set.
pub(crate) fn texts(run: &RunRecord, key: &str) -> Vec<String> {
    match run.config.get(key) {
        Some(serde_json::Value::String(text)) => vec![text.clone()],
        Some(serde_json::Value::Array(items)) => items
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether a switch was on.
pub(crate) fn switch(run: &RunRecord, key: &str) -> bool {
    texts(run, key).first().is_some_and(|text| text == "true")
        || run.config.get(key).and_then(serde_json::Value::as_bool) == Some(true)
}

/// The objectives, written `[pNN:]METRIC=LIMIT[@USE_CASE]`.
pub(crate) fn slos(run: &RunRecord, path: &Path) -> Result<Vec<Slo>, CommandError> {
    texts(run, "slo")
        .iter()
        .map(|text| {
            bench_insight::parse_slo(text).map_err(|problem| CommandError::Config {
                path: path.to_owned(),
                key: "slo",
                problem,
            })
        })
        .collect()
}
