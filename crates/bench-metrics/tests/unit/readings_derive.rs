use std::collections::BTreeMap;

use bench_schema::{ReadingSource, Stamp};

use super::*;

const S: i64 = 1_000_000_000;

/// A reading every half second for 20 s, of values that the function makes of the seconds passed.
fn history(
    source: ReadingSource,
    instance: &str,
    values: impl Fn(f64) -> Vec<(&'static str, f64)>,
) -> History {
    let mut history = History::default();
    add(&mut history, source, instance, values);
    history
}

fn add(
    history: &mut History,
    source: ReadingSource,
    instance: &str,
    values: impl Fn(f64) -> Vec<(&'static str, f64)>,
) {
    for i in 0..=40_i64 {
        let at = Stamp::new(i * S / 2);
        let values: BTreeMap<String, f64> = values(i as f64 / 2.0)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        history.push(&Reading {
            from: at,
            to: at,
            source,
            instance: instance.to_owned(),
            values,
            unknown: BTreeMap::new(),
        });
    }
}

fn window() -> [Window; 1] {
    [Window {
        from: Stamp::new(5 * S),
        to: Stamp::new(15 * S),
    }]
}

fn value(summary: &HardwareSummary, name: &str) -> f64 {
    summary
        .derived
        .get(name)
        .unwrap_or_else(|| panic!("{name} is not among {:?}", summary.derived.keys()))
        .value
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn energy_is_that_of_the_gpus_that_worked_and_is_shared_among_tokens_and_requests() {
    let mut history = history(ReadingSource::Gpu, "0", |t| {
        vec![
            ("utilisation_share", 0.8),
            ("energy_j_total", 300.0 * t),
            ("power_w", 1.0),
        ]
    });
    add(&mut history, ReadingSource::Gpu, "1", |t| {
        vec![("utilisation_share", 0.0), ("energy_j_total", 70.0 * t)]
    });
    let work = Work {
        output_tokens: Some(6000.0),
        requests: Some(20.0),
        ..Work::default()
    };
    let summary = history.summarise(&window(), &work);
    // 300 W for 10 s, by the counter and not by the power reading
    assert!(close(value(&summary, "energy_j"), 3000.0));
    assert!(close(value(&summary, "energy_per_output_token_j"), 0.5));
    assert!(close(value(&summary, "energy_per_request_j"), 150.0));
    assert!(close(value(&summary, "gpus_used"), 1.0));
    assert!(close(value(&summary, "gpu_utilisation_mean"), 0.8));
    assert!(close(value(&summary, "gpu_idle_share"), 0.0));
}

#[test]
fn an_energy_counter_that_stands_still_while_power_is_drawn_is_not_zero_energy() {
    // A DCGM exporter renews its page every 30 s: a window of 10 s sees one value of the counter.
    let stale = history(ReadingSource::Dcgm, "http://gpu-host/metrics 0", |_| {
        vec![
            ("utilisation_share", 0.9),
            ("energy_j_total", 5e6),
            ("power_w", 600.0),
        ]
    });
    let summary = stale.summarise(&window(), &Work::default());
    assert!(close(value(&summary, "energy_j"), 6000.0));
    assert!(close(value(&summary, "gpu_power_mean_w"), 600.0));
    assert!(summary.unknown["energy_counter"].contains("stood still"));
    // a card that draws nothing and counts nothing used nothing
    let off = history(ReadingSource::Dcgm, "0", |_| {
        vec![("energy_j_total", 5e6), ("power_w", 0.0)]
    });
    let summary = off.summarise(&window(), &Work::default());
    assert!(close(value(&summary, "energy_j"), 0.0));
    assert!(!summary.unknown.contains_key("energy_counter"));
}

#[test]
fn without_an_energy_counter_power_is_averaged_and_that_is_said() {
    let history = history(ReadingSource::Gpu, "0", |_| {
        vec![("utilisation_share", 0.5), ("power_w", 200.0)]
    });
    let summary = history.summarise(&window(), &Work::default());
    assert!(close(value(&summary, "energy_j"), 2000.0));
    assert!(summary.unknown["energy_counter"].contains("no energy counter"));
    assert!(
        !summary.derived.contains_key("energy_per_output_token_j"),
        "no tokens are known"
    );
}

#[test]
fn an_exporter_that_was_named_is_preferred_to_this_hosts_gpus() {
    let mut history = history(ReadingSource::Gpu, "0", |_| {
        vec![("utilisation_share", 0.0)]
    });
    add(&mut history, ReadingSource::Dcgm, "http://h 0", |_| {
        vec![("utilisation_share", 0.9)]
    });
    let summary = history.summarise(&window(), &Work::default());
    assert!(close(value(&summary, "gpu_utilisation_mean"), 0.9));
}

#[test]
fn phase_times_come_from_what_the_histograms_gained_in_the_window() {
    // before the window every request took 1 s; in it, 0.05 s: two requests a second
    let history = history(ReadingSource::ServerMetrics, "http://h/metrics", |t| {
        let slow = 2.0 * t.min(5.0);
        let fast = 2.0 * (t - 5.0).max(0.0);
        vec![
            ("ttft_s.sum", slow + 0.05 * fast),
            ("ttft_s.count", slow + fast),
            ("ttft_s.le.0.1", fast),
            ("ttft_s.le.1", slow + fast),
            ("ttft_s.le.inf", slow + fast),
            ("queue_s.sum", 0.01 * fast),
            ("queue_s.count", fast),
            ("running", 4.0),
            ("kv_cache_share", 0.04 * t),
            ("prefix_cache_hits_total", 30.0 * t),
            ("prefix_cache_queries_total", 120.0 * t),
            ("preemptions_total", t),
            ("generation_tokens_total", 50.0 * t),
        ]
    });
    let work = Work {
        output_tokens: Some(400.0),
        ttft_mean: Some(0.1e9),
        ..Work::default()
    };
    let summary = history.summarise(&window(), &work);
    assert!(close(value(&summary, "server_ttft_mean"), 0.05e9));
    assert!(close(value(&summary, "server_ttft_count"), 20.0));
    assert!(close(value(&summary, "server_ttft_p50"), 0.05e9));
    assert!(close(value(&summary, "server_ttft_p90"), 0.09e9));
    let bucket = summary.derived["server_ttft_p50"].interval.unwrap();
    assert!(
        close(bucket.low, 0.0) && close(bucket.high, 0.1e9),
        "it lies within its bucket"
    );
    assert!(close(value(&summary, "server_queue_mean"), 0.01e9));
    assert!(close(value(&summary, "server_ttft_over_client"), 0.5));
    assert!(close(value(&summary, "kv_cache_peak"), 0.6));
    assert!(close(value(&summary, "prefix_cache_hit_rate"), 0.25));
    assert!(close(value(&summary, "preemptions"), 10.0));
    assert!(close(value(&summary, "server_output_tokens_per_s"), 50.0));
    assert!(close(
        value(&summary, "server_output_tokens_over_client"),
        1.25
    ));
}

#[test]
fn a_server_that_restarts_in_the_window_keeps_its_counters_above_zero() {
    let history = history(ReadingSource::ServerMetrics, "http://h/metrics", |t| {
        let since = if t < 10.0 { 100.0 + t } else { t - 10.0 };
        vec![
            ("ttft_s.sum", 0.2 * since),
            ("ttft_s.count", since),
            ("preemptions_total", since),
        ]
    });
    let summary = history.summarise(&window(), &Work::default());
    assert!(close(value(&summary, "server_ttft_mean"), 0.2e9));
    // one a second, but for the half second in which it restarted
    assert!((9.0..=10.0).contains(&value(&summary, "preemptions")));
}

#[test]
fn the_cpu_is_judged_with_its_evidence() {
    let at = |busy: f64| {
        history(ReadingSource::Host, "", move |t| {
            vec![
                ("cpu_busy_s_total", 2.0 * busy * t),
                ("cpu_idle_s_total", 2.0 * (1.0 - busy) * t),
                ("cpu_iowait_s_total", 0.0),
                ("cpu_steal_s_total", 0.0),
                ("core.0.cpu_busy_s_total", busy * t),
            ]
        })
        .summarise(&window(), &Work::default())
    };
    assert!(close(value(&at(0.3), "host_cpu_share"), 0.3));
    let share = at(0.3);
    let share: Vec<_> = share
        .series(ReadingSource::Host, "cpu_busy_share")
        .collect();
    assert!(share.len() == 1 && close(share[0].peak, 0.3) && share[0].unit == Unit::Ratio);
}

#[test]
fn latency_that_rises_with_the_queue_correlates_with_it() {
    let history = history(ReadingSource::ServerMetrics, "http://h/metrics", |t| {
        vec![("waiting", t), ("running", 8.0)]
    });
    let latencies: Vec<(Stamp, f64)> = (50..150)
        .map(|i| (Stamp::new(i * S / 10), i as f64))
        .collect();
    let work = Work {
        latencies: &latencies,
        ..Work::default()
    };
    let summary = history.summarise(&window(), &work);
    assert!(value(&summary, "correlation_waiting_latency") > 0.99);
    assert!(
        !summary.derived.contains_key("correlation_running_latency"),
        "what does not vary does not correlate"
    );
}

#[test]
fn of_nothing_nothing_is_derived() {
    let summary = History::default().summarise(&window(), &Work::default());
    assert_eq!(summary, HardwareSummary::default());
}
