//! Windows and rates against truths that are known beforehand, and against plain sums over the records.

use bench_metrics::{CellContext, CellSummary, summarise_cell};
use bench_schema::{
    ArrivalKind, Load, Metric, Nanos, Outcome, Phase, Rates, RequestRecord, Slo, SloVerdict,
};
use proptest::prelude::*;

use crate::aggregate::{assert_near, closed};
use crate::noise::Noise;
use crate::records::{at, ended, even, refused};

/// 128 tokens, 60 ms to the first and 12.78 ms a token.
fn answer_at(id: u64, sent: f64, stretch: f64) -> RequestRecord {
    even(id, sent, 60.0 * stretch, 12.78 * stretch, 128)
}

/// `n` requests over `slots` slots, each slot sending as its last one ends; `stretch` is how much longer a request takes.
fn waves(slots: u64, n: u64, mut stretch: impl FnMut() -> f64) -> Vec<RequestRecord> {
    let mut free: Vec<f64> = (0..slots).map(|slot| 0.01 * slot as f64).collect();
    let mut records = Vec::new();
    for id in 0..n {
        let slot = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b]));
        let slot = slot.unwrap_or_default();
        let record = answer_at(id, free[slot], stretch());
        free[slot] = record.last_instant().as_secs_f64() * 1e3 + 0.005;
        records.push(record);
    }
    records.sort_by_key(RequestRecord::last_instant);
    records
}

#[expect(clippy::unwrap_used, reason = "a cell without requests fails its test")]
fn headline(cell: &CellSummary) -> &Rates {
    let windows = &cell.windows;
    windows.steady.as_ref().or(windows.whole.as_ref()).unwrap()
}

#[test]
fn a_closed_loop_that_ends_in_waves_has_the_rate_of_its_load_however_many_it_was() {
    // 60 + 127 × 12.78 + 1 ms in the system: 32 at once are 18.99 a second.
    let truth = 32.0 / 1.684_06;
    for n in [40, 50, 96, 100, 115, 200, 400, 1_000] {
        let mut noise = Noise::seeded(n);
        let records = waves(32, n, || 1.0 + 0.002 * noise.normal());
        let cell = summarise_cell(&records, closed(32));
        let rates = headline(&cell);
        assert_near(rates.requests_per_s, truth, 0.03);
        assert_near(
            rates.output_tokens_per_s.map(|t| t / 128.0),
            truth,
            if n < 96 { 0.25 } else { 0.03 },
        );
        let interval = rates.requests_per_s_interval.unwrap();
        assert!(
            interval.low <= truth && truth <= interval.high,
            "{n}: {interval:?}"
        );
        assert!(
            interval.high < 1.03 * interval.low,
            "{n}: an interval that says nothing: {interval:?}"
        );
    }
}

#[test]
fn half_a_wave_at_the_end_is_no_part_of_a_closed_loop() {
    // Two waves of sixteen, and eight that have more of the server.
    let wave = |from: u64, n: u64, sent: f64, ttft: f64, gap: f64| {
        (from..from + n).map(move |id| even(id, sent, ttft, gap, 20))
    };
    let records = wave(0, 16, 0.0, 100.0, 20.0).chain(wave(16, 16, 481.0, 100.0, 20.0));
    let records: Vec<RequestRecord> = records.chain(wave(32, 8, 962.0, 60.0, 15.0)).collect();
    let cell = summarise_cell(&records, closed(16));
    let rates = headline(&cell);
    let rate = rates.requests_per_s.unwrap();
    assert!((rate / (16.0 / 0.481) - 1.0).abs() < 0.01, "{rates:?}");
    for (interval, rate) in [
        (rates.requests_per_s_interval, 33.3),
        (rates.output_tokens_per_s_interval, 666.0),
    ] {
        let interval = interval.unwrap();
        assert!(
            interval.low > 0.95 * rate && interval.high < 1.05 * rate,
            "{rates:?}"
        );
    }
}

#[test]
fn a_table_over_a_window_is_of_the_requests_that_started_in_it_and_says_how_many() {
    let mut noise = Noise::seeded(7);
    let cell = summarise_cell(
        &waves(16, 400, || 1.0 + 0.2 * noise.normal().abs()),
        closed(16),
    );
    let steady = cell.windows.steady.as_ref().unwrap();
    assert_eq!(steady.requests, Some(cell.metrics[&Metric::E2e].n));
    assert_eq!(cell.windows.whole.as_ref().unwrap().requests, Some(400));
    assert!(cell.metrics[&Metric::E2e].n > 320);
    // As many as slots and half as many again: most of the run is drain, and everything counts.
    let cell = summarise_cell(
        &waves(4, 4, || 1.0 + 0.5 * noise.normal().abs()),
        closed(16),
    );
    assert!(cell.windows.steady.is_none());
    assert_eq!(cell.metrics[&Metric::E2e].n, 4);
}

#[test]
fn tokens_of_the_warm_up_that_arrive_in_the_window_are_output_and_its_requests_are_load() {
    // One slot is busy with a warm-up request for the first 800 ms of the measurement.
    let mut warm = even(0, -1_000.0, 100.0, 100.0, 18);
    warm.phase = Phase::Warmup;
    let mut records = vec![warm];
    records.extend((0..20).map(|i| even(i, 121.0 * i as f64, 20.0, 10.0, 11)));
    let cell = summarise_cell(&records, closed(1));
    let whole = cell.windows.whole.as_ref().unwrap();
    let seconds = 20.0 * 0.121 - 0.001;
    // Its 11th token comes at 0: eight of its tokens arrive from there on.
    assert_near(whole.output_tokens_per_s, (220.0 + 9.0) / seconds, 0.005);
    assert_near(Some(whole.mean_in_flight), 1.0 + 0.801 / seconds, 0.01);
    assert_eq!((cell.counts.planned, cell.counts.warmup), (20, 1));
    assert_eq!(cell.metrics[&Metric::E2e].n, 20);
}

