//! `requests.jsonl` and `hardware.jsonl` that fit a golden run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bench_schema::*;

use super::Disorder;

/// Records of every cell of a closed-loop run, as many as its counts say, in the order they end.
pub(crate) fn records(run: &RunRecord) -> Vec<RequestRecord> {
    let mut all = Vec::new();
    for (c, cell) in run.cells.iter().enumerate() {
        let mut disorder = Disorder::new(c as u64 + 7);
        let Some(rates) = cell.headline_rates() else {
            continue;
        };
        let slots = match cell.load {
            Load::Closed { concurrency, .. } => concurrency as usize,
            Load::Open { .. } => 8,
        };
        let mut free: Vec<Stamp> = vec![rates.window.from; slots.max(1)];
        for id in 0..cell.counts.planned {
            let slot = (0..free.len()).min_by_key(|&s| free[s]).unwrap();
            let record = record(cell, id, free[slot], &mut disorder);
            free[slot] = record.last_instant() + Nanos::from_millis(1);
            all.push(record);
        }
    }
    all.sort_by_key(RequestRecord::last_instant);
    all
}

fn record(cell: &CellRecord, id: u64, due: Stamp, disorder: &mut Disorder) -> RequestRecord {
    let draw = |metric: Metric, disorder: &mut Disorder| {
        let seen = cell.headline(metric);
        let p50 = seen.and_then(Distribution::p50).unwrap_or(5e7);
        let p95 = seen.and_then(|d| d.quantile(0.95)).unwrap_or(6e7);
        p50 * ((p95 / p50).ln() / 1.645 * disorder.normal()).exp()
    };
    let tokens = 24 + id % 105;
    let ttft = draw(Metric::Ttft, disorder);
    let e2e = draw(Metric::E2e, disorder).max(ttft * 1.2);
    let sent = due + Nanos::new(150_000);
    let mut events = EventLog::default();
    let mut at = sent + Nanos::from_f64(ttft);
    let step = (e2e - ttft) / tokens as f64;
    for i in 0..tokens {
        events.push(Event {
            at,
            lag: Some(Nanos::from_f64(15e3 + 20e3 * disorder.uniform())),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
        let stall = if id % 17 == 3 && i == 9 { 12.0 } else { 1.0 };
        at = at + Nanos::from_f64(step * stall * (0.8 + 0.4 * disorder.uniform()));
    }
    let broken = id % 41 == 40;
    let outcome = if broken {
        Outcome::Failed {
            stage: Stage::Stream,
            failure: FailureKind::Reset,
            message: "connection reset by peer".into(),
        }
    } else {
        Outcome::Completed
    };
    let last = events.last().unwrap();
    let group = (!cell.groups.is_empty())
        .then(|| cell.groups[id as usize % cell.groups.len()].name.clone());
    RequestRecord {
        use_case: group,
        worker: Some(0),
        due,
        dispatched: Some(due + Nanos::new(30_000)),
        prompt: PromptSize {
            asked_tokens: Some(256),
            sent_tokens: Some(256),
            words: None,
        },
        asked_output_tokens: Some(tokens),
        output_tokens: (!broken).then_some(tokens),
        token_source: if broken {
            TokenSource::Unknown
        } else {
            TokenSource::Usage
        },
        ..RequestRecord::bare(
            id,
            &cell.id,
            Exchange {
                connected: Some(due + Nanos::new(60_000)),
                sent: Some(sent),
                headers: Some(sent + Nanos::from_f64(ttft * 0.9)),
                events,
                closed: Some(last + Nanos::new(80_000)),
                status: Some(200),
                finish_reason: (!broken).then(|| "length".to_owned()),
                usage: (!broken).then(|| Usage {
                    prompt_tokens: Some(256),
                    completion_tokens: Some(tokens),
                    ..Usage::default()
                }),
                request_bytes: 1400,
                response_bytes: 40_000,
                text_chars: 600,
                reads: tokens,
                ..Exchange::nothing(outcome)
            },
        )
    }
}

/// Readings twice a second over the run.
pub(crate) fn readings(run: &RunRecord) -> Vec<Reading> {
    let mut disorder = Disorder::new(3);
    let end = run.duration.as_secs_f64();
    let mut all = Vec::new();
    for i in 0..(end * 2.0) as i64 {
        let at = Stamp::new(i * 500_000_000);
        let busy = run
            .cells
            .iter()
            .find(|cell| cell.headline_rates().is_some_and(|r| r.window.contains(at)));
        let running = busy
            .and_then(|cell| cell.headline_rates())
            .map_or(0.0, |r| r.mean_in_flight);
        let share = (running / 32.0).powf(0.4);
        let mut push = |source, instance: &str, values: &[(&str, f64)]| {
            all.push(Reading {
                from: at,
                to: at + Nanos::from_millis(2),
                source,
                instance: instance.into(),
                values: values
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                unknown: BTreeMap::new(),
            });
        };
        push(
            ReadingSource::Gpu,
            "0",
            &[
                ("utilization", share * (0.9 + 0.1 * disorder.uniform())),
                ("memory_used", 13.9e9),
                ("power_w", 30.0 + 42.0 * share),
            ],
        );
        push(ReadingSource::Host, "", &[("cpu", 0.1 + 0.2 * share)]);
        push(
            ReadingSource::ServerMetrics,
            "http://127.0.0.1:8000/metrics",
            &[
                ("vllm:num_requests_running", running.round()),
                ("vllm:num_requests_waiting", 0.0),
                ("vllm:kv_cache_usage_perc", share * 0.011),
                ("vllm:prompt_tokens_total", 256.0 * i as f64),
            ],
        );
    }
    all
}

/// Values as lines of JSON.
pub(crate) fn jsonl<T: serde::Serialize>(values: &[T]) -> String {
    values.iter().fold(String::new(), |mut out, value| {
        writeln!(out, "{}", serde_json::to_string(value).unwrap()).unwrap();
        out
    })
}

/// A run directory.
pub(crate) fn directory(run: &RunRecord) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("run.json"),
        serde_json::to_string(run).unwrap(),
    )
    .unwrap();
    std::fs::write(dir.path().join("requests.jsonl"), jsonl(&records(run))).unwrap();
    std::fs::write(dir.path().join("hardware.jsonl"), jsonl(&readings(run))).unwrap();
    dir
}
