//! What was once taken for something else, found by servers that nobody had written the rules for.

use bench_insight::RequestSample;
use bench_schema::{Answer, Evidence, PhaseShares, Quantity, Stamp, Unit};

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
fn chunks_of_a_prompt_of_which_the_last_is_short_are_no_stop() {
    // Later chunks take longer, up to four times the first, and the last holds what is left.
    let server = Server {
        chunks: Some((512, 1.5)),
        prefill_token: 0.2,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(200.0, 1600.0), draw.whole(24.0, 60.0));
    let of = |server: &Server, seed| {
        let cells = [cell(Asks::Closed(3), lengths, server.clone())];
        let (run, samples) = run(&cells, false, seed);
        found(&run, &samples)
    };
    let stops = [Cause::Frozen, Cause::PeriodicStall];
    for seed in 1..=8 {
        let found = of(&server, seed);
        assert!(!found.iter().any(|f| stops.contains(f)), "{seed} {found:?}");
        assert!(!found.is_empty() && !found.contains(&Cause::Healthy));
        let stops = Server {
            freezes: vec![(6000.0, 1500.0)],
            ..server.clone()
        };
        let found = of(&stops, seed);
        assert!(found.contains(&Cause::Frozen), "{seed} {found:?}");
    }
}

#[test]
fn who_waits_for_a_place_with_the_first_token_queues() {
    let server = Server {
        apart: true,
        slots: 8,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(80.0, 120.0), draw.whole(20.0, 40.0));
    for (users, metrics) in [(10, false), (24, false), (32, false), (24, true)] {
        let cells = [cell(Asks::Closed(users), lengths, server.clone())];
        let (mut run, samples) = run(&cells, metrics, 3);
        if metrics {
            told(&mut run, 0.0, 0.05, &[]);
        }
        let all = findings(&run, &samples);
        assert_eq!(causes(&all), [Cause::Queueing], "{users}");
        let figure = |known: Known| all[0].figure(&known.into()).unwrap();
        assert!((figure(Known::Running) - 8.0).abs() < 1e-9);
        assert!((figure(Known::PauseShare) - all[0].severity).abs() < 1e-9);
    }
    // with as many places as users nobody waits
    let cells = [cell(Asks::Closed(8), lengths, server)];
    let (run, samples) = run(&cells, false, 3);
    assert_eq!(found(&run, &samples), [Cause::Healthy]);
}

/// Stops of so long, so far apart.
fn every(ms: f64, length: f64) -> Vec<(f64, f64)> {
    (0..20)
        .map(|i| (1200.0 + ms * f64::from(i), length))
        .collect()
}

/// A server that has too few places until more join it.
#[test]
fn a_queue_that_is_over_is_told_with_its_time_and_leaves_no_capacity() {
    let server = Server {
        slots: 3,
        step: 8.0,
        step_each: 0.2,
        joins: Some((6900.0, 12)),
        ..Server::default()
    };
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 15.0,
            ..cell(Asks::Poisson(23.6), |_, _| (62, 22), server.clone())
        };
        let (run, samples) = run(&[asked], false, seed);
        let all = findings(&run, &samples);
        assert_eq!(all[0].cause(), Some(Cause::Queueing), "{all:?}");
        let lasted = all[0].figure(&Known::Lasted.into()).unwrap() / 1e9;
        assert!((6.5..9.0).contains(&lasted), "{lasted}");
        let told = |f: &Finding| f.code == Answer::Capacity.into();
        assert!(!all.iter().any(told), "{all:?}");
    }
    // at nine tenths of what four places serve a queue comes and goes
    let always = Server {
        slots: 4,
        joins: None,
        ..server
    };
    for seed in 1..=6 {
        let asked = cell(Asks::Poisson(17.0), |_, _| (62, 22), always.clone());
        let (run, samples) = run(&[asked], false, seed);
        let all = findings(&run, &samples);
        let over = |f: &Finding| f.figure(&Known::Lasted.into()).is_some();
        assert!(!all.iter().any(over), "{all:?}");
    }
}

#[test]
fn a_buffer_that_is_sent_now_and_then_holds_tokens_back() {
    let server = Server {
        step: 16.6,
        flushes: Some(400.0),
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(8.0, 60.0), draw.whole(10.0, 80.0));
    for found in firsts(Asks::Closed(3), lengths, 18.0, &server) {
        assert_eq!(found, [Cause::HeldBack]);
    }
}

/// A proxy that keeps the beginning of each answer for 0.6 s, and nothing behind it.
#[test]
fn a_beginning_that_comes_at_one_moment_was_held_back() {
    let server = Server {
        step: 17.0,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(500.0, 1500.0), draw.whole(60.0, 120.0));
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 20.0,
            ..cell(Asks::Closed(3), lengths, server.clone())
        };
        let (run, mut samples) = run(&[asked], false, seed);
        for request in &mut samples[0].requests {
            request.ttft = request.ttft.map(|ttft| ttft + 25.0 * 17e6);
            request.at_first = 26;
        }
        let found = findings(&run, &samples);
        let held = found.iter().find(|f| f.cause() == Some(Cause::HeldBack));
        let lasted = held.and_then(|held| held.figure(&Known::Lasted.into()));
        let right = lasted.is_some_and(|ns| (ns / 1e6 - 425.0).abs() < 10.0);
        assert!(right, "{seed} {found:?}");
    }
}

/// Behind a proxy that passes tokens on every 20 ms a gap of that is the usual one, though most tokens come with the one before.
#[test]
fn stops_are_told_of_tokens_that_come_in_bundles() {
    let server = Server {
        step: 5.6,
        flushes: Some(20.0),
        ..Server::default()
    };
    let stops = Server {
        freezes: every(2810.0, 500.0),
        ..server.clone()
    };
    let of = |asks, server: &Server, seed| {
        let lengths: Lengths = |_, draw| (draw.whole(100.0, 215.0), 32);
        let asked = Cell {
            seconds: 16.0,
            ..cell(asks, lengths, server.clone())
        };
        let (run, samples) = run(&[asked], false, seed);
        found(&run, &samples)
    };
    for seed in 1..=3 {
        for asks in [Asks::Closed(3), Asks::Even(8.9), Asks::Poisson(8.9)] {
            assert_eq!(of(asks, &stops, seed), [Cause::PeriodicStall], "{asks:?}");
            let calm = of(asks, &server, seed);
            let still = [Cause::PeriodicStall, Cause::Frozen, Cause::Step];
            assert!(!calm.iter().any(|f| still.contains(f)), "{asks:?} {calm:?}");
        }
    }
}

#[test]
fn each_stop_of_answers_that_come_whole_is_told() {
    let server = Server {
        at_once: true,
        freezes: every(3000.0, 800.0),
        ..Server::default()
    };
    for metrics in [false, true] {
        let asked = Cell {
            seconds: 17.0,
            ..cell(Asks::Poisson(6.0), |_, _| (60, 30), server.clone())
        };
        let (run, samples) = run(&[asked], metrics, 2);
        let all = findings(&run, &samples);
        assert_eq!(causes(&all), [Cause::Frozen], "{metrics}");
        let figure = |known: Known| all[0].figure(&known.into()).unwrap();
        assert!(figure(Known::Stalls) >= 4.0, "{all:?}");
        assert!(
            (figure(Known::StallLength) / 8e8 - 1.0).abs() < 0.1,
            "{all:?}"
        );
    }
}

#[test]
fn a_stop_is_told_though_users_wait_for_what_a_model_thinks() {
    let thinks = Server {
        hides: 40,
        step: 9.0,
        ..Server::default()
    };
    let lengths: Lengths = |_, _| (60, 70);
    let of = |server: Server| {
        let (run, samples) = run(&[cell(Asks::Closed(3), lengths, server)], false, 2);
        found(&run, &samples)
    };
    assert_eq!(of(thinks.clone()), [Cause::Healthy]);
    let stops = Server {
        freezes: every(3200.0, 700.0),
        ..thinks
    };
    let found = of(stops);
    let stop = [Cause::Frozen, Cause::PeriodicStall];
    assert!(stop.contains(&found[0]), "{found:?}");
}

#[test]
fn places_that_are_full_now_and_then_after_the_first_token_move_no_level() {
    let server = Server {
        apart: true,
        slots: 8,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(80.0, 120.0), draw.whole(20.0, 40.0));
    for seed in 1..=4 {
        let rate = Asks::Poisson(25.0);
        let (run, samples) = run(&[cell(rate, lengths, server.clone())], false, seed);
        let found = found(&run, &samples);
        let of_queue = [Cause::Queueing, Cause::Healthy];
        assert!(found.iter().all(|f| of_queue.contains(f)), "{found:?}");
    }
}

#[test]
fn equal_prompts_that_come_at_once_and_share_a_step_do_not_queue() {
    // answers of one length end together, and so the next five come at once: 5 × 12 ms in one step
    let server = Server {
        blocking: true,
        step: 7.0,
        prefill: 0.0,
        prefill_token: 0.04,
        ..Server::default()
    };
    let cells: Vec<Cell> = [1, 2, 5]
        .map(|users| cell(Asks::Closed(users), |_, _| (300, 24), server.clone()))
        .into();
    let (run, samples) = run(&cells, false, 2);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Queueing), "{found:?}");
}

#[test]
fn who_waits_for_places_that_several_leave_at_once_queues() {
    // eight of sixteen equal answers end together, and eight are taken up; the server's own count of its queue leaves that out
    let server = Server {
        slots: 8,
        prefill: 60.0,
        ..Server::default()
    };
    let cells: Vec<Cell> = [16, 2]
        .map(|users| cell(Asks::Closed(users), |_, _| (60, 40), server.clone()))
        .into();
    let (mut run, samples) = run(&cells, false, 2);
    told(&mut run, 0.02, 0.1, &[]);
    let found = found(&run, &samples);
    assert_eq!(found.first(), Some(&Cause::Queueing), "{found:?}");
}

#[test]
fn a_place_that_hardly_anybody_waits_for_hides_no_slow_requests() {
    let server = Server {
        apart: true,
        slots: 7,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (60, draw.whole(20.0, 40.0));
    for seed in 1..=4 {
        let asked = cell(Asks::Poisson(9.0), lengths, server.clone());
        let (run, mut samples) = run(&[asked], false, seed);
        let mut draw = Draw::new(seed);
        for request in &mut samples[0].requests {
            if draw.uniform() < 0.2 {
                request.end = request.end + Nanos::from_f64(2.0 * request.e2e());
            }
        }
        let found = found(&run, &samples);
        assert!(found.contains(&Cause::SlowRequests), "{seed} {found:?}");
    }
}

#[test]
fn first_tokens_that_all_come_after_a_change_are_no_slow_requests() {
    // from 20 s on a first token takes 300 ms more
    let varied: Lengths = |_, draw| (60, draw.whole(20.0, 60.0));
    let asked = cell(Asks::Closed(4), varied, Server::default());
    let (run, mut samples) = run(&[asked], false, 2);
    for request in &mut samples[0].requests {
        if request.start > sim::stamp(20e3) {
            request.ttft = request.ttft.map(|ttft| ttft + 300e6);
            request.end = request.end + Nanos::from_millis(300);
        }
    }
    let found = found(&run, &samples);
    assert_eq!(found[0], Cause::Step);
    assert!(!found.contains(&Cause::SlowRequests), "{found:?}");
}

#[test]
fn what_a_cache_saves_is_no_waiting_for_others() {
    // The first six come together and wait for each other: one such prompt takes 0.22 s, the last of six 1.2 s.
    let server = Server {
        serial: true,
        blocking: true,
        prefill: 4.0,
        prefill_token: 0.5,
        cache: Some(|i| i >= 6),
        ..Server::default()
    };
    let cells = [cell(Asks::Closed(6), |_, _| (430, 60), server.clone())];
    let told = |cells: &[Cell]| {
        let (run, samples) = run(cells, false, 3);
        let all = findings(&run, &samples);
        let found = all.into_iter();
        let mut found = found.filter(|f| f.cause() == Some(Cause::PrefixCache));
        let of_cache = found.next()?;
        let figure = |known: Known| of_cache.figure(&known.into()).unwrap() / 1e6;
        Some((figure(Known::CachedTtft), figure(Known::Ttft)))
    };
    assert!(
        told(&cells).is_none_or(|(_, without)| without < 300.0),
        "{:?}",
        told(&cells)
    );
    // Where one in three is new, each is beside others that come as it does.
    let server = Server {
        cache: Some(|i| i % 3 != 0),
        ..server
    };
    let cells = [cell(Asks::Closed(2), |_, _| (430, 60), server)];
    let (with, without) = told(&cells).unwrap();
    assert!(with < 0.5 * without && without < 300.0, "{with} {without}");
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

#[test]
fn who_waits_for_the_next_step_only_is_no_queue_however_often_a_gauge_meets_it() {
    let cells = [cell(Asks::Closed(4), |_, _| (60, 25), Server::default())];
    let (mut run, samples) = run(&cells, true, 2);
    let figures = [
        ("waiting_mean", 0.67),
        ("waiting_peak", 4.0),
        ("running_mean", 3.33),
        ("running_peak", 4.0),
    ];
    told(&mut run, 0.0, 0.0, &figures);
    run.cells[0].phases = None;
    assert_eq!(found(&run, &samples), [Cause::Healthy]);
    // nor does a queue cost more than the time to the first token
    told(&mut run, 0.0, 0.0, &[("running_peak", 3.0)]);
    run.cells[0].phases = None;
    let all = findings(&run, &samples);
    let queue = all.iter().find(|f| f.cause() == Some(Cause::Queueing));
    assert!(queue.is_none_or(|f| f.severity < 0.16), "{queue:?}");
}

#[test]
fn what_is_quicker_while_lost_requests_hold_slots_is_no_step() {
    let cells = [cell(Asks::Closed(6), equal, Server::default())];
    let (run, mut samples) = run(&cells, false, 2);
    let second = |at: Stamp| at.as_secs_f64();
    for request in &mut samples[0].requests {
        let taken = request.end - request.start;
        if second(request.start) >= 20.0 {
            request.end = request.start + Nanos::from_f64(0.8 * taken.as_f64());
        }
    }
    assert_eq!(found(&run, &samples), [Cause::Step]);
    let stamp = |at: f64| Stamp::EPOCH + Nanos::from_secs_f64(at);
    samples[0].lost = (0..4)
        .map(|_| LostSample {
            repeat: 0,
            due: stamp(19.9),
            end: stamp(40.0),
            sent: true,
            how: Lost::TimedOut,
            status: None,
            endpoint: 0,
        })
        .collect();
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Step), "{found:?}");
}