#[test]
fn what_the_warm_up_got_before_the_first_request_was_due_is_not_of_the_window() {
    // Its last token comes 100 µs before: the two share a bin of time.
    let mut warm = even(0, -119.9, 20.0, 10.0, 11);
    warm.phase = Phase::Warmup;
    let mut records = vec![warm];
    records.extend((0..4).map(|i| even(i, 0.2 + 121.0 * i as f64, 20.0, 10.0, 11)));
    let cell = summarise_cell(&records, closed(1));
    let whole = cell.windows.whole.as_ref().unwrap();
    assert_near(
        whole.output_tokens_per_s.map(|rate| rate * whole.seconds),
        44.0,
        1e-9,
    );
    assert_near(Some(whole.chunks_per_s * whole.seconds), 44.0, 1e-9);
}

#[test]
fn answers_carried_over_are_served_where_their_tokens_are_counted() {
    // Two of the three slots begin with an answer of the warm-up; too few requests for a steady part.
    let mut records: Vec<RequestRecord> = (0..2)
        .map(|i| even(i, -10.0 - i as f64, 20.0, 10.0, 11))
        .collect();
    for warm in &mut records {
        warm.phase = Phase::Warmup;
    }
    records.extend((0..3).map(|i| even(i, 130.0 * i as f64, 20.0, 10.0, 11)));
    let cell = summarise_cell(&records, closed(3));
    assert!(cell.windows.steady.is_none());
    let whole = cell.windows.whole.as_ref().unwrap();
    // each of them for the part of its 120 ms that lies in the window
    let served = 3.0 + (110.0 + 109.0) / 120.0;
    assert_near(
        Some(whole.requests_per_s.unwrap() * whole.seconds),
        served,
        1e-9,
    );
}

/// 64 streams, three waves, every fortieth answer broken off: too many for a steady part to be the headline. The answers of the warm-up, all but over as
/// the measurement begins, are none that the window served.
#[test]
fn a_closed_loop_that_loses_more_than_a_hundredth_has_its_rate_by_little_s_law_too() {
    let mut records: Vec<RequestRecord> =
        (0..64).map(|i| even(i, -219.0, 20.0, 10.0, 21)).collect();
    for warm in &mut records {
        warm.phase = Phase::Warmup;
    }
    for i in 0..192 {
        let (wave, slot) = (i / 64, i % 64);
        let start = 222.0 * wave as f64 + 0.02 * slot as f64;
        let record = even(i, start, 20.0, 10.0, 21);
        let broken = Outcome::Truncated {
            message: "it ended".to_owned(),
        };
        records.push(if i % 40 == 39 {
            ended(record, broken)
        } else {
            record
        });
    }
    let cell = summarise_cell(&records, closed(64));
    let rates = headline(&cell);
    let completed = 192.0 - 4.0;
    let seconds = 2.0 * 0.222 + 0.22 + 63.0 * 0.02e-3;
    assert_near(rates.requests_per_s, completed / seconds, 0.01);
    let interval = rates.requests_per_s_interval.unwrap();
    let width = (interval.high - interval.low) / rates.requests_per_s.unwrap();
    assert!(width < 0.05, "{interval:?}");
}

/// A server of four that takes the newest first: six requests of the warm-up wait until no more are sent. Their slots are in flight all the time and give nothing.
#[test]
fn slots_that_wait_all_the_time_for_the_warm_up_are_no_load() {
    let mut records: Vec<RequestRecord> = waves(4, 120, {
        let mut noise = Noise::seeded(3);
        move || 0.45 * (1.0 + 0.03 * f64::from(noise.one_of(0..=10)))
    });
    let last = records
        .iter()
        .map(|record| record.last_instant().as_secs_f64() * 1e3);
    let over = last.fold(0.0, f64::max);
    for id in 0..6 {
        let mut warm = even(500 + id, -300.0 + 0.01 * id as f64, over + 300.0, 5.0, 100);
        warm.phase = Phase::Warmup;
        records.push(warm);
    }
    let cell = summarise_cell(&records, closed(10));
    let rates = headline(&cell);
    let truth = 120.0 / (over / 1e3);
    assert_near(rates.requests_per_s, truth, 0.05);
    let interval = rates.requests_per_s_interval.unwrap();
    assert!(
        interval.low <= truth && truth <= interval.high,
        "{truth}: {interval:?}"
    );
}

#[test]
fn requests_that_never_left_are_no_part_of_what_a_closed_loop_served() {
    let records: Vec<RequestRecord> = (0..40)
        .map(|i| {
            let record = even(i, 121.0 * i as f64, 20.0, 10.0, 11);
            if i % 2 == 0 {
                record
            } else {
                refused_at(record)
            }
        })
        .collect();
    let cell = summarise_cell(&records, closed(1));
    let whole = cell.windows.whole.as_ref().unwrap();
    assert_near(
        Some(whole.requests_per_s.unwrap() * whole.seconds),
        20.0,
        1e-9,
    );
}

#[test]
fn a_request_that_failed_left_late_all_the_same() {
    let late = |i: u64| {
        let mut record = even(i, 100.0 * i as f64, 20.0, 10.0, 11);
        record.due = record.due - Nanos::from_millis(5);
        record.dispatched = Some(record.due + Nanos::from_millis(5));
        record
    };
    let records: Vec<RequestRecord> = (0..40)
        .map(|i| {
            if i % 2 == 0 {
                late(i)
            } else {
                ended(late(i), refused())
            }
        })
        .collect();
    let cell = summarise_cell(&records, open_at(10.0));
    let lateness = &cell.metrics[&Metric::Lateness];
    assert_eq!((lateness.n, cell.metrics[&Metric::E2e].n), (40, 20));
    assert_near(Some(lateness.mean), 5e6, 1e-9);
}

#[test]
fn goodput_is_the_rate_beside_it_where_all_is_good() {
    for context in [closed(4), open_at(30.0)] {
        let mut context = context;
        context.slos = vec![Slo {
            metric: Metric::E2e,
            q: 0.95,
            limit: 1e12,
            use_case: None,
        }];
        let cell = summarise_cell(&waves(4, 60, || 1.0), context);
        let goodput = cell.goodput.as_ref().unwrap();
        assert_near(
            Some(goodput.requests_per_s),
            headline(&cell).requests_per_s.unwrap(),
            1e-9,
        );
    }
}

