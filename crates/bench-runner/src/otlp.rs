//! Pushes what `--metrics-listen` serves to an OpenTelemetry collector (`--otlp`): OTLP over HTTP, as JSON.
//!
//! The page of metrics is translated, so the two cannot differ. A push that fails is dropped: the next one carries the totals again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench_client::{Clock, Fetcher};
use bench_hardware::{Page, Sample};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::config::Address;
use crate::live_metrics::LiveMetrics;
use crate::progress::Progress;

/// From the answer to a push to the next one.
const EVERY: Duration = Duration::from_secs(5);
/// Time that a push may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest answer that is read.
const MOST_BYTES: usize = 64 << 10;
/// Totals since the start, in OTLP's numbering.
const CUMULATIVE: u8 = 2;

/// Pushes until it is finished or dropped.
pub(crate) struct Pushing {
    pusher: Rc<Pusher>,
    /// The one task that pushes.
    task: JoinSet<()>,
}

pub(crate) struct Pusher {
    url: String,
    /// The address as it may be shown.
    shown: String,
    fetcher: Fetcher,
    live: Arc<LiveMetrics>,
    clock: Clock,
    progress: Progress,
    /// Whether a failure has been reported.
    reported: std::cell::Cell<bool>,
}

impl Pusher {
    /// To the collector at `to`, whatever `live` counts.
    pub(crate) fn new(
        to: &Address,
        fetcher: Fetcher,
        live: Arc<LiveMetrics>,
        (clock, progress): (Clock, Progress),
    ) -> Self {
        Self {
            url: with_path(to.expose()),
            shown: to.to_string(),
            fetcher,
            live,
            clock,
            progress,
            reported: std::cell::Cell::default(),
        }
    }

    /// Push every few seconds from now on.
    pub(crate) fn start(self) -> Pushing {
        let pusher = Rc::new(self);
        let own = Rc::clone(&pusher);
        let mut task = JoinSet::new();
        task.spawn_local(async move {
            loop {
                own.push().await;
                tokio::time::sleep(EVERY).await;
            }
        });
        Pushing { pusher, task }
    }

    async fn push(&self) {
        let now =
            self.clock.unix_epoch_ns() + (self.clock.now() - bench_schema::Stamp::EPOCH).get();
        let page = Page::parse(self.live.page().as_bytes()).unwrap_or_default();
        let body = body(&page, self.clock.unix_epoch_ns(), now).to_string();
        let limits = (PATIENCE, MOST_BYTES);
        let pushed = (self.fetcher).push(&self.url, body.into_bytes(), limits);
        let failed = match pushed.await {
            Ok(answer) => rejected(&answer),
            Err(why) => Some(why),
        };
        if let Some(why) = failed.filter(|_| !self.reported.replace(true)) {
            self.progress.note(&format!(
                "warning: metrics could not be pushed to {}: {why}; the run goes on, and tries again every {} s without further messages",
                self.shown,
                EVERY.as_secs()
            ));
        }
    }
}

impl Pushing {
    /// Push the last state, and no more.
    pub(crate) async fn finish(mut self) {
        self.task.shutdown().await;
        self.pusher.push().await;
    }
}

/// As `OTEL_EXPORTER_OTLP_ENDPOINT` is used by the exporters of OpenTelemetry where there is no path, else as it stands.
fn with_path(url: &str) -> String {
    let bare = url.strip_suffix('/').unwrap_or(url);
    match bare.split_once("://") {
        Some((_, host)) if !host.contains(['/', '?']) => format!("{bare}/v1/metrics"),
        _ => url.to_owned(),
    }
}

/// Why a collector that answered did not take everything.
fn rejected(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let part = answer.get("partialSuccess")?;
    let count = match part.get("rejectedDataPoints")? {
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    let why = part.get("errorMessage").and_then(Value::as_str);
    let why = why
        .filter(|why| !why.is_empty())
        .unwrap_or("no reason given");
    (count != "0").then(|| format!("it rejected {count} data points: {why}"))
}

/// The page as an `ExportMetricsServiceRequest`.
fn body(page: &Page, began: i64, now: i64) -> Value {
    let times = (began.to_string(), now.to_string());
    let (info, samples): (Vec<&Sample>, Vec<_>) =
        (page.samples.iter()).partition(|sample| sample.name.ends_with("_info"));
    let resource: Vec<Value> = (info.iter().flat_map(|sample| &sample.labels))
        .map(|(name, value)| match name.as_str() {
            "benchmark" => attribute("service.name", value),
            "version" => attribute("service.version", value),
            "started_at" => attribute(
                "service.instance.id",
                &format!("{value} {}", std::process::id()),
            ),
            other => attribute(&format!("bench.{other}"), value),
        })
        .collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{
            "scope": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics(&samples, &times),
        }],
    }] })
}