#[test]
fn pauses_explain_the_requests_that_have_them() {
    let server = Server {
        evicts: Some(2),
        ..Server::default()
    };
    let cells = [cell(Asks::Closed(4), |_, _| (64, 40), server)];
    let (run, samples) = run(&cells, false, 2);
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::Pauses]);
    assert_eq!(all[0].consequences, [Cause::SlowRequests]);
}

#[test]
fn equal_prompts_that_share_a_step_are_no_stop_of_all() {
    let server = Server {
        blocking: true,
        step: 6.0,
        prefill: 2.0,
        prefill_token: 0.3,
        ..Server::default()
    };
    for seed in 1..=3 {
        let cells = [cell(Asks::Closed(3), |_, _| (1000, 20), server.clone())];
        let (run, samples) = run(&cells, false, seed);
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::PeriodicStall), "{found:?}");
        assert!(!found.contains(&Cause::Frozen), "{found:?}");
    }
}

#[test]
fn a_drift_is_named_whatever_is_in_flight_meanwhile() {
    let server = Server {
        step: 8.0,
        step_each: 0.05,
        pace: |t| 1.0 + 0.02 * t / 1e3,
        ..Server::default()
    };
    for seed in 1..=8 {
        let drifting = Cell {
            seconds: 22.0,
            ..cell(
                Asks::Poisson(12.0),
                |_, draw| (60, draw.whole(10.0, 60.0)),
                server.clone(),
            )
        };
        let (run, samples) = run(&[drifting], false, seed);
        let found = found(&run, &samples);
        assert_eq!(found, [Cause::Drift], "seed {seed}");
    }
}

#[test]
fn a_server_that_sleeps_while_nobody_asks_is_told_as_such() {
    let cells = [cell(Asks::Poisson(1.2), |_, _| (60, 20), Server::default())];
    let (run, mut samples) = run(&cells, false, 3);
    assert_eq!(found(&run, &samples), [Cause::Healthy]);
    let wake_up = Nanos::from_millis(800);
    let (mut busy_until, mut awake_at) = (Stamp::EPOCH, Stamp::EPOCH);
    for request in &mut samples[0].requests {
        if (request.start - busy_until).as_secs_f64() > 0.7 {
            awake_at = request.start + wake_up;
            // no prompt of this length finds it awake
            request.input_tokens = Some(85);
        }
        // whoever comes meanwhile waits as well
        let late = (awake_at - request.start).or_zero();
        request.end = request.end + late;
        request.ttft = request.ttft.map(|ttft| ttft + late.as_f64());
        busy_until = busy_until.max(request.end);
    }
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::SlowRequests]);
    let idle = all[0].figure(&Known::SlowAfterIdle.into()).unwrap();
    assert!((0.7e9..1.1e9).contains(&idle), "{idle}");
}

/// A beat of arrivals that come evenly with servers that take turns is no rhythm of all answers.
#[test]
fn two_servers_in_turn_of_which_one_is_slower_do_not_change_their_speed() {
    let cells = [cell(Asks::Even(8.3), |_, _| (60, 24), Server::default())];
    let (run, mut samples) = run(&cells, false, 3);
    for request in samples[0].requests.iter_mut().step_by(2) {
        request.end = request.start + Nanos::from_f64(1.5 * request.e2e());
    }
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Step), "{found:?}");
}

#[test]
fn a_ramp_up_to_a_limit_has_no_slow_start() {
    // what takes longer beyond eight at once is the ramp's doing; the first requests are the quickest
    let cells = [cell(Asks::Closed(16), |_, _| (30, 20), Server::default())];
    let (mut run, mut samples) = run(&cells, false, 2);
    let second = Nanos::from_secs(6);
    let from = samples[0].requests[0].start;
    let mut slots: Vec<Stamp> = Vec::new();
    let mut requests = Vec::new();
    let mut like = samples[0].requests[0].clone();
    let mut busy = [from; 8];
    let mut now = from;
    for n in 0..400_u64 {
        // a sixteenth more every 0.375 s
        let asked = usize::try_from((now - from).get() / 375_000_000).unwrap() + 1;
        slots.sort_unstable();
        if slots.len() >= asked.min(16) {
            now = now.max(slots.remove(0));
        }
        busy.sort_unstable();
        let begun = now.max(busy[0]);
        let wobble = Nanos::from_micros(i64::try_from(n * 7 % 11).unwrap() * 700);
        let end = begun + Nanos::from_millis(220) + wobble;
        busy[0] = end;
        like.id = n;
        (like.due, like.start, like.end) = (now, now, end);
        like.ttft = Some((begun - now).as_f64() + 30e6);
        requests.push(like.clone());
        slots.push(end);
        now = now + Nanos::from_micros(10);
        if now - from > second {
            break;
        }
    }
    samples[0].requests = requests;
    if let bench_schema::Load::Closed { ramp, .. } = &mut run.cells[0].load {
        *ramp = serde_json::from_str(r#"{"kind": "line", "from": 1, "to": 16}"#).ok();
        assert!(ramp.is_some());
    }
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::ColdStart), "{found:?}");
}

#[test]
fn a_burst_of_arrivals_at_the_beginning_is_no_slow_start() {
    let server = Server {
        blocking: true,
        step: 6.0,
        prefill_token: 0.2,
        ..Server::default()
    };
    let cells = [cell(Asks::Even(2.0), |_, _| (1000, 20), server.clone())];
    let (run, mut samples) = run(&cells, false, 2);
    // twelve that came within two and a half seconds and competed
    let requests = &mut samples[0].requests;
    let from = requests[0].start;
    for (n, request) in requests.iter_mut().take(12).enumerate() {
        let taken = request.end - request.start;
        request.start = from + Nanos::from_millis(200 * i64::try_from(n).unwrap());
        request.due = request.start;
        request.end = request.start + taken + taken + taken;
    }
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::ColdStart), "{found:?}");
}

/// Those of a cell that are late are cut off by the client after a time.
fn given_up(
    (run, samples): (&mut RunRecord, &mut [CellSamples]),
    limit: Nanos,
    is_late: impl Fn(&RequestSample) -> bool,
) {
    let all = std::mem::take(&mut samples[0].requests);
    let (late, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_late);
    samples[0].requests = kept;
    samples[0].lost = late
        .iter()
        .map(|r| LostSample {
            repeat: 0,
            due: r.due,
            end: r.start + limit,
            sent: true,
            how: Lost::TimedOut,
            status: None,
            endpoint: 0,
        })
        .collect();
    let counts = &mut run.cells[0].counts;
    let lost = late.len() as u64;
    counts.completed -= lost;
    counts.timed_out = lost;
    counts.timeouts = vec![(Stage::FirstToken, lost)];
}

#[test]
fn requests_that_a_growing_queue_keeps_until_they_are_given_up_are_its_consequence() {
    let server = Server {
        slots: 6,
        ..Server::default()
    };
    let cells = [cell(Asks::Poisson(30.0), |_, _| (60, 25), server)];
    let (mut run, mut samples) = run(&cells, false, 2);
    let limit = Nanos::from_secs(4);
    given_up((&mut run, &mut samples), limit, |r| {
        r.end - r.start >= limit
    });
    let all = findings(&run, &samples);
    assert_eq!(causes(&all)[0], Cause::Overload, "{all:?}");
    assert!(all[0].consequences.contains(&Cause::Failing), "{all:?}");
}

/// From 4 s on every request hangs until the client's limit cuts it off: nobody waited before, so it is no queue, however many pile up.
#[test]
fn a_server_that_stops_answering_is_not_overloaded() {
    let cells = [cell(
        Asks::Poisson(30.0),
        |_, _| (60, 25),
        Server::default(),
    )];
    let (mut run, mut samples) = run(&cells, false, 2);
    let hangs = Stamp::EPOCH + Nanos::from_secs(4);
    let limit = Nanos::from_secs(4);
    given_up((&mut run, &mut samples), limit, |r| r.end >= hangs);
    let cell = &mut run.cells[0];
    let lost = cell.counts.timed_out;
    assert!(lost > cell.counts.planned / 2, "{lost}");
    // what a table of requests in flight makes of it
    let rates = cell.windows.whole.as_mut().unwrap();
    let served = rates.requests_per_s.unwrap() * 0.25;
    (rates.requests_per_s, rates.served_requests_per_s) = (Some(served), Some(served));
    cell.windows.steady = None;
    let all = findings(&run, &samples);
    assert_eq!(causes(&all)[0], Cause::Failing, "{all:?}");
    assert!(!causes(&all).contains(&Cause::Overload), "{all:?}");
}

#[test]
fn with_a_full_gpu_no_more_at_once_are_advised() {
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let cells = [cell(Asks::Closed(16), equal, server)];
    let (mut run, samples) = run(&cells, true, 2);
    let mut advised = |gpu: f64| {
        let derived = &mut run.cells[0].hardware.as_mut().unwrap().derived;
        let value = Quantity {
            value: gpu,
            unit: Unit::Ratio,
            interval: None,
        };
        derived.insert("gpu_utilisation_mean".to_owned(), value);
        let found = findings(&run, &samples);
        let queue = found.iter().find(|f| f.cause() == Some(Cause::Queueing));
        let advice = &queue.unwrap().advice;
        advice.iter().any(|a| a.action == Action::RunMoreAtOnce)
    };
    assert!(advised(0.7) && !advised(0.99));
}

#[test]
fn a_stop_of_all_beside_preemptions_is_the_full_cache() {
    let server = Server {
        freezes: vec![(9_000.0, 700.0), (20_300.0, 700.0)],
        ..Server::default()
    };
    let cells = [cell(Asks::Closed(6), equal, server)];
    let (mut run, samples) = run(&cells, true, 2);
    assert_eq!(found(&run, &samples), [Cause::Frozen]);
    told(
        &mut run,
        0.0,
        0.05,
        &[("kv_cache_peak", 0.99), ("preemptions", 12.0)],
    );
    run.cells[0].phases = None;
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::MemoryPressure]);
    assert_eq!(all[0].consequences, [Cause::Frozen]);
}

/// What is found first with three seeds, without the server's metrics.
fn firsts(asks: Asks, lengths: Lengths, seconds: f64, server: &Server) -> Vec<Vec<Cause>> {
    let of = |seed| {
        let asked = Cell {
            seconds,
            ..cell(asks, lengths, server.clone())
        };
        let (run, samples) = run(&[asked], false, seed);
        found(&run, &samples)
    };
    (1..=3).map(of).collect()
}

#[test]
fn streams_that_pause_one_by_one_are_no_stop_of_all_however_few_they_are() {
    for (every, length) in [(1, 700.0), (2, 300.0), (3, 1500.0)] {
        let server = Server {
            evicts: Some(every),
            evicted_for: length,
            ..Server::default()
        };
        for asks in [
            Asks::Poisson(0.8),
            Asks::Poisson(2.0),
            Asks::Closed(2),
            Asks::Closed(3),
        ] {
            let lengths: Lengths = |_, draw| (100, draw.whole(40.0, 90.0));
            for found in firsts(asks, lengths, 40.0, &server) {
                let said = format!("{asks:?}, every {every}, {length} ms: {found:?}");
                assert!(!found.contains(&Cause::Frozen), "{said}");
                assert!(!found.contains(&Cause::PeriodicStall), "{said}");
                assert_eq!(found.first(), Some(&Cause::Pauses), "{said}");
            }
        }
    }
}

