//! What the re-aggregation needs of a stored configuration: its texts, as the benchmarks wrote them into `run.json`.

use std::path::Path;

use bench_schema::{Metric, RunRecord, Slo, Unit};

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
            slo(text).map_err(|problem| CommandError::Config {
                path: path.to_owned(),
                key: "slo",
                problem,
            })
        })
        .collect()
}

fn slo(text: &str) -> Result<Slo, String> {
    let (rest, use_case) = match text.rsplit_once('@') {
        Some((rest, name)) => (rest, Some(name.trim().to_owned())),
        None => (text, None),
    };
    let (q, rest) = match rest.split_once(':') {
        Some((quantile, rest)) => (percent(quantile)?, rest),
        None => (0.95, rest),
    };
    let (name, limit) = rest
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not METRIC=LIMIT"))?;
    let name = if name.trim() == "e2el" {
        "e2e"
    } else {
        name.trim()
    };
    let metric: Metric = name.parse()?;
    let limit = match metric.unit() {
        Unit::Ns => nanoseconds(limit.trim()),
        _ => limit.trim().parse().ok(),
    };
    Ok(Slo {
        metric,
        q,
        limit: limit.ok_or_else(|| format!("`{text}` has no limit such as 200ms"))?,
        use_case,
    })
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_prefix('p').map(str::parse::<f64>);
    match number {
        Some(Ok(percent)) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("`{text}` is no quantile such as p99")),
    }
}

/// A time with its unit; without one, milliseconds.
fn nanoseconds(text: &str) -> Option<f64> {
    let at = text
        .find(|c: char| c.is_alphabetic() || c == 'µ')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" | "" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    Some(number * scale).filter(|ns| ns.is_finite() && *ns > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_as_the_benchmarks_write_them() {
        let parsed = slo("p99:ttft=200ms@short-qa").unwrap();
        assert_eq!(
            (parsed.metric, parsed.use_case.as_deref()),
            (Metric::Ttft, Some("short-qa"))
        );
        assert!((parsed.q - 0.99).abs() < 1e-12 && (parsed.limit - 2e8).abs() < 1.0);
        assert!((slo("itl=50").unwrap().limit - 5e7).abs() < 1.0);
        assert!((slo("e2el=1.5s").unwrap().limit - 1.5e9).abs() < 1.0);
        for wrong in ["speed=3", "ttft", "ttft=fast", "p200:ttft=1s", "ttft=-1s"] {
            assert!(slo(wrong).is_err(), "{wrong}");
        }
    }
}
