//! Each trust rule: silent below its threshold, and on a quick run; speaking above it, with its number.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::collections::BTreeMap;

use bench_insight::{CellFacts, TrustFacts, trust};
use bench_schema::{
    CellRecord, ClockKind, ClockRecord, Distribution, LagRecord, Load, Metric, Nanos, Quantile,
    Quantity, StampRecord, Stationarity, Trust, TrustVerdict, Unit,
};

#[path = "seeds/load.rs"]
mod load;

fn clock(arrival: ClockKind) -> ClockRecord {
    ClockRecord {
        arrival,
        fallback_reason: None,
        monotonic_epoch_ns: None,
        unix_epoch_ns: None,
    }
}

fn cell(fixture: &str, id: &str) -> CellRecord {
    load::run(fixture).cell(id).unwrap().clone()
}

/// A closed-loop cell with an ITL p50 of 5.5 ms.
fn closed(change: impl FnOnce(&mut CellRecord)) -> CellRecord {
    let mut cell = cell("concurrency-sweep", "c8");
    change(&mut cell);
    cell
}

/// An open-loop cell at 20 requests/s.
fn open(change: impl FnOnce(&mut CellRecord)) -> CellRecord {
    let mut cell = cell("phases-rates", "r20");
    change(&mut cell);
    cell
}

fn judged(cells: &[CellRecord]) -> Trust {
    trust(
        &TrustFacts::of(&clock(ClockKind::Kernel), &BTreeMap::new()),
        cells,
    )
}

fn speaks(trust: &Trust, code: &str, verdict: TrustVerdict) {
    let reason = trust
        .reasons
        .iter()
        .find(|r| r.code == code)
        .unwrap_or_else(|| panic!("no {code}: {:?}", trust.reasons));
    assert_eq!(reason.verdict, verdict, "{}", reason.message);
    assert!(!reason.message.contains("NaN"));
    assert!(
        reason.message.contains(';') || reason.message.contains(','),
        "no next step: {}",
        reason.message
    );
}

fn lag(p99_us: i64, n: u64) -> LagRecord {
    let p99 = Nanos::new(p99_us * 1000);
    LagRecord {
        n,
        p50: Nanos::new(1000),
        p99,
        max: p99,
    }
}

#[test]
fn a_quick_run_with_few_samples_is_trusted() {
    let quick = closed(|cell| {
        cell.counts.planned = 8;
        cell.counts.completed = 8;
        for d in cell.metrics.values_mut() {
            d.n = 8;
            d.quantiles.iter_mut().for_each(|q| q.few_samples = true);
        }
        cell.client.lag = Some(lag(300, 700));
        cell.client.run_queue_wait = Some(0.3);
        cell.client.busiest_worker = Some(0.2);
    });
    let trust = judged(&[quick]);
    assert_eq!(trust.verdict, TrustVerdict::Trusted, "{:?}", trust.reasons);
}

#[test]
fn client_lag_is_doubtful_above_a_tenth_and_untrusted_above_half_of_the_itl() {
    // ITL p50 is 5.5 ms.
    assert!(
        judged(&[closed(|c| c.client.lag = Some(lag(540, 1000)))])
            .reasons
            .is_empty()
    );
    speaks(
        &judged(&[closed(|c| c.client.lag = Some(lag(560, 1000)))]),
        "client_lag",
        TrustVerdict::Doubtful,
    );
    speaks(
        &judged(&[closed(|c| c.client.lag = Some(lag(2800, 1000)))]),
        "client_lag",
        TrustVerdict::Untrusted,
    );
    // A pause on purpose is no lateness.
    let pausing = |p99| {
        judged(&[closed(|c| {
            c.client.lag = Some(lag(p99, 1000));
            c.client.pause = Some(Nanos::from_micros(300));
        })])
    };
    assert!(pausing(840).reasons.is_empty());
    speaks(&pausing(860), "client_lag", TrustVerdict::Doubtful);
    // The p99 of 50 events is their maximum: no reason yet.
    assert!(
        judged(&[closed(|c| c.client.lag = Some(lag(2800, 50)))])
            .reasons
            .is_empty()
    );
}

#[test]
fn the_same_reason_in_several_cells_is_given_once_for_the_worst() {
    let late = |us| closed(|c| c.client.lag = Some(lag(us, 1000)));
    let trust = judged(&[late(600), late(900), late(700)]);
    assert_eq!(trust.reasons.len(), 1);
    assert!(
        trust.reasons[0].message.contains("900 µs")
            && trust.reasons[0].message.contains("2 other cells")
    );
}

