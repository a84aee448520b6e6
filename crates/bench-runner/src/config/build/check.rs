//! Contradictions between keys.

use bench_schema::Benchmark;

use super::load::carries_its_rate;
use crate::config::reader::Reader;
use crate::config::settings::{LoadSettings, WorkloadSettings};

/// Contradictions between keys that are each fine alone.
pub(super) fn cross_check(
    r: &mut Reader,
    benchmark: Benchmark,
    workload: Option<&WorkloadSettings>,
    load: Option<&LoadSettings>,
) {
    if r.given("rate") && r.given("concurrency") {
        let help = "for an open loop with a cap in flight write `in_flight_cap`".to_owned();
        r.complain(
            "concurrency",
            "a cell is a closed loop (concurrency) or an open one (rate), not both",
            Some(help),
        );
    }
    for name in ["arrival", "in_flight_cap"] {
        if r.given(name)
            && !r.given("rate")
            && !load
                .as_ref()
                .is_some_and(|load| carries_its_rate(&load.arrival))
        {
            r.complain(
                name,
                "needs an open loop",
                Some("add `rate`, requests per second".to_owned()),
            );
        }
    }
    let own_rate = load.is_some_and(|load| carries_its_rate(&load.arrival));
    if own_rate && r.given("concurrency") {
        r.complain(
            "concurrency",
            "these arrivals are an open loop, which has no concurrency",
            Some("take `arrival` or `concurrency` out".to_owned()),
        );
    }
    for name in ["think_time", "ramp_up"] {
        if r.given(name) && (r.given("rate") || own_rate) {
            r.complain(
                name,
                "belongs to a closed loop; an open one does not wait for answers",
                None,
            );
        }
    }
    without_prometheus(r);
    if r.given("client_cert") != r.given("client_key") {
        r.complain(
            "client_cert",
            "a client certificate and its key go together",
            Some("give client_cert and client_key".to_owned()),
        );
    }
    let grid_only = workload.is_some_and(|workload| workload.grid);
    if benchmark == Benchmark::Seqlen && grid_only && r.given("categories") {
        r.complain(
            "categories",
            "a grid has no categories",
            Some("take `grid` or `categories` out".to_owned()),
        );
    }
}

/// What only a Prometheus server can be asked or told.
fn without_prometheus(r: &mut Reader) {
    for name in [
        "prometheus_gpus",
        "prometheus_query",
        "prometheus_token_env",
    ] {
        if r.given(name) && !r.given("prometheus") {
            let help = "add `prometheus`, the address of that server".to_owned();
            r.complain(name, "there is no Prometheus server to ask", Some(help));
        }
    }
}
