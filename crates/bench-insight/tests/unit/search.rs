use std::collections::BTreeMap;

use bench_schema::{
    ArrivalKind, Cause, Counts, FailureKind, Finding, Interval, Load, Metric, RunRecord, Share,
    SloVerdict, Trust, TrustReason, TrustVerdict,
};

use super::stages::present;
use super::*;

#[test]
fn an_objective_that_no_request_has_a_value_of_ends_the_search() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let run = RunRecord::from_json(stored).unwrap();
    let slo = Slo {
        metric: Metric::Itl,
        q: 0.95,
        limit: 20e6,
        use_case: None,
    };
    let asked = SearchAsked::default();
    let cells = |planned: u64| {
        let alone = run.cells[0].clone();
        let mut stage = alone.clone();
        stage.load = Load::Open {
            rate_per_s: Some(10.0),
            arrival: ArrivalKind::Poisson,
            in_flight_cap: None,
        };
        stage.counts.planned = planned;
        stage.slos = vec![SloOutcome {
            slo: slo.clone(),
            measured: None,
            interval: None,
            verdict: SloVerdict::CannotTell,
            within: None,
            attainment: 1.0,
            attainment_interval: Interval {
                low: 0.97,
                high: 1.0,
                confidence: 0.95,
            },
            vacuous: planned,
        }];
        [alone, stage]
    };
    let slos = [slo.clone()];
    let fewest = asked.fewest(&slos) as u64;
    let found = asked.found(&slos, &cells(fewest));
    assert_eq!(asked.next(&slos, &cells(fewest)), None);
    assert_eq!(found.stopped, SearchEnd::Ended);
    let why = found.why.unwrap();
    assert!(why.contains("no request has ITL"), "{why}");
    assert_eq!((found.value, found.low, found.high), (None, None, None));
    // a few requests may have no such value by chance
    assert!(asked.next(&slos, &cells(fewest - 1)).is_some());
}

