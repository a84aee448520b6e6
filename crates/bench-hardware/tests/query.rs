//! A Prometheus server's query API as a source, as in a sweep whose GPUs are on another host.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Fetch, FetchLimits, History, PrometheusQueries, SamplerConfig, Work};
use bench_schema::{Reading, ReadingSource, Stamp, Window};

use common::{sample, without_gpus};

/// Answers two queries, and knows no third.
struct Prometheus;

impl Fetch for Prometheus {
    fn get(&self, url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        let (base, query) = url
            .split_once("/api/v1/query?query=")
            .ok_or("not a query")?;
        if base != "http://user:secret@gpu-host:9090" {
            return Err(format!("another server: {base}"));
        }
        let answer = match query {
            "DCGM_FI_DEV_GPU_UTIL%20%2F%20100" => {
                r#"{"status":"success","data":{"resultType":"vector","result":[
                    {"metric":{"gpu":"0"},"value":[1.5,"0.9"]},{"metric":{"gpu":"1"},"value":[1.5,"0.7"]}]}}"#
            }
            "nothing" => r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
            _ => r#"{"status":"error","errorType":"bad_data","error":"1:3: parse error"}"#,
        };
        Ok(answer.into())
    }
}

#[test]
fn series_that_a_query_finds_are_used_like_those_of_an_exporter_and_the_rest_is_said() {
    let query = |name: &str, promql: &str| (name.to_owned(), promql.to_owned());
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(20),
        prometheus: Some(PrometheusQueries {
            url: "http://user:secret@gpu-host:9090/".to_owned(),
            queries: vec![
                query("utilisation_share", "DCGM_FI_DEV_GPU_UTIL / 100"),
                query("power_w", "nothing"),
                query("temperature_celsius", "a["),
            ],
        }),
        ..without_gpus()
    };
    let of = |r: &&Reading| r.source == ReadingSource::Prometheus;
    let enough = |readings: &[Reading]| readings.iter().filter(of).count() >= 8;
    let (readings, _) = sample(&config, Arc::new(Prometheus), enough);
    let mut history = History::default();
    for reading in &readings {
        history.push(reading);
    }
    let end = readings.iter().map(|r| r.to).max().unwrap();
    let window = Window {
        from: Stamp::EPOCH,
        to: end,
    };
    let summary = history.summarise(&[window], &Work::default());
    assert!((summary.derived["gpu_utilisation_mean"].value - 0.8).abs() < 1e-9);
    assert!((summary.derived["gpus_used"].value - 2.0).abs() < 1e-9);
    let unknown =
        |name: &str| summary.unknown[&format!("prometheus/http://gpu-host:9090/{name}")].clone();
    assert_eq!(unknown("power_w"), "the query finds nothing");
    assert!(unknown("temperature_celsius").contains("1:3: parse error"));
    let stored = serde_json::to_string(&readings).unwrap();
    assert!(!stored.contains("secret"), "credentials are not stored");
}