fn lateness(p99_us: f64) -> Distribution {
    let value = p99_us * 1e3;
    Distribution {
        unit: Unit::Ns,
        n: 1000,
        effective_n: None,
        mean: value / 2.0,
        mean_interval: None,
        sd: None,
        cov: None,
        min: 0.0,
        max: value,
        quantiles: vec![Quantile {
            q: 0.99,
            value,
            interval: None,
            few_samples: false,
            other_end: None,
        }],
        with_failures: None,
        bounded_share: None,
        resolution: None,
    }
}

#[test]
fn lateness_counts_in_an_open_loop_only() {
    let late =
        |us: f64| move |c: &mut CellRecord| drop(c.metrics.insert(Metric::Lateness, lateness(us)));
    assert!(judged(&[open(late(990.0))]).reasons.is_empty());
    speaks(
        &judged(&[open(late(1100.0))]),
        "lateness",
        TrustVerdict::Doubtful,
    );
    speaks(
        &judged(&[open(late(60_000.0))]),
        "lateness",
        TrustVerdict::Untrusted,
    );
    assert!(judged(&[closed(late(60_000.0))]).reasons.is_empty());
}

#[test]
fn an_offered_rate_below_the_requested_one_counts_beyond_chance() {
    let offer = |rate: f64, n: u64, constant: bool| {
        move |c: &mut CellRecord| {
            c.plan.offered_rate_per_s = Some(rate);
            c.plan.requests = n;
            if let (Load::Open { arrival, .. }, true) = (&mut c.load, constant) {
                *arrival = bench_schema::ArrivalKind::Constant;
            }
        }
    };
    speaks(
        &judged(&[open(offer(19.7, 100, true))]),
        "offered_rate",
        TrustVerdict::Doubtful,
    );
    speaks(
        &judged(&[open(offer(10.0, 100, true))]),
        "offered_rate",
        TrustVerdict::Untrusted,
    );
    // 100 Poisson gaps are within a few percent of their mean by chance.
    assert!(judged(&[open(offer(19.0, 100, false))]).reasons.is_empty());
    speaks(
        &judged(&[open(offer(19.0, 100_000, false))]),
        "offered_rate",
        TrustVerdict::Doubtful,
    );
}

#[test]
fn bounded_stamps_count_by_how_far_they_move_a_number() {
    let moved = |share: f64| {
        closed(|c| {
            c.client.stamps = Some(StampRecord {
                n: 1000,
                bounded: 900,
                width_p50: Some(Nanos::from_millis(5)),
                width_p99: None,
            });
            let itl = c.metrics.get_mut(&Metric::Itl).unwrap();
            itl.quantiles[0].other_end = Some(itl.quantiles[0].value * (1.0 + share));
        })
    };
    assert!(judged(&[moved(0.05)]).reasons.is_empty());
    speaks(
        &judged(&[moved(0.2)]),
        "bounded_stamps",
        TrustVerdict::Doubtful,
    );
    speaks(
        &judged(&[moved(0.8)]),
        "bounded_stamps",
        TrustVerdict::Untrusted,
    );
}

#[test]
fn waiting_for_a_core_counts_unless_the_kernel_stamped_meanwhile() {
    let waiting = |with_lag: bool| {
        closed(|c| {
            c.client.run_queue_wait = Some(0.4);
            c.client.lag = with_lag.then(|| lag(100, 1000));
            c.windows.whole.as_mut().unwrap().seconds = 10.0;
        })
    };
    assert!(judged(&[waiting(true)]).reasons.is_empty());
    speaks(
        &judged(&[waiting(false)]),
        "run_queue",
        TrustVerdict::Doubtful,
    );
}

#[test]
fn without_kernel_stamps_a_client_that_is_not_observed_is_doubtful_and_an_idle_one_is_not() {
    let no_facts = BTreeMap::new();
    let clock = clock(ClockKind::ReadReturn);
    let facts = TrustFacts::of(&clock, &no_facts);
    speaks(
        &trust(&facts, &[closed(|_| ())]),
        "no_kernel_stamps",
        TrustVerdict::Doubtful,
    );
    let idle = closed(|c| c.client.busiest_worker = Some(0.1));
    assert!(trust(&facts, &[idle]).reasons.is_empty());
}