#[test]
fn stages_after_the_first_begin_on_no_cold_server_and_wait_by_chance() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    let mut stage = run.cells[0].clone();
    stage.id = "later".to_owned();
    stage.load = Load::Open {
        rate_per_s: Some(10.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let first = run.cells[0].id.clone();
    run.cells.push(stage);
    let told = |cause: Cause, cell: &str| Finding {
        cells: vec![cell.to_owned()],
        ..Finding::new(cause, 0.1)
    };
    let mut findings = vec![
        told(Cause::ColdStart, &first),
        told(Cause::ColdStart, "later"),
        told(Cause::SlowRequests, "later"),
        told(Cause::Step, "later"),
        told(Cause::Overload, "later"),
    ];
    without_what_it_makes(&run, &mut findings);
    let left: Vec<_> = findings.iter().map(Finding::cause).collect();
    assert_eq!(left, [Some(Cause::ColdStart), Some(Cause::Overload)]);
    // what waits at one rate of a server that queues at another does so in that queue
    let mut findings = vec![
        told(Cause::Queueing, "later"),
        told(Cause::WaitingOrPrefill, "later"),
        told(Cause::WaitingOrPrefill, &first),
    ];
    without_what_it_makes(&run, &mut findings);
    assert_eq!(findings.len(), 2);
    // one that found no capacity knows of no server that it is healthy
    let mut findings = vec![told(Cause::Healthy, &first)];
    without_what_it_makes(&run, &mut findings);
    assert!(findings.is_empty());
}

/// A stage of a search: its load, the share within `p95:ttft`, the requests and how many of them completed; without a load, the requests sent one at a time.
fn stage(closed: bool, load: f64, (within, planned, completed): (f64, u64, u64)) -> CellRecord {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut cell = RunRecord::from_json(stored).unwrap().cells.swap_remove(0);
    if closed {
        cell.metrics.clear();
        cell.load = Load::closed(bench_schema::whole(load).try_into().unwrap());
        cell.windows.whole.as_mut().unwrap().peak_in_flight = bench_schema::whole(load);
    } else if load > 0.0 {
        cell.load = Load::Open {
            rate_per_s: Some(load),
            arrival: ArrivalKind::Poisson,
            in_flight_cap: None,
        };
    }
    (cell.counts.planned, cell.counts.completed) = (planned, completed);
    (cell.counts.warmup, cell.counts.failed) = (0, planned - completed);
    cell.slos = vec![SloOutcome {
        slo: p95(),
        measured: None,
        interval: None,
        verdict: SloVerdict::CannotTell,
        within: Some(Share {
            value: within,
            effective: planned as f64,
        }),
        attainment: within,
        attainment_interval: Interval {
            low: within,
            high: within,
            confidence: 0.95,
        },
        vacuous: 0,
    }];
    cell
}

fn p95() -> Slo {
    Slo {
        metric: Metric::Ttft,
        q: 0.95,
        limit: 5e8,
        use_case: None,
    }
}

/// Lets stages end so many seconds after each other.
fn answered_after(cells: &mut [CellRecord], seconds: &[i64]) {
    let mut end = cells[0].windows.whole.as_ref().unwrap().window.from;
    for (cell, seconds) in cells.iter_mut().zip(seconds) {
        let window = &mut cell.windows.whole.as_mut().unwrap().window;
        window.from = end;
        end = end + bench_schema::Nanos::from_secs(*seconds);
        window.to = end;
    }
}

/// What is said after these stages, once they have used up what may be spent.
fn spent(closed: bool, cells: &[CellRecord]) -> CapacityRecord {
    spent_on(&p95(), closed, cells)
}

fn spent_on(slo: &Slo, closed: bool, cells: &[CellRecord]) -> CapacityRecord {
    let sent: u64 = cells.iter().map(|cell| cell.counts.planned).sum();
    let asked = SearchAsked {
        closed,
        budget: Budget::Requests(sent + 1),
        ..SearchAsked::default()
    };
    asked.found(std::slice::from_ref(slo), cells)
}

#[test]
fn a_budget_that_failures_used_up_is_no_reason_for_a_larger_one_alone() {
    let alone = stage(false, 0.0, (1.0, 5, 5));
    let stages = [(40.0, 0.93), (20.0, 0.9333), (10.0, 0.92)];
    let failing = stages.map(|(load, within)| stage(false, load, (within, 60, 55)));
    let found = spent(
        false,
        &[std::slice::from_ref(&alone), &failing[..]].concat(),
    );
    assert_eq!(found.stopped, SearchEnd::Budget);
    let why = found.why.unwrap();
    assert!(
        why.contains("what missed an objective were 15 of 180 requests that failed"),
        "{why}"
    );
    assert!(why.contains("check the server's log"), "{why}");
    // slow ones did not fail
    let slow = stages.map(|(load, within)| stage(false, load, (within, 60, 60)));
    let why = spent(false, &[&[alone], &slow[..]].concat()).why.unwrap();
    assert!(
        why.contains("use a larger `--budget`") && !why.contains("failed"),
        "{why}"
    );
}

#[test]
fn what_short_stages_say_is_not_told_as_known() {
    let cells = [
        stage(true, 1.0, (1.0, 30, 30)),
        stage(true, 2.0, (0.0, 30, 30)),
    ];
    let found = spent(true, &cells);
    assert_eq!(
        (found.stopped, found.value),
        (SearchEnd::Budget, None),
        "{found:?}"
    );
    let why = found.why.unwrap();
    assert!(
        why.contains("near the capacity: all of them up to 1 in flight met the objectives, one at 2 in flight missed one:"),
        "{why}"
    );
    // one in flight is a value, though its interval ends just below two
    let cells = [&cells[..], &[stage(true, 1.0, (1.0, 120, 120))]].concat();
    let found = spent(true, &cells);
    assert_eq!(found.stopped, SearchEnd::Precise);
    assert_eq!([found.value, found.low, found.high], [Some(1.0); 3]);
}

#[test]
fn a_budget_without_room_for_a_stage_was_not_used_up() {
    let alone = stage(false, 0.0, (1.0, 5, 5));
    let why = spent(false, &[alone]).why.unwrap();
    assert!(
        why.contains("too small for a stage, which takes 30 requests"),
        "{why}"
    );
}

#[test]
fn a_client_without_connections_is_no_server_that_failed() {
    let mut cell = stage(true, 4096.0, (1.0, 120, 20));
    cell.ended_early =
        Some("100 requests failed (this machine lacks resources for a connection)".to_owned());
    cell.ended_by = Some(FailureKind::ClientResources);
    cell.counts.planned = 0;
    let why = |cell: &CellRecord| failed_meanwhile(std::slice::from_ref(cell)).unwrap();
    assert!(
        why(&cell).starts_with("the client failed"),
        "{}",
        why(&cell)
    );
    // whatever words it used
    cell.ended_by = Some(FailureKind::Status);
    assert!(why(&cell).starts_with("the server failed"));
}

#[test]
fn a_server_that_answers_nothing_any_more_ends_the_search() {
    let asked = SearchAsked::default();
    let mut cells = vec![
        stage(false, 0.0, (1.0, 5, 5)),
        stage(false, 10_100.0, (1.0, 100, 100)),
        stage(false, 7_960.0, (0.0, 120, 0)),
    ];
    assert!(asked.next(&[p95()], &cells).is_some());
    cells.push(stage(false, 4_710.0, (0.0, 80, 0)));
    assert_eq!(asked.next(&[p95()], &cells), None);
    let found = asked.found(&[p95()], &cells);
    assert_eq!((found.stopped, found.value), (SearchEnd::Ended, None));
    let why = found.why.unwrap();
    assert!(
        why.contains("answered none of the last 200 requests"),
        "{why}"
    );
}

#[test]
fn a_stage_in_which_the_server_was_away_is_no_load_that_it_cannot_carry() {
    let asked = SearchAsked::default();
    let refused = |load: f64, n: u64| {
        let mut cell = stage(false, load, ((600 - n) as f64 / 600.0, 600, 600 - n));
        cell.id = format!("r{load}");
        cell.counts.failures = vec![(bench_schema::Stage::Connect, FailureKind::Refused, n)];
        cell
    };
    let before = [
        stage(false, 0.0, (1.0, 5, 5)),
        stage(false, 100.0, (1.0, 120, 120)),
        stage(false, 120.0, (0.5, 600, 600)),
    ];
    let with = |cells: &[CellRecord]| [&before, cells].concat();
    let next = asked.next(&[p95()], &before);
    assert_eq!(asked.next(&[p95()], &with(&[refused(92.0, 297)])), next);
    let found = asked.found(&[p95()], &with(&[refused(92.0, 297)]));
    let why = found.left_out.get("r92").unwrap();
    assert!(why.contains("away: 297 of 600 requests"), "{why}");
    // a few are within what the objective allows
    let few = asked.found(&[p95()], &with(&[refused(92.0, 18)]));
    assert!(few.left_out.is_empty());
    // it does not come back
    let gone = with(&[297, 400, 300, 200].map(|n| refused(92.0, n)));
    assert!(asked.next(&[p95()], &gone[..6]).is_some());
    assert_eq!(asked.next(&[p95()], &gone), None);
    let why = asked.found(&[p95()], &gone).why.unwrap();
    assert!(
        why.contains("1197 of the last 2400 requests failed"),
        "{why}"
    );
    // and is told
    let found = CapacityRecord {
        value: Some(110.0),
        high: Some(115.0),
        ..found
    };
    let (rests_on, bounds) = judged(Some(&found), with(&[refused(92.0, 297)]));
    assert_eq!((rests_on.len(), bounds.len()), (1, 2));
    let all = crate::findings::with(
        vec![Finding::new(Cause::Healthy, 0.0)],
        vec![Finding::new(Cause::ServerGone, 0.1)],
    );
    let causes: Vec<_> = all.iter().map(Finding::cause).collect();
    assert_eq!(causes, [Some(Cause::ServerGone)]);
}

#[test]
fn a_concurrency_that_the_server_turns_away_is_not_met() {
    // ten at a time are admitted, and whoever else was turned away in the warm-up sleeps
    let admitted = |load: f64| {
        let mut cell = stage(true, load, (1.0, 30, 30));
        cell.windows.whole.as_mut().unwrap().peak_in_flight = 10;
        cell
    };
    let cells = [1.0, 2.0, 4.0, 8.0].map(|load| stage(true, load, (1.0, 30, 30)));
    let cells = [&cells[..], &[admitted(64.0)]].concat();
    let asked = SearchAsked {
        closed: true,
        ..SearchAsked::default()
    };
    let next = asked.next(&[p95()], &cells);
    assert!(
        matches!(next, Some(NextStage::Measure(m)) if m.load < 64.0),
        "{next:?}"
    );
    // a few of sixteen were turned away and slept for a second each
    let mut cell = stage(true, 16.0, (0.967, 120, 116));
    (cell.counts.backed_off, cell.metrics) = (4, BTreeMap::new());
    let whole = cell.windows.whole.as_mut().unwrap();
    (whole.mean_in_flight, whole.seconds) = (10.0, 2.0);
    let e2e = bench_schema::Distribution {
        max: 125e6,
        ..RunRecord::from_json(include_str!("../../../../fixtures/results/v1.2/run.json"))
            .unwrap()
            .cells[0]
            .metrics[&Metric::E2e]
            .clone()
    };
    cell.metrics.insert(Metric::E2e, e2e);
    assert!((0.6..0.75).contains(&present(&cell)), "{}", present(&cell));
    cell.counts.backed_off = 0;
    assert!((present(&cell) - 1.0).abs() < 1e-9);
}

#[test]
fn requests_that_were_stopped_did_not_fail() {
    let mut alone = stage(false, 0.0, (1.0, 5, 5));
    alone.metrics.clear();
    let asked = SearchAsked::default();
    // five in the time of the stored cell, stopped by `--cancel-after`
    (alone.counts.completed, alone.counts.cancelled) = (0, 5);
    assert!(asked.next(&[p95()], &[alone.clone()]).is_some());
    // broken off before one was measured
    alone.counts = Counts::default();
    let why = |cell: &CellRecord| asked.found(&[p95()], std::slice::from_ref(cell)).why;
    assert_eq!(why(&alone), None);
    (alone.counts.planned, alone.counts.failed) = (5, 5);
    assert!(why(&alone).unwrap().contains("all failed"));
}

#[test]
fn what_is_missed_is_named_by_the_stage_that_missed_it() {
    let mut cells = vec![
        stage(true, 1.0, (0.97, 30, 30)),
        stage(true, 4.0, (0.5, 30, 30)),
        stage(true, 1.0, (0.7, 60, 60)),
    ];
    // more load may meet it
    let found = spent(true, &cells);
    assert_eq!((found.stopped, found.high), (SearchEnd::Budget, None));
    let why = found.why.unwrap();
    assert!(
        why.contains("missed already at 1 in flight") && why.contains("before higher loads"),
        "{why}"
    );
    cells.push(stage(true, 8.0, (0.5, 30, 30)));
    answered_after(&mut cells, &[30, 8, 60, 8]);
    let found = spent(true, &cells);
    assert_eq!(found.stopped, SearchEnd::MissedAlone);
    let why = found.why.unwrap();
    assert!(
        why.contains(
            "at 1 in flight, where requests hardly queue, and at every load tried, up to 8 in flight: P95 TTFT"
        ),
        "{why}"
    );
    // it does from eight in flight on
    cells[3] = stage(true, 8.0, (1.0, 150, 150));
    cells.push(stage(true, 16.0, (1.0, 150, 150)));
    answered_after(&mut cells, &[30, 8, 60, 10, 10]);
    let found = spent(true, &cells);
    assert_eq!(found.stopped, SearchEnd::NotMonotone);
    let why = found.why.unwrap();
    assert!(
        why.contains("missed at 1 in flight and met from 8 in flight to 16 in flight"),
        "{why}"
    );
    // one load of many has no single capacity, and the next step is in the search's own unit
    let cells = [(1.0, 1.0), (2.0, 0.3), (8.0, 1.0)];
    let cells = cells.map(|(load, within)| stage(true, load, (within, 2000, 2000)));
    let found = spent(true, &cells);
    assert_eq!(found.stopped, SearchEnd::NotMonotone);
    let why = found.why.unwrap();
    assert!(
        why.contains("missed at 2 in flight and met at 8") && why.contains("`--concurrency`"),
        "{why}"
    );
}

#[test]
fn a_server_that_fails_is_not_told_as_one_that_is_slow() {
    let why = |within: f64, completed: u64| {
        let mut alone = stage(false, 0.0, (within, 1000, completed));
        alone.slos[0].slo.q = 0.99;
        let slo = alone.slos[0].slo.clone();
        let found = spent_on(&slo, false, &[alone]);
        (found.stopped, found.why.unwrap())
    };
    // one failure of five does not exclude 99 %
    let ends = |completed: u64| {
        let mut alone = stage(false, 0.0, (completed as f64 / 5.0, 5, completed));
        alone.slos[0].slo.q = 0.99;
        let slos = [alone.slos[0].slo.clone()];
        SearchAsked::default().next(&slos, &[alone]).is_none()
    };
    assert_eq!([5, 4, 3].map(ends), [false, false, true]);
    let (end, failing) = why(0.95, 950);
    assert_eq!(end, SearchEnd::MissedAlone);
    assert!(
        failing.contains("because 50 of 1000 requests failed"),
        "{failing}"
    );
    assert!(!failing.contains("relax"), "{failing}");
    // slow ones beside the failed, which more load may mend
    for (end, slow) in [why(0.90, 950), why(0.95, 1000)] {
        assert_eq!(end, SearchEnd::Budget);
        assert!(
            slow.contains("by requests sent one at a time") && slow.contains("relax"),
            "{slow}"
        );
    }
}

#[test]
fn an_overload_that_the_search_itself_made_is_not_held_against_the_server() {
    let cells = [
        (0.0, 1.0, 5),
        (3.7, 1.0, 30),
        (14.7, 0.2, 65),
        (8.2, 0.25, 46),
        (6.9, 0.93, 94),
        (7.4, 1.0, 33),
    ]
    .map(|(load, within, n)| {
        let mut cell = stage(false, load, (within, n, n));
        cell.id = format!("r{load}");
        cell
    });
    let found = CapacityRecord {
        stopped: SearchEnd::Budget,
        value: None,
        ..spent(false, &cells)
    };
    let ids = |cells: &[CellRecord]| cells.iter().map(|c| c.id.clone()).collect::<Vec<_>>();
    let (rests_on, bounds) = judged(Some(&found), cells.to_vec());
    assert_eq!(ids(&bounds), ["r14.7", "r8.2"]);
    assert_eq!(rests_on.len(), 4);
    // what fails is no load that is too much, and where no load met the objectives something is wrong with the server
    let failing = cells.clone().map(|mut cell| {
        cell.counts.completed = cell.counts.planned / 5;
        cell.counts.failed = cell.counts.planned - cell.counts.completed;
        cell
    });
    assert_eq!(judged(Some(&found), failing.to_vec()).1, []);
    let missed = &cells[2..4];
    assert_eq!(judged(Some(&found), missed.to_vec()).1, []);
    // stages that contradict each other bound nothing
    let unsteady = CapacityRecord {
        stopped: SearchEnd::Unsteady,
        ..found
    };
    assert_eq!(judged(Some(&unsteady), cells.to_vec()).1, []);
}

#[test]
fn a_server_that_stands_still_is_told_of_a_stage_that_only_bounds_the_answer() {
    let run = RunRecord::from_json(include_str!("../../../../fixtures/results/v1.2/run.json"));
    let mut run = run.unwrap();
    let cells = [(75.3, 30), (94.6, 600), (101.0, 120)].map(|(load, n)| {
        let mut cell = stage(false, load, (1.0, n, n));
        cell.id = format!("r{load}");
        cell
    });
    let found = CapacityRecord {
        value: Some(84.8),
        high: Some(92.3),
        left_out: [("r101".to_owned(), "client".to_owned())].into(),
        ..spent(false, &cells)
    };
    let ids = |cells: &[CellRecord]| cells.iter().map(|c| c.id.clone()).collect::<Vec<_>>();
    let (rests_on, bounds) = judged(Some(&found), cells.to_vec());
    assert_eq!(
        (ids(&rests_on), ids(&bounds)),
        (vec!["r75.3".to_owned()], vec!["r94.6".to_owned()])
    );
    let (rests_on, bounds) = judged(None, cells.to_vec());
    assert_eq!((rests_on.len(), bounds.len()), (3, 0));
    let (rests_on, bounds) = judged(Some(&spent(false, &cells)), cells.to_vec());
    assert_eq!((rests_on.len(), bounds.len()), (3, 0));

    let reason = |code: &str| TrustReason::new(code, TrustVerdict::Doubtful, String::new());
    let trust = || Trust::from_reasons(vec![reason("stalled"), reason("failures")]);
    run.cells.clear();
    let codes = |run: &RunRecord| {
        stops(run, &[], trust())
            .0
            .into_iter()
            .map(|r| r.code)
            .collect::<Vec<_>>()
    };
    run.trust = Trust::from_reasons(Vec::new());
    assert_eq!(
        codes(&run),
        ["stalled"],
        "its overload makes what else is held against it"
    );
    run.trust = Trust::from_reasons(vec![reason("stalled")]);
    assert!(codes(&run).is_empty(), "once");
}

#[test]
fn the_next_step_of_a_target_fits_what_ended_the_search() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    let mut note = |stopped: SearchEnd, why: Option<&str>| {
        run.analysis.capacity = Some(CapacityRecord {
            stopped,
            why: why.map(str::to_owned),
            low: Some(12.0),
            high: Some(15.0),
            ..spent(true, &[])
        });
        let targets = crate::Target::parse_all(&["capacity>=14".to_owned()]).unwrap();
        let told = crate::targets(&targets, &run, &crate::Judged::new());
        told.into_iter().next().unwrap().note.unwrap()
    };
    assert!(note(SearchEnd::Precise, None).ends_with("a narrower `--precision`"));
    assert!(note(SearchEnd::Budget, Some("it is used up")).ends_with("a larger `--budget`"));
    let client = note(SearchEnd::ClientLimit, Some("the client is the limit"));
    assert!(client.ends_with("the client is the limit"), "{client}");
}