#[test]
fn periodic_stops_are_seen_where_few_streams_are_in_flight() {
    for (every, length) in [(3_000.0, 400.0), (2_100.0, 300.0), (5_000.0, 800.0)] {
        let server = Server {
            freezes: (0..30)
                .map(|i| (f64::from(i) * every + 700.0, length))
                .collect(),
            ..Server::default()
        };
        for asks in [
            Asks::Poisson(2.5),
            Asks::Poisson(4.0),
            Asks::Closed(2),
            Asks::Closed(3),
        ] {
            for found in firsts(asks, equal, 60.0, &server) {
                let said = format!("{asks:?}, every {every}, {length} ms: {found:?}");
                assert_eq!(found.first(), Some(&Cause::PeriodicStall), "{said}");
            }
        }
    }
}

/// In a short run of short answers some stops meet only requests that wait for their first tokens, or nobody.
#[test]
fn a_period_is_told_though_some_stops_meet_no_stream() {
    let told = |at: &dyn Fn(f64) -> f64| {
        let server = Server {
            freezes: (0..6).map(|i| (at(f64::from(i)), 500.0)).collect(),
            ..Server::default()
        };
        let short: Lengths = |_, _| (60, 30);
        let all = [Asks::Poisson(3.0), Asks::Poisson(5.0), Asks::Closed(3)]
            .into_iter()
            .flat_map(|asks| firsts(asks, short, 16.0, &server));
        let all: Vec<Vec<Cause>> = all.collect();
        let is_told = |found: &&Vec<Cause>| found.first() == Some(&Cause::PeriodicStall);
        (all.iter().filter(is_told).count(), all.len())
    };
    let (periodic, all) = told(&|i| 700.0 + 2_600.0 * i);
    assert!(periodic * 10 >= all * 9, "{periodic} of {all}");
    let (periodic, all) = told(&|i| 700.0 + 2_600.0 * i + 900.0 * (i * 2.4).sin());
    assert!(periodic == 0, "{periodic} of {all}");
}

#[test]
fn an_overload_whose_requests_time_out_is_one_however_long_it_lasts() {
    for (rate, slots, step_each, patience) in [
        (12.0, 6, 0.0, 2_000.0),
        (12.0, 6, 0.0, 5_000.0),
        (30.0, 6, 0.0, 4_000.0),
        (8.0, 4, 0.0, 3_000.0),
        // nobody waits, but all are slower
        (12.0, 1000, 2.0, 4_000.0),
    ] {
        let server = Server {
            slots,
            step_each,
            patience: Some(patience),
            ..Server::default()
        };
        for seconds in [15.0, 40.0, 90.0] {
            for found in firsts(Asks::Poisson(rate), equal, seconds, &server) {
                let said =
                    format!("{rate}/s, {slots} slots, {patience} ms, {seconds} s: {found:?}");
                assert_eq!(found.first(), Some(&Cause::Overload), "{said}");
            }
        }
    }
}

#[test]
fn requests_that_hang_until_they_are_given_up_are_no_overload() {
    for (every, step_each) in [(10, 0.0), (4, 0.0), (10, 0.4)] {
        let server = Server {
            evicts: Some(every),
            evicted_for: 60_000.0,
            patience: Some(4_000.0),
            step_each,
            ..Server::default()
        };
        for asks in [Asks::Poisson(6.0), Asks::Even(10.0), Asks::Bursts(8, 5.0)] {
            for found in firsts(asks, equal, 40.0, &server) {
                assert_eq!(found.first(), Some(&Cause::Failing), "{asks:?}: {found:?}");
            }
        }
    }
    // bursts that can wait no longer than this, of a server that is idle between them
    let server = Server {
        slots: 4,
        patience: Some(2_500.0),
        ..Server::default()
    };
    for found in firsts(Asks::Bursts(40, 4.0), equal, 60.0, &server) {
        assert!(!found.contains(&Cause::Overload), "{found:?}");
    }
}

#[test]
fn answers_of_one_token_tell_no_queue_from_prompts_that_share_the_server() {
    let one = |_: usize, _: &mut Draw| (200, 1);
    // each prompt takes its time of one processor, or waits for a slot
    let shared = Server {
        serial: true,
        prefill: 40.0,
        ..Server::default()
    };
    let slots = Server {
        slots: 2,
        prefill: 60.0,
        ..Server::default()
    };
    for server in [shared, slots] {
        for cells in [
            sweep(&[1, 4, 16], one, &server),
            vec![cell(Asks::Poisson(14.0), one, server.clone())],
        ] {
            let (run, samples) = run(&cells, false, 2);
            let found = found(&run, &samples);
            assert!(!found.contains(&Cause::Queueing), "{found:?}");
            assert!(!found.contains(&Cause::Healthy), "{found:?}");
        }
    }
}

#[test]
fn bursts_of_equal_requests_change_no_level() {
    for (size, rate) in [(8, 4.0), (20, 4.0), (30, 6.0), (5, 2.0)] {
        for (step_each, prefill_token) in [(0.0, 0.05), (0.6, 0.05), (1.5, 0.2)] {
            let server = Server {
                step_each,
                prefill_token,
                blocking: prefill_token > 0.1,
                ..Server::default()
            };
            for found in firsts(Asks::Bursts(size, rate), equal, 40.0, &server) {
                let said = format!("{size} at {rate}/s, {step_each}: {found:?}");
                let levels = [Cause::Step, Cause::Drift, Cause::ColdStart];
                assert!(!found.iter().any(|cause| levels.contains(cause)), "{said}");
            }
        }
    }
}

#[test]
fn a_slow_drift_that_the_data_show_is_named() {
    for (asks, seconds) in [
        (Asks::Closed(4), 60.0),
        (Asks::Poisson(4.0), 60.0),
        (Asks::Even(5.0), 90.0),
    ] {
        let server = Server {
            pace: |t| 1.0 + 0.10 * t / 60_000.0,
            ..Server::default()
        };
        for found in firsts(asks, equal, seconds, &server) {
            assert_eq!(found, [Cause::Drift], "{asks:?}, {seconds} s");
        }
    }
}

/// Four or six at once, and more than twice as many that ask.
fn with_a_queue(freezes: impl Iterator<Item = (f64, f64)>) -> Server {
    Server {
        slots: 6,
        blocking: true,
        prefill: 10.0,
        prefill_token: 0.0,
        freezes: freezes.collect(),
        ..Server::default()
    }
}

const LENGTHS: [Lengths; 2] = [|_, _| (60, 50), |_, draw| (60, draw.whole(20.0, 80.0))];

#[test]
fn a_stop_of_all_is_seen_though_a_queue_waits() {
    let once = with_a_queue([(8_000.0, 1_600.0)].into_iter());
    let again = with_a_queue((0..8).map(|i| (f64::from(i) * 2400.0 + 900.0, 450.0)));
    for lengths in LENGTHS {
        for found in firsts(Asks::Closed(15), lengths, 16.0, &once) {
            assert!(found.contains(&Cause::Frozen), "{found:?}");
        }
        for found in firsts(Asks::Closed(15), lengths, 18.0, &again) {
            assert!(found.contains(&Cause::PeriodicStall), "{found:?}");
            assert!(!found.contains(&Cause::ColdStart), "{found:?}");
        }
    }
}

#[test]
fn prompts_behind_a_queue_stop_nobody_but_by_being_worked_on() {
    let stops = [Cause::Frozen, Cause::PeriodicStall];
    let lengths: [Lengths; 4] = [
        LENGTHS[0],
        LENGTHS[1],
        |_, draw| (draw.whole(100.0, 1500.0), draw.whole(20.0, 80.0)),
        |i, draw| (if i % 12 == 5 { 6000 } else { 60 }, draw.whole(20.0, 80.0)),
    ];
    for lengths in lengths {
        for (prefill, blocking) in [(10.0, true), (120.0, true), (60.0, false)] {
            let server = Server {
                prefill,
                prefill_token: 0.2,
                blocking,
                ..with_a_queue(std::iter::empty())
            };
            for asks in [Asks::Closed(15), Asks::Closed(7), Asks::Poisson(8.0)] {
                for found in firsts(asks, lengths, 20.0, &server) {
                    let said = format!("{asks:?}, {prefill} ms, {blocking}: {found:?}");
                    assert!(!found.iter().any(|cause| stops.contains(cause)), "{said}");
                }
            }
        }
    }
}

type Pace = fn(f64) -> f64;

fn paced(step: f64, prefill: f64, pace: Pace) -> Server {
    Server {
        step,
        prefill,
        pace,
        slots: 2000,
        ..Server::default()
    }
}

const OF_40: Lengths = |_, _| (60, 40);
const UP_TO_80: Lengths = |_, draw| (60, draw.whole(20.0, 80.0));

#[test]
fn a_speed_that_changes_by_the_clock_is_no_slow_start_and_no_load() {
    let paces: [Pace; 4] = [
        |t| if t % 6e3 < 3e3 { 2.0 } else { 1.0 },
        |t| if (t + 1.5e3) % 6e3 < 3e3 { 1.0 } else { 2.0 },
        |t| if t % 6e3 < 3e3 { 3.0 } else { 1.0 },
        |t| if t % 9e3 < 3e3 { 2.0 } else { 1.0 },
    ];
    for pace in paces {
        let server = paced(9.0, 20.0, pace);
        for asks in [Asks::Poisson(10.0), Asks::Closed(6)] {
            for seconds in [14.0, 22.0] {
                for found in firsts(asks, OF_40, seconds, &server) {
                    let said = format!("{asks:?}, {seconds} s: {found:?}");
                    assert_eq!(found.first(), Some(&Cause::Step), "{said}");
                    assert!(!found.contains(&Cause::ColdStart), "{said}");
                }
            }
        }
    }
}

#[test]
fn tokens_that_follow_the_load_change_no_level() {
    // A batch without a limit, at rates that it can do.
    let levels = [Cause::Step, Cause::Drift, Cause::ColdStart];
    for (rate, lengths, step, step_each) in [
        (6.0, OF_40, 6.0, 2.0),
        (5.0, mixed as Lengths, 4.0, 1.0),
        (3.0, mixed, 10.0, 1.0),
        (3.5, UP_TO_80, 10.0, 1.0),
    ] {
        let server = Server {
            slots: 2000,
            step,
            step_each,
            ..Server::default()
        };
        for found in firsts(Asks::Poisson(rate), lengths, 22.0, &server) {
            let said = format!("{rate}/s, {step} + {step_each} ms: {found:?}");
            assert!(!found.iter().any(|cause| levels.contains(cause)), "{said}");
        }
    }
}

#[test]
fn times_that_keep_falling_are_no_slow_start() {
    let drifts: [(Asks, Lengths, f64, Pace); 5] = [
        (Asks::Closed(6), OF_40, 16.0, |t| {
            1.0 - 0.5 * (t / 18e3).min(1.0)
        }),
        (Asks::Poisson(7.0), OF_40, 18.0, |t| {
            1.0 - 0.5 * (t / 18e3).min(1.0)
        }),
        (Asks::Closed(8), UP_TO_80, 20.0, |t| {
            1.0 - 0.55 * (t / 20e3).min(1.0)
        }),
        (Asks::Closed(2), OF_40, 18.0, |t| {
            1.0 - 0.5 * (t / 20e3).min(1.0)
        }),
        (Asks::Closed(10), OF_40, 22.0, |t| {
            1.0 - 0.4 * (t / 24e3).min(1.0)
        }),
    ];
    for (asks, lengths, seconds, pace) in drifts {
        for found in firsts(asks, lengths, seconds, &paced(18.0, 40.0, pace)) {
            assert_eq!(found, [Cause::Drift], "{asks:?}");
        }
    }
    let halfway: Pace = |t| if t < 8e3 { 1.0 } else { 0.55 };
    for asks in [Asks::Closed(7), Asks::Poisson(9.0)] {
        for found in firsts(asks, OF_40, 17.0, &paced(16.0, 40.0, halfway)) {
            assert_eq!(found, [Cause::Step], "{asks:?}");
        }
    }
}

#[test]
fn a_start_that_is_slow_at_once_or_less_and_less_is_one() {
    let starts: [Pace; 5] = [
        |t| if t < 3e3 { 2.0 } else { 1.0 },
        |t| if t < 4e3 { 1.6 } else { 1.0 },
        |t| if t < 7e3 { 2.0 } else { 1.0 },
        |t| 1.0 + 2.0 * (-t / 1.5e3).exp(),
        |t| 1.0 + 1.5 * (-t / 4e3).exp(),
    ];
    for pace in starts {
        let server = paced(10.0, 20.0, pace);
        for (asks, lengths) in [(Asks::Closed(6), OF_40), (Asks::Closed(8), UP_TO_80)] {
            for found in firsts(asks, lengths, 20.0, &server) {
                assert_eq!(found, [Cause::ColdStart], "{asks:?}");
            }
        }
    }
}

