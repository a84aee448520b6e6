//! A Prometheus server's query API as a source, as in a sweep whose GPUs are on another host.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use the function here, and they should fail where it fails"
)]

use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Fetch, FetchLimits, PrometheusQueries, SamplerConfig};
use bench_metrics::readings::{History, Work};
use bench_schema::{HardwareSummary, Reading, ReadingSource, Stamp, Window};

use crate::common::{sample, without_gpus};

/// Answers two queries, and knows no third.
struct Prometheus;

impl Fetch for Prometheus {
    fn get(&self, url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        if url.contains("__name__") {
            let chosen = "%2CHostname%3D~%22a%7Cb%22%7D";
            assert!(url.ends_with(chosen), "the matchers come last: {url}");
            return Ok(GPUS.into());
        }
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

/// Two hosts with a card each, as the exporter's series come out of a query.
const GPUS: &str = r#"{"status":"success","data":{"resultType":"vector","result":[
    {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400"},"value":[1.5,"90"]},
    {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","Hostname":"b","instance":"10.0.0.2:9400"},"value":[1.5,"0"]},
    {"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400"},"value":[1.5,"60000"]},
    {"metric":{"__name__":"DCGM_FI_DEV_FB_FREE","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400"},"value":[1.5,"20000"]},
    {"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400"},"value":[1.5,"500"]},
    {"metric":{"__name__":"DCGM_FI_DEV_MEMORY_TEMP","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400"},"value":[1.5,"9223372036854775794"]}]}}"#;

/// What a sampler reads that asks `Prometheus` this, and what it comes to.
fn asked(gpus: Option<&str>, queries: &[(&str, &str)]) -> (Vec<Reading>, HardwareSummary) {
    let query = |(name, promql): &(&str, &str)| ((*name).to_owned(), (*promql).to_owned());
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(20),
        prometheus: Some(PrometheusQueries {
            url: "http://user:secret@gpu-host:9090/".to_owned(),
            gpus: gpus.map(str::to_owned),
            queries: queries.iter().map(query).collect(),
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
    let window = Window {
        from: Stamp::EPOCH,
        to: readings.iter().map(|r| r.to).max().unwrap(),
    };
    let summary = history.summarise(&[window], &Work::default());
    (readings, summary)
}

#[test]
fn the_gpus_that_a_prometheus_server_knows_are_found_without_a_word_of_promql() {
    let (_, summary) = asked(Some("Hostname=~\"a|b\""), &[]);
    // b's card did nothing, so that it is not among those used
    for (name, value) in [
        ("gpus_used", 1.0),
        ("gpu_utilisation_mean", 0.9),
        ("gpu_memory_peak_share", 0.75),
        ("gpu_power_mean_w", 500.0),
    ] {
        let derived = summary.derived[name].value;
        assert!((derived - value).abs() < 1e-9 * value, "{name}: {derived}");
    }
    let blank = "prometheus/http://gpu-host:9090 a:0/memory_temperature_celsius";
    let why = &summary.unknown[blank];
    assert_eq!(why, "the exporter has no value for it");
}

#[test]
fn series_that_a_query_finds_are_used_like_those_of_an_exporter_and_the_rest_is_said() {
    let (readings, summary) = asked(
        None,
        &[
            ("utilisation_share", "DCGM_FI_DEV_GPU_UTIL / 100"),
            ("power_w", "nothing"),
            ("temperature_celsius", "a["),
        ],
    );
    assert!((summary.derived["gpu_utilisation_mean"].value - 0.8).abs() < 1e-9);
    assert!((summary.derived["gpus_used"].value - 2.0).abs() < 1e-9);
    let unknown =
        |name: &str| summary.unknown[&format!("prometheus/http://gpu-host:9090/{name}")].clone();
    assert_eq!(unknown("power_w"), "the query returns nothing");
    assert!(unknown("temperature_celsius").contains("1:3: parse error"));
    let stored = serde_json::to_string(&readings).unwrap();
    assert!(!stored.contains("secret"), "credentials are not stored");
}