#[test]
fn slots_that_think_have_the_rate_of_their_whole_cycle() {
    // Twenty users, each asks once in 10.12 s; all of them within 0.2 s.
    let records: Vec<RequestRecord> = (0..20)
        .map(|i| even(i, 10.0 * i as f64, 20.0, 10.0, 11))
        .collect();
    let mut context = closed(20);
    if let Load::Closed { think_time, .. } = &mut context.load {
        *think_time = Some(Nanos::from_secs(10));
    }
    let cell = summarise_cell(&records, context);
    let rates = headline(&cell);
    assert_near(rates.requests_per_s, 20.0 / 10.121, 0.001);
    assert_near(rates.output_tokens_per_s, 11.0 * 20.0 / 10.121, 0.001);
}

#[test]
fn an_open_loop_that_long_answers_fill_is_not_overloaded() {
    // Five a second, each answered in 12 s, by a server that keeps nobody waiting: sixty are in flight once the first end.
    let mut noise = Noise::seeded(3);
    let mut due = 0.0;
    let records: Vec<RequestRecord> = (0..100)
        .map(|i| {
            due += noise.exponential(200.0);
            even(i, due, 40.0, 60.0 + 2.0 * noise.normal(), 200)
        })
        .collect();
    let mut context = open_at(5.0);
    context.stop.requests = Some(100);
    let cell = summarise_cell(&records, context);
    let rates = headline(&cell);
    let offered = rates.offered_requests_per_s.unwrap_or_default();
    assert_near(rates.requests_per_s, offered, 1e-6);
    assert_near(rates.output_tokens_per_s, 200.0 * offered, 1e-6);
}

#[test]
fn a_ramp_that_passes_what_a_server_can_do_leaves_a_queue() {
    // From 5 to 70 a second over 15 s, for a server of eight slots of 216 ms: 37 a second. And the same for one of any number of slots.
    let due = |i: u64| {
        let (from, slope, n) = (5.0, 65.0 / 15.0, i as f64);
        1000.0 * ((from * from + 2.0 * slope * n).sqrt() - from) / slope
    };
    let served = |slots: usize| {
        let mut free = vec![0.0_f64; slots];
        let records: Vec<RequestRecord> = (0..562)
            .map(|i| {
                free.sort_by(f64::total_cmp);
                let begun = due(i).max(free[0]);
                free[0] = begun + 216.0;
                even(i, due(i), begun - due(i) + 16.0, 10.0, 21)
            })
            .collect();
        let mut context = open_at(37.5);
        context.load = Load::Open {
            rate_per_s: None,
            arrival: ArrivalKind::Ramp {
                from_per_s: 5.0,
                to_per_s: 70.0,
            },
            in_flight_cap: None,
        };
        headline(&summarise_cell(&records, context))
            .requests_per_s
            .unwrap()
    };
    assert!((25.0..31.0).contains(&served(8)), "{}", served(8));
    assert_near(Some(served(64)), 37.5, 0.01);
}

#[test]
fn what_the_warm_up_left_to_an_overloaded_server_is_part_of_what_it_served() {
    // Sixty a second for a server that takes 30 ms for each, one after the other: the first forty ends are the warm-up's.
    let records: Vec<RequestRecord> = (0..80)
        .map(|i| {
            let due = 1000.0 / 60.0 * i as f64;
            let end = 30.0 * (i + 1) as f64;
            let mut record = even(i, due, end - due - 10.0, 1.0, 11);
            if i < 40 {
                record.phase = Phase::Warmup;
            }
            record
        })
        .collect();
    let cell = summarise_cell(&records, open_at(60.0));
    assert_near(
        Some(headline(&cell).requests_per_s.unwrap()),
        1000.0 / 30.0,
        0.06,
    );
}

/// Conversations of three turns of 120 ms each, with a second of thought between them.
fn conversations(begin: impl Iterator<Item = f64>) -> Vec<RequestRecord> {
    let mut records = Vec::new();
    for (session, begin) in begin.enumerate() {
        for turn in 0..3_u32 {
            let sent = begin + 1120.0 * f64::from(turn);
            let mut record = even(records.len() as u64, sent, 20.0, 10.0, 11);
            record.session = Some(session as u64);
            record.turn = Some(turn);
            records.push(record);
        }
    }
    records
}

#[test]
fn conversations_that_think_have_the_rate_of_their_slots() {
    // Five slots, of which each has six conversations one after the other: 5 × 3 answers in 2.36 s.
    let begin = (0..30).map(|i| 2360.0 * f64::from(i / 5) + f64::from(i % 5));
    let cell = summarise_cell(&conversations(begin), closed(5));
    let rates = headline(&cell);
    assert_near(rates.requests_per_s, 15.0 / 2.36, 0.005);
    assert_near(rates.output_tokens_per_s, 11.0 * 15.0 / 2.36, 0.005);
    let interval = rates.requests_per_s_interval.unwrap();
    assert!(interval.low <= 15.0 / 2.359 && interval.high >= 15.0 / 2.363);
}

/// Twenty slots of conversations of six turns of 91 ms with a second of thought between them, of which the end after 4 s cuts all: four answers each in 4 s.
#[test]
fn the_pause_in_which_a_conversation_was_cut_off_is_time_of_its_slot() {
    let turns = (0..80_u32).map(|i| {
        let (slot, turn) = (i % 20, i / 20);
        let sent = 1091.0 * f64::from(turn) + 0.1 * f64::from(slot);
        let mut record = even(u64::from(i), sent, 15.0, 4.0, 20);
        record.session = Some(u64::from(slot));
        record.turn = Some(turn);
        record
    });
    let mut context = closed(20);
    context.stop.duration = Some(Nanos::from_secs(4));
    let cell = summarise_cell(&turns.collect::<Vec<_>>(), context);
    let rates = headline(&cell);
    assert_near(rates.requests_per_s, 20.0, 0.01);
    let interval = rates.requests_per_s_interval.unwrap();
    let lasting = 20.0 * 6.0 / (6.0 * 0.091 + 5.0);
    assert!(
        interval.low <= 20.01 && interval.high >= lasting,
        "{interval:?}"
    );
}

