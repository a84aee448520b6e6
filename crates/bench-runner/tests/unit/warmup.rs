use bench_schema::Benchmark;

use super::*;
use crate::config::for_tests;

fn of(load: Load, warmup: Option<Amount>, more: &[&str]) -> Option<WarmUp> {
    let settings = for_tests(Benchmark::Throughput, more);
    let cell = Cell {
        id: "c".to_owned(),
        label: "c".to_owned(),
        factors: std::collections::BTreeMap::new(),
        load,
        stop: bench_schema::StopRule::default(),
        repeats: 1,
        warmup,
        dataset: bench_workload::DatasetSpec::Mixed,
        input: None,
        output: None,
    };
    WarmUp::of(&cell, &settings.load)
}

fn open(arrival: ArrivalKind) -> Load {
    Load::Open {
        rate_per_s: Some(50.0),
        arrival,
        in_flight_cap: Some(9),
    }
}

#[test]
fn a_closed_loop_is_warmed_by_its_own_slots_which_go_on() {
    let warm = of(Load::closed(8), None, &[]).unwrap();
    assert_eq!(
        (warm.load, warm.requests, warm.length, warm.drains),
        (Load::closed(8), Some(2), None, false)
    );
    assert_eq!(of(Load::closed(8), Some(Amount::Count(0)), &[]), None);
    let drained = of(Load::closed(1), None, &["--warmup-drain"]).unwrap();
    assert!(drained.drains && drained.requests == Some(2));
}

#[test]
fn slots_that_begin_one_after_the_other_have_all_begun_when_it_is_over() {
    let warm = of(
        Load::closed(8),
        Some(Amount::Count(4)),
        &["--ramp-up", "3s"],
    )
    .unwrap();
    assert_eq!(
        (warm.requests, warm.length),
        (None, Some(Nanos::from_secs(3)))
    );
    let unasked = of(
        Load::closed(8),
        Some(Amount::Count(0)),
        &["--ramp-up", "3s"],
    );
    assert_eq!(unasked, Some(warm));
}

#[test]
fn an_open_loop_is_warmed_at_its_own_rate_by_its_own_process() {
    let warm = of(open(ArrivalKind::Constant), None, &[]).unwrap();
    assert_eq!(warm.load, open(ArrivalKind::Constant));
    assert_eq!(
        (warm.requests, warm.length),
        (None, Some(Nanos::from_secs(2)))
    );
    assert!(!warm.drains);
    let counted = of(open(ArrivalKind::Poisson), Some(Amount::Count(100)), &[]).unwrap();
    assert_eq!(
        (counted.requests, counted.length),
        (Some(100), Some(Nanos::from_secs(2)))
    );
    let old = of(open(ArrivalKind::Poisson), None, &["--warmup-drain"]).unwrap();
    assert!(old.drains && old.load == Load::closed(1));
}

#[test]
fn a_rate_that_moves_is_warmed_up_where_it_begins() {
    let ramp = ArrivalKind::Ramp {
        from_per_s: 4.0,
        to_per_s: 90.0,
    };
    let warm = of(open(ramp), Some(Amount::Count(8)), &[]).unwrap();
    let Load::Open {
        rate_per_s,
        arrival,
        in_flight_cap,
    } = warm.load
    else {
        panic!("it is open");
    };
    assert_eq!(
        (rate_per_s.map(f64::to_bits), arrival),
        (Some(4.0_f64.to_bits()), ArrivalKind::Poisson)
    );
    assert_eq!(
        (in_flight_cap, warm.length),
        (Some(9), Some(Nanos::from_secs(2)))
    );
}