#[test]
fn few_requests_one_at_a_time_tell_a_drift_and_a_step() {
    let up_to_40: Lengths = |_, draw| (60, draw.whole(10.0, 40.0));
    let cases: [(Lengths, f64, f64, Pace, Cause); 5] = [
        (
            |_, _| (60, 30),
            9.0,
            15.0,
            |t| 1.0 + 0.8 * (t / 14e3).min(1.0),
            Cause::Drift,
        ),
        (
            OF_40,
            12.0,
            18.0,
            |t| 1.0 + (t / 18e3).min(1.0),
            Cause::Drift,
        ),
        (
            up_to_40,
            9.0,
            15.0,
            |t| 1.0 + 1.5 * (t / 14e3).min(1.0),
            Cause::Drift,
        ),
        (
            OF_40,
            16.0,
            20.0,
            |t| 1.0 - 0.4 * (t / 20e3).min(1.0),
            Cause::Drift,
        ),
        (
            OF_40,
            12.0,
            16.0,
            |t| if t < 9e3 { 1.0 } else { 1.8 },
            Cause::Step,
        ),
    ];
    for (lengths, step, seconds, pace, cause) in cases {
        for found in firsts(Asks::Closed(1), lengths, seconds, &paced(step, 25.0, pace)) {
            assert_eq!(found, [cause], "{step} ms, {seconds} s");
        }
    }
    for lengths in [OF_40, up_to_40, mixed as Lengths] {
        for asks in [Asks::Closed(1), Asks::Closed(3)] {
            for found in firsts(asks, lengths, 15.0, &paced(11.0, 25.0, |_| 1.0)) {
                assert!(
                    found.iter().all(|cause| *cause == Cause::Healthy),
                    "{found:?}"
                );
            }
        }
    }
}

#[test]
fn first_tokens_that_take_longer_and_longer_are_a_drift_in_an_open_loop() {
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 18.0,
            ..cell(
                Asks::Poisson(8.0),
                |_, _| (60, 20),
                paced(9.0, 1.0, |_| 1.0),
            )
        };
        let (run, mut samples) = run(&[asked], false, seed);
        let begun = samples[0].requests[0].start;
        for request in &mut samples[0].requests {
            // 100 ms at first, 400 ms in the end
            let late = 1e8 * (1.0 + 3.0 * (request.start - begun).as_secs_f64() / 18.0);
            request.end = request.end + Nanos::from_f64(late);
            request.ttft = request.ttft.map(|ttft| ttft + late);
        }
        assert_eq!(
            found(&run, &samples).first(),
            Some(&Cause::Drift),
            "seed {seed}"
        );
    }
    // a queue that comes and goes, close to what the server can do
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    for found in firsts(Asks::Poisson(5.3), equal, 40.0, &server) {
        assert!(!found.contains(&Cause::Drift), "{found:?}");
    }
}

#[test]
fn an_overload_by_prompts_is_one_though_no_answer_ended_while_it_lasted() {
    let prompts: Lengths = |_, draw| (draw.whole(500.0, 700.0), 20);
    let server = Server {
        blocking: true,
        slots: 2000,
        prefill: 0.0,
        prefill_token: 0.3,
        ..Server::default()
    };
    for found in firsts(Asks::Poisson(8.0), prompts, 16.0, &server) {
        assert_eq!(found.first(), Some(&Cause::Overload), "{found:?}");
    }
    // long answers fill a server that has room for them
    let roomy = Server {
        step_each: 0.1,
        slots: 2000,
        ..Server::default()
    };
    for found in firsts(Asks::Poisson(6.0), |_, _| (100, 2000), 12.0, &roomy) {
        assert!(!found.contains(&Cause::Overload), "{found:?}");
    }
}

#[test]
fn three_stops_at_any_times_have_no_period() {
    let periodic = |at: &[f64]| {
        let server = Server {
            freezes: at.iter().map(|at| (*at, 600.0)).collect(),
            ..Server::default()
        };
        let found = firsts(Asks::Closed(4), equal, 12.0, &server);
        found
            .iter()
            .all(|found| found.contains(&Cause::PeriodicStall))
    };
    assert!(!periodic(&[840.0, 2010.0, 4340.0]) && !periodic(&[1000.0, 4000.0, 7700.0]));
    assert!(!periodic(&[1000.0, 5000.0, 7000.0, 11000.0]));
    assert!(periodic(&[1000.0, 4500.0, 8000.0]) && periodic(&[1000.0, 4000.0, 7000.0, 10000.0]));
}

#[test]
fn a_few_slow_requests_that_come_close_together_are_no_drift() {
    let server = paced(8.0, 25.0, |_| 1.0);
    let asked = Cell {
        seconds: 10.0,
        ..cell(Asks::Closed(6), |_, _| (60, 30), server)
    };
    let (run, mut samples) = run(&[asked], false, 2);
    for at in [3, 11, 17, 24, 31, 38, 47, 120] {
        let request = &mut samples[0].requests[at];
        let taken = (request.end - request.start).as_f64();
        request.end = request.start + Nanos::from_f64(3.0 * taken);
    }
    let found = found(&run, &samples);
    let levels = [Cause::Step, Cause::Drift, Cause::ColdStart];
    assert!(
        !found.iter().any(|cause| levels.contains(cause)),
        "{found:?}"
    );
}

#[test]
fn nobody_knows_whether_requests_queue_whose_answers_come_whole() {
    let server = Server {
        at_once: true,
        slots: 4,
        ..Server::default()
    };
    let found = |asks: Asks, metrics: bool| {
        let (run, samples) = run(&[cell(asks, equal, server.clone())], metrics, 2);
        found(&run, &samples)
    };
    assert_eq!(found(Asks::Closed(14), false), []);
    assert_eq!(found(Asks::Closed(14), true), [Cause::Queueing]);
    assert_eq!(found(Asks::Closed(3), true), [Cause::Healthy]);
    assert_eq!(found(Asks::Closed(1), false), [Cause::Healthy]);
}

/// Six at a time, answers of 80 tokens whose gaps are drawn: the median is 8.6 ms.
fn with_gaps(draw_gap: impl Fn(&mut Draw) -> f64) -> Vec<Cause> {
    let asked = Cell {
        seconds: 12.0,
        ..cell(Asks::Closed(6), |_, _| (60, 80), paced(10.0, 20.0, |_| 1.0))
    };
    let (run, mut samples) = run(&[asked], false, 2);
    let mut draw = Draw::new(7);
    let mut ends = [samples[0].requests[0].start; 6];
    for request in &mut samples[0].requests {
        let slot = ends.iter_mut().min().unwrap();
        let start = *slot;
        let mut at = start + Nanos::from_millis(20);
        let mut stalls = Vec::new();
        for _ in 1..80 {
            let gap = draw_gap(&mut draw);
            if gap > 4.0 * 8.6 {
                stalls.push((at, gap * 1e6));
            }
            at = at + Nanos::from_f64(gap * 1e6);
        }
        stalls.truncate(8);
        (request.due, request.start, request.end) = (start, start, at);
        request.ttft = Some(2e7);
        request.stalls = stalls.into();
        *slot = at;
    }
    samples[0].requests.sort_by_key(|request| request.start);
    found(&run, &samples)
}

#[test]
fn uneven_gaps_are_no_pauses() {
    let normal = |draw: &mut Draw| {
        let (a, b) = (draw.uniform().max(1e-12), draw.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let jittery = |sigma: f64| with_gaps(move |draw| 8.6 * (sigma * normal(draw)).exp());
    for sigma in [0.5, 0.7, 0.8] {
        let found = jittery(sigma);
        assert!(!found.contains(&Cause::Pauses), "{sigma}: {found:?}");
    }
    // one token in a hundred comes late, by as much each time or by chance
    let late = |length: fn(&mut Draw) -> f64| {
        with_gaps(move |draw| {
            let pauses = draw.uniform() < 0.01;
            8.6 * (0.5 * normal(draw)).exp() + if pauses { length(draw) } else { 0.0 }
        })
    };
    let lengths: [fn(&mut Draw) -> f64; 3] = [
        |_| 60.0,
        |draw| draw.between(50.0, 500.0),
        |draw| -200.0 * draw.uniform().max(1e-9).ln(),
    ];
    for length in lengths {
        assert_eq!(late(length), [Cause::Pauses]);
    }
}

#[test]
fn failures_hide_no_slow_requests() {
    let server = Server {
        fails: Some(25),
        second: Some(3.0),
        one_address: true,
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(6), equal, server)], false, 2);
    let found = found(&run, &samples);
    assert!(
        found.contains(&Cause::Failing) && found.contains(&Cause::SlowRequests),
        "{found:?}"
    );
}

#[test]
fn a_queue_by_chance_is_not_a_fault_that_nobody_can_name() {
    // Each request takes a tenth to a half more or less than another, and waits for one of four places at times.
    for seed in 1..=12 {
        let server = Server {
            slots: 4,
            step: 8.0,
            prefill: 25.0,
            ..Server::default()
        };
        let asked = Cell {
            seconds: 12.0,
            ..cell(
                Asks::Poisson(14.0),
                |_, draw| (40, draw.whole(15.0, 35.0)),
                server,
            )
        };
        let (run, samples) = run(&[asked], false, seed);
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::SlowRequests), "{seed}: {found:?}");
    }
}

#[test]
fn what_the_server_counts_as_prefill_is_not_more_than_it_counts() {
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(10), |_, _| (60, 30), server)], true, 2);
    // Nobody waits, it says, and a prompt takes 25 of the 480 ms to the first token.
    let mut first = |prefill_ms: f64, queue: f64| {
        let figures = [
            ("waiting_mean", 0.05),
            ("waiting_peak", 1.0),
            ("running_mean", 4.0),
            ("running_peak", 4.0),
            ("server_ttft_mean", 4.5e8),
            ("server_prefill_mean", prefill_ms * 1e6),
        ];
        told(&mut run, queue, 0.6 - queue, &figures);
        found(&run, &samples).first().copied()
    };
    assert_eq!(first(25.0, 0.0), Some(Cause::WaitingOrPrefill));
    assert_eq!(first(430.0, 0.0), Some(Cause::Prefill));
    // Nor does a gauge that says nobody waits make slow requests of a queue time.
    assert_eq!(first(25.0, 0.55), Some(Cause::WaitingOrPrefill));
}

#[test]
fn levels_with_requests_of_other_lengths_are_held_against_the_same_lengths() {
    // Every request takes as long at each level; levels have other draws.
    let server = || Server {
        blocking: false,
        ..Server::default()
    };
    let lengths: Lengths = |i, draw| {
        let output = draw.whole(20.0, if i < 40 { 200.0 } else { 100.0 });
        (draw.whole(20.0, 400.0), output)
    };
    let cells = [1, 4, 16].map(|n| Cell {
        seconds: 30.0,
        ..cell(Asks::Closed(n), lengths, server())
    });
    let (run, samples) = run(&cells, false, 5);
    let tokens = |i: usize| run.cells[i].metrics[&Metric::OutputTokens].mean;
    assert!(
        (tokens(0) / tokens(2) - 1.0).abs() > 0.02,
        "{} {}",
        tokens(0),
        tokens(2)
    );
    for row in &bench_insight::analyse_run(&run, &samples).scaling {
        let penalty = row.latency_penalty.unwrap();
        assert!(penalty.abs() < 0.015, "{}: {penalty}", row.cell);
    }
    // Of tables alone nobody knows.
    let told = bench_insight::analyse_run(&run, &[]).scaling;
    assert!(told[2].latency_penalty.is_none(), "{told:?}");
}

/// Cells one after another, each at this concurrency, of a server whose times go on where the cell before ended.
fn one_after_another(levels: [usize; 3], seconds: f64, servers: &[Server; 3]) -> Vec<Finding> {
    of_lengths_in_turn(OF_40, levels, seconds, servers)
}

fn of_long_answers_in_turn(levels: [usize; 3], seconds: f64, servers: &[Server; 3]) -> Vec<Cause> {
    let found = of_lengths_in_turn(LONG_ANSWERS, levels, seconds, servers);
    found.iter().filter_map(Finding::cause).collect()
}

fn of_lengths_in_turn(
    lengths: Lengths,
    levels: [usize; 3],
    seconds: f64,
    servers: &[Server; 3],
) -> Vec<Finding> {
    let cells: Vec<Cell> = levels
        .iter()
        .zip(servers)
        .map(|(n, server)| Cell {
            seconds,
            ..cell(Asks::Closed(*n), lengths, server.clone())
        })
        .collect();
    let (run, mut samples) = run(&cells, false, 2);
    let mut later = Nanos::ZERO;
    for of_cell in &mut samples {
        let mut last = Stamp::EPOCH;
        for request in &mut of_cell.requests {
            let times = [&mut request.due, &mut request.start, &mut request.end];
            let stalls = request.stalls.iter_mut().map(|(at, _)| at);
            for at in times.into_iter().chain(&mut request.parts).chain(stalls) {
                *at = *at + later;
            }
            last = last.max(request.end);
        }
        later = last - Stamp::EPOCH + Nanos::from_secs_f64(1.0);
    }
    findings(&run, &samples)
}