/// The stages of a search of a server with one replica, and with three from the last stage on.
#[test]
fn more_load_that_is_met_after_less_was_missed_is_another_server() {
    let stages = [
        (6.51, 0.125, 24, 1.8),
        (3.26, 0.9, 30, 3.0),
        (1.63, 1.0, 30, 30.0),
        (3.02, 1.0, 60, 60.0),
        (13.0, 1.0, 32, 32.0),
    ];
    let stages = stages.map(|(load, within, n, effective)| {
        let mut cell = stage(false, load, (within, n, n));
        cell.id = format!("r{load}");
        cell.slos[0].within = Some(Share {
            value: within,
            effective,
        });
        cell
    });
    let cells = [&[stage(false, 0.0, (1.0, 5, 5))], &stages[..]].concat();
    let found = spent(false, &cells);
    assert_eq!((found.stopped, found.value), (SearchEnd::Unsteady, None));
    let why = found.why.unwrap();
    assert!(
        why.contains("13.0 requests/s met the objectives (stage r13) after 6.51 requests/s had missed one (stage r6.51)"),
        "{why}"
    );
    // the other way round it is load
    let turned = [&cells[..1], &[cells[5].clone()], &cells[1..5]].concat();
    assert_ne!(spent(false, &turned).stopped, SearchEnd::Unsteady);
}