/// Samples under the names that Prometheus makes the page's names of: `_total` and `_seconds` follow from the kind and the unit.
fn metrics(samples: &[&Sample], times: &(String, String)) -> Vec<Value> {
    let bucket = |sample: &&Sample| sample.name.strip_suffix("_bucket").map(str::to_owned);
    let histograms: BTreeSet<String> = samples.iter().filter_map(bucket).collect();
    let part_of = |sample: &Sample| {
        let (base, part) = sample.name.rsplit_once('_')?;
        histograms
            .contains(base)
            .then(|| (base.to_owned(), part.to_owned()))
    };
    let mut points: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
    let mut spread: BTreeMap<(String, Vec<(String, String)>), Spread> = BTreeMap::new();
    for sample in samples {
        if let Some((base, part)) = part_of(sample) {
            let labels = (sample.labels.iter()).filter(|(name, _)| *name != "le");
            let labels = labels.map(|(name, value)| (name.clone(), value.clone()));
            let one = spread.entry((base, labels.collect())).or_default();
            match part.as_str() {
                "sum" => one.sum = sample.value,
                "count" => one.count = sample.value,
                _ => one.buckets.push((
                    sample.label("le").unwrap_or_default().to_owned(),
                    sample.value,
                )),
            }
            continue;
        }
        let labels = sample
            .labels
            .iter()
            .map(|(name, value)| attribute(name, value));
        let mut point = point(labels.collect(), times);
        point.insert("asInt".to_owned(), whole(sample.value));
        let key = match sample.name.strip_suffix("_total") {
            Some(name) => ("sum", name.to_owned()),
            None => ("gauge", sample.name.clone()),
        };
        points.entry(key).or_default().push(point.into());
    }
    for ((name, labels), one) in spread {
        let labels = labels.iter().map(|(name, value)| attribute(name, value));
        let point = one.point(point(labels.collect(), times));
        points
            .entry(("histogram", name))
            .or_default()
            .push(point.into());
    }
    let metric = |((kind, name), points): ((&str, String), Vec<Value>)| {
        let (name, unit) = match name.strip_suffix("_seconds") {
            Some(bare) => (bare, "s"),
            // of the unit "1" Prometheus would make a ratio
            None => (name.as_str(), ""),
        };
        let mut data = json!({ "dataPoints": points });
        if kind != "gauge" {
            data["aggregationTemporality"] = CUMULATIVE.into();
        }
        if kind == "sum" {
            data["isMonotonic"] = true.into();
        }
        json!({ "name": name, "unit": unit, kind: data })
    };
    points.into_iter().map(metric).collect()
}

/// A histogram with its labels: buckets with the counts up to their bounds, in rising order.
#[derive(Default)]
struct Spread {
    sum: f64,
    count: f64,
    buckets: Vec<(String, f64)>,
}

impl Spread {
    fn point(&self, mut point: Map<String, Value>) -> Map<String, Value> {
        let bounds = self
            .buckets
            .iter()
            .filter_map(|(le, _)| le.parse::<f64>().ok());
        let bounds: Vec<f64> = bounds.filter(|bound| bound.is_finite()).collect();
        let mut below = 0.0;
        let counts = self.buckets.iter().map(|(_, up_to)| {
            let own = up_to - below;
            below = *up_to;
            whole(own)
        });
        point.insert("bucketCounts".to_owned(), counts.collect());
        point.insert("explicitBounds".to_owned(), bounds.into());
        point.insert("count".to_owned(), whole(self.count));
        point.insert("sum".to_owned(), self.sum.into());
        point
    }
}

fn point(attributes: Vec<Value>, (began, now): &(String, String)) -> Map<String, Value> {
    Map::from_iter([
        ("attributes".to_owned(), attributes.into()),
        ("startTimeUnixNano".to_owned(), began.as_str().into()),
        ("timeUnixNano".to_owned(), now.as_str().into()),
    ])
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

/// JSON has 64-bit integers as text.
fn whole(value: f64) -> Value {
    format!("{value:.0}").into()
}

#[cfg(test)]
#[path = "../tests/unit/otlp.rs"]
mod tests;