#[test]
fn a_drift_over_a_sweep_is_not_its_load() {
    let paces: [Pace; 3] = [
        |t| 1.0 + 1.2 * t / 25e3,
        |t| 1.0 + 1.2 * (t + 8e3) / 25e3,
        |t| 1.0 + 1.2 * (t + 16e3) / 25e3,
    ];
    let drifting = paces.map(|pace| paced(8.0, 25.0, pace));
    let found = causes(&one_after_another([2, 4, 8], 7.0, &drifting));
    assert_eq!(found.first(), Some(&Cause::Drift), "{found:?}");
    assert!(!found.contains(&Cause::DecodeSlowsWithLoad), "{found:?}");
    let loaded = || Server {
        step: 6.0,
        step_each: 1.5,
        ..Server::default()
    };
    let found = causes(&one_after_another(
        [2, 4, 8],
        7.0,
        &[(); 3].map(|()| loaded()),
    ));
    assert_eq!(found, [Cause::DecodeSlowsWithLoad]);
}

#[test]
fn stops_of_one_job_are_told_once_over_a_sweep() {
    let stops = |at: &[f64]| Server {
        freezes: at.iter().map(|at| (*at, 300.0)).collect(),
        ..Server::default()
    };
    let often = || stops(&[400.0, 2100.0, 3800.0, 5500.0]);
    let servers = [often(), often(), stops(&[900.0, 4300.0])];
    let all = one_after_another([2, 4, 8], 6.0, &servers);
    assert_eq!(causes(&all), [Cause::PeriodicStall]);
    assert_eq!(all[0].cells.len(), 3);
}

#[test]
fn an_overload_is_one_though_a_warm_up_had_filled_the_queue() {
    let server = Server {
        slots: 3,
        patience: Some(1_200.0),
        ..Server::default()
    };
    let asked = Cell {
        seconds: 25.0,
        ..cell(Asks::Poisson(16.0), |_, _| (60, 26), server)
    };
    let (run, mut samples) = run(&[asked], false, 3);
    // What came in the first five seconds was the warm-up's.
    let measured = sim::stamp(5e3);
    samples[0].requests.retain(|r| r.due >= measured);
    samples[0].lost.retain(|lost| lost.due >= measured);
    assert_eq!(found(&run, &samples).first(), Some(&Cause::Overload));
}

#[test]
fn a_queue_that_is_full_does_not_grow() {
    for rate in [18.0, 25.0] {
        let server = Server {
            slots: 6,
            full: Some(14),
            ..Server::default()
        };
        let asked = cell(Asks::Poisson(rate), |_, _| (60, 40), server);
        let (run, samples) = run(&[asked], false, 2);
        let found = found(&run, &samples);
        assert!(found.contains(&Cause::Failing), "{found:?}");
        assert!(!found.contains(&Cause::Overload), "{found:?}");
    }
}

#[test]
fn a_client_that_waits_a_little_is_not_why_requests_queue() {
    let server = Server {
        slots: 5,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(20), equal, server)], true, 2);
    let cell = run.cells[0].id.clone();
    let reason = |measured: f64| bench_schema::TrustReason {
        also_in: Vec::new(),
        code: "run_queue".to_owned(),
        verdict: bench_schema::TrustVerdict::Doubtful,
        message: String::new(),
        next: None,
        cell: Some(cell.clone()),
        measured: Some(measured),
        threshold: Some(0.1),
    };
    // the kernel stamps, and requests are sent 4 µs late
    let mut late = run.cells[0].metrics[&Metric::E2e].clone();
    late.mean = 4e3;
    run.cells[0].metrics.insert(Metric::Lateness, late);
    run.trust = bench_schema::Trust::from_reasons(vec![reason(0.12)]);
    assert_eq!(found(&run, &samples), [Cause::Queueing]);
    run.trust = bench_schema::Trust::from_reasons(vec![reason(0.6)]);
    assert_eq!(found(&run, &samples), [Cause::ClientLimited]);
}

#[test]
fn first_tokens_that_are_late_whoever_else_is_there_are_no_queue() {
    for (cells, every) in [
        (sweep(&[1, 6], equal, &Server::default()), 3),
        (vec![cell(Asks::Poisson(9.0), equal, Server::default())], 4),
    ] {
        for seed in 1..=5 {
            let (run, mut samples) = run(&cells, false, seed);
            let mut draw = Draw::new(seed);
            for request in samples.iter_mut().flat_map(|cell| &mut cell.requests) {
                if draw.uniform() * f64::from(every) < 1.0 {
                    request.ttft = request.ttft.map(|ttft| ttft + 400e6);
                    request.end = request.end + Nanos::from_millis(400);
                }
            }
            let found = found(&run, &samples);
            assert!(!found.contains(&Cause::Queueing), "{seed}: {found:?}");
        }
    }
}

#[test]
fn a_stop_of_answers_that_come_whole_is_one() {
    let whole = |freezes: Vec<(f64, f64)>, lengths, asks, seed| {
        let server = Server {
            at_once: true,
            freezes,
            ..Server::default()
        };
        let asked = Cell {
            seconds: 13.0,
            ..cell(asks, lengths, server)
        };
        let (run, samples) = run(&[asked], false, seed);
        found(&run, &samples)
    };
    for asks in [Asks::Closed(5), Asks::Poisson(9.0)] {
        let found = whole(vec![(6e3, 1.6e3)], |_, _| (60, 26), asks, 2);
        assert_eq!(found.first(), Some(&Cause::Frozen), "{asks:?} {found:?}");
    }
    // Some answers are far longer than others, and two of those may be under way alone.
    for seed in 1..=10 {
        let heavy: Lengths = |_, draw| {
            let times = 1 << draw.whole(0.0, 6.0);
            (60, draw.whole(4.0, 8.0) * times)
        };
        let found = whole(Vec::new(), heavy, Asks::Closed(2), seed);
        assert!(!found.contains(&Cause::Frozen), "{seed} {found:?}");
    }
}

#[test]
fn a_queue_that_is_always_there_is_no_consequence_of_stops() {
    let server = Server {
        slots: 3,
        freezes: (1..20).map(|i| (2.6e3 * f64::from(i), 500.0)).collect(),
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(8), equal, server)], true, 2);
    let found = found(&run, &samples);
    let both = [Cause::PeriodicStall, Cause::Queueing];
    assert!(both.iter().all(|cause| found.contains(cause)), "{found:?}");
}

#[test]
fn later_tokens_that_take_longer_make_no_request_slow_for_its_length() {
    let asked = cell(
        Asks::Closed(4),
        |_, draw| (40, draw.whole(20.0, 140.0)),
        Server::default(),
    );
    let (run, mut samples) = run(&[asked], false, 2);
    for request in &mut samples[0].requests {
        let later = u64::from(request.output_tokens.unwrap()).saturating_sub(60);
        request.end = request.end + Nanos::from_millis(i64::try_from(20 * later).unwrap());
    }
    assert_eq!(found(&run, &samples), [Cause::Healthy]);
}

#[test]
fn a_first_level_that_was_slow_is_no_base_of_scaling() {
    let cold = |pace: Pace| {
        let servers = [
            paced(10.0, 20.0, pace),
            Server::default(),
            Server::default(),
        ];
        one_after_another([2, 4, 8], 8.0, &servers)
    };
    let scaling = |all: &[Finding]| {
        all.iter()
            .find(|f| f.code == bench_schema::Fact::Scaling.into())
            .cloned()
    };
    let effects = |f: &Finding| f.code == bench_schema::Fact::LoadEffects.into();
    // slow for most of the first cell
    let all = cold(|at| if at < 6e3 { 2.2 } else { 1.0 });
    assert!(
        scaling(&all).is_none() && !all.iter().any(effects),
        "{all:?}"
    );
    let stood = Server {
        freezes: vec![(3e3, 2.2e3)],
        ..Server::default()
    };
    let all = one_after_another(
        [2, 4, 8],
        8.0,
        &[stood, Server::default(), Server::default()],
    );
    assert_eq!(causes(&all)[0], Cause::Frozen);
    assert!(scaling(&all).is_none(), "{all:?}");
    // slow throughout: nothing in it tells, but what others take at more load does
    let all = cold(|_| 2.2);
    assert_eq!(causes(&all), [Cause::Step]);
    let level = |known: Known| all[0].figure(&known.into()).unwrap();
    let times = level(Known::LevelBefore) / level(Known::LevelAfter);
    assert!((times - 2.2).abs() < 0.05, "{times}");
    assert!(
        scaling(&all).is_none() && !all.iter().any(effects),
        "{all:?}"
    );
    let all = cold(|_| 1.0);
    let told = scaling(&all).unwrap();
    let efficiency = told.figure(&Known::Efficiency.into()).unwrap();
    assert!((0.9..1.1).contains(&efficiency), "{efficiency}");
}

/// One of three replicas behind one address needs 400 ms more for a first token: nobody waits for anybody.
#[test]
fn first_tokens_of_two_kinds_are_slow_requests() {
    let varied: Lengths = |_, draw| (60, draw.whole(20.0, 60.0));
    for users in [1, 6] {
        let is_named = |seed: &u64| {
            let asked = cell(Asks::Closed(users), varied, Server::default());
            let (run, mut samples) = run(&[asked], false, *seed);
            let mut draw = Draw::new(*seed);
            for request in &mut samples[0].requests {
                if draw.uniform() * 3.0 < 1.0 {
                    request.ttft = request.ttft.map(|ttft| ttft + 400e6);
                    request.end = request.end + Nanos::from_millis(400);
                }
            }
            found(&run, &samples) == [Cause::SlowRequests]
        };
        // by chance first tokens come as others leave
        let named = (1..=5).filter(is_named).count();
        assert!(named >= 4, "{users} {named}");
    }
}

/// A front end sends one request in seven on 1.2 s later: as long for prompts of any length, and others overtake it.
#[test]
fn requests_that_wait_for_a_time_of_their_own_are_slow_requests() {
    let varied: Lengths = |_, draw| (draw.whole(40.0, 600.0), draw.whole(20.0, 60.0));
    let server = Server {
        prefill: 5.0,
        prefill_token: 0.1,
        ..Server::default()
    };
    for asks in [Asks::Closed(6), Asks::Poisson(5.0)] {
        let is_named = |seed: &u64| {
            let (run, mut samples) = run(&[cell(asks, varied, server.clone())], false, *seed);
            let mut draw = Draw::new(seed + 100); // no arrival's
            for request in &mut samples[0].requests {
                if draw.uniform() * 7.0 < 1.0 {
                    request.ttft = request.ttft.map(|ttft| ttft + 1.2e9);
                    request.end = request.end + Nanos::from_millis(1200);
                }
            }
            found(&run, &samples) == [Cause::SlowRequests]
        };
        let named = (1..=5).filter(is_named).count();
        assert!(named >= 4, "{asks:?} {named}");
    }
}

#[test]
fn one_request_at_a_time_waits_for_no_other() {
    let far = Server {
        prefill: 400.0,
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(1), equal, far)], false, 2);
    let all = findings(&run, &samples);
    let told = all
        .iter()
        .find(|f| f.cause() == Some(Cause::WaitingOrPrefill));
    let told = told.unwrap();
    let excluded: Vec<Cause> = told.ruled_out.iter().map(|other| other.cause).collect();
    assert_eq!(excluded, [Cause::Queueing]);
    assert!(
        told.advice
            .iter()
            .all(|advice| advice.action != Action::ReadServerMetrics)
    );
}

/// Half of them are slower than the others, and have nothing in common.
#[test]
fn times_that_scatter_around_one_level_make_no_slow_requests() {
    let scattered = |sigma: f64, slow: f64, asks, seed| {
        let (run, mut samples) = run(&[cell(asks, equal, Server::default())], false, seed);
        let mut noise = crate::simulated::Noise(seed);
        for request in &mut samples[0].requests {
            let mut times = (sigma * noise.normal()).exp();
            if noise.uniform() < slow {
                times *= 3.0;
            }
            request.ttft = request.ttft.map(|ttft| ttft * times);
            request.end = request.start + Nanos::from_f64(request.e2e() * times);
        }
        found(&run, &samples)
    };
    for seed in 1..=5 {
        for asks in [Asks::Closed(1), Asks::Closed(6), Asks::Poisson(9.0)] {
            let bell = scattered(0.25, 0.0, asks, seed);
            assert!(
                !bell.contains(&Cause::SlowRequests),
                "{asks:?} {seed} {bell:?}"
            );
        }
        let coin = scattered(0.15, 0.1, Asks::Closed(6), seed);
        assert!(coin.contains(&Cause::SlowRequests), "{seed} {coin:?}");
    }
}

/// Requests as they were simulated, each so many times as long as a bell tells whose standard deviation is this.
fn with_noise(asked: Cell, sigma: f64, seed: u64) -> Vec<Cause> {
    let (run, mut samples) = run(&[asked], false, seed);
    let mut noise = crate::simulated::Noise(seed);
    for request in &mut samples[0].requests {
        let times = (sigma * noise.normal()).exp();
        request.ttft = request.ttft.map(|ttft| ttft * times);
        request.end = request.start + Nanos::from_f64(request.e2e() * times);
    }
    found(&run, &samples)
}

