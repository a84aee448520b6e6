use std::f64::consts::TAU;

use bench_schema::{ArrivalKind, Load};

use super::*;

/// Random numbers around 0, at most 1 away.
fn noise(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    (z % 2_000_001) as f64 / 1e6 - 1.0
}

/// A search of fourteen stages of eight seconds around 36 requests/s; the time per token is told of an instant and a load.
fn searched(tpot: impl Fn(f64, f64) -> f64) -> Option<(f64, [f64; 2])> {
    with_stages(|stage| 36.0 * [0.93, 1.08][stage % 2], tpot, swing)
}

fn changed(tpot: impl Fn(f64, f64) -> f64) -> Option<SpeedChange> {
    with_stages(|stage| 36.0 * [0.93, 1.08][stage % 2], tpot, alike)
}

fn alike(run: &RunRecord, stages: &[StageSamples<'_>]) -> Option<SpeedChange> {
    change(run, stages).map(|(change, _)| change)
}

fn with_stages<T>(
    load: impl Fn(usize) -> f64,
    tpot: impl Fn(f64, f64) -> f64,
    found: impl Fn(&RunRecord, &[StageSamples<'_>]) -> T,
) -> T {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let run = RunRecord::from_json(stored).unwrap();
    let (mut at, mut id) = (0.0, 0);
    let second = |at: f64| Stamp::EPOCH + bench_schema::Nanos::from_secs_f64(at);
    let mut stages = Vec::new();
    for stage in 0..14 {
        let load = load(stage);
        let mut cell = run.cells[0].clone();
        cell.id = format!("s{stage}");
        cell.load = Load::Open {
            rate_per_s: Some(load),
            arrival: ArrivalKind::Poisson,
            in_flight_cap: None,
        };
        let mut samples = CellSamples {
            cell: cell.id.clone(),
            ..CellSamples::default()
        };
        let end = at + 8.0;
        while at < end {
            at -= (1.0 - noise(3 * id).abs()).max(1e-6).ln() / load;
            id += 1;
            let each = tpot(at, load) * (1.0 + 0.1 * noise(7 * id + 1));
            samples.requests.push(RequestSample {
                id,
                due: second(at),
                start: second(at),
                end: second(at + 0.03 + 31.0 * each),
                ttft: Some(30e6),
                output_tokens: Some(32),
                events: 32,
                ..RequestSample::default()
            });
        }
        stages.push((load, cell, samples));
    }
    let stages: Vec<_> = (stages.iter())
        .map(|(load, cell, samples)| (*load, cell, samples))
        .collect();
    found(&run, &stages)
}

#[test]
fn a_speed_that_swings_over_the_stages_of_a_search_is_noticed() {
    let found = searched(|at, _| 0.005 * (1.0 + 0.3 * (TAU * at / 20.0).sin()));
    let (period, [low, high]) = found.unwrap();
    assert!((period / 20e9 - 1.0).abs() < 0.1, "{period}");
    assert!(low < 0.85 && high > 1.15, "{low} {high}");
}

#[test]
fn a_steady_server_does_not_swing_although_its_load_does() {
    assert_eq!(searched(|_, _| 0.005), None);
    assert_eq!(searched(|_, load| 0.005 * (load / 36.0).powi(3)), None);
    assert_eq!(searched(|at, _| 0.005 * (1.0 + at / 112.0)), None);
}

#[test]
fn a_server_that_becomes_slower_during_a_search_is_noticed() {
    let step = |at: f64| if at < 56.0 { 0.005 } else { 0.0065 };
    let Some(SpeedChange::From(stage, times)) = changed(|at, _| step(at)) else {
        panic!("{:?}", changed(|at, _| step(at)));
    };
    assert!(
        (7..=8).contains(&stage) && (times - 1.3).abs() < 0.05,
        "{stage} {times}"
    );
    let steady = |at: f64| 0.005 * (1.0 + at / 112.0);
    let Some(SpeedChange::Gradual(times)) = changed(|at, _| steady(at)) else {
        panic!("{:?}", changed(|at, _| steady(at)));
    };
    assert!(times > 1.6, "{times}");
}

#[test]
fn a_server_that_is_slower_for_a_while_during_a_search_is_noticed() {
    let slower = |at: f64| if (30.0..60.0).contains(&at) { 1.5 } else { 1.0 };
    let found = changed(|at, _| 0.005 * slower(at));
    let Some(SpeedChange::Between([from, to], times)) = found else {
        panic!("{found:?}");
    };
    assert!(
        (4..=5).contains(&from) && (6..=7).contains(&to),
        "{found:?}"
    );
    assert!((times - 1.5).abs() < 0.1, "{times}");
    // of more load alone
    let load = |stage: usize| if (4..7).contains(&stage) { 40.0 } else { 30.0 };
    let at_more = |_, load: f64| 0.005 * if load > 34.0 { 1.5 } else { 1.0 };
    assert_eq!(with_stages(load, at_more, alike), None);
}

#[test]
fn a_server_that_keeps_its_speed_does_not_change_although_its_load_does() {
    assert_eq!(changed(|_, _| 0.005), None);
    assert_eq!(changed(|_, load| 0.005 * (load / 36.0).powi(3)), None);
    // what is slower at more load alone is no other server
    let rising = |stage: usize| 20.0 + 2.0 * stage as f64;
    let slower = |_, load: f64| 0.005 * if load > 34.0 { 1.3 } else { 1.0 };
    assert_eq!(with_stages(rising, slower, alike), None);
    assert_eq!(with_stages(rising, |_, load| 0.0002 * load, alike), None);
}
