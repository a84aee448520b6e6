//! Finding the steady part.

use bench_metrics::{Flight, InFlight, Steady, find_steady};
use bench_schema::{ArrivalKind, Load, Nanos, Stamp};

use crate::noise::Noise;

fn flight(sent_ms: f64, stay_ms: f64, ttft_ms: f64) -> Flight {
    let sent = Stamp::EPOCH + Nanos::from_f64(sent_ms * 1e6);
    Flight {
        sent,
        ended: sent + Nanos::from_f64(stay_ms * 1e6),
        latency: Some(ttft_ms * 1e6),
        tokens: Some(100),
        cancelled: false,
        lost: false,
    }
}

/// `c` slots, each sending its next request as the last one ends, `each` requests a slot.
fn closed_loop(c: u32, each: u32, noise: &mut Noise, ttft: impl Fn(f64) -> f64) -> Vec<Flight> {
    let mut flights = Vec::new();
    for slot in 0..c {
        let mut now = f64::from(slot);
        for _ in 0..each {
            let stay = 500.0 + 40.0 * noise.normal();
            flights.push(flight(now, stay, ttft(now) * (1.0 + 0.1 * noise.normal())));
            now += stay + 0.01;
        }
    }
    flights
}

fn steady(flights: &[Flight], load: &Load) -> Steady {
    let in_flight = InFlight::of(flights.iter().map(|f| (f.sent, f.ended)));
    let mut flights = flights.to_vec();
    flights.sort_by_key(|flight| flight.sent);
    find_steady(flights.into_iter(), &in_flight, load)
}

fn closed(concurrency: u32) -> Load {
    Load::closed(concurrency)
}

fn open(rate_per_s: f64) -> Load {
    Load::Open {
        rate_per_s: Some(rate_per_s),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    }
}

/// Four were in flight until 900 ms, those of the warm-up; the first of the measured ones is sent at 1 s.
#[test]
fn what_the_warm_up_had_in_flight_begins_no_window_of_a_loop_that_thinks() {
    let flights: Vec<Flight> = (0..80)
        .map(|i| flight(1_000.0 + 25.0 * f64::from(i), 100.0, 20.0))
        .collect();
    let warmup = (0..4).map(|_| flight(0.0, 900.0, 20.0));
    let all: Vec<Flight> = warmup.chain(flights.iter().copied()).collect();
    let in_flight = InFlight::of(all.iter().map(|f| (f.sent, f.ended)));
    let mut load = closed(4);
    if let Load::Closed { think_time, .. } = &mut load {
        *think_time = Some(Nanos::from_millis(10));
    }
    let found = find_steady(flights.iter().copied(), &in_flight, &load);
    let window = found.window.expect("a window");
    assert!(window.from >= flights[0].sent, "{window:?}");
}

#[test]
fn a_closed_loop_is_steady_while_full() {
    let flights = closed_loop(8, 40, &mut Noise::seeded(1), |_| 50.0);
    let found = steady(&flights, &closed(8));
    let window = found.window.unwrap();
    assert!(
        window.from == Stamp::EPOCH && window.to.as_secs_f64() < 21.0,
        "{window:?}"
    );
    assert_eq!(
        found.stationarity.stationary,
        Some(true),
        "{}",
        found.stationarity.reason
    );
}

#[test]
fn a_slow_start_is_not_cut_off_by_its_latencies() {
    let cold = |now: f64| if now < 3_000.0 { 400.0 } else { 50.0 };
    let flights = closed_loop(8, 60, &mut Noise::seeded(2), cold);
    let found = steady(&flights, &closed(8));
    assert_eq!(found.window.unwrap().from, Stamp::EPOCH);
}

#[test]
fn an_overloaded_open_loop_is_not_stationary() {
    // 20 a second arrive, each later one stays longer: the queue grows.
    let mut noise = Noise::seeded(3);
    let flights: Vec<Flight> = (0..400)
        .map(|i| {
            let ttft = 50.0 + 10.0 * f64::from(i) + 20.0 * noise.normal();
            flight(50.0 * f64::from(i), ttft + 500.0, ttft)
        })
        .collect();
    let found = steady(&flights, &open(20.0));
    assert_eq!(
        found.stationarity.stationary,
        Some(false),
        "{}",
        found.stationarity.reason
    );
    assert!(found.stationarity.reason.contains("TTFT rises"));
}

