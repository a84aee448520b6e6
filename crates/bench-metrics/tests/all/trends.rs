//! Where the steady part ends, and what counts as a trend: each threshold from both sides.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::expect_used,
    reason = "whole tokens from formulas of the tests' own, and helpers that fail as tests do"
)]

use bench_metrics::{Flight, InFlight, Steady, find_steady};
use bench_schema::{ArrivalKind, Load, Nanos, Stamp};

/// What a request sent at that millisecond is like: how long it stays and how long its first token takes (ms), and its tokens.
type Kind = fn(f64) -> (f64, f64, u64);

fn flight(sent_ms: f64, (stay, ttft, tokens): (f64, f64, u64)) -> Flight {
    let sent = Stamp::EPOCH + Nanos::from_f64(sent_ms * 1e6);
    Flight {
        sent,
        ended: sent + Nanos::from_f64(stay * 1e6),
        latency: Some(ttft * 1e6),
        tokens: Some(tokens),
        cancelled: false,
        lost: false,
    }
}

/// Four slots without noise, `each` requests a slot.
fn slots(each: u32, kind: Kind) -> Vec<Flight> {
    let mut all = Vec::new();
    for slot in 0..4 {
        let mut now = f64::from(slot);
        for _ in 0..each {
            let (stay, ttft, tokens) = kind(now);
            all.push(flight(now, (stay, ttft, tokens)));
            now += stay + 0.001;
        }
    }
    all
}

fn steady(flights: &[Flight]) -> Steady {
    under(flights, &Load::closed(4))
}

fn under(flights: &[Flight], load: &Load) -> Steady {
    let in_flight = InFlight::of(flights.iter().map(|f| (f.sent, f.ended)));
    let mut flights = flights.to_vec();
    flights.sort_by_key(|flight| flight.sent);
    find_steady(flights.into_iter(), &in_flight, load)
}

fn found(flights: &[Flight]) -> (Option<bool>, String) {
    let stationarity = steady(flights).stationarity;
    (stationarity.stationary, stationarity.reason)
}

#[test]
fn slower_tokens_are_a_trend_though_ttft_is_level() {
    // 100 requests a slot of 100 ms: ten seconds, over which answers shrink from 100 tokens to 50
    let (stationary, reason) = found(&slots(100, |now| (100.0, 20.0, 100 - (now / 200.0) as u64)));
    assert_eq!(stationary, Some(false), "{reason}");
    assert!(reason.contains("time per token rises"), "{reason}");
    assert!(!reason.contains("TTFT"), "{reason}");
}

#[test]
fn quicker_tokens_are_a_trend_too() {
    let (stationary, reason) = found(&slots(100, |now| (100.0, 20.0, 50 + (now / 200.0) as u64)));
    assert_eq!(stationary, Some(false), "{reason}");
    assert!(reason.contains("time per token falls"), "{reason}");
}

#[test]
fn long_answers_are_no_trend_and_slower_ones_are() {
    // Answers of 4 s within 12 s, then some with fewer tokens in that time.
    let (stationary, reason) = found(&slots(30, |_| (400.0, 20.0, 100)));
    assert_eq!(stationary, Some(true), "{reason}");
    let long = slots(40, |now| {
        if now < 8_000.0 {
            (400.0, 20.0, 100)
        } else {
            (400.0, 20.0, 60)
        }
    });
    let (stationary, reason) = found(&long);
    assert_eq!(stationary, Some(false), "{reason}");
}

