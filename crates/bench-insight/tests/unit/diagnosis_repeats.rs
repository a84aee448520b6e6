use super::*;
use crate::draft::Draft;

fn costs(cause: Cause, severity: f64) -> Finding {
    Draft::new(cause, severity).done().unwrap()
}

fn told(repeats: Vec<Vec<Finding>>) -> Vec<(Cause, f64)> {
    let found = of_repeats(repeats).into_iter();
    found
        .filter_map(|f| Some((f.cause()?, (1e3 * f.severity).round() / 1e3)))
        .collect()
}

#[test]
fn a_cause_costs_what_it_costs_over_all_repeats() {
    let repeats = vec![
        vec![costs(Cause::Frozen, 0.3)],
        Vec::new(),
        vec![costs(Cause::Frozen, 0.15)],
    ];
    assert_eq!(told(repeats), [(Cause::Frozen, 0.15)]);
}

#[test]
fn an_overload_of_one_repeat_of_three_is_what_made_it_slower() {
    let step = || costs(Cause::Step, 0.2);
    let repeats = vec![
        vec![step()],
        vec![step()],
        vec![costs(Cause::Overload, 0.4)],
    ];
    assert_eq!(told(repeats), [(Cause::Step, 0.133)]);
    // two of three by chance, of a server whose speed changes over all of them
    let both = || vec![step(), costs(Cause::Overload, 0.4)];
    assert_eq!(
        told(vec![vec![step()], both(), both()]),
        [(Cause::Step, 0.2)]
    );
    let over = || vec![costs(Cause::Overload, 0.3)];
    assert_eq!(
        told(vec![over(), over(), Vec::new()]),
        [(Cause::Overload, 0.2)]
    );
}

#[test]
fn what_nothing_explains_in_one_repeat_is_left_out_beside_a_cause_of_another() {
    let repeats = vec![
        vec![costs(Cause::SlowRequests, 0.1)],
        vec![costs(Cause::Frozen, 0.2)],
    ];
    assert_eq!(told(repeats), [(Cause::Frozen, 0.1)]);
}

#[test]
fn what_follows_from_a_cause_in_several_repeats_is_told_once() {
    let queue = || {
        let mut found = costs(Cause::Frozen, 0.2);
        found.consequences = vec![Cause::Step];
        vec![found]
    };
    let found = of_repeats(vec![queue(), queue()]);
    assert_eq!(found[0].consequences, [Cause::Step]);
}

#[test]
fn who_waits_one_level_below_a_queue_waits_for_the_same_places() {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    let level = |n: u32| CellRecord {
        id: format!("c{n}"),
        load: Load::closed(n),
        ..run.cells[0].clone()
    };
    run.cells = [8, 12, 24].map(level).into();
    let left = |n: u32, before_first: f64| {
        let of = |draft: Draft, id: &str| Finding {
            cells: vec![id.to_owned()],
            ..draft.done().unwrap()
        };
        // ten of 24 run
        let queue = Draft::new(Cause::Queueing, 14.0 / 24.0).because(Known::InFlight, 24.0);
        let slow = Draft::new(Cause::SlowRequests, 0.04);
        let slow = slow.because(Known::SlowBeforeFirst, before_first);
        let mut found = vec![of(queue, "c24"), of(slow, &format!("c{n}"))];
        give_way(&mut found, |slow, by| {
            may_be_of_another_cell(&run, slow, by)
        });
        found.len()
    };
    assert_eq!(left(12, 1.0), 1);
    // eight have a place each, and who waits between tokens waits for none
    assert_eq!(left(8, 1.0), 2);
    assert_eq!(left(12, 0.5), 2);
}

#[test]
fn what_keeps_first_tokens_keeps_the_others_too() {
    let held = |other: Cause, severity: f64| {
        let found = vec![costs(Cause::HeldBack, 0.4), costs(other, severity)];
        fold(found).len() == 1
    };
    assert!(held(Cause::DecodeSlowsWithLoad, 0.5) && held(Cause::Drift, 0.3));
    // a level that costs more moves by itself
    assert!(!held(Cause::Drift, 0.5));
}
