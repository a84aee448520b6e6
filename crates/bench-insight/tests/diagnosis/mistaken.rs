//! What was once taken for something else, found by servers that nobody had written the rules for.

use bench_schema::{PhaseShares, Quantity, Unit};

use super::*;

/// Gives a cell the server's own account: shares of E2E, and figures by name.
fn told(run: &mut RunRecord, queue: f64, prefill: f64, figures: &[(&str, f64)]) {
    let cell = &mut run.cells[0];
    let of_phases = |shares: (f64, f64)| PhaseShares {
        queue: shares.0,
        prefill: shares.1,
        decode: 1.0 - shares.0 - shares.1,
        queue_source: "server_metrics".to_owned(),
        by_percentile: Vec::new(),
    };
    cell.phases = Some(of_phases((queue, prefill)));
    let derived = &mut cell.hardware.get_or_insert_default().derived;
    for (name, value) in figures {
        let value = Quantity {
            value: *value,
            unit: Unit::Count,
            interval: None,
        };
        derived.insert((*name).to_owned(), value);
    }
}

fn found(run: &RunRecord, samples: &[CellSamples]) -> Vec<Cause> {
    causes(&findings(run, samples))
}

#[test]
fn prompts_that_the_cache_does_not_know_are_no_periodic_stall() {
    // One in three of one length is new, which takes ten times as long and holds all up.
    let server = Server {
        blocking: true,
        prefill: 2.0,
        prefill_token: 0.15,
        cache: Some(|i| i % 3 != 0),
        ..Server::default()
    };
    for seed in 1..=3 {
        let cells = [cell(Asks::Closed(4), |_, _| (440, 120), server.clone())];
        let (run, samples) = run(&cells, false, seed);
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::PeriodicStall), "{found:?}");
        assert!(!found.contains(&Cause::Frozen), "{found:?}");
    }
}

#[test]
fn a_short_prompt_that_waits_for_the_next_step_is_no_prefill() {
    let cells = [cell(Asks::Closed(3), |_, _| (60, 4), Server::default())];
    let (mut run, samples) = run(&cells, true, 2);
    told(&mut run, 0.19, 0.21, &[("running_peak", 3.0)]);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Prefill), "{found:?}");
}

#[test]
fn what_requests_without_company_wait_for_is_no_queue() {
    // Whoever comes to a server that did nothing for a while waits 700 ms, whatever the server calls that.
    let server = Server {
        prefill: 700.0,
        ..Server::default()
    };
    let cells = [cell(Asks::Poisson(0.8), |_, _| (60, 20), server)];
    let (mut run, samples) = run(&cells, true, 2);
    told(&mut run, 0.2, 0.5, &[]);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Queueing), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_queue_is_told_of_answers_that_come_whole() {
    let server = Server {
        at_once: true,
        slots: 4,
        ..Server::default()
    };
    let cells = [cell(Asks::Closed(10), equal, server)];
    let (run, samples) = run(&cells, true, 2);
    assert_eq!(found(&run, &samples), [Cause::Queueing]);
}

#[test]
fn metrics_that_were_read_are_not_to_be_read_and_tell_what_the_cache_did() {
    let server = Server {
        evicts: Some(2),
        ..Server::default()
    };
    let advised = |metrics: bool| {
        let cells = [cell(Asks::Closed(4), equal, server.clone())];
        let (mut run, samples) = run(&cells, metrics, 2);
        if metrics {
            told(&mut run, 0.0, 0.05, &[("kv_cache_peak", 0.2)]);
        }
        let found = findings(&run, &samples);
        let pauses = found.iter().find(|f| f.cause() == Some(Cause::Pauses));
        let pauses = pauses.unwrap().clone();
        let reads = |a: &bench_schema::Advice| a.action == Action::ReadServerMetrics;
        let cache = pauses.figure(&Known::KvCachePeak.into());
        (pauses.advice.iter().any(reads), cache)
    };
    assert_eq!(advised(false), (true, None));
    assert_eq!(advised(true), (false, Some(0.2)));
}

#[test]
fn a_queue_gauge_that_was_zero_whenever_it_was_read_says_that_nobody_waits() {
    let cells = [cell(Asks::Closed(8), equal, Server::default())];
    let (mut run, samples) = run(&cells, true, 2);
    let figures = [
        ("waiting_mean", 0.0),
        ("waiting_peak", 0.0),
        ("running_mean", 5.0),
    ];
    told(&mut run, 0.4, 0.05, &figures);
    let mut queues = |readings: u64| {
        let waiting = bench_schema::ResourceSummary {
            series: bench_schema::SeriesKey {
                source: bench_schema::ReadingSource::ServerMetrics,
                instance: String::new(),
                name: "waiting".to_owned(),
            },
            unit: Unit::Count,
            n: readings,
            mean: 0.0,
            min: 0.0,
            peak: 0.0,
            increase: None,
        };
        run.cells[0].hardware.as_mut().unwrap().resources = vec![waiting];
        found(&run, &samples).contains(&Cause::Queueing)
    };
    assert!(queues(3) && !queues(40));
}

#[test]
fn connections_come_before_a_time_that_nobody_can_name_where_nobody_waits() {
    let cells = [cell(Asks::Closed(4), equal, Server::default())];
    let like = run(&cells, false, 2).0.cells[0].metrics[&Metric::E2e].clone();
    let (mut run, samples) = with_late_first_tokens(&like, 250.0);
    assert_eq!(found(&run, &samples)[0], Cause::WaitingOrPrefill);
    let nobody = [("waiting_mean", 0.0), ("waiting_peak", 0.0)];
    told(&mut run, 0.0, 0.4, &nobody);
    run.cells[0].phases.as_mut().unwrap().queue_source = "none".to_owned();
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::NewConnections]);
    assert_eq!(all[0].consequences, [Cause::WaitingOrPrefill]);
}