#[test]
fn a_slope_counts_from_a_tenth_of_the_level_on() {
    // TTFT rises by 5 % over ten seconds, then by 60 %: without noise both are as certain as can be.
    let small = found(&slots(100, |now| {
        (100.0, 20.0 * (1.0 + 0.05 * now / 10_000.0), 100)
    }));
    assert_eq!(small.0, Some(true), "{}", small.1);
    let large = found(&slots(100, |now| {
        (100.0, 20.0 * (1.0 + 0.6 * now / 10_000.0), 100)
    }));
    assert_eq!(large.0, Some(false), "{}", large.1);
    assert!(large.1.contains("TTFT rises"), "{}", large.1);
    let falls = found(&slots(100, |now| {
        (100.0, 20.0 * (1.0 - 0.6 * now / 10_000.0), 100)
    }));
    assert!(falls.1.contains("TTFT falls"), "{}", falls.1);
}

#[test]
fn what_grows_much_is_told_although_chance_may_do_it() {
    // Five a second for 20 s near what the server can do; late in it one burst makes five requests wait.
    let load = Load::Open {
        rate_per_s: Some(5.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let of = |waits: std::ops::Range<u32>, wait: f64| {
        let ttft = |i| if waits.contains(&i) { wait } else { 20.0 };
        let flights: Vec<Flight> = (0..100)
            .map(|i| flight(f64::from(i) * 200.0, (ttft(i) + 80.0, ttft(i), 10)))
            .collect();
        let found = under(&flights, &load).stationarity;
        (found.stationary, found.reason)
    };
    let (stationary, reason) = of(85..90, 400.0);
    assert_eq!(stationary, None, "{reason}");
    assert!(
        reason.contains("cannot tell: TTFT rises to") && !reason.contains("no trend found"),
        "{reason}"
    );
    let (stationary, reason) = of(5..10, 400.0);
    assert!(
        stationary.is_none() && reason.contains("TTFT falls to"),
        "{reason}"
    );
    let (stationary, reason) = of(85..90, 50.0);
    assert!(
        stationary == Some(true) && reason.contains("no trend found"),
        "{reason}"
    );
}

#[test]
fn arrivals_that_hurry_by_chance_are_no_trend_and_requests_that_stay_longer_are() {
    let load = Load::Open {
        rate_per_s: Some(6.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    // Ten a second in the end, four in the beginning: level latencies, more and more in flight.
    let hurrying = |stay: fn(f64) -> f64| {
        let mut now = 0.0;
        let flights: Vec<Flight> = (0..300)
            .map(|i| {
                now += 250.0 - f64::from(i) * 0.5;
                flight(now, (stay(now), 20.0, 100))
            })
            .collect();
        let found = under(&flights, &load).stationarity;
        (found.stationary, found.reason)
    };
    let (stationary, reason) = hurrying(|_| 1_000.0);
    assert_eq!(stationary, Some(true), "{reason}");
    let (stationary, reason) = hurrying(|now| 1_000.0 + now / 50.0);
    assert_eq!(stationary, Some(false), "{reason}");
    assert!(reason.contains("number in flight rises"), "{reason}");
    // The same at a level rate, filled by a warm-up that stays as long.
    let filled = |stay: fn(f64) -> f64| {
        let at = |i: i32| {
            let at = f64::from(i) * 50.0;
            flight(at + 1_000.0, (stay(at.max(0.0)), 20.0, 100))
        };
        let in_flight = InFlight::of((-20..200).map(at).map(|f| (f.sent, f.ended)));
        find_steady((0..200).map(at), &in_flight, &load).stationarity
    };
    let level = filled(|_| 1_000.0);
    assert_eq!(level.stationary, Some(true), "{}", level.reason);
    let longer = filled(|at| 1_000.0 + at / 20.0);
    assert!(
        longer.reason.contains("number in flight rises"),
        "{}",
        longer.reason
    );
}

#[test]
fn under_an_overload_of_five_times_the_number_in_flight_rises() {
    // Each waits for all before it, and none that is sent once the queue is half as long leaves while others come.
    let load = Load::Open {
        rate_per_s: Some(14.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let at = |i: i32| flight(f64::from(i) * 71.4, (286.0 * f64::from(i), 20.0, 100));
    let flights: Vec<Flight> = (0..308).map(at).collect();
    let found = under(&flights, &load).stationarity;
    assert!(
        found.stationary == Some(false) && found.reason.contains("number in flight rises"),
        "{}",
        found.reason
    );
}

#[test]
fn groups_that_come_evenly_are_no_trend_wherever_bins_cut_them() {
    // Four each second for 22 s, all alike: a bin of 1.05 s holds a part of one group and of the next, later on one group only.
    let flights: Vec<Flight> = (0..88)
        .map(|i| flight(f64::from(i / 4) * 1_000.0, (465.0, 20.0, 40)))
        .collect();
    let load = Load::Open {
        rate_per_s: Some(4.0),
        arrival: ArrivalKind::Burst { size: 4 },
        in_flight_cap: None,
    };
    let found = under(&flights, &load).stationarity;
    assert_eq!(found.stationary, Some(true), "{}", found.reason);
}

/// The flights with the first that was sent at or after `at_ms` cancelled.
fn with_one_cancelled(mut flights: Vec<Flight>, at_ms: f64) -> (Vec<Flight>, Stamp) {
    flights.sort_by_key(|f| f.sent);
    let at = Stamp::EPOCH + Nanos::from_f64(at_ms * 1e6);
    let first = flights
        .iter_mut()
        .find(|f| f.sent >= at)
        .expect("there are later ones");
    first.cancelled = true;
    let sent = first.sent;
    (flights, sent)
}

#[test]
fn a_cancelled_request_ends_the_window_only_where_enough_is_left() {
    let even: Kind = |_| (100.0, 20.0, 100);
    // 100 a slot; cancelled after nine tenths: enough is left
    let (flights, sent) = with_one_cancelled(slots(100, even), 9_000.0);
    let found = steady(&flights);
    assert_eq!(
        found.window.map(|w| w.to),
        Some(sent),
        "{}",
        found.stationarity.reason
    );
    assert!(
        found
            .stationarity
            .reason
            .contains("before the first cancelled request")
    );
    // cancelled in the middle: half would be left, and that is not the run
    let (flights, sent) = with_one_cancelled(slots(100, even), 5_000.0);
    let found = steady(&flights);
    assert!(
        found.window.is_some_and(|w| w.to > sent),
        "{}",
        found.stationarity.reason
    );
    assert!(!found.stationarity.reason.contains("cancelled"));
}

#[test]
fn sixteen_requests_are_too_few_for_trends_and_forty_are_not() {
    let even: Kind = |_| (100.0, 20.0, 100);
    assert!(found(&slots(4, even)).1.contains("too short to test"));
    let all = slots(10, even);
    assert_eq!(found(&all).0, Some(true), "{}", found(&all).1);
}

#[test]
fn a_part_is_the_headline_only_where_it_holds_more_than_four_fifths() {
    // Four slots of which two leave early: full for a tenth of the time, for all of it but a tenth.
    let run = |early: u32| {
        let mut flights = Vec::new();
        for slot in 0..4_u32 {
            let each = if slot < 2 { early } else { 100 };
            for i in 0..each {
                let sent = f64::from(slot) + 100.001 * f64::from(i);
                flights.push(flight(sent, (100.0, 20.0, 100)));
            }
        }
        steady(&flights)
    };
    let short = run(10);
    assert!(short.window.is_none(), "{short:?}");
    assert!(
        short
            .stationarity
            .reason
            .contains("holds only 40 of 220 requests"),
        "{}",
        short.stationarity.reason
    );
    assert!(run(90).window.is_some());
}

#[test]
fn requests_without_a_latency_or_tokens_are_no_reason_to_find_a_trend() {
    let mut flights = slots(60, |_| (100.0, 20.0, 100));
    for flight in &mut flights {
        (flight.latency, flight.tokens) = (None, None);
    }
    let (stationary, reason) = found(&flights);
    assert_eq!(stationary, None, "{reason}");
    assert!(reason.contains("too short to test"), "{reason}");
}