#[test]
fn counts_that_do_not_add_up_and_cells_without_an_answer_are_untrusted() {
    let lost = closed(|c| c.counts.completed -= 1);
    speaks(&judged(&[lost]), "counts", TrustVerdict::Untrusted);
    let dead = closed(|c| {
        c.counts.failed = c.counts.completed;
        c.counts.completed = 0;
        c.counts.messages = vec![("connection refused".to_owned(), 100)];
    });
    let trust = judged(&[dead]);
    speaks(&trust, "nothing_measured", TrustVerdict::Untrusted);
    assert!(trust.reasons[0].message.contains("connection refused"));
}

/// A change of one cell.
type Change = fn(&mut CellRecord);

#[test]
fn a_trend_a_clock_step_a_busy_core_and_a_thief_are_doubtful() {
    let cases: [(&str, Change); 6] = [
        ("not_stationary", |c| {
            c.windows.stationarity = Some(Stationarity {
                stationary: Some(false),
                reason: "E2E rises".to_owned(),
            });
        }),
        ("clock_step", |c| {
            c.client.clock_step = Some(Nanos::from_millis(-5));
        }),
        ("client_cpu", |c| c.client.busiest_worker = Some(0.95)),
        ("steal", |c| c.client.steal = Some(0.2)),
        ("in_flight_cap", |c| c.client.cap_hits = 3),
        ("client_throttled", |c| {
            let mut hardware = bench_schema::HardwareSummary::default();
            let held = Quantity {
                value: 0.05,
                unit: Unit::Ratio,
                interval: None,
            };
            hardware
                .derived
                .insert("client_throttled_share".to_owned(), held);
            c.hardware = Some(hardware);
        }),
    ];
    for (code, change) in cases {
        speaks(&judged(&[closed(change)]), code, TrustVerdict::Doubtful);
    }
}

#[test]
fn single_requests_tell_of_short_answers_wrong_prompts_and_a_warm_cache() {
    let told = |facts: CellFacts| BTreeMap::from([("c8".to_owned(), facts)]);
    let clock = clock(ClockKind::Kernel);
    let judge = |facts: CellFacts, ignore_eos: bool| {
        let cells = told(facts);
        trust(
            &TrustFacts {
                ignore_eos,
                ..TrustFacts::of(&clock, &cells)
            },
            &[closed(|_| ())],
        )
    };
    let short = CellFacts {
        answers_counted: 100,
        answers_short: 5,
        ..CellFacts::default()
    };
    speaks(
        &judge(short.clone(), true),
        "short_answers",
        TrustVerdict::Doubtful,
    );
    assert!(judge(short, false).reasons.is_empty());
    let prompts = |known| CellFacts {
        prompt_asked: Some(100.0),
        prompt_known: Some(known),
        prompt_by_server: true,
        ..CellFacts::default()
    };
    // A chat template of 30 tokens is no mistake; a third of the prompt missing is.
    assert!(judge(prompts(130.0), false).reasons.is_empty());
    speaks(
        &judge(prompts(66.0), false),
        "prompt_length",
        TrustVerdict::Doubtful,
    );
    let warm = CellFacts {
        cached_share: Some(0.5),
        ..CellFacts::default()
    };
    speaks(&judge(warm, false), "warm_cache", TrustVerdict::Doubtful);
}

#[test]
fn too_few_samples_count_only_behind_a_quantile_that_was_asked_for() {
    let few = closed(|c| {
        let e2e = c.metrics.get_mut(&Metric::E2e).unwrap();
        e2e.n = 70;
        e2e.quantiles
            .iter_mut()
            .for_each(|q| q.few_samples = q.q > 0.9);
    });
    assert!(judged(std::slice::from_ref(&few)).reasons.is_empty());
    let (clock, none) = (clock(ClockKind::Kernel), BTreeMap::new());
    let asked = [(Metric::E2e, 0.95)];
    let trust = trust(
        &TrustFacts {
            asked_quantiles: &asked,
            ..TrustFacts::of(&clock, &none)
        },
        &[few],
    );
    speaks(&trust, "few_samples", TrustVerdict::Doubtful);
    assert!(
        trust.reasons[0]
            .message
            .contains("70 values, 200 are needed")
    );
}

#[test]
fn a_run_that_was_cut_short_says_why() {
    let (clock, none) = (clock(ClockKind::Kernel), BTreeMap::new());
    let facts = TrustFacts {
        complete: false,
        incomplete_reason: Some("interrupted"),
        ..TrustFacts::of(&clock, &none)
    };
    let trust = trust(&facts, &[]);
    speaks(&trust, "incomplete", TrustVerdict::Doubtful);
    assert!(trust.reasons[0].message.contains("interrupted"));
}
