use bench_schema::{Channel, Event, Exchange, FailureKind, Phase, Stage, Stamp};

use crate::recent;

use super::*;

fn stamp(ms: i64) -> Stamp {
    Stamp::EPOCH + Nanos::from_millis(ms)
}

fn record(outcome: Outcome, arrivals: &[i64]) -> RequestRecord {
    let mut wire = Exchange::nothing(outcome);
    wire.sent = Some(stamp(0));
    for at in arrivals {
        wire.events.push(Event {
            at: stamp(*at),
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    wire.closed = arrivals.last().map(|at| stamp(*at));
    RequestRecord {
        output_tokens: Some(arrivals.len() as u64),
        ..RequestRecord::bare(0, "c", wire)
    }
}

fn live() -> LiveMetrics {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let run = RunRecord::from_json(stored).unwrap();
    LiveMetrics::new(&run, &Arc::default())
}

fn stage(requests: Option<u64>) -> recent::Stage {
    recent::Stage {
        cell: 0,
        phase: String::new(),
        open: false,
        offered: String::new(),
        requests,
        length: None,
        began: stamp(0),
        over_before: 0,
    }
}

/// The value of a line of the page, by all that stands before it.
fn value(page: &str, line: &str) -> Option<f64> {
    let rest = |text: &str| text.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
    page.lines().find_map(rest)
}

#[test]
fn requests_are_counted_by_what_became_of_them_and_latencies_are_those_of_whole_answers() {
    let live = live();
    live.begin("c1", stage(Some(7)));
    let failed = Outcome::Failed {
        stage: Stage::Connect,
        failure: FailureKind::Refused,
        message: String::new(),
    };
    live.ended(&record(Outcome::Completed, &[50, 60, 80]));
    live.ended(&record(failed, &[]));
    live.ended(&record(
        Outcome::TimedOut {
            stage: Stage::Stream,
        },
        &[500],
    ));
    let mut warmup = record(Outcome::Completed, &[40]);
    warmup.phase = Phase::Warmup;
    live.ended(&warmup);
    live.cell_ended();
    let page = live.page();
    let says = |line: &str, number: f64| {
        assert_eq!(value(&page, line), Some(number), "{line}\n{page}");
    };
    says(
        "bench_requests_total{phase=\"measure\",outcome=\"completed\"}",
        1.0,
    );
    says(
        "bench_requests_total{phase=\"measure\",outcome=\"failed\"}",
        1.0,
    );
    says(
        "bench_requests_total{phase=\"measure\",outcome=\"timed_out\"}",
        1.0,
    );
    says(
        "bench_requests_total{phase=\"warmup\",outcome=\"completed\"}",
        1.0,
    );
    says(
        "bench_request_failures_total{stage=\"connect\",kind=\"refused\"}",
        1.0,
    );
    says("bench_output_tokens_total{phase=\"measure\"}", 4.0);
    says("bench_phase_requests_planned{cell=\"c1\"}", 7.0);
    says("bench_cells_ended", 1.0);
    says(
        "bench_time_to_first_token_seconds_sum{phase=\"measure\"}",
        0.05,
    );
    says(
        "bench_inter_token_latency_seconds_count{phase=\"measure\"}",
        2.0,
    );
    says(
        "bench_inter_token_latency_seconds_sum{phase=\"measure\"}",
        0.03,
    );
    says("bench_request_latency_seconds_sum{phase=\"measure\"}", 0.08);
    assert!(page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn a_phase_whose_plan_has_no_number_has_none_on_the_page() {
    let live = live();
    live.begin("c1", stage(Some(7)));
    live.begin("c2", stage(None));
    let page = live.page();
    assert!(!page.contains("bench_phase_requests_planned{"), "{page}");
}

/// All texts under this key, at any depth.
fn texts<'a>(value: &'a serde_json::Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                found.extend(field.as_str().filter(|_| name == key));
                texts(field, key, found);
            }
        }
        serde_json::Value::Array(items) => {
            for item in items {
                texts(item, key, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_shipped_dashboard_asks_for_nothing_that_is_not_on_the_page() {
    let shipped = include_str!("../../../../examples/grafana/run.json");
    let dashboard: serde_json::Value = serde_json::from_str(shipped).unwrap();
    let mut asked = Vec::new();
    texts(&dashboard, "expr", &mut asked);
    let live = live();
    live.begin("c1", stage(Some(1)));
    live.ended(&record(Outcome::Completed, &[50, 60]));
    live.ended(&record(
        Outcome::Failed {
            stage: Stage::Connect,
            failure: FailureKind::Refused,
            message: String::new(),
        },
        &[],
    ));
    let page = live.page();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = asked.iter().flat_map(|expr| expr.split(|c| !is_part(c)));
    let names: std::collections::BTreeSet<&str> =
        words.filter(|word| word.starts_with("bench_")).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("\n{name}{{")) || page.contains(&format!("\n{name} ")),
            "{name}\n{page}"
        );
    }
}

#[test]
fn all_figures_of_a_page_are_of_the_same_requests() {
    const REQUESTS: u32 = 3000;
    let live = live();
    let answered = record(Outcome::Completed, &[50, 60, 80]);
    std::thread::scope(|threads| {
        threads.spawn(|| (0..REQUESTS).for_each(|_| live.ended(&answered)));
        let mut requests = 0.0;
        while requests < f64::from(REQUESTS) {
            let page = live.page();
            let of = |line: &str| value(&page, line).unwrap_or(0.0);
            requests = of("bench_requests_total{phase=\"measure\",outcome=\"completed\"}");
            let tokens = of("bench_output_tokens_total{phase=\"measure\"}");
            let latencies = of("bench_request_latency_seconds_count{phase=\"measure\"}");
            assert_eq!((tokens, latencies), (3.0 * requests, requests), "{page}");
        }
    });
}

#[test]
fn a_name_of_a_stranger_is_one_value_of_a_label() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    run.server.model = Some("C:\\new\"} 1\nbench_requests_total 9\n#\u{1b}\u{202e}".to_owned());
    let page = LiveMetrics::new(&run, &Arc::default()).page();
    let told = r#"model="C:\\new\"} 1\nbench_requests_total 9\n#"#;
    assert!(
        page.contains(told) && !page.contains(['\u{1b}', '\u{202e}']),
        "{page}"
    );
}