/// Ten slots of equal conversations of four turns of 115 ms, 400 ms apart: 24.1 a second, wherever the end cuts them.
#[test]
fn the_interval_of_equal_conversations_reaches_over_where_the_end_cuts_them() {
    for end in [4_000.0, 4_500.0, 5_000.0, 6_000.0, 7_500.0, 9_000.0] {
        let mut records = Vec::new();
        for slot in 0..10_u32 {
            let mut now = 0.1 * f64::from(slot);
            for turn in 0_u32.. {
                if now > end {
                    break;
                }
                let mut record = even(records.len() as u64, now, 20.0, 5.0, 20);
                record.session = Some(u64::from(slot + 10 * (turn / 4)));
                record.turn = Some(turn % 4);
                records.push(record);
                now += if turn % 4 == 3 { 115.0 } else { 515.0 };
            }
        }
        let mut context = closed(10);
        context.stop.duration = Some(Nanos::from_f64(end * 1e6));
        let cell = summarise_cell(&records, context);
        let rates = headline(&cell);
        let interval = rates.requests_per_s_interval.unwrap();
        let truth = 40.0 / 1.66;
        assert!(
            interval.low <= truth * 1.01 && interval.high >= truth * 0.99,
            "{end}: {interval:?} {:?}",
            rates.requests_per_s
        );
        let off = rates.mean_in_flight / (rates.requests_per_s.unwrap() * 0.115);
        assert!((off - 1.0).abs() < 0.01, "{end}: {off} of Little's law");
    }
}

/// Ten slots of conversations of two turns of 91 ms with 400 ms of thought between them; in every second one the second turn is refused, and the slot
/// leaves the server alone for 2 s.
#[test]
fn the_time_in_which_slots_left_a_failing_server_alone_is_theirs() {
    let of = |duration: Option<Nanos>| {
        let mut records = Vec::new();
        for slot in 0..10_u32 {
            let mut now = 0.1 * f64::from(slot);
            for number in 0_u32.. {
                if now > 19_000.0 {
                    break;
                }
                for turn in 0..2 {
                    let id = records.len() as u64;
                    let mut record = even(id, now, 15.0, 4.0, 20);
                    record.session = Some(u64::from(slot + 10 * number));
                    record.turn = Some(turn);
                    now += 491.0;
                    if turn == 1 && number % 2 == 1 {
                        record = ended(record, refused());
                        now += 1_600.0;
                    }
                    records.push(record);
                }
                now -= 390.0;
            }
        }
        let completed = records.iter().filter(|r| r.wire.outcome.is_completed());
        let completed = completed.count() as f64;
        let mut context = closed(10);
        context.stop.duration = duration;
        let cell = summarise_cell(&records, context);
        let whole = cell.windows.whole.clone().unwrap();
        (
            headline(&cell).requests_per_s.unwrap(),
            completed / whole.seconds,
        )
    };
    for duration in [Some(Nanos::from_secs(20)), None] {
        let (shown, counted) = of(duration);
        assert!((shown / counted - 1.0).abs() < 0.06, "{shown} of {counted}");
    }
}

#[test]
fn an_open_loop_of_conversations_offers_their_turns_at_the_rate_of_conversations() {
    let begin = (0..80).map(|i| 100.0 * f64::from(i));
    let cell = summarise_cell(&conversations(begin), open_at(10.0));
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 30.0, 1e-6);
    assert_near(rates.requests_per_s, 30.0, 1e-6);
    let stationary = cell.windows.stationarity.and_then(|s| s.stationary);
    assert_ne!(stationary, Some(false), "the drain is none of the load");
}