#[test]
fn a_healthy_open_loop_is_stationary() {
    let mut noise = Noise::seeded(4);
    let flights: Vec<Flight> = (0..400)
        .map(|i| {
            flight(
                50.0 * f64::from(i),
                500.0 + 30.0 * noise.normal(),
                50.0 + 5.0 * noise.normal(),
            )
        })
        .collect();
    let found = steady(&flights, &open(20.0));
    assert_eq!(
        found.stationarity.stationary,
        Some(true),
        "{}",
        found.stationarity.reason
    );
}

#[test]
fn loops_that_never_fill_or_lose_requests_and_open_ones_have_no_steady_part_and_say_why() {
    let thin = closed_loop(2, 30, &mut Noise::seeded(5), |_| 50.0);
    let found = steady(&thin, &closed(16));
    assert!(
        found.window.is_none() && found.stationarity.reason.contains("reached only 2 of 16"),
        "{}",
        found.stationarity.reason
    );
    let mut losing = closed_loop(8, 40, &mut Noise::seeded(5), |_| 50.0);
    for f in losing.iter_mut().take(8) {
        f.lost = true;
    }
    let found = steady(&losing, &closed(8));
    assert!(
        found.window.is_none()
            && found
                .stationarity
                .reason
                .contains("8 of 320 requests were lost"),
        "{}",
        found.stationarity.reason
    );
    let found = steady(
        &closed_loop(8, 40, &mut Noise::seeded(5), |_| 50.0),
        &open(16.0),
    );
    assert!(found.window.is_none() && found.stationarity.reason.contains("open loop"));
}

#[test]
fn steady_noise_is_seldom_called_a_trend() {
    let alarms = (0..60)
        .filter(|seed| {
            let flights = closed_loop(4, 60, &mut Noise::seeded(100 + seed), |_| 50.0);
            steady(&flights, &closed(4)).stationarity.stationary != Some(true)
        })
        .count();
    assert!(alarms <= 4, "{alarms} of 60");
}

#[test]
fn long_answers_that_lie_over_each_other_are_seldom_called_a_trend() {
    // two a second of 10 s each for a minute, warmed up: 20 in flight, which bins of 3 s nearly all share
    let mut noise = Noise::seeded(5);
    let doubted = (0..1_000).filter(|_| {
        let mut now = -50_000.0;
        let all: Vec<Flight> = std::iter::from_fn(|| {
            now += noise.exponential(500.0);
            let stay = 10_000.0 * (0.5 * noise.normal() - 0.125).exp();
            (now < 60_000.0).then(|| flight(now, stay, 50.0 + noise.normal()))
        })
        .collect();
        let in_flight = InFlight::of(all.iter().map(|f| (f.sent, f.ended)));
        let measured: Vec<Flight> = all.into_iter().filter(|f| f.sent >= Stamp::EPOCH).collect();
        let found = find_steady(measured.into_iter(), &in_flight, &open(2.0));
        found.stationarity.stationary == Some(false)
    });
    let doubted = doubted.count();
    assert!(doubted <= 12, "{doubted} of 1000 runs without a trend");
}

#[test]
fn requests_cut_off_at_the_end_do_not_leave_only_the_short_ones() {
    let mut flights = closed_loop(8, 40, &mut Noise::seeded(6), |_| 50.0);
    // At 15 s everything in flight is cancelled, and one of them had been running for two seconds.
    let end = Stamp::new(15_000_000_000);
    flights.retain(|f| f.sent < end);
    for f in &mut flights {
        f.cancelled = f.ended > end;
        f.ended = f.ended.min(end);
    }
    let early = end - Nanos::from_secs(2);
    flights.push(Flight {
        sent: early,
        ended: end,
        latency: None,
        tokens: None,
        cancelled: true,
        lost: false,
    });
    let found = steady(&flights, &closed(8));
    assert_eq!(
        found.window.unwrap().to,
        early,
        "{}",
        found.stationarity.reason
    );
}
