//! A Prometheus server's query API: instant queries for what another host's exporters say.

use std::collections::BTreeMap;
use std::sync::Arc;

use bench_schema::{Reading, ReadingSource, Stamp};
use serde::Deserialize;

use crate::config::PrometheusQueries;
use crate::error::HardwareError;
use crate::fetch::{Fetch, FetchLimits};
use crate::reading::{Draft, Named};
use crate::sampler::Source;
use crate::scrape::without_credentials;

/// Asks a list of queries again and again.
pub(crate) struct QuerySource {
    instance: String,
    /// Name, and the address with the query in it.
    queries: Vec<(String, String)>,
    fetch: Arc<dyn Fetch>,
    limits: FetchLimits,
    named: Named,
}

impl QuerySource {
    pub(crate) fn new(
        queries: &PrometheusQueries,
        fetch: Arc<dyn Fetch>,
        limits: FetchLimits,
    ) -> Self {
        let base = queries.url.trim_end_matches('/');
        let ask = |promql: &str| format!("{base}/api/v1/query?query={}", percent_encoded(promql));
        Self {
            instance: without_credentials(base),
            queries: queries
                .queries
                .iter()
                .map(|(name, promql)| (name.clone(), ask(promql)))
                .collect(),
            fetch,
            limits,
            named: Named::default(),
        }
    }
}

impl Source for QuerySource {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn read(&mut self, now: &dyn Fn() -> Stamp, emit: &mut dyn FnMut(Reading)) {
        for (name, url) in &self.queries {
            let from = now();
            let answer = self
                .fetch
                .get(url, self.limits)
                .and_then(|body| instant(&body).map_err(|error| error.to_string()));
            let to = now();
            let mut say = |instance: &str, value: Result<f64, String>| {
                let source = ReadingSource::Prometheus;
                let mut draft = Draft::new(source, instance, from, &mut self.named);
                draft.set_or_say(name, value);
                draft.finish(to).into_iter().for_each(&mut *emit);
            };
            match answer {
                Err(why) => say(&self.instance, Err(why)),
                Ok(series) if series.is_empty() => {
                    say(&self.instance, Err("the query finds nothing".to_owned()));
                }
                Ok(series) => {
                    for (labels, value) in series {
                        let instance = format!("{} {labels}", self.instance);
                        say(instance.trim_end(), Ok(value));
                    }
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Found>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Found {
    Vector(Vec<Element>),
    Scalar((f64, String)),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Element {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    value: Option<(f64, String)>,
}

/// Series of one instant query that may be stored: a query meant for one figure that finds thousands is a mistake.
const MAX_SERIES: usize = 256;

/// Labels (as text) and value of each series of an instant query's answer; a scalar has no labels.
///
/// # Errors
/// [`HardwareError::NotAQueryAnswer`] where it is an error, a range, a text, or not such an answer at all.
pub(crate) fn instant(body: &[u8]) -> Result<Vec<(String, f64)>, HardwareError> {
    let wrong = |why: String| HardwareError::NotAQueryAnswer { why };
    let answer: Answer = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    if answer.status != "success" {
        let error = answer.error.unwrap_or(answer.status);
        return Err(wrong(format!("the server says `{error}`")));
    }
    let number = |text: &str| {
        text.parse::<f64>()
            .map_err(|_| wrong(format!("`{text}` is not a number")))
    };
    match answer.data {
        Some(Found::Scalar((_, value))) => Ok(vec![(String::new(), number(&value)?)]),
        Some(Found::Vector(elements)) => elements
            .into_iter()
            .take(MAX_SERIES)
            .map(|element| {
                let (_, value) = element.value.ok_or_else(|| {
                    wrong("a series without a value (a native histogram?)".to_owned())
                })?;
                Ok((shown(&element.metric), number(&value)?))
            })
            .collect(),
        Some(Found::Matrix(_)) => Err(wrong("a range; ask for an instant".to_owned())),
        Some(Found::String(_)) => Err(wrong("a text, not a number".to_owned())),
        None => Err(wrong("it has no data".to_owned())),
    }
}

fn shown(labels: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = labels
        .iter()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    parts.join(",")
}

/// RFC 3986: everything but unreserved characters is encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(format!("%{byte:02X}").chars());
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_scalars_are_read_with_their_labels() {
        let vector = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","instance":"h:9400"},"value":[1700000000.1,"97"]},
            {"metric":{"gpu":"1"},"value":[1700000000.1,"NaN"]}]}}"#;
        let series = instant(vector).unwrap();
        assert_eq!(series[0].0, "gpu=0,instance=h:9400");
        assert!((series[0].1 - 97.0).abs() < 1e-9 && series[1].1.is_nan());
        let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#;
        assert_eq!(instant(scalar).unwrap(), [(String::new(), 2.5)]);
    }

    #[test]
    fn what_is_not_an_instant_is_refused_with_the_servers_words() {
        for (body, word) in [
            (
                r#"{"status":"error","errorType":"bad_data","error":"parse error at char 3"}"#,
                "parse error at char 3",
            ),
            (
                r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
                "range",
            ),
            (r#"{"status":"success"}"#, "no data"),
            ("<html>", "expected value"),
        ] {
            let error = instant(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn queries_survive_the_address_line() {
        assert_eq!(
            percent_encoded(r#"avg(a{b="c d"})"#),
            "avg%28a%7Bb%3D%22c%20d%22%7D%29"
        );
    }
}