/// The stages of a server of six places, whatever waits for them.
#[test]
fn an_objective_that_no_rate_misses_is_told_as_one_that_limits_no_wait() {
    let slo = Slo {
        metric: Metric::Itl,
        limit: 1e7,
        ..p95()
    };
    let stages = [(0.0, 5), (26.7, 30), (53.4, 60), (36.2, 600), (47.1, 600)];
    let cells = stages.map(|(load, n)| {
        let mut cell = stage(false, load, (1.0, n, n));
        cell.slos[0].slo = slo.clone();
        cell.metrics.remove(&Metric::E2eDue);
        let whole = cell.windows.whole.as_mut().unwrap();
        whole.served_requests_per_s = (load > 40.0).then_some(40.0);
        whole.requests_per_s_interval = Some(Interval {
            low: 39.5,
            high: 40.5,
            confidence: 0.95,
        });
        cell
    });
    let found = spent_on(&slo, false, &cells);
    assert_eq!(
        (found.stopped, found.binding),
        (SearchEnd::Budget, None),
        "{found:?}"
    );
    let why = found.why.unwrap();
    assert!(
        why.contains("no rate missed the objectives, which limit no wait")
            && why.contains("as at 47.1 requests/s")
            && !why.contains("larger `--budget`"),
        "{why}"
    );
    // one that limits the wait is missed in the end
    let why = spent(
        false,
        &cells.map(|cell| CellRecord {
            slos: stage(false, 0.0, (1.0, 5, 5)).slos,
            ..cell
        }),
    )
    .why;
    assert!(why.unwrap().contains("larger `--budget`"));
}
