//! A Prometheus server's query API: instant queries for what another host's exporters say.

use std::collections::BTreeMap;
use std::sync::Arc;

use bench_schema::{Nanos, ReadingSource};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::HardwareError;
use crate::config::PrometheusQueries;
use crate::exposition::Sample;
use crate::names::{Facts, Part, dcgm_by_gpu, dcgm_query};
use crate::reading::{Draft, Round};
use crate::sampler::Source;
use crate::scrape::{Fetch, FetchLimits, without_credentials};

/// Asks a list of queries again and again.
pub(crate) struct QuerySource {
    instance: String,
    queries: Vec<Query>,
    fetch: Arc<dyn Fetch>,
    limits: FetchLimits,
    facts: Facts,
}

struct Query {
    /// What its values are called; `None` where the series have names that are known: those of GPUs.
    name: Option<String>,
    /// The address with the query in it.
    url: String,
}

impl QuerySource {
    pub(crate) fn new(
        queries: &PrometheusQueries,
        fetch: Arc<dyn Fetch>,
        limits: FetchLimits,
    ) -> Self {
        let base = queries.url.trim_end_matches('/');
        let query = |name: Option<&str>, promql: &str| Query {
            name: name.map(str::to_owned),
            url: format!("{base}/api/v1/query?query={}", percent_encoded(promql)),
        };
        let gpus = queries.gpus.as_deref().map(dcgm_query);
        let gpus = gpus.map(|promql| query(None, &promql));
        let named = queries.queries.iter();
        let named = named.map(|(name, promql)| query(Some(name), promql));
        Self {
            instance: without_credentials(base),
            queries: gpus.into_iter().chain(named).collect(),
            fetch,
            limits,
            facts: Facts::default(),
        }
    }
}

impl Source for QuerySource {
    fn source(&self) -> ReadingSource {
        ReadingSource::Prometheus
    }

    fn cpu_elsewhere(&self) -> Nanos {
        self.fetch.take_cpu()
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.facts.known()
    }

    fn read(&mut self, round: &mut Round<'_>) {
        for query in &self.queries {
            let from = (round.now)();
            let samples = self
                .fetch
                .get(&query.url, self.limits)
                .and_then(|body| instant(&body).map_err(|error| error.to_string()));
            if let Ok(samples) = &samples {
                self.facts.learn(samples);
            }
            let parts = samples.and_then(|samples| parts(query.name.as_deref(), &samples));
            let window = (from, Some((round.now)()));
            let mut say = |part: &str, fill: &dyn Fn(&mut Draft<'_>)| {
                let instance = format!("{} {part}", self.instance);
                let source = ReadingSource::Prometheus;
                round.hand_on(source, instance.trim_end(), window, fill);
            };
            match parts {
                Ok(parts) => {
                    for (name, part) in &parts {
                        say(name, &|draft| draft.take(part));
                    }
                }
                Err(why) => {
                    let name = query.name.as_deref().unwrap_or("gpu");
                    say("", &|draft| draft.unknown(name, why.clone()));
                }
            }
        }
    }
}

/// Series or GPUs of one query that may be stored: one meant for a few figures that finds thousands is a mistake.
const MAX_PARTS: usize = 256;

/// What a query's samples say: of each GPU where it asks for these, else of each series, by its labels, under the query's name.
fn parts(name: Option<&str>, samples: &[Sample]) -> Result<BTreeMap<String, Part>, String> {
    let (parts, kind) = match name {
        None => (dcgm_by_gpu(samples), "GPUs"),
        Some(name) => {
            let part = |sample: &Sample| Part {
                values: [(name.to_owned(), sample.value)].into(),
                ..Part::default()
            };
            let parts = samples.iter().map(|s| (shown(&s.labels), part(s)));
            (parts.collect(), "series")
        }
    };
    match parts.len() {
        0 if name.is_none() => Err("it has no GPUs from a DCGM exporter".to_owned()),
        0 => Err("the query returns nothing".to_owned()),
        found if found > MAX_PARTS => Err(format!(
            "it returns {found} {kind}, more than the limit of {MAX_PARTS}: select by labels"
        )),
        _ => Ok(parts),
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<QueryResult>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum QueryResult {
    Vector(Vec<Element>),
    Scalar((f64, String)),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Element {
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
}

/// The samples of an instant query's answer; one that comes of a calculation has no name, a scalar no labels either.
///
/// # Errors
/// [`HardwareError::NotAQueryAnswer`] where it is an error, a range, a text, or not such an answer at all.
pub(crate) fn instant(body: &[u8]) -> Result<Vec<Sample>, HardwareError> {
    let wrong = |why: String| HardwareError::NotAQueryAnswer { why };
    let answer: Answer = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    if answer.status != "success" {
        let error = answer.error.unwrap_or(answer.status);
        return Err(wrong(format!("the server reports `{error}`")));
    }
    let number = |text: &str| {
        text.parse::<f64>()
            .map_err(|_| wrong(format!("`{text}` is not a number")))
    };
    match answer.data {
        Some(QueryResult::Scalar((_, value))) => Ok(vec![Sample {
            name: String::new(),
            labels: BTreeMap::new(),
            value: number(&value)?,
        }]),
        Some(QueryResult::Vector(elements)) => elements
            .into_iter()
            .map(|element| {
                let (_, value) = element.value.ok_or_else(|| {
                    wrong("a series without a value (a native histogram?)".to_owned())
                })?;
                let mut labels = element.metric;
                Ok(Sample {
                    name: labels.remove("__name__").unwrap_or_default(),
                    labels,
                    value: number(&value)?,
                })
            })
            .collect(),
        Some(QueryResult::Matrix(_)) => Err(wrong("a range; use an instant query".to_owned())),
        Some(QueryResult::String(_)) => Err(wrong("a string, not a number".to_owned())),
        None => Err(wrong("it has no data".to_owned())),
    }
}

fn shown(labels: &BTreeMap<String, String>) -> String {
    let parts = labels.iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(",")
}

/// RFC 3986: everything but unreserved characters is encoded.
fn percent_encoded(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
#[path = "../tests/unit/query.rs"]
mod tests;