/// Twelve conversations of a Poisson plan of 6 s, the first after 0.7 s.
#[test]
fn the_time_before_the_first_conversation_is_offered_time_too() {
    let begin = (0..12).map(|i| 700.0 + 480.0 * f64::from(i));
    let mut context = open_at(2.0);
    context.load = Load::Open {
        rate_per_s: Some(2.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    context.stop.duration = Some(Nanos::from_secs(6));
    let cell = summarise_cell(&conversations(begin), context);
    assert_near(headline(&cell).offered_requests_per_s, 6.0, 1e-6);
    assert_near(Some(headline(&cell).requests_per_s.unwrap()), 6.0, 1e-6);
}

#[test]
fn tokens_of_an_open_loop_are_of_the_time_of_its_requests() {
    let records: Vec<RequestRecord> = (0..12)
        .map(|i| even(i, 700.0 * i as f64, 20.0, 10.0, 30))
        .collect();
    let mut context = open_at(1.0);
    context.load = Load::Open {
        rate_per_s: Some(1.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    context.stop.duration = Some(Nanos::from_secs(12));
    let cell = summarise_cell(&records, context);
    let rates = headline(&cell);
    assert_near(rates.requests_per_s, 1.0, 1e-9);
    assert_near(rates.output_tokens_per_s, 30.0, 1e-6);
}

#[test]
fn the_last_token_of_a_closed_loop_counts_however_few_there_are() {
    for (requests, tokens) in [(5, 1), (5, 2), (6, 4), (20, 16)] {
        let stay = 20.0 + 5.0 * f64::from(tokens - 1) + 0.1;
        let one = |i: u32| {
            let mut record = even(u64::from(i), f64::from(i) * stay, 20.0, 5.0, tokens);
            record.wire.closed = record.wire.events.last();
            record
        };
        let records: Vec<RequestRecord> = (0..requests).map(one).collect();
        let cell = summarise_cell(&records, closed(1));
        let output = headline(&cell).output_tokens_per_s;
        assert_near(output, 1e3 * f64::from(tokens) / stay, 0.005);
    }
}

#[test]
fn a_schedule_of_conversations_offers_the_requests_that_they_have() {
    // ten conversations a second of four turns each, 50 ms a turn
    let mut records: Vec<RequestRecord> = Vec::new();
    for (i, turn) in (0..40).flat_map(|i| (0..4).map(move |turn| (i, turn))) {
        let sent = 100.0 * f64::from(i) + 51.0 * f64::from(turn);
        let mut record = even(u64::from(4 * i + turn), sent, 20.0, 10.0, 4);
        record.turn = Some(turn + 1);
        records.push(record);
    }
    let mut context = open_at(10.0);
    context.load = Load::Open {
        rate_per_s: Some(10.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    context.stop.requests = Some(160);
    let cell = summarise_cell(&records, context);
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 39.2, 0.02);
    assert_near(rates.requests_per_s, 39.2, 0.02);
    assert_near(rates.output_tokens_per_s, 4.0 * 39.2, 0.02);
}

#[test]
fn an_open_loop_s_rate_is_never_known_without_an_error() {
    let mut noise = Noise::seeded(3);
    // The later, the quicker: nothing grows.
    let records: Vec<RequestRecord> = (0..200)
        .map(|i| {
            let quicker = 1.0 - 0.001 * i as f64;
            even(
                i,
                20.0 * i as f64,
                20.0,
                quicker * (10.0 + 0.1 * noise.normal().abs()),
                11,
            )
        })
        .collect();
    let cell = summarise_cell(&records, open_at(50.0));
    let rates = headline(&cell);
    let interval = rates.requests_per_s_interval.unwrap();
    assert!(interval.low < rates.requests_per_s.unwrap(), "{interval:?}");
}

#[test]
fn no_more_is_served_than_was_offered_however_few_or_many_at_once_they_are() {
    let rows = |every_ms: f64, n: u64| -> Vec<RequestRecord> {
        (0..n)
            .map(|i| even(i, every_ms * i as f64, 10.0, 1.0, 11))
            .collect()
    };
    for (rate, records) in [
        (0.5, rows(2_000.0, 3)),
        (10.0, rows(0.0, 1)),
        (20.0, rows(0.0, 40)),
    ] {
        let mut context = open_at(rate);
        if let Load::Open { arrival, .. } = &mut context.load {
            *arrival = ArrivalKind::Constant;
        }
        let cell = summarise_cell(&records, context);
        let whole = cell.windows.whole.as_ref().unwrap();
        assert_near(whole.requests_per_s, rate, 1e-9);
        assert_near(whole.output_tokens_per_s, 11.0 * rate, 1e-9);
        assert!(
            whole
                .requests_per_s_interval
                .is_none_or(|i| i.high <= rate * 1.000_001)
        );
    }
}

#[test]
fn what_a_connection_holds_back_was_offered_all_the_same() {
    // A worker takes each up when it is due; a connection of two streams lets it go when another is over.
    let records: Vec<RequestRecord> = (0..60)
        .map(|i| {
            let mut record = even(i, 30.0 * i as f64, 10.0, 1.0, 48);
            record.due = at(15.0 * i as f64);
            record.dispatched = Some(record.due);
            record
        })
        .collect();
    let cell = summarise_cell(&records, open_at(1e3 / 15.0));
    assert_near(cell.offered_rate_per_s, 1e3 / 15.0, 1e-9);
}

fn open_at(rate_per_s: f64) -> CellContext {
    CellContext::new(Load::Open {
        rate_per_s: Some(rate_per_s),
        arrival: ArrivalKind::Constant,
        in_flight_cap: None,
    })
}

/// Refused at once: it was due and dispatched, and never sent.
fn refused_at(record: RequestRecord) -> RequestRecord {
    let due = record.due;
    let mut record = ended(record, refused());
    record.wire.sent = None;
    record.wire.closed = Some(due + Nanos::new(100_000));
    record
}

#[test]
fn a_server_that_dies_halfway_has_half_the_rate_and_half_the_attainment() {
    let mut context = open_at(200.0);
    context.slos = vec![Slo {
        metric: Metric::E2e,
        q: 0.95,
        limit: 1e9,
        use_case: None,
    }];
    let records: Vec<RequestRecord> = (0..8_000)
        .map(|i| even(i, 5.0 * i as f64, 20.0, 10.0, 11))
        .map(|r| {
            if r.due < at(21_000.0) {
                r
            } else {
                refused_at(r)
            }
        })
        .collect();
    let cell = summarise_cell(&records, context);
    assert_eq!((cell.counts.completed, cell.counts.failed), (4_200, 3_800));
    assert_near(
        Some(headline(&cell).requests_per_s.unwrap()),
        4_200.0 / 40.0,
        1e-6,
    );
    assert_eq!(cell.slos[0].verdict, SloVerdict::Fail);
    assert_near(Some(cell.slos[0].attainment), 4_200.0 / 8_000.0, 1e-9);
    let goodput = cell.goodput.unwrap();
    assert_near(Some(goodput.requests_per_s), 4_200.0 / 40.0, 1e-6);
    assert_eq!(goodput.planned, Some(8_000));
    let failures = cell.metrics[&Metric::TtftDue]
        .with_failures
        .as_ref()
        .unwrap();
    assert_eq!((failures.n, failures.failed), (8_000, 3_800));
    assert!(
        failures
            .quantiles
            .iter()
            .any(|(q, x)| *q < 0.51 && x.is_some())
    );
    assert!(
        failures
            .quantiles
            .iter()
            .all(|(q, x)| *q < 0.6 || x.is_none())
    );
}

#[test]
fn a_queue_that_grows_shows_as_less_served_than_offered_and_a_burst_does_not() {
    // 20 a second are offered; one at a time of 100 ms is served.
    let overloaded: Vec<RequestRecord> = (0..400)
        .map(|i| {
            let mut r = even(i, 100.0 * i as f64, 20.0, 7.9, 11);
            r.due = at(50.0 * i as f64);
            r.dispatched = Some(r.due);
            r
        })
        .collect();
    let cell = summarise_cell(&overloaded, open_at(20.0));
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 20.0, 1e-6);
    assert_near(rates.served_requests_per_s, 10.0, 1e-3);
    let healthy: Vec<RequestRecord> = (0..400)
        .map(|i| even(i, 50.0 * i as f64, 20.0, 150.0, 11))
        .collect();
    let cell = summarise_cell(&healthy, open_at(20.0));
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 20.0, 1e-6);
    assert_near(rates.served_requests_per_s, 20.0, 1e-6);
}

#[test]
fn a_queue_that_begins_small_and_not_evenly_grows_all_the_same() {
    // 17 a second were asked for, and six at a time of 400 ms are served: 15. As measured, few more than that came in the first half.
    let came = [
        15, 12, 11, 15, 16, 16, 17, 15, 18, 11, 16, 22, 22, 17, 12, 22, 18, 27, 20, 18,
    ];
    let mut free = [0.0_f64; 6];
    let due = came.iter().enumerate().flat_map(|(second, n)| {
        (0..*n).map(move |i| 1e3 * (second as f64 + f64::from(i) / f64::from(*n)))
    });
    let records: Vec<RequestRecord> = due
        .enumerate()
        .map(|(id, due)| {
            free.sort_by(f64::total_cmp);
            let begun = due.max(free[0]);
            free[0] = begun + 400.0;
            even(id as u64, due, begun - due + 10.0, 10.0, 40)
        })
        .collect();
    let cell = summarise_cell(&records, open_at(17.0));
    let rates = headline(&cell);
    // The second half is served at 15/s; in the first, less was asked for.
    assert_near(rates.served_requests_per_s, 15.0, 1e-3);
    assert_near(rates.output_tokens_per_s, 15.0 * 40.0, 1e-3);
}

#[test]
fn the_time_that_the_last_answers_take_moves_no_open_loop_s_rate() {
    // Two a second, no queue; answers of 5 to 104 tokens take 0.07 to 10.3 s, so that the last end comes long after the last start.
    let records: Vec<RequestRecord> = (0..60)
        .map(|i| even(i, 500.0 * i as f64, 20.0, 100.0, 5 + (i * 37 % 100) as u32))
        .collect();
    let cell = summarise_cell(&records, open_at(2.0));
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 2.0, 1e-6);
    assert_near(rates.served_requests_per_s, 2.0, 0.01);
    assert_near(rates.requests_per_s, 2.0, 0.01);
    let interval = rates.requests_per_s_interval.unwrap();
    assert!(
        interval.low > 1.9 && interval.high <= 2.0 + 1e-9,
        "{interval:?}"
    );
    // A third of them fail: that is not served.
    let failing: Vec<RequestRecord> = records
        .into_iter()
        .map(|r| {
            if r.id % 3 == 0 {
                ended(r, refused())
            } else {
                r
            }
        })
        .collect();
    let cell = summarise_cell(&failing, open_at(2.0));
    assert_near(headline(&cell).served_requests_per_s, 4.0 / 3.0, 0.02);
}

/// While an empty server fills, none of its answers has ended and few of its tokens come: that time is in neither rate.
#[test]
fn the_tokens_of_an_overload_are_of_the_same_time_as_its_requests() {
    // Ten a second for 8 s; sixteen at a time take 2 s for 50 tokens: eight a second, 400 tokens.
    for warmed in [0, 40] {
        let mut free = [0.0_f64; 16];
        let records: Vec<RequestRecord> = (0..80 + warmed)
            .map(|id| {
                let due = 100.0 * id as f64;
                free.sort_by(f64::total_cmp);
                let begun = due.max(free[0]);
                free[0] = begun + 2000.0;
                let mut r = even(id, due, begun - due + 40.0, 40.0, 50);
                if id < warmed {
                    r.phase = Phase::Warmup;
                }
                r
            })
            .collect();
        let rates = headline(&summarise_cell(&records, open_at(10.0))).clone();
        assert_near(rates.requests_per_s, 8.0, 0.02);
        assert_near(rates.output_tokens_per_s, 400.0, 0.01);
        let interval = rates.output_tokens_per_s_interval.unwrap();
        assert!(
            interval.low <= 401.0 && interval.high >= 399.0,
            "{interval:?}"
        );
    }
}

#[test]
fn the_first_wave_of_an_overload_is_not_its_rate() {
    // 20 a second for 3 s; eight at a time take 2.6 s each, 3.08 a second: while load is offered only the first eight end, within 0.4 s.
    let mut free = [0.0_f64; 8];
    let records: Vec<RequestRecord> = (0..60)
        .map(|id| {
            let due = 50.0 * id as f64;
            free.sort_by(f64::total_cmp);
            let begun = due.max(free[0]);
            free[0] = begun + 2600.0;
            even(id, due, begun - due + 20.0, 25.8, 101)
        })
        .collect();
    let cell = summarise_cell(&records, open_at(20.0));
    let rates = headline(&cell);
    assert!(
        (2.6..3.2).contains(&rates.requests_per_s.unwrap()),
        "{}",
        rates.requests_per_s.unwrap()
    );
    assert_near(
        rates.served_requests_per_s,
        rates.requests_per_s.unwrap(),
        1e-9,
    );
    assert_near(
        rates.output_tokens_per_s,
        101.0 * rates.requests_per_s.unwrap(),
        0.01,
    );
}

#[test]
fn a_short_overload_behind_its_warm_up_is_served_as_fast_as_the_server_is() {
    // 60 a second; sixteen at a time take 0.47 s each, 34 a second. 120 of the warm-up come before, and of few that are measured none ends while load is offered.
    for measured in [40, 100] {
        let mut free = [0.0_f64; 16];
        let records: Vec<RequestRecord> = (0..120 + measured)
            .map(|id| {
                let due = id as f64 * 1000.0 / 60.0;
                free.sort_by(f64::total_cmp);
                let begun = due.max(free[0]);
                free[0] = begun + 470.0;
                let mut r = even(id, due, begun - due + 6.0, 16.0, 30);
                if id < 120 {
                    r.phase = Phase::Warmup;
                }
                r
            })
            .collect();
        let cell = summarise_cell(&records, open_at(60.0));
        let rates = headline(&cell);
        let rate = rates.requests_per_s.unwrap();
        assert!((30.0..37.0).contains(&rate), "{measured}: {rate}");
        let interval = rates.requests_per_s_interval.unwrap();
        assert!(interval.low < 34.0 && interval.high > 32.0, "{interval:?}");
    }
}

#[test]
fn what_an_overloaded_server_serves_is_what_ended_while_load_was_offered() {
    // 20 a second for 20 s; 12 a second are served, and 40 once nobody asks any more. 24 of the warm-up are under way at the start.
    let end = |place: f64| {
        let before = 1000.0 * (place + 1.0) / 12.0;
        let last_due = 19_950.0;
        if before <= last_due {
            before
        } else {
            last_due + (before - last_due) * 12.0 / 40.0
        }
    };
    let records: Vec<RequestRecord> = (0..424)
        .map(|i| {
            let due = if i < 24 {
                -10.0
            } else {
                50.0 * (i - 24) as f64
            };
            let first = end(i as f64) - due.max(0.0) - 10.0;
            let mut r = even(i, due.max(0.0), first, 1.0, 11);
            r.due = at(due.max(0.0));
            if i < 24 {
                r.phase = Phase::Warmup;
            }
            r
        })
        .collect();
    let cell = summarise_cell(&records, open_at(20.0));
    let rates = headline(&cell);
    assert_near(rates.served_requests_per_s, 12.0, 0.01);
    assert_near(rates.requests_per_s, 12.0, 0.01);
    let interval = rates.requests_per_s_interval.unwrap();
    assert!(interval.low > 11.5 && interval.high < 12.5, "{interval:?}");
}

#[test]
fn the_time_before_the_first_arrival_is_offered_time_too() {
    // 32 requests of a Poisson plan of 20 s, the first after 2.9 s.
    let mut context = CellContext::new(Load::Open {
        rate_per_s: Some(1.6),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: None,
    });
    context.stop.duration = Some(Nanos::from_secs(20));
    let sent = |i: u64| 2_900.0 + 530.0 * i as f64;
    let records: Vec<RequestRecord> = (0..32).map(|i| even(i, sent(i), 20.0, 10.0, 11)).collect();
    let of = |context: &CellContext, records: &[RequestRecord]| {
        let cell = summarise_cell(records, context.clone());
        let whole = headline(&cell).clone();
        [
            cell.offered_rate_per_s,
            whole.offered_requests_per_s,
            whole.requests_per_s,
        ]
    };
    for rate in of(&context, &records) {
        assert_near(rate, 1.6, 1e-3);
    }
    // Of a plan that was cut short nobody knows when it began.
    for rate in of(&context, &records[..20]) {
        assert_near(rate, 1.0 / 0.53, 1e-3);
    }
}

#[test]
fn bursts_are_offered_at_the_rate_that_they_come_at() {
    // Twenty together every ten seconds, four times.
    let records: Vec<RequestRecord> = (0..80)
        .map(|i| {
            let mut r = even(
                i,
                10_000.0 * (i / 20) as f64 + 0.1 * (i % 20) as f64,
                20.0,
                10.0,
                11,
            );
            r.due = at(10_000.0 * (i / 20) as f64);
            r
        })
        .collect();
    let cell = summarise_cell(&records, open_at(2.0));
    assert_near(headline(&cell).offered_requests_per_s, 2.0, 1e-6);
    assert_near(cell.offered_rate_per_s, 2.0, 1e-3);
    assert_near(Some(headline(&cell).requests_per_s.unwrap()), 2.0, 1e-3);
}

/// Sixty-one requests due in three seconds, which the client sent in six: what it sent was served, and the plan was not.
#[test]
fn what_the_client_was_too_slow_to_send_was_not_served() {
    let records: Vec<RequestRecord> = (0..61)
        .map(|i| {
            let mut record = even(i, 100.0 * i as f64, 20.0, 10.0, 11);
            record.due = at(50.0 * i as f64);
            record
        })
        .collect();
    let cell = summarise_cell(&records, open_at(20.0));
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 20.0, 1e-6);
    assert_near(cell.offered_rate_per_s, 10.0, 1e-6);
    assert!(rates.requests_per_s.unwrap() <= 10.001, "{rates:?}");
    assert!(
        rates.output_tokens_per_s.is_some_and(|rate| rate <= 110.1),
        "{rates:?}"
    );
}

/// The same of twenty requests, of which no queue can be told.
#[test]
fn a_few_requests_that_left_late_are_served_at_the_rate_at_which_they_left() {
    let records: Vec<RequestRecord> = (0..20)
        .map(|i| {
            let mut record = even(i, 3_000.0 + 2.0 * i as f64, 20.0, 1.0, 2);
            record.due = at(1.0 * i as f64);
            record
        })
        .collect();
    let mut context = open_at(1_000.0);
    context.stop.requests = Some(20);
    let cell = summarise_cell(&records, context);
    let rates = headline(&cell);
    assert_near(rates.offered_requests_per_s, 1_000.0, 1.0);
    assert!(rates.requests_per_s.unwrap() < 520.0, "{rates:?}");
}

#[test]
fn a_closed_loop_s_rate_lies_within_what_its_requests_allow() {
    // One slot; the second half takes ten times as long as the first: the mean stay is known badly, but it is none of 0 s.
    let mut now = 0.0;
    let records: Vec<RequestRecord> = (0..60)
        .map(|i| {
            let gap = if i < 30 { 10.0 } else { 100.0 };
            let record = even(i, now, gap, gap, 10);
            now += 10.0 * gap + 0.01;
            record
        })
        .collect();
    let cell = summarise_cell(&records, closed(1));
    for rates in [&cell.windows.whole, &cell.windows.steady]
        .into_iter()
        .flatten()
    {
        if let Some(interval) = rates.requests_per_s_interval {
            assert!(
                interval.low >= 0.0 && interval.high <= 10.01,
                "{interval:?}"
            );
        }
    }
}

#[test]
fn verdicts_on_gaps_are_on_gaps_also_where_only_histograms_are_kept() {
    // One gap in twelve of every answer is 60 ms: the mean of a request's gaps is far within 30 ms, their p95 is not.
    let records: Vec<RequestRecord> = (0..300)
        .map(|i| {
            let mut stamps = vec![20.0];
            for k in 1..25_u32 {
                let gap = if k % 12 == 0 { 60.0 } else { 10.0 };
                stamps.push(stamps.last().unwrap() + gap);
            }
            let sent = 400.0 * i as f64;
            let stamps: Vec<f64> = stamps.iter().map(|ms| sent + ms).collect();
            crate::records::answer(i, sent, &stamps)
        })
        .collect();
    for exact_gaps in [1 << 20, 1_000] {
        let context = CellContext {
            slos: [(0.95, 30.0), (0.90, 30.0)]
                .map(|(q, ms)| Slo {
                    metric: Metric::Itl,
                    q,
                    limit: ms * 1e6,
                    use_case: None,
                })
                .into(),
            exact_gaps,
            ..closed(1)
        };
        let cell = summarise_cell(&records, context);
        let verdicts: Vec<SloVerdict> = cell.slos.iter().map(|s| s.verdict).collect();
        assert_eq!(
            verdicts,
            [SloVerdict::Fail, SloVerdict::Pass],
            "{exact_gaps}"
        );
        assert_near(cell.slos[0].measured, 60e6, 0.01);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a server's deaths: the counts add up, and attainment, goodput, rate and quantiles are those of plain sums.
    #[test]
    fn for_any_schedule_of_deaths_the_figures_are_those_of_a_plain_script(
        deaths in prop::collection::vec((0.0_f64..40.0, 0.0_f64..15.0), 0..5),
        n in 50_u64..600,
        is_open in any::<bool>(),
        stay in 20.0_f64..2_000.0,
        unsent_every in 5_u64..2_000,
    ) {
        let dead = |ms: f64| deaths.iter().any(|(from, length)| {
            ms >= from * 1e3 && ms < (from + length) * 1e3
        });
        let limit_ms = 1_000.0;
        let mut records = Vec::new();
        for id in 0..n {
            let due = 40_000.0 * id as f64 / n as f64;
            let whole = even(id, due, stay / 2.0, stay / 20.0, 11);
            let end = due + stay;
            records.push(if id % unsent_every == unsent_every - 1 {
                let mut unsent = ended(whole, Outcome::Unsent { reason: "cap".to_owned() });
                unsent.dispatched = None;
                unsent
            } else if dead(due) {
                refused_at(whole)
            } else if dead(end) {
                ended(whole, refused())
            } else {
                whole
            });
        }
        let mut context = if is_open { open_at(15.0) } else { closed(8) };
        context.slos = vec![Slo { metric: Metric::E2e, q: 0.95, limit: limit_ms * 1e6, use_case: None }];
        let cell = summarise_cell(&records, context);

        // The plain script.
        let completed: Vec<&RequestRecord> =
            records.iter().filter(|r| r.wire.outcome.is_completed()).collect();
        let last_end = records.iter().map(|r| match r.wire.outcome {
            Outcome::Completed => r.wire.events.last().unwrap(),
            _ => r.wire.closed.unwrap_or(r.due),
        }).max().unwrap();
        let seconds = (last_end - records.iter().map(|r| r.due).min().unwrap()).as_secs_f64();
        let e2e = |r: &RequestRecord| (r.wire.events.last().unwrap() - r.due).as_secs_f64() * 1e3;
        let met = completed.iter().filter(|r| e2e(r) <= limit_ms).count() as f64;

        let counts = &cell.counts;
        prop_assert_eq!(counts.planned, n);
        prop_assert!(counts.add_up());
        prop_assert_eq!(counts.completed, completed.len() as u64);
        let goodput = cell.goodput.as_ref().unwrap();
        prop_assert!((goodput.attainment - met / n as f64).abs() < 1e-9);
        prop_assert!((cell.slos[0].attainment - met / n as f64).abs() < 1e-9);
        let share = met / completed.len().max(1) as f64;
        prop_assert!((goodput.requests_per_s - share * headline(&cell).requests_per_s.unwrap()).abs() < 1e-9);
        let whole = cell.windows.whole.as_ref().unwrap();
        prop_assert_eq!(whole.requests, Some(n));
        prop_assert!((whole.seconds - seconds).abs() < 1e-9);
        // What an open loop is served is of the 40 s that it offers, not of those that the last answer takes; few answers may be of all of it.
        let (least, most) = match (is_open, completed.len()) {
            (true, 10..) => (40.0, 40.0),
            (true, _) => (40.0, seconds.max(40.0)),
            (false, _) => (seconds, seconds),
        };
        let rate_over = |seconds: f64| completed.len() as f64 / seconds;
        let rate = whole.requests_per_s.unwrap();
        prop_assert!(rate > rate_over(most) - 1e-6 && rate < rate_over(least) + 1e-6);
        let lost = n - completed.len() as u64;
        if lost as f64 > 0.01 * n as f64 {
            prop_assert!(cell.windows.steady.is_none(), "an outage was cut away");
            if let Some(e2e) = cell.metrics.get(&Metric::E2e) {
                let view = e2e.with_failures.as_ref().unwrap();
                prop_assert_eq!((view.n, view.failed), (n, lost));
            }
        }
        // A quantile that reaches into the lost ones is +∞, which is no pass.
        if lost as f64 > 0.06 * n as f64 {
            prop_assert!(cell.slos[0].verdict != SloVerdict::Pass);
        }
    }
}

/// Those that the warm-up left out, and those left out for another reason, are none of them.
#[test]
fn requests_that_the_cap_left_out_are_counted_from_the_measured_records() {
    let unsent = |reason: &str| Outcome::Unsent {
        reason: reason.to_owned(),
    };
    let mut records: Vec<RequestRecord> = (0..6)
        .map(|i| even(i, 50.0 * i as f64, 20.0, 5.0, 4))
        .collect();
    for (i, reason) in [
        (1, Outcome::CAP_REACHED),
        (2, Outcome::CAP_REACHED),
        (3, "the run was ended"),
    ] {
        records[i] = ended(records[i].clone(), unsent(reason));
    }
    records[1].phase = Phase::Warmup;
    let cell = summarise_cell(&records, open_at(20.0));
    assert_eq!((cell.cap_hits, cell.counts.unsent), (1, 2));
}

/// The response of a warm-up request may end after its last token, when the first measured request is due already.
#[test]
fn a_warm_up_answer_is_counted_where_its_last_token_came() {
    let mut warm = even(0, 0.0, 50.0, 10.0, 4);
    warm.phase = Phase::Warmup;
    warm.wire.closed = Some(at(90.0));
    let mut late = warm.clone();
    late.wire.closed = Some(at(120.0));
    let measured = even(0, 100.0, 50.0, 10.0, 4);
    let of = |warm: &RequestRecord| {
        let cell = summarise_cell([warm, &measured], closed(1));
        cell.windows.whole.unwrap().requests_per_s
    };
    assert_near(of(&late), of(&warm).unwrap(), 1e-9);
}