/// As where heat holds a server back after some seconds, or memory is collected again and again.
#[test]
fn a_level_that_moves_in_any_way_is_told_whatever_noise_there_is() {
    const LEVEL: [Cause; 2] = [Cause::Drift, Cause::Step];
    let few: Lengths = |_, draw| (60, draw.whole(10.0, 80.0));
    let cases: [(Asks, Lengths, f64, Pace); 9] = [
        (Asks::Closed(1), equal, 0.0, |at| {
            1.0 + 0.8 * (at / 8e3).min(1.0)
        }),
        (Asks::Closed(3), equal, 0.0, |at| {
            1.0 + 0.8 * (at / 8e3).min(1.0)
        }),
        (Asks::Poisson(4.0), equal, 0.0, |at| {
            1.0 + 0.8 * (at / 8e3).min(1.0)
        }),
        (Asks::Closed(1), few, 0.05, |at| {
            1.0 + 0.8 * (1.0 - (-at / 5e3).exp())
        }),
        (
            Asks::Closed(1),
            few,
            0.05,
            |at| if at < 6e3 { 1.0 } else { 1.6 },
        ),
        (Asks::Poisson(4.0), few, 0.08, |at| {
            1.0 + 0.9 * (1.0 - (-at / 4e3).exp())
        }),
        (Asks::Poisson(4.0), few, 0.08, |at| {
            if at < 5e3 { 1.0 } else { 1.6 }
        }),
        (Asks::Closed(1), few, 0.0, |at| {
            1.0 + 0.8 * (at / 15e3).fract()
        }),
        (Asks::Closed(3), few, 0.05, |at| {
            1.0 + 0.8 * (at / 15e3).fract()
        }),
    ];
    for (i, (asks, lengths, sigma, pace)) in cases.into_iter().enumerate() {
        for seed in 1..=3 {
            let asked = || cell(asks, lengths, paced(10.0, 20.0, pace));
            let told = with_noise(asked(), sigma, seed);
            assert!(
                matches!(&told[..], [one] if LEVEL.contains(one)),
                "{i} {seed} {told:?}"
            );
            let calm = Cell {
                server: paced(10.0, 20.0, |_| 1.0),
                ..asked()
            };
            assert_eq!(
                with_noise(calm, sigma, seed),
                [Cause::Healthy],
                "{i} {seed}"
            );
        }
    }
}

/// Prompts get longer while a conversation goes on, and a token takes longer behind a longer prompt.
#[test]
fn tokens_that_follow_the_lengths_over_time_move_no_level() {
    let longer: Lengths = |i, _| (50 + 20 * i as u64, 40);
    let asked = cell(Asks::Closed(1), longer, Server::default());
    let (run, mut samples) = run(&[asked], false, 3);
    for (i, request) in samples[0].requests.iter_mut().enumerate() {
        let ttft = request.ttft.unwrap();
        let times = 1.0 + 0.005 * i as f64;
        request.end = request.start + Nanos::from_f64(ttft + (request.e2e() - ttft) * times);
    }
    assert!(samples[0].requests.len() >= 40);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::Step), "{found:?}");
}

/// A few requests a second, whose number in flight follows the time that each takes.
#[test]
fn a_time_per_token_of_two_values_is_a_step_whatever_is_in_flight() {
    for seed in 1..=6 {
        let paced = |pace: fn(f64) -> f64, step_each: f64| {
            let server = Server {
                step_each,
                pace,
                ..Server::default()
            };
            let asked = Cell {
                seconds: 13.0,
                ..cell(Asks::Poisson(3.5), |_, _| (60, 28), server)
            };
            let (run, samples) = run(&[asked], false, seed);
            found(&run, &samples)
        };
        let step = |at: f64| if at < 3_000.0 { 1.0 } else { 1.8 };
        assert_eq!(paced(step, 0.0), [Cause::Step], "{seed}");
        assert_eq!(paced(|_| 1.0, 0.0), [Cause::Healthy], "{seed}");
        let batch = paced(|_| 1.0, 4.0);
        assert!(!batch.contains(&Cause::Step), "{seed}: {batch:?}");
    }
}

#[test]
fn a_server_that_waits_for_a_cpu_most_of_the_time_is_starved_though_its_gaps_are_even() {
    let (mut run, samples) = run(&[cell(Asks::Closed(5), equal, Server::default())], false, 2);
    run.server.embedded = true;
    let mut waits = |waits: f64, runs: f64, pressure: f64| {
        let figures = [
            ("server_run_queue_wait", waits),
            ("server_cpu_cores", runs),
            ("host_cpu_pressure_share", pressure),
        ];
        told(&mut run, 0.0, 0.03, &figures);
        found(&run, &samples)
    };
    assert_eq!(waits(0.1, 0.3, 0.8), [Cause::Healthy]);
    assert_eq!(waits(0.36, 0.16, 0.8), [Cause::ServerStarved]);
    // hundreds of threads that are woken together
    assert_eq!(waits(0.64, 0.033, 0.1), [Cause::Healthy]);
}

#[test]
fn a_stop_of_one_of_two_endpoints_is_no_queue() {
    let server = Server {
        second: Some(1.0),
        step: 4.0,
        freezes: vec![(3_000.0, 3_000.0)],
        freezes_second: true,
        ..Server::default()
    };
    for rate in [12.0, 20.0] {
        let asked = Cell {
            seconds: 10.0,
            ..cell(Asks::Poisson(rate), |_, _| (20, 12), server.clone())
        };
        for seed in 1..=3 {
            let (run, samples) = run(std::slice::from_ref(&asked), false, seed);
            let all = findings(&run, &samples);
            assert_eq!(causes(&all), [Cause::Frozen], "{all:?}");
            let mut evidence = all[0].evidence.iter();
            let length = evidence.find(|e| e.figure == Known::StallLength.into());
            assert_eq!(length.and_then(|e| e.of.as_deref()), Some("http://b"));
        }
    }
}

#[test]
fn who_waits_for_a_place_queues_however_few_do() {
    // one user more than places; a batch, and one that holds everybody up for a prompt
    let server = |slots: usize, blocking: bool| Server {
        slots,
        blocking,
        step: 8.0,
        step_each: 0.1,
        prefill: 10.0,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(50.0, 120.0), draw.whole(28.0, 34.0));
    for (users, slots) in [(4, 3), (5, 4), (7, 6)] {
        for blocking in [true, false] {
            for found in firsts(Asks::Closed(users), lengths, 12.0, &server(slots, blocking)) {
                let said = format!("{users} on {slots}, {blocking}: {found:?}");
                assert_eq!(found.first(), Some(&Cause::Queueing), "{said}");
            }
        }
    }
    for users in [3, 4, 8] {
        for found in firsts(Asks::Closed(users), lengths, 12.0, &server(users, true)) {
            assert!(!found.contains(&Cause::Queueing), "{users}: {found:?}");
        }
    }
}

#[test]
fn answers_of_one_token_that_wait_by_chance_are_no_slow_requests() {
    for (slots, rate) in [(4, 37.0), (3, 25.0), (6, 60.0)] {
        let server = Server {
            slots,
            prefill: 80.0,
            prefill_token: 0.0,
            step: 1.0,
            ..Server::default()
        };
        for found in firsts(Asks::Poisson(rate), |_, _| (50, 1), 12.0, &server) {
            let said = format!("{rate} on {slots}: {found:?}");
            assert!(!found.contains(&Cause::SlowRequests), "{said}");
        }
    }
}

/// That the other answers nothing for half a second meanwhile is chance.
#[test]
fn one_of_two_urls_that_is_away_fails_and_the_server_is_not_gone() {
    let server = Server {
        second: Some(1.0),
        ..Server::default()
    };
    let (mut run, mut samples) = run(&[cell(Asks::Closed(8), equal, server)], false, 2);
    let within = |at: Stamp, from, to| (from..to).contains(&at.as_secs_f64());
    let by_chance = |r: &RequestSample| {
        let quiet = |at| within(at, 10.2, 10.9);
        r.endpoint == 0 && (quiet(r.start) || quiet(r.end))
    };
    samples[0].requests.retain(|r| !by_chance(r));
    let refused = |r: &RequestSample| r.endpoint == 1 && within(r.start, 10.0, 14.0);
    let all = std::mem::take(&mut samples[0].requests);
    let (lost, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(refused);
    samples[0].requests = kept;
    samples[0].lost = lost
        .iter()
        .map(|r| LostSample {
            repeat: 0,
            due: r.due,
            end: r.due,
            sent: false,
            how: Lost::Failed(Stage::Connect, FailureKind::Refused),
            status: None,
            endpoint: 1,
        })
        .collect();
    let counts = &mut run.cells[0].counts;
    counts.completed = samples[0].requests.len() as u64;
    counts.failed = lost.len() as u64;
    counts.planned = counts.completed + counts.failed;
    counts.failures = vec![(Stage::Connect, FailureKind::Refused, counts.failed)];
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::Failing], "{all:?}");
    let at = |e: &Evidence| e.of.as_ref().is_some_and(|of| of.contains(", all at "));
    assert!(all[0].evidence.iter().any(at), "{all:?}");
}

/// One cell has too few requests of each URL to name the slow one, and nothing else to name.
#[test]
fn a_slow_replica_explains_slow_requests_of_smaller_cells() {
    let server = Server {
        second: Some(1.5),
        ..Server::default()
    };
    let of = |users, seconds| Cell {
        seconds,
        ..cell(
            Asks::Closed(users),
            |_, draw| (50, draw.whole(60.0, 140.0)),
            server.clone(),
        )
    };
    for (users, seconds) in [(2, 14.0), (3, 10.0), (4, 8.0)] {
        let (run, samples) = run(&[of(users, seconds), of(8, 20.0)], false, 2);
        let all = findings(&run, &samples);
        assert_eq!(causes(&all), [Cause::SlowReplica], "{users}: {all:?}");
    }
}

#[test]
fn a_slow_replica_that_is_overloaded_says_so() {
    let server = Server {
        second: Some(2.0),
        slots: 6,
        ..Server::default()
    };
    let asked = Cell {
        seconds: 20.0,
        ..cell(Asks::Poisson(38.0), |_, _| (50, 20), server)
    };
    let (run, samples) = run(&[asked], false, 2);
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::SlowReplica], "{all:?}");
    assert!(all[0].consequences.contains(&Cause::Overload));
    let [done, offered] =
        [Known::ServedRate, Known::OfferedRate].map(|known| all[0].figure(&known.into()));
    assert!(
        done.zip(offered)
            .is_some_and(|(done, offered)| done < 0.9 * offered)
    );
}

#[test]
fn answers_that_pause_while_others_go_on_are_not_held_up_by_prompts() {
    // a cache that throws answers out, beside requests that wait: some prompt is always in progress
    let lengths: Lengths = |_, draw| (draw.whole(40.0, 97.0), draw.whole(30.0, 43.0));
    let thrown_out = Server {
        slots: 12,
        step: 7.0,
        prefill: 2.0,
        prefill_token: 0.02,
        evicts: Some(1),
        evicted_for: 120.0,
        admits: Some(40.0),
        ..Server::default()
    };
    for found in firsts(Asks::Closed(9), lengths, 15.0, &thrown_out) {
        assert!(!found.contains(&Cause::DecodeInterrupted), "{found:?}");
        assert!(found.contains(&Cause::Pauses), "{found:?}");
    }
    let prompts = Server {
        blocking: true,
        prefill: 60.0,
        ..Server::default()
    };
    for found in firsts(Asks::Closed(6), lengths, 15.0, &prompts) {
        assert!(found.contains(&Cause::DecodeInterrupted), "{found:?}");
    }
}

/// Five at a time, 76 ms each: what is found at so many a second after a warm-up in which nothing moves from … for …, in ms.
fn stopped_while_warm(rate: f64, warmup: f64, freeze: Option<(f64, f64)>) -> Vec<Vec<Cause>> {
    let server = Server {
        slots: 5,
        step: 4.0,
        prefill_token: 0.0,
        ..Server::default()
    };
    let lengths: Lengths = |_, _| (24, 14);
    let alone = Cell {
        seconds: 2.0,
        ..cell(Asks::Closed(1), lengths, server.clone())
    };
    let stage = Cell {
        seconds: warmup + 4.0,
        warmup,
        ..cell(
            Asks::Poisson(rate),
            lengths,
            Server {
                freezes: freeze.into_iter().collect(),
                ..server
            },
        )
    };
    let of_seed = |seed| {
        let (run, samples) = run(&[alone.clone(), stage.clone()], false, seed);
        found(&run, &samples)
    };
    (1..=3).map(of_seed).collect()
}

