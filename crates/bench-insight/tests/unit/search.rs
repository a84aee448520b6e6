use bench_schema::{ArrivalKind, Interval, Share, SloVerdict};

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
        told(Cause::Overload, "later"),
    ];
    without_what_it_makes(&run, &mut findings);
    let left: Vec<_> = findings.iter().map(Finding::cause).collect();
    assert_eq!(left, [Some(Cause::ColdStart), Some(Cause::Overload)]);
}

#[test]
fn a_server_that_fails_is_not_told_as_one_that_is_slow() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let run = RunRecord::from_json(stored).unwrap();
    let slo = Slo {
        metric: Metric::Ttft,
        q: 0.99,
        limit: 5e8,
        use_case: None,
    };
    let why = |within: f64, completed: u64| {
        let mut alone = run.cells[0].clone();
        (alone.counts.planned, alone.counts.completed) = (1000, completed);
        alone.slos = vec![SloOutcome {
            slo: slo.clone(),
            measured: None,
            interval: None,
            verdict: SloVerdict::Fail,
            within: Some(Share {
                value: within,
                effective: 1000.0,
            }),
            attainment: within,
            attainment_interval: Interval {
                low: within,
                high: within,
                confidence: 0.95,
            },
            vacuous: 0,
        }];
        let found = SearchAsked::default().found(std::slice::from_ref(&slo), &[alone]);
        assert_eq!(found.stopped, SearchEnd::MissedAlone);
        found.why.unwrap()
    };
    let failing = why(0.95, 950);
    assert!(
        failing.contains("because 50 of 1000 requests failed"),
        "{failing}"
    );
    assert!(!failing.contains("relax"), "{failing}");
    // slow ones beside the failed
    for slow in [why(0.90, 950), why(0.95, 1000)] {
        assert!(slow.contains("relax the objectives"), "{slow}");
    }
}