#[test]
fn a_stop_in_a_warm_up_is_no_queue_of_the_load_behind_it() {
    // over before the first is measured, and beyond that
    for (warmup, length) in [(2.0, 1_200.0), (1.6, 2_400.0)] {
        for found in stopped_while_warm(50.0, warmup, Some((200.0, length))) {
            assert_eq!(found.first(), Some(&Cause::Frozen), "{found:?}");
            assert!(!found.contains(&Cause::Queueing), "{found:?}");
        }
    }
    // nobody waits for it any more
    for found in stopped_while_warm(20.0, 4.0, Some((200.0, 700.0))) {
        assert!(!found.contains(&Cause::Frozen), "{found:?}");
    }
    for rate in [20.0, 50.0, 62.0, 80.0] {
        for found in stopped_while_warm(rate, 1.0, None) {
            assert!(!found.contains(&Cause::Frozen), "{rate}: {found:?}");
        }
    }
}

/// A client that was kept from reading makes the ends of some answers late: that is no speed of the server's.
#[test]
fn answers_that_were_read_late_move_no_level() {
    let pace = |now: f64| {
        if (20e3..28e3).contains(&now) {
            1.3
        } else {
            1.0
        }
    };
    let server = paced(10.0, 10.0, pace);
    let (run, samples) = run(&[cell(Asks::Closed(4), OF_40, server)], false, 3);
    let late = |read_late: bool| {
        let mut samples = samples.clone();
        let slow = sim::stamp(19e3)..sim::stamp(28e3);
        let requests = samples[0].requests.iter_mut();
        for request in requests.filter(|request| slow.contains(&request.start)) {
            request.read_late = read_late;
        }
        found(&run, &samples)
    };
    assert_eq!(late(false), [Cause::Step]);
    assert_eq!(late(true), [Cause::Healthy]);
}

/// Time per token follows the load, and so nothing but first tokens could make whole requests slower.
#[test]
fn an_open_loop_of_unlike_requests_moves_no_level() {
    let joint: Lengths = |i, draw| {
        if i % 10 < 7 {
            (200, 40)
        } else {
            (draw.whole(600.0, 1000.0), 80)
        }
    };
    let server = Server {
        step: 17.0,
        step_each: 0.17,
        prefill_token: 0.07,
        chunks: Some((512, 0.0)),
        ..Server::default()
    };
    for seed in 1..4 {
        let cells = [cell(Asks::Poisson(9.4), joint, server.clone())];
        let (run, samples) = run(&cells, false, seed);
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::Step), "{found:?}");
    }
}

/// Who waits now more and now less is answered at one speed.
#[test]
fn requests_that_queue_in_a_closed_loop_move_no_level() {
    let server = Server {
        slots: 8,
        step: 16.0,
        step_each: 0.1,
        prefill_token: 0.02,
        ..Server::default()
    };
    for seed in 1..4 {
        let cells = [2, 8, 16, 24].map(|n| Cell {
            seconds: 8.0,
            ..cell(Asks::Closed(n), mixed, server.clone())
        });
        let (run, samples) = run(&cells, false, seed);
        let found = found(&run, &samples);
        assert!(found.contains(&Cause::Queueing), "{found:?}");
        assert!(!found.contains(&Cause::Step), "{found:?}");
    }
}

#[test]
fn a_slow_start_is_told_of_the_cell_that_it_falls_into() {
    let paces: [fn(f64) -> f64; 3] = [
        |now| if now < 4_400.0 { 2.5 } else { 1.0 },
        |_| 1.0,
        |_| 1.0,
    ];
    let servers = paces.map(|pace| paced(13.0, 10.0, pace));
    let all = one_after_another([2, 6, 12], 12.0, &servers);
    assert_eq!(causes(&all), [Cause::ColdStart]);
    assert_eq!(all[0].cells, ["c2"]);
    assert!(all[0].severity > 0.1, "{}", all[0].severity);
    let until = all[0].figure(&Known::At.into()).unwrap();
    assert!((3e9..6e9).contains(&until), "{until}");
}

/// Stops of all keep short requests waiting whoever else is there.
#[test]
fn stops_of_all_are_not_made_by_long_prompts() {
    let lengths: Lengths = |_, draw| match draw.whole(0.0, 8.0) {
        0 => (1500, 60),
        _ => (draw.whole(50.0, 300.0), 60),
    };
    let server = Server {
        freezes: (0..40)
            .map(|i| (500.0 + 1_110.0 * f64::from(i), 213.0))
            .collect(),
        chunks: Some((256, 0.0)),
        prefill_token: 0.025,
        step_each: 0.2,
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(16), lengths, server)], false, 3);
    assert_eq!(found(&run, &samples), [Cause::PeriodicStall]);
}

/// Some requests of a closed loop that are slow by a coin, of which more happen to come late: half of all are as quick as ever.
#[test]
fn slow_requests_that_lie_close_together_are_no_step() {
    let lengths: Lengths = |_, draw| (draw.whole(5.0, 40.0), draw.whole(20.0, 80.0));
    for seed in 1..=6 {
        let asked = Cell {
            seconds: 14.0,
            ..cell(Asks::Closed(8), lengths, Server::default())
        };
        let (run, mut samples) = run(&[asked], false, seed);
        let mut coin = crate::simulated::Noise(seed);
        let requests = &mut samples[0].requests;
        let n = requests.len();
        for (i, request) in requests.iter_mut().enumerate() {
            let slow = if i * 3 < n { 0.06 } else { 0.28 };
            if coin.uniform() < slow {
                let first = request.ttft.unwrap();
                let streamed = request.e2e() - first;
                request.end = request.start + Nanos::from_f64(first + 3.0 * streamed);
            }
        }
        let found = found(&run, &samples);
        assert_eq!(found, [Cause::SlowRequests], "{seed}");
    }
}

/// What long prompts cost in a smaller cell is too little to be told there, and is no cause that nobody knows.
#[test]
fn long_prompts_explain_late_first_tokens_of_smaller_cells() {
    let server = Server {
        blocking: true,
        step: 18.6,
        step_each: 0.1,
        prefill: 0.0,
        prefill_token: 0.1,
        ..Server::default()
    };
    let lengths: Lengths = |i, draw| {
        if i % 13 == 6 {
            (4000, 40)
        } else {
            (draw.whole(60.0, 140.0), 40)
        }
    };
    for seed in 1..=4 {
        let cells = [4, 10].map(|n| Cell {
            seconds: 18.0,
            ..cell(Asks::Closed(n), lengths, server.clone())
        });
        let (run, samples) = run(&cells, false, seed);
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::SlowRequests), "{seed} {found:?}");
    }
}

/// A short request that takes fifteen times as long is as slow as it is, and costs its user no more of the run than its time.
#[test]
fn one_short_request_that_stood_still_costs_what_it_took() {
    let lengths: Lengths = |i, draw| (100, if i == 20 { 14 } else { draw.whole(60.0, 240.0) });
    let asked = cell(Asks::Closed(1), lengths, Server::default());
    let (run, mut samples) = run(&[asked], false, 2);
    let slow = &mut samples[0].requests[20];
    assert!(slow.output_tokens < Some(20));
    slow.end = slow.end + Nanos::from_millis(1_800);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::SlowRequests), "{found:?}");
}

/// Behind a limit that is full requests queue, and tokens are as slow as at the limit: to raise it and to lower it are no two things to try.
#[test]
fn nobody_is_told_to_raise_a_limit_and_to_lower_it() {
    let server = Server {
        slots: 8,
        step_each: 2.0,
        ..Server::default()
    };
    let (run, samples) = run(&sweep(&[1, 8, 20], equal, &server), true, 2);
    let all = findings(&run, &samples);
    let found = causes(&all);
    assert!(
        found.contains(&Cause::Queueing) && found.contains(&Cause::DecodeSlowsWithLoad),
        "{found:?}"
    );
    let advice = all.iter().flat_map(|f| &f.advice).map(|a| a.action);
    let advice: Vec<Action> = advice.collect();
    assert!(advice.contains(&Action::RunMoreAtOnce), "{advice:?}");
    assert!(!advice.contains(&Action::RunFewerAtOnce), "{advice:?}");
}

/// As many run at once as at the level before, and each token takes longer: that is the server's, and no load's.
#[test]
fn a_server_that_is_slower_at_a_level_behind_its_limit_is_told() {
    let server = |pace: Pace| Server {
        slots: 8,
        step_each: 0.1,
        ..paced(10.0, 10.0, pace)
    };
    let servers = [server(|_| 1.0), server(|_| 1.0), server(|_| 1.7)];
    let all = one_after_another([4, 8, 20], 12.0, &servers);
    let found = causes(&all);
    assert!(found.contains(&Cause::Step), "{found:?}");
    assert!(!found.contains(&Cause::DecodeSlowsWithLoad), "{found:?}");
}

/// Who is taken up at some moments only does not wait for a limit that is full.
#[test]
fn nobody_is_told_to_raise_a_limit_that_was_not_reached() {
    let advice = |server: Server| {
        let asked = cell(Asks::Poisson(5.0), equal, server);
        let (mut run, samples) = run(&[asked], true, 2);
        told(&mut run, 0.4, 0.02, &[]);
        let all = findings(&run, &samples);
        assert_eq!(causes(&all), [Cause::Queueing]);
        let advice: Vec<Action> = all[0].advice.iter().map(|a| a.action).collect();
        advice.contains(&Action::RunMoreAtOnce)
    };
    assert!(!advice(Server {
        admits: Some(900.0),
        ..Server::default()
    }));
    assert!(advice(Server {
        slots: 4,
        ..Server::default()
    }));
}

/// A server that holds up short requests for each long prompt, and stands still once: no prompt does that.
#[test]
fn a_stop_of_all_is_told_beside_long_prompts_that_delay_short_ones() {
    let server = Server {
        prefill_token: 0.1,
        blocking: true,
        freezes: vec![(12_000.0, 2_500.0)],
        ..Server::default()
    };
    for seed in 1..=5 {
        let asked = cell(Asks::Poisson(4.0), one_in_ten_long, server.clone());
        let (run, samples) = run(&[asked], false, seed);
        let all = findings(&run, &samples);
        assert!(causes(&all).contains(&Cause::Frozen), "{seed}: {all:?}");
    }
}

#[test]
fn prompts_that_many_steps_hold_interrupt_decoding() {
    // A step full of prompt tokens takes 110 ms and one without 10 ms, so that the usual gap is that of the first kind.
    let server = Server {
        chunks: Some((512, 0.0)),
        prefill_token: 0.2,
        ..Server::default()
    };
    let drawn: Lengths = |_, draw| (draw.whole(1800.0, 3000.0), draw.whole(12.0, 24.0));
    let longer: Lengths = |_, draw| (draw.whole(2000.0, 4000.0), 30);
    for (users, lengths, chunk) in [(4, drawn, 512), (4, drawn, 600), (6, longer, 1024)] {
        let server = Server {
            chunks: Some((chunk, 0.0)),
            ..server.clone()
        };
        let cells = [cell(Asks::Closed(users), lengths, server)];
        let (run, samples) = run(&cells, false, 1);
        let all = findings(&run, &samples);
        assert_eq!(all[0].cause(), Some(Cause::DecodeInterrupted), "{all:?}");
        assert!((0.3..0.8).contains(&all[0].severity), "{all:?}");
    }
    // one at a time waits for no other's prompt
    let cells = [cell(Asks::Closed(1), drawn, server)];
    let (run, samples) = run(&cells, false, 1);
    let found = found(&run, &samples);
    assert!(!found.contains(&Cause::DecodeInterrupted), "{found:?}");
}

#[test]
fn the_first_part_of_a_prompt_beside_one_stream_is_no_job_of_the_server() {
    let server = Server {
        step: 8.0,
        step_each: 0.1,
        chunks: Some((768, 0.0)),
        prefill_token: 0.039,
        ..Server::default()
    };
    for (input, output) in [(1200, 40), (1200, 60), (1100, 30), (1400, 50)] {
        let chunked = Cell {
            seconds: 10.0,
            ..cell(Asks::Closed(2), |_, _| (0, 0), server.clone())
        };
        let lengths: Lengths = match (input, output) {
            (1200, 40) => |_, _| (1200, 40),
            (1200, _) => |_, _| (1200, 60),
            (1100, _) => |_, _| (1100, 30),
            _ => |_, _| (1400, 50),
        };
        let (run, samples) = run(&[Cell { lengths, ..chunked }], false, 4);
        let found = found(&run, &samples);
        let stops = [Cause::PeriodicStall, Cause::Frozen];
        assert!(
            !found.iter().any(|f| stops.contains(f)),
            "{input} {found:?}"
        );
    }
}

/// As where a server compiles at each number of answers that it has not had before: some of these come with a prompt, others as an answer ends.
#[test]
fn stops_that_come_without_prompts_too_are_none_of_those_that_come_with_one() {
    let lengths: Lengths = |_, draw| (draw.whole(20.0, 800.0), draw.whole(10.0, 60.0));
    for (seed, rate) in [(1, 4.0), (2, 3.0), (3, 6.0)] {
        let mut draw = Draw::new(seed);
        let mut at = 500.0;
        let freezes = std::iter::from_fn(|| {
            at += 750.0 + draw.between(0.0, 500.0);
            (at < 34_000.0).then_some((at, 700.0))
        });
        let server = Server {
            blocking: true,
            freezes: freezes.collect(),
            prefill: 5.0,
            prefill_token: 0.0,
            ..Server::default()
        };
        for found in firsts(Asks::Poisson(rate), lengths, 36.0, &server) {
            let is_told = found
                .iter()
                .any(|cause| [Cause::Frozen, Cause::PeriodicStall].contains(cause));
            assert!(is_told, "{seed}: {found:?}");
            let others = [Cause::DecodeInterrupted, Cause::Step];
            assert!(
                !found.iter().any(|cause| others.contains(cause)),
                "{seed}: {found:?}"
            );
        }
    }
}

#[test]
fn a_queue_that_ends_as_places_are_added_is_no_slow_start() {
    let server = Server {
        slots: 3,
        joins: Some((10_000.0, 40)),
        step_each: 0.05,
        ..Server::default()
    };
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 25.0,
            ..cell(Asks::Closed(8), equal, server.clone())
        };
        let (run, samples) = run(&[asked], true, seed);
        let found = found(&run, &samples);
        assert!(found.contains(&Cause::Queueing), "{found:?}");
        assert!(!found.contains(&Cause::ColdStart), "{found:?}");
    }
}

/// A server that guesses tokens ahead: of some answers it guesses more, and each of its steps takes as long.
#[test]
fn answers_of_which_more_tokens_come_at_once_are_no_slow_ones() {
    for seed in 1..=4 {
        let (run, mut samples) = run(
            &[cell(Asks::Closed(6), equal, Server::default())],
            false,
            seed,
        );
        let mut noise = crate::simulated::Noise(seed);
        for request in &mut samples[0].requests {
            let at_once = 1.0 + 2.0 * noise.uniform();
            let moments = f64::from(request.events) / at_once;
            request.moments = u32::try_from(bench_schema::whole(moments)).unwrap();
            let decodes = 1e7 * f64::from(request.moments - 1);
            request.end = request.start + Nanos::from_f64(request.ttft.unwrap() + decodes);
        }
        let told = found(&run, &samples);
        assert!(!told.contains(&Cause::SlowRequests), "{seed} {told:?}");
    }
}

/// Three short prompts in four, and a long one.
fn one_in_four_long(_: usize, draw: &mut Draw) -> (u64, u64) {
    let long = draw.uniform() < 0.25;
    let prompt = if long {
        draw.whole(700.0, 900.0)
    } else {
        draw.whole(16.0, 64.0)
    };
    (prompt, draw.whole(24.0, 96.0))
}

#[test]
fn what_stands_still_after_its_own_prompt_does_not_wait_for_a_long_one() {
    // what a prompt left is sent on after its first token, 0.9 s for each thousand tokens
    let server = Server {
        prefill: 1.0,
        prefill_token: 0.03,
        ..Server::default()
    };
    let lengths: Lengths = |i, draw| ([32, 256, 1024][i % 3], draw.whole(20.0, 80.0));
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 20.0,
            ..cell(Asks::Closed(6), lengths, server.clone())
        };
        let (run, mut samples) = run(&[asked], false, seed);
        for request in &mut samples[0].requests {
            let ttft = request.ttft.unwrap();
            let sent_on = 0.9e6 * f64::from(request.input_tokens.unwrap());
            request.end = request.end + Nanos::from_f64(sent_on);
            let first = request.start + Nanos::from_f64(ttft);
            request.stalls = [(first, sent_on)].into_iter().collect();
        }
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::HeadOfLine), "{seed} {found:?}");
    }
}

#[test]
fn a_speed_that_wavers_by_little_does_not_change() {
    // as between steps of odd lengths: another speed each 1.3 s, within 7 %
    let wavers = |at: f64| {
        1.0 + 0.07 * (((at / 1300.0).floor() * 2.4).sin() + (at / 1300.0).floor().sin()) / 1.5
    };
    let server = Server {
        step: 10.0,
        prefill: 2.0,
        prefill_token: 0.025,
        pace: wavers,
        ..Server::default()
    };
    for found in firsts(Asks::Poisson(15.0), one_in_four_long, 20.0, &server) {
        assert!(!found.contains(&Cause::Step), "{found:?}");
    }
}

#[test]
fn few_long_answers_tell_a_stretch_that_was_slower() {
    let slower = |at: f64| {
        if (10_500.0..15_500.0).contains(&at) {
            1.3
        } else {
            1.0
        }
    };
    let server = Server {
        step: 20.5,
        step_each: 0.1,
        pace: slower,
        ..Server::default()
    };
    for found in firsts(Asks::Closed(4), |_, _| (512, 128), 22.0, &server) {
        assert_eq!(found, [Cause::Step]);
    }
}

#[test]
fn late_first_tokens_that_are_too_few_to_be_told_are_no_sign_of_health() {
    let server = Server {
        step: 13.0,
        prefill: 5.0,
        ..Server::default()
    };
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 15.0,
            ..cell(Asks::Closed(2), |_, _| (700, 150), server.clone())
        };
        let (run, mut samples) = run(&[asked], false, seed);
        assert!(found(&run, &samples).contains(&Cause::Healthy));
        let all = &mut samples[0].requests;
        assert!((10..20).contains(&all.len()), "{}", all.len());
        for request in all.iter_mut().skip(2).step_by(5) {
            request.ttft = request.ttft.map(|ttft| ttft + 8e8);
            request.end = request.end + Nanos::from_millis(800);
        }
        let told = found(&run, &samples);
        assert!(!told.contains(&Cause::Healthy), "{seed} {told:?}");
    }
}

/// Answers of which few fit into a cell, each of another length.
const LONG_ANSWERS: Lengths = |_, draw| {
    let short = draw.uniform() * draw.uniform();
    (
        draw.whole(300.0, 1500.0),
        draw.whole(20.0, 60.0 + 340.0 * short),
    )
};

#[test]
fn parts_of_few_long_answers_tell_a_speed_that_goes_to_and_fro() {
    let to_and_fro = |at: f64| {
        let slow = [5_000.0..8_000.0, 11_000.0..14_000.0, 17_000.0..20_000.0];
        let slow = slow.iter().any(|slow| slow.contains(&at));
        if slow { 1.6 } else { 1.0 }
    };
    let server = Server {
        step: 20.0,
        step_each: 0.1,
        prefill_token: 0.016,
        pace: to_and_fro,
        ..Server::default()
    };
    for found in firsts(Asks::Closed(5), LONG_ANSWERS, 24.0, &server) {
        assert_eq!(found.first(), Some(&Cause::Step), "{found:?}");
    }
}

#[test]
fn a_speed_that_changes_several_times_within_each_answer_is_no_health() {
    // five seconds at one speed, five at the other; an answer takes thirty
    let heats = |at: f64| {
        if (at / 10_000.0).fract() < 0.5 {
            1.0
        } else {
            1.8
        }
    };
    let server = Server {
        step: 20.0,
        step_each: 0.1,
        pace: heats,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(50.0, 200.0), draw.whole(800.0, 1200.0));
    for found in firsts(Asks::Closed(12), lengths, 28.0, &server) {
        assert_eq!(found.first(), Some(&Cause::Step), "{found:?}");
    }
}

#[test]
fn prompts_that_hold_up_parts_of_answers_change_no_speed() {
    for blocking in [false, true] {
        let server = Server {
            step: 20.0,
            step_each: 0.3,
            prefill: 5.0,
            prefill_token: 0.06,
            blocking,
            ..Server::default()
        };
        for found in firsts(Asks::Closed(6), LONG_ANSWERS, 18.0, &server) {
            assert!(!found.contains(&Cause::Step), "{found:?}");
        }
    }
}

#[test]
fn a_step_in_a_sweep_of_few_long_answers_is_no_load() {
    let step = |at: f64| if at < 10_000.0 { 1.0 } else { 1.7 };
    let [before, meanwhile, after] = [|_| 1.0, step, |_| 1.7].map(|pace: fn(f64) -> f64| Server {
        step: 20.0,
        step_each: 0.1,
        pace,
        ..Server::default()
    });
    let found =
        of_long_answers_in_turn([2, 5, 9], 12.0, &[meanwhile, after.clone(), after.clone()]);
    assert_eq!(found.first(), Some(&Cause::Step), "{found:?}");
    let found = of_long_answers_in_turn([2, 5, 9], 12.0, &[before.clone(), before.clone(), before]);
    assert!(!found.contains(&Cause::Step), "{found:?}");
}

#[test]
fn tokens_that_were_guessed_right_at_first_make_no_slow_start() {
    // four tokens at a time for the first seven seconds, then one: three times as long for each, as often as before
    let guesses = |at: f64| if at < 7_000.0 { 0.3 } else { 1.0 };
    let server = Server {
        step: 30.0,
        prefill: 2.0,
        pace: guesses,
        ..Server::default()
    };
    for seed in 1..=3 {
        let asked = Cell {
            seconds: 22.0,
            ..cell(Asks::Poisson(2.7), |_, _| (512, 128), server.clone())
        };
        let (run, mut samples) = run(&[asked], false, seed);
        for request in &mut samples[0].requests {
            let quick = request.tpot().unwrap() < 15e6;
            request.events = if quick { 40 } else { 118 };
        }
        let found = found(&run, &samples);
        assert!(!found.contains(&Cause::ColdStart), "{seed} {found:?}");
        assert!(!found.contains(&Cause::Healthy), "{seed} {found:?}");
    }
}

#[test]
fn tokens_that_take_longer_from_one_moment_on_make_no_queue() {
    let slower = |at: f64| if at > 8_000.0 { 2.6 } else { 1.0 };
    let server = Server {
        step: 18.0,
        step_each: 0.7,
        prefill: 2.0,
        prefill_token: 0.026,
        pace: slower,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(500.0, 1500.0), draw.whole(30.0, 120.0));
    for found in firsts(Asks::Even(2.1), lengths, 22.0, &server) {
        assert_eq!(found.first(), Some(&Cause::Step), "{found:?}");
        assert!(!found.contains(&Cause::Overload), "{found:?}");
    }
}

#[test]
fn a_queue_that_begins_when_places_go_is_told_with_its_time() {
    // twelve places for ten until eight seconds, then four
    let server = Server {
        slots: 12,
        step: 19.0,
        prefill: 2.0,
        prefill_token: 0.03,
        leaves: Some((8_000.0, 8)),
        ..Server::default()
    };
    let asked = Cell {
        seconds: 22.0,
        ..cell(Asks::Closed(10), |_, _| (512, 128), server)
    };
    let (mut run, samples) = run(&[asked], false, 1);
    told(&mut run, 0.34, 0.01, &[]);
    let all = findings(&run, &samples);
    let queue = all.iter().find(|f| f.cause() == Some(Cause::Queueing));
    assert!(
        queue.is_some_and(|f| f.figure(&Known::Lasted.into()).is_some()),
        "{all:?}"
    );
    assert!(
        !all.iter().any(|f| f.code == Answer::Capacity.into()),
        "{all:?}"
    );
}

#[test]
fn a_replica_that_becomes_slow_is_told_with_its_time_and_leaves_no_capacity() {
    let server = Server {
        second: Some(2.8),
        second_from: 6_000.0,
        ..Server::default()
    };
    let asked = Cell {
        seconds: 40.0,
        ..cell(Asks::Closed(8), mixed, server)
    };
    let (run, samples) = run(&[asked], false, 1);
    let all = findings(&run, &samples);
    assert_eq!(all[0].cause(), Some(Cause::SlowReplica), "{all:?}");
    let at = all[0].figure(&Known::At.into()).unwrap() / 1e9;
    assert!((4.0..7.5).contains(&at), "{at}");
    let capacity = |f: &Finding| f.code == Answer::Capacity.into();
    assert!(!all.iter().any(capacity), "{all:?}");
}

#[test]
fn stops_early_in_a_cell_that_keeps_its_speed_are_told() {
    let server = Server {
        freezes: vec![(3_000.0, 600.0), (4_300.0, 800.0), (6_900.0, 500.0)],
        ..Server::default()
    };
    for found in firsts(Asks::Closed(6), mixed, 24.0, &server) {
        assert_eq!(found.first(), Some(&Cause::Frozen), "{found:?}");
    }
}

#[test]
fn why_a_run_is_not_called_healthy_is_told() {
    let why = |seconds: f64, asks: Asks, server: Server| {
        let asked = Cell {
            seconds,
            ..cell(asks, equal, server)
        };
        let (run, samples) = run(&[asked], false, 2);
        let all = findings(&run, &samples);
        let mut own = all
            .into_iter()
            .filter(|f| f.code == Answer::NotHealthy.into());
        own.next().map(|f| f.evidence[0].clone())
    };
    let whole = Server {
        at_once: true,
        ..Server::default()
    };
    let told = why(20.0, Asks::Closed(14), whole).unwrap();
    assert_eq!((told.figure, told.value), (Known::InFlight.into(), 14.0));
    let few = why(3.5, Asks::Even(2.0), Server::default()).unwrap();
    assert_eq!(few.figure, Known::Completed.into());
    assert!((1.0..10.0).contains(&few.value), "{few:?}");
    assert_eq!(why(20.0, Asks::Closed(4), Server::default()), None);
}
