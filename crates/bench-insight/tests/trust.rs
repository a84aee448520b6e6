//! Each trust rule: silent below its threshold, and on a quick run; speaking above it, with its number.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use crate::load;
use std::collections::BTreeMap;

use bench_insight::{CellFacts, Outage, TrustFacts, trust};
use bench_schema::{
    CellRecord, Channel, ClockKind, ClockRecord, Distribution, Event, EventLog, Exchange,
    FailureKind, Interval, LagRecord, Load, Metric, Nanos, Outcome, Quantile, Quantity,
    RequestRecord, Stage, Stamp, StampRecord, Stationarity, TokenSource, Trust, TrustVerdict, Unit,
    Usage,
};

fn clock(arrival: ClockKind) -> ClockRecord {
    ClockRecord {
        arrival,
        fallback_reason: None,
        monotonic_epoch_ns: None,
        unix_epoch_ns: None,
        met: Vec::new(),
        meeting: None,
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
    assert!(reason.next.is_some(), "no next step: {}", reason.message);
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
fn with_exact_kernel_stamps_the_client_s_lag_and_waiting_move_nothing() {
    let late = closed(|cell| {
        cell.client.lag = Some(lag(30_000, 1000));
        cell.client.run_queue_wait = Some(0.3);
        cell.client.busiest_worker = Some(0.2);
    });
    let trust = judged(&[late]);
    assert_eq!(trust.verdict, TrustVerdict::Trusted, "{:?}", trust.reasons);
}

#[test]
fn a_cell_of_too_few_requests_for_its_median_is_doubtful() {
    let of = |n: u64, concurrency: u32| {
        let cell = closed(|cell| {
            cell.counts.planned = n;
            cell.counts.completed = n;
            cell.load = Load::closed(concurrency);
        });
        judged(&[cell])
    };
    speaks(&of(12, 8), "few_samples", TrustVerdict::Doubtful);
    assert!(of(20, 8).reasons.is_empty());
    // One at a time does not depend on the one before: fifteen repeats of one request are enough.
    assert!(of(15, 1).reasons.is_empty());
    speaks(&of(5, 1), "few_samples", TrustVerdict::Doubtful);
}

#[test]
fn the_same_reason_in_several_cells_is_given_once_for_the_worst() {
    let busy = |id: &str, share| {
        closed(|c| {
            c.id = id.to_owned();
            c.client.busiest_worker = Some(share);
        })
    };
    let cells = [("a", 0.92), ("b", 0.99), ("c", 0.95), ("d", 0.5)];
    let trust = judged(&cells.map(|(id, share)| busy(id, share)));
    assert_eq!(trust.reasons.len(), 1);
    let verdicts = cells.map(|(id, _)| trust.of_cell(id));
    let (doubtful, trusted) = (TrustVerdict::Doubtful, TrustVerdict::Trusted);
    assert_eq!(verdicts, [doubtful, doubtful, doubtful, trusted]);
    assert!(
        trust.reasons[0].message.contains("99 %")
            && trust.reasons[0].message.contains("2 other cells")
    );
}

#[test]
fn requests_without_an_answer_count_by_their_share_whatever_the_stage() {
    let lost = |failed: u64, unsent: u64| {
        closed(|c| {
            c.counts.planned = 1000;
            c.counts.completed = 1000 - failed - unsent;
            c.counts.failed = failed;
            c.counts.unsent = unsent;
            c.counts.messages = vec![("connection refused".to_owned(), failed)];
        })
    };
    assert!(judged(&[lost(10, 0)]).reasons.is_empty());
    speaks(&judged(&[lost(6, 6)]), "failures", TrustVerdict::Doubtful);
    let half = judged(&[lost(500, 0)]);
    speaks(&half, "failures", TrustVerdict::Untrusted);
    insta::assert_snapshot!(half.reasons[0].sentence(), @"500 of 1,000 requests got no complete response (50 %, limit 10 %): 500× “connection refused”; find the cause (see the server's log at those times), then measure again: rates and latencies cover only the requests that completed");
    // What the client ended on purpose is no failure.
    let ended = closed(|c| {
        c.counts.cancelled = c.counts.completed / 2;
        c.counts.completed -= c.counts.cancelled;
    });
    assert!(judged(&[ended]).reasons.is_empty());
}

#[test]
fn a_run_that_measured_nothing_is_untrusted_and_one_that_was_cut_short_after_that_doubtful() {
    let nothing = closed(|c| c.counts = bench_schema::Counts::default());
    speaks(
        &judged(std::slice::from_ref(&nothing)),
        "nothing_planned",
        TrustVerdict::Untrusted,
    );
    speaks(&judged(&[]), "nothing_planned", TrustVerdict::Untrusted);
    let (clock, none) = (clock(ClockKind::Kernel), BTreeMap::new());
    let cut = TrustFacts {
        complete: false,
        incomplete_reason: Some("ended by Ctrl-C"),
        ..TrustFacts::of(&clock, &none)
    };
    let before = trust(&cut, std::slice::from_ref(&nothing));
    speaks(&before, "incomplete", TrustVerdict::Untrusted);
    let said = before.reasons[0].sentence();
    assert!(
        said.contains("ended by Ctrl-C") && said.contains("run it again"),
        "{said}"
    );
    let after = trust(&cut, &[closed(|_| ()), nothing]);
    assert_eq!(after.verdict, TrustVerdict::Doubtful);
}

#[test]
fn slots_that_stand_idle_make_a_closed_loop_lighter_than_it_says() {
    let idle = |share: f64| {
        closed(|c| {
            let from_sent = c.metrics[&Metric::E2e].clone();
            let mut from_due = from_sent.clone();
            from_due.mean = from_sent.mean / (1.0 - share);
            c.metrics.insert(Metric::E2eDue, from_due);
        })
    };
    assert!(judged(&[idle(0.009)]).reasons.is_empty());
    speaks(&judged(&[idle(0.02)]), "slots_idle", TrustVerdict::Doubtful);
    speaks(&judged(&[idle(0.2)]), "slots_idle", TrustVerdict::Untrusted);
    // the same time, with the request ready and its connection full
    let cell = idle(0.2);
    let waited = cell.metrics[&Metric::E2eDue].mean - cell.metrics[&Metric::E2e].mean;
    let facts = CellFacts {
        to_send: Nanos::from_secs_f64(0.9e-9 * waited),
        ..CellFacts::default()
    };
    let (clock, cells) = (
        clock(ClockKind::Kernel),
        BTreeMap::from([("c8".to_owned(), facts)]),
    );
    let full = trust(&TrustFacts::of(&clock, &cells), std::slice::from_ref(&cell));
    speaks(&full, "connection_full", TrustVerdict::Untrusted);
    assert!(
        full.reasons
            .iter()
            .all(|reason| reason.code != "slots_idle")
    );
    // no other request was there that could have filled it
    let mut alone = cell;
    alone.windows.whole.as_mut().unwrap().peak_in_flight = 1;
    let own = trust(&TrustFacts::of(&clock, &cells), &[alone]);
    speaks(&own, "slots_idle", TrustVerdict::Untrusted);
    assert!(own.reasons.iter().all(|r| r.code != "connection_full"));
}

#[test]
fn what_users_of_conversations_think_is_no_idle_time_of_their_slots() {
    // 1 ms of an answer of 60 ms, in a cycle of 200 ms
    let cell = closed(|c| {
        let mut e2e = c.metrics[&Metric::E2e].clone();
        e2e.mean = 6e7;
        let due = Distribution {
            mean: 6.1e7,
            ..e2e.clone()
        };
        c.metrics.insert(Metric::E2e, e2e);
        c.metrics.insert(Metric::E2eDue, due);
        (c.counts.planned, c.counts.completed) = (400, 400);
        c.windows.whole.as_mut().unwrap().seconds = 10.0;
        c.load = Load::closed(8);
    });
    let (clock, turns) = (clock(ClockKind::Kernel), |later_turns| {
        let facts = CellFacts {
            later_turns,
            ..CellFacts::default()
        };
        BTreeMap::from([("c8".to_owned(), facts)])
    });
    let codes = |turns: &BTreeMap<String, CellFacts>| -> Vec<String> {
        let judged = trust(&TrustFacts::of(&clock, turns), std::slice::from_ref(&cell));
        judged.reasons.into_iter().map(|r| r.code).collect()
    };
    assert!(codes(&turns(false)).contains(&"slots_idle".to_owned()));
    assert!(!codes(&turns(true)).contains(&"slots_idle".to_owned()));
}

#[test]
fn a_connection_that_takes_no_more_is_told_in_an_open_loop_too() {
    let cell = open(|c| {
        let e2e = c.metrics[&Metric::E2e].clone();
        let due = Distribution {
            mean: 1.5 * e2e.mean,
            ..e2e
        };
        c.metrics.insert(Metric::E2eDue, due);
    });
    let waited = 0.5 * cell.metrics[&Metric::E2e].mean;
    let facts = CellFacts {
        to_send: Nanos::from_secs_f64(0.9e-9 * waited),
        ..CellFacts::default()
    };
    let (clock, cells) = (
        clock(ClockKind::Kernel),
        BTreeMap::from([("r20".to_owned(), facts)]),
    );
    let full = trust(&TrustFacts::of(&clock, &cells), &[cell]);
    speaks(&full, "connection_full", TrustVerdict::Untrusted);
}

#[test]
fn a_closed_loop_that_never_reaches_its_concurrency_is_not_measured_at_it() {
    let reached = |mean: f64, peak: u64, planned: u64| {
        closed(|c| {
            (c.windows.steady, c.load) = (None, Load::closed(8));
            c.groups.clear();
            let whole = c.windows.whole.as_mut().unwrap();
            whole.seconds = 20.0 * c.metrics[&Metric::E2e].max / 1e9;
            (whole.mean_in_flight, whole.peak_in_flight) = (mean, peak);
            (c.counts.planned, c.counts.completed) = (planned, planned);
        })
    };
    let silent = |cell: CellRecord| {
        let reasons = judged(&[cell]).reasons;
        assert!(reasons.iter().all(|r| r.code != "load_not_reached"));
    };
    let some = reached(6.5, 8, 200);
    silent(reached(7.7, 8, 200));
    let half = reached(1.8, 2, 60);
    let code = "load_not_reached";
    speaks(&judged(&[some]), code, TrustVerdict::Doubtful);
    speaks(
        &judged(std::slice::from_ref(&half)),
        code,
        TrustVerdict::Untrusted,
    );
    speaks(
        &judged(&[reached(3.0, 8, 4)]),
        code,
        TrustVerdict::Untrusted,
    );
    // a refusing server's slots wait
    silent(CellRecord {
        counts: bench_schema::Counts {
            completed: 50,
            ..half.counts.clone()
        },
        ..half
    });
}

#[test]
fn an_open_loop_whose_rate_is_known_to_no_better_than_a_tenth_is_doubtful() {
    let code = "rate_undecided";
    let of = |served: Option<f64>, low: f64, high: f64| {
        judged(&[open(|c| {
            let windows = [&mut c.windows.steady, &mut c.windows.whole];
            for rates in windows.into_iter().flatten() {
                rates.requests_per_s = Some(15.0);
                rates.requests_per_s_interval = bench_metrics::interval(
                    &bench_metrics::Estimate::bounded(15.0, low, high, 0.95),
                );
                rates.offered_requests_per_s = Some(20.0);
                rates.served_requests_per_s = served;
            }
        })])
    };
    let told = of(None, 14.9, 20.0);
    speaks(&told, code, TrustVerdict::Doubtful);
    let words = &told
        .reasons
        .iter()
        .find(|r| r.code == code)
        .unwrap()
        .message;
    assert!(
        words.contains("15.0 requests/s were served") && words.contains("20.0 were offered"),
        "{words}"
    );
    // Of whatever kind it is, by its farther end: the lower one too.
    speaks(&of(Some(15.0), 14.9, 20.0), code, TrustVerdict::Doubtful);
    speaks(&of(Some(15.0), 13.0, 15.0), code, TrustVerdict::Doubtful);
    for known in [of(Some(15.0), 14.0, 16.0), of(None, 14.0, 16.4)] {
        assert!(known.reasons.iter().all(|r| r.code != code));
    }
}

#[test]
fn an_open_loop_whose_answers_outlast_it_is_not_measured_at_its_rate() {
    let code = "load_not_reached";
    let of = |rate: Option<f64>| {
        judged(&[open(|c| {
            let windows = [&mut c.windows.steady, &mut c.windows.whole];
            for rates in windows.into_iter().flatten() {
                rates.requests_per_s = rate;
            }
        })])
    };
    speaks(&of(None), code, TrustVerdict::Doubtful);
    assert!(of(Some(20.0)).reasons.iter().all(|r| r.code != code));
}

#[test]
fn a_client_that_stood_still_makes_the_rate_of_a_closed_loop_too_low() {
    let still = |ms: i64| {
        closed(|c| {
            c.windows.whole.as_mut().unwrap().seconds = 10.0;
            c.client.lag = Some(lag(10, 1000));
            c.client.behind = Some(Nanos::from_millis(ms));
        })
    };
    let code = "stood_still";
    assert!(judged(&[still(200)]).reasons.is_empty());
    speaks(&judged(&[still(500)]), code, TrustVerdict::Doubtful);
    speaks(&judged(&[still(3300)]), code, TrustVerdict::Untrusted);
    // what never ends is read late all the time
    let late = closed(|c| {
        c.client.lag = Some(LagRecord {
            max: Nanos::from_millis(4000),
            ..lag(10, 1000)
        });
    });
    let reasons = judged(&[late]).reasons;
    assert!(reasons.iter().all(|r| r.code != code), "{reasons:?}");
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
            at_least: None,
            at_most: None,
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
fn lateness_that_moves_no_figure_by_two_hundredths_is_no_reason() {
    // a burst of 20 leaves within 1.53 ms
    let first_token = |ms: f64| {
        open(|c| {
            c.metrics.insert(Metric::Lateness, lateness(1_530.0));
            let mut ttft = lateness(ms * 1e3);
            ttft.quantiles[0].q = 0.5;
            c.metrics.insert(Metric::Ttft.from_origin(c.headline), ttft);
        })
    };
    assert!(judged(&[first_token(337.0)]).reasons.is_empty());
    let quick = judged(&[first_token(70.0)]);
    speaks(&quick, "lateness", TrustVerdict::Doubtful);
}

#[test]
fn a_client_with_a_core_to_spare_is_not_told_to_take_more_workers() {
    let said = |busiest, stolen| {
        let late = open(|c| {
            c.metrics.insert(Metric::Lateness, lateness(5_000.0));
            c.client.busiest_worker = Some(busiest);
            c.hardware = Some(derived("host_steal_share", stolen));
        });
        let trust = judged(&[late]);
        let reason = trust.reasons.iter().find(|r| r.code == "lateness").unwrap();
        reason.sentence()
    };
    assert!(said(0.9, 0.05).contains("more workers"));
    assert!(said(0.1, 0.05).contains("the hypervisor gave 5.0 %"));
    assert!(said(0.1, 0.0).contains("slow to wake it"));
}

#[test]
fn requests_that_are_due_at_one_instant_are_late_because_they_are_sent_one_after_another() {
    // every second 100 requests are due at once; each takes 40 µs to send, the first leaves so late, and before the middle one nothing runs for so long
    let said = |first_us: i64, pause_us: i64| {
        let at = |us: i64| Stamp::EPOCH + Nanos::from_micros(us);
        let sent = |i: i64| 40 * (i + 1) + first_us + if i < 50 { 0 } else { pause_us };
        let record = |burst: i64, i: i64| {
            let due = 1_000_000 * burst;
            let mut wire = Exchange::nothing(Outcome::Completed);
            wire.sent = Some(at(due + sent(i)));
            wire.events.push(Event {
                at: at(due + sent(i) + 5_000),
                lag: Some(Nanos::ZERO),
                bound: Nanos::ZERO,
                tokens: None,
                channel: Channel::Answer,
            });
            let id = u64::try_from(100 * burst + i).unwrap();
            RequestRecord {
                due: at(due),
                ..RequestRecord::bare(id, "r20", wire)
            }
        };
        let records: Vec<_> = (0..6)
            .flat_map(|b| (0..100).map(move |i| (b, i)))
            .map(|(b, i)| record(b, i))
            .collect();
        let cells = BTreeMap::from([("r20".to_owned(), CellFacts::of(&records))]);
        let late = open(|c| {
            c.metrics.insert(Metric::Lateness, lateness(5_000.0));
            c.client.busiest_worker = Some(0.1);
        });
        let clock = clock(ClockKind::Kernel);
        let trust = trust(&TrustFacts::of(&clock, &cells), &[late]);
        let reason = trust.reasons.into_iter().find(|r| r.code == "lateness");
        reason.unwrap().next.unwrap()
    };
    insta::assert_snapshot!(said(0, 0), @"up to 100 requests are due at the same instant, and the client sends them one after another, 40.0 µs each: use more workers (`--workers`) or smaller bursts");
    // it was woken late, or stopped meanwhile
    assert!(said(3_000, 0).contains("slow to wake it"));
    assert!(said(0, 10_000).contains("slow to wake it"));
}

#[test]
fn fewer_requests_a_second_than_the_plan_has_count_and_the_plan_s_own_rate_does_not() {
    let offer = |sent: f64, planned: f64| {
        open(move |c: &mut CellRecord| {
            c.plan.offered_rate_per_s = Some(sent);
            let whole = c.windows.whole.as_mut().unwrap();
            whole.offered_requests_per_s = Some(planned);
            whole.served_requests_per_s = Some(sent);
        })
    };
    speaks(
        &judged(&[offer(19.7, 20.0)]),
        "offered_rate",
        TrustVerdict::Doubtful,
    );
    let half = judged(&[offer(10.0, 20.0)]);
    speaks(&half, "offered_rate", TrustVerdict::Untrusted);
    // A ramp's or a short Poisson plan's rate is not the one asked for; all of it was sent.
    assert!(judged(&[offer(16.7, 16.7)]).reasons.is_empty());
    let late = judged(&[offer(16.0, 16.7)]);
    assert!(
        late.reasons[0]
            .message
            .contains("requests/s (20.0 were requested)"),
        "{:?}",
        late.reasons
    );
}

#[test]
fn requests_that_the_cap_left_unsent_are_named_as_such_and_the_shortfall_is_of_the_others() {
    let capped = open(|c| {
        c.plan.offered_rate_per_s = Some(33.0);
        let whole = c.windows.whole.as_mut().unwrap();
        (whole.offered_requests_per_s, whole.seconds) = (Some(100.0), 2.0);
        (c.counts.planned, c.counts.completed, c.counts.unsent) = (200, 77, 123);
        c.client.cap_hits = 123;
    });
    let trust = judged(&[capped]);
    let of = |code: &str| {
        let reason = trust.reasons.iter().find(|reason| reason.code == code);
        reason.unwrap().sentence()
    };
    insta::assert_snapshot!(of("offered_rate"), @"only 33.0 of 38.5 requests/s (the planned 100 without the 123 requests that were left unsent) were sent, a shortfall of 5.5 % (limit 1.0 %); use more workers (`--workers`), a higher in-flight cap, or a lower rate");
    insta::assert_snapshot!(of("failures"), @"123 of 200 requests got no complete response (62 %, limit 10 %); 123 of them were not sent because the in-flight cap was reached; raise the in-flight cap, or treat the cell as an overload: rates and latencies cover only the requests that completed");
}

#[test]
fn requests_that_were_late_because_they_were_not_generated_are_not_put_down_to_the_machine() {
    let late = open(|c| {
        c.metrics.insert(Metric::Lateness, lateness(5_000.0));
        c.client.busiest_worker = Some(0.1);
        c.client.run_queue_wait = Some(0.05);
        c.client.starved = Some(c.counts.planned / 2);
    });
    let trust = judged(&[late]);
    for code in ["lateness", "starved"] {
        let reason = trust.reasons.iter().find(|reason| reason.code == code);
        let next = reason.unwrap().next.clone().unwrap();
        assert!(next.contains("not generated fast enough"), "{code}: {next}");
    }
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
            itl.quantiles[0].at_least = Some(itl.quantiles[0].value * (1.0 - share));
        })
    };
    assert!(judged(&[moved(0.015)]).reasons.is_empty());
    speaks(
        &judged(&[moved(0.05)]),
        "bounded_stamps",
        TrustVerdict::Doubtful,
    );
    let far = judged(&[moved(0.4)]);
    speaks(&far, "bounded_stamps", TrustVerdict::Untrusted);
    insta::assert_snapshot!(far.reasons[0].sentence(), @"ITL p50 may be off by 40 % (limit 10 %): 900 of 1,000 tokens were read together with later bytes, so their arrival is known only within an interval, 5.00 ms wide at the median; give the client a dedicated core, fewer streams per worker (`--workers`), or its own machine");
}

#[test]
fn a_quantile_of_few_samples_counts_where_its_stamps_leave_much_of_it_open() {
    let open = |n: u64, share: f64| {
        judged(&[closed(|c| {
            c.client.stamps = Some(StampRecord {
                n: 10_000,
                bounded: 40,
                width_p50: Some(Nanos::from_micros(200)),
                width_p99: None,
            });
            c.client.lag = Some(lag(30, 1000));
            c.client.run_queue_wait = Some(0.3);
            let ttft = c.metrics.get_mut(&Metric::Ttft).unwrap();
            ttft.n = n;
            let p95 = ttft.quantiles.iter_mut().find(|entry| entry.q > 0.9);
            let p95 = p95.unwrap();
            (p95.few_samples, p95.interval) = (true, None);
            p95.at_least = Some(p95.value * (1.0 - share));
        })])
    };
    // what does not count makes no waiting of the client count either
    assert!(open(150, 0.015).reasons.is_empty());
    speaks(&open(150, 0.03), "bounded_stamps", TrustVerdict::Doubtful);
    speaks(&open(150, 0.3), "bounded_stamps", TrustVerdict::Doubtful);
    speaks(&open(150, 0.6), "bounded_stamps", TrustVerdict::Untrusted);
}

#[test]
fn what_the_stamps_leave_open_is_a_part_of_the_quantile_itself_unless_tokens_come_together() {
    let median = |of_mean: f64, open: f64| {
        closed(|c| {
            c.client.stamps = Some(StampRecord {
                n: 1000,
                bounded: 900,
                width_p50: Some(Nanos::from_micros(50)),
                width_p99: None,
            });
            let itl = c.metrics.get_mut(&Metric::Itl).unwrap();
            let value = of_mean * itl.mean;
            let open = value + open * itl.mean;
            (itl.quantiles[0].value, itl.quantiles[0].at_most) = (value, Some(open));
        })
    };
    // 3 % of a median that is a third of the mean, as with speculative decoding
    speaks(
        &judged(&[median(0.33, 0.01)]),
        "bounded_stamps",
        TrustVerdict::Doubtful,
    );
    speaks(
        &judged(&[median(0.33, 0.04)]),
        "bounded_stamps",
        TrustVerdict::Untrusted,
    );
    // half of the tokens come with the one before
    for together in [median(0.0, 0.015), median(0.01, 0.015)] {
        assert!(judged(&[together]).reasons.is_empty());
    }
    speaks(
        &judged(&[median(0.01, 0.03)]),
        "bounded_stamps",
        TrustVerdict::Doubtful,
    );
}

#[test]
fn a_quantile_between_two_kinds_is_not_moved_by_the_few_stamps_that_are_wide() {
    // Half of 200 answers are quick, half slow: their median is anywhere between, by chance as by one wide stamp.
    let between = |width_ms: i64, low: f64| {
        closed(|c| {
            c.client.stamps = Some(StampRecord {
                n: 10_000,
                bounded: 40,
                width_p50: Some(Nanos::from_micros(200)),
                width_p99: Some(Nanos::from_millis(width_ms)),
            });
            let e2e = c.metrics.get_mut(&Metric::E2e).unwrap();
            (e2e.n, e2e.bounded_share) = (200, Some(0.1));
            let median = &mut e2e.quantiles[0];
            median.at_least = Some(0.8 * median.value);
            median.interval = Some(Interval {
                low: low * median.value,
                high: 1.2 * median.value,
                confidence: 0.95,
            });
        })
    };
    assert!(judged(&[between(3, 0.75)]).reasons.is_empty());
    for counts in [between(3, 0.9), between(10_000, 0.75)] {
        let judged = judged(&[counts]);
        speaks(&judged, "bounded_stamps", TrustVerdict::Untrusted);
    }
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
fn without_kernel_stamps_each_one_is_judged_by_when_the_client_was_woken() {
    let no_facts = BTreeMap::new();
    let clock = clock(ClockKind::ReadReturn);
    let facts = TrustFacts::of(&clock, &no_facts);
    let off_by = |share: f64, bounded: u64| {
        closed(|c| {
            c.client.lag = None;
            // busy, and read all the same at once
            (c.client.busiest_worker, c.client.run_queue_wait) = (Some(0.8), Some(0.2));
            c.windows.whole.as_mut().unwrap().seconds = 10.0;
            c.client.stamps = Some(StampRecord {
                n: 1000,
                bounded,
                width_p50: Some(Nanos::from_micros(40)),
                width_p99: Some(Nanos::from_millis(2)),
            });
            let itl = c.metrics.get_mut(&Metric::Itl).unwrap();
            itl.quantiles[0].at_most = Some(itl.quantiles[0].value * (1.0 + share));
        })
    };
    let near = trust(&facts, &[off_by(0.01, 1000)]);
    assert!(near.reasons.is_empty(), "{:?}", near.reasons);
    let stopped = trust(&facts, &[off_by(0.05, 1000)]);
    speaks(&stopped, "bounded_stamps", TrustVerdict::Doubtful);
    let far = trust(&facts, &[off_by(0.3, 1000)]);
    speaks(&far, "bounded_stamps", TrustVerdict::Untrusted);
    let told = far.reasons[0].sentence();
    assert!(
        told.contains("1,000 of 1,000 tokens have the time of the client's read")
            && !told.contains("together"),
        "{told}"
    );
    // some of which nobody knows how late they were read
    let unknown = trust(&facts, &[off_by(0.01, 900)]);
    speaks(&unknown, "no_kernel_stamps", TrustVerdict::Doubtful);
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
    // the server was dead when the second cell was warmed up
    let never = closed(|c| {
        c.id = "c16".to_owned();
        c.counts = bench_schema::Counts {
            warmup: 10,
            ..bench_schema::Counts::default()
        };
        c.ended_early = Some("10 had failed (connection refused)".to_owned());
    });
    let trust = judged(&[closed(|_| {}), never]);
    speaks(&trust, "nothing_measured", TrustVerdict::Untrusted);
    let mut reasons = trust.reasons.iter();
    let told = reasons.find(|reason| reason.code == "nothing_measured");
    assert!(told.is_some_and(|told| told.message.ends_with("10 had failed (connection refused)")));
    assert_eq!(trust.of_cell("c8"), TrustVerdict::Trusted);
    // stopped on purpose after their first tokens, all of them: their TTFT is measured
    let stopped = closed(|c| (c.counts.cancelled, c.counts.completed) = (c.counts.completed, 0));
    let answered = BTreeMap::from([("c8".to_owned(), CellFacts::default())]);
    let kernel = clock(ClockKind::Kernel);
    let judged = bench_insight::trust(&TrustFacts::of(&kernel, &answered), &[stopped]);
    let nothing = judged.reasons.iter().any(|r| r.code == "nothing_measured");
    assert!(!nothing, "{:?}", judged.reasons);
    // and those that failed beside them are failures
    let dying = closed(|c| {
        c.counts.failed = c.counts.completed / 4;
        (c.counts.cancelled, c.counts.completed) = (c.counts.completed - c.counts.failed, 0);
    });
    let judged = bench_insight::trust(&TrustFacts::of(&kernel, &answered), &[dying]);
    speaks(&judged, "failures", TrustVerdict::Untrusted);
}

/// A change of one cell.
type Change = fn(&mut CellRecord);

/// Readings that come to one share.
fn derived(name: &str, share: f64) -> bench_schema::HardwareSummary {
    let mut hardware = bench_schema::HardwareSummary::default();
    let share = Quantity {
        value: share,
        unit: Unit::Ratio,
        interval: None,
    };
    hardware.derived.insert(name.to_owned(), share);
    hardware
}

#[test]
fn a_trend_a_clock_step_a_busy_core_and_a_thief_are_doubtful() {
    let cases: [(&str, Change); 7] = [
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
        ("steal", |c| {
            c.hardware = Some(derived("host_steal_share", 0.2));
        }),
        ("in_flight_cap", |c| c.client.cap_hits = 3),
        ("starved", |c| {
            c.client.starved = Some(c.counts.planned / 20);
        }),
        ("client_throttled", |c| {
            c.hardware = Some(derived("client_throttled_share", 0.05));
        }),
    ];
    for (code, change) in cases {
        speaks(&judged(&[closed(change)]), code, TrustVerdict::Doubtful);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case after another")]
fn single_requests_tell_of_short_answers_wrong_prompts_and_a_warm_cache() {
    let told_of = |facts: CellFacts| BTreeMap::from([("c8".to_owned(), facts)]);
    let clock = clock(ClockKind::Kernel);
    let judge = |facts: CellFacts, ignore_eos: bool| {
        let cells = told_of(facts);
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
    let long = CellFacts {
        answers_counted: 100,
        answers_long: 50,
        ..CellFacts::default()
    };
    speaks(&judge(long, false), "tokens_told", TrustVerdict::Untrusted);
    let told = |tokens_told| CellFacts {
        tokens_told,
        events: 800,
        ..CellFacts::default()
    };
    assert!(judge(told(810), false).reasons.is_empty());
    speaks(
        &judge(told(1600), false),
        "tokens_per_event",
        TrustVerdict::Doubtful,
    );
    let some = |tokens_missed| CellFacts {
        answers_counted: 100,
        answers_missed: 23,
        tokens_missed,
        ..told(800)
    };
    assert!(judge(some(32), true).reasons.is_empty());
    let missed = judge(some(230), true);
    speaks(&missed, "tokens_per_event", TrustVerdict::Untrusted);
    insta::assert_snapshot!(missed.reasons[0].sentence(), @"the server reported 230 tokens fewer than the content events of 23 responses (29 % of all content events, limit 10 %); if each chunk is a token, tokens/s and time per token are wrong by this; check with the model's own `--tokenizer`");
    let away = CellFacts {
        outage: Some(Outage {
            from: Nanos::from_secs(21),
            until: None,
            failed: 1900,
            refused: 0,
            of_one_endpoint: false,
        }),
        ..CellFacts::default()
    };
    let cells = told_of(away);
    let dead = closed(|c| {
        c.counts.planned = 4000;
        c.counts.completed = 2100;
        c.counts.failed = 1900;
    });
    // the slots of a closed loop wait while nobody answers: from 21 s on of 31.5 s, and few are lost
    let waited = closed(|c| {
        c.counts.planned = 4000;
        c.counts.completed = 3980;
        c.counts.failed = 20;
        c.windows.whole.as_mut().unwrap().seconds = 31.5;
    });
    let waited = trust(&TrustFacts::of(&clock, &cells), &[waited]);
    speaks(&waited, "away", TrustVerdict::Untrusted);
    // four slots lose one request each to a server that falls silent for ever
    for (concurrency, failed, away) in [(4, 4, true), (4, 3, false), (1, 1, true), (8, 4, false)] {
        let cells = told_of(CellFacts {
            outage: Some(Outage {
                from: Nanos::from_millis(7_880),
                until: None,
                failed,
                refused: 0,
                of_one_endpoint: false,
            }),
            ..CellFacts::default()
        });
        let silent = closed(|c| {
            c.load = Load::closed(concurrency);
            (c.counts.planned, c.counts.completed) = (716, 716 - failed);
            c.counts.failed = failed;
            c.windows.whole.as_mut().unwrap().seconds = 10.88;
        });
        let reasons = trust(&TrustFacts::of(&clock, &cells), &[silent]).reasons;
        let told = reasons.iter().any(|reason| reason.code == "away");
        assert_eq!(told, away, "{concurrency} {failed}: {reasons:?}");
    }
    insta::assert_snapshot!(waited.reasons[0].sentence(), @"no request succeeded for 33 % of the cell (limit 10 %), starting 21.0 s after its start: rates and failure counts look too good, because few requests were sent in that time; find out why the server was down (see its log at that time), then measure again");
    let empty = told_of(CellFacts {
        answers_empty: 98,
        ..CellFacts::default()
    });
    let answered = closed(|c| (c.counts.planned, c.counts.completed) = (300, 300));
    let unserved = trust(&TrustFacts::of(&clock, &empty), &[answered]);
    speaks(&unserved, "empty_answers", TrustVerdict::Untrusted);
    let speak = |facts: CellFacts, code| {
        let answered = closed(|c| (c.counts.planned, c.counts.completed) = (300, 300));
        let cells = told_of(facts);
        speaks(
            &trust(&TrustFacts::of(&clock, &cells), &[answered]),
            code,
            TrustVerdict::Doubtful,
        );
    };
    let counted = CellFacts {
        answers_counted: 202,
        ..CellFacts::default()
    };
    speak(
        CellFacts {
            answers_untold: 98,
            ..counted
        },
        "tokens_untold",
    );
    speak(
        CellFacts {
            answers_by_text: 4,
            ..CellFacts::default()
        },
        "tokens_by_text",
    );
    speak(
        CellFacts {
            cancelled_unanswered: 105,
            ..CellFacts::default()
        },
        "cancelled_unanswered",
    );
    // three of four slots wait from the first second of eight on, for three failures of 724
    let refused = |thought: i64, backed_off| {
        let cells = told_of(CellFacts {
            later_turns: thought > 0,
            thought: Nanos::from_secs(thought),
            ..CellFacts::default()
        });
        let cell = closed(|c| {
            c.load = Load::closed(4);
            (c.counts.planned, c.counts.completed, c.counts.failed) = (724, 721, 3);
            c.counts.backed_off = backed_off;
            let whole = c.windows.whole.as_mut().unwrap();
            (whole.seconds, whole.mean_in_flight) = (8.0, 1.31);
        });
        trust(&TrustFacts::of(&clock, &cells), &[cell])
    };
    speaks(&refused(0, 3), "backed_off", TrustVerdict::Untrusted);
    assert!(
        refused(21, 3).reasons.is_empty(),
        "users think between turns"
    );
    speaks(&refused(10, 3), "backed_off", TrustVerdict::Untrusted);
    assert!(refused(0, 0).reasons.is_empty(), "none was rejected");
    let trust = trust(&TrustFacts::of(&clock, &cells), &[dead]);
    assert!(trust.reasons.iter().all(|reason| reason.code != "away"));
    insta::assert_snapshot!(trust.reasons[0].sentence(), @"1,900 of 4,000 requests got no complete response (48 %, limit 10 %); none succeeded from 21.0 s after the start of the cell until it ended; find the cause (see the server's log at those times), then measure again: rates and latencies cover only the requests that completed");
}

fn event(at: Stamp) -> Event {
    Event {
        at,
        lag: Some(Nanos::ZERO),
        bound: Nanos::ZERO,
        tokens: None,
        channel: Channel::Answer,
    }
}

/// An answer of ten tokens, 50 ms apart, sent at `sent` ms; failed where it has none.
fn request(id: u64, sent: i64, answered: bool, frozen: std::ops::Range<i64>) -> RequestRecord {
    let at = |ms: i64| {
        let ms = if frozen.contains(&ms) { frozen.end } else { ms };
        Stamp::new(ms * 1_000_000)
    };
    let mut wire = Exchange::nothing(if answered {
        Outcome::Completed
    } else {
        Outcome::Failed {
            stage: Stage::Connect,
            failure: FailureKind::Refused,
            message: "connection refused".to_owned(),
        }
    });
    for token in (1..=10).filter(|_| answered) {
        wire.sent = Some(Stamp::new(sent * 1_000_000));
        wire.events.push(event(at(sent + 50 * token)));
    }
    RequestRecord {
        due: Stamp::new(sent * 1_000_000),
        dispatched: Some(Stamp::new(sent * 1_000_000)),
        asked_output_tokens: Some(10),
        output_tokens: answered.then_some(10),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id, "c8", wire)
    }
}

#[test]
fn answers_without_content_and_without_a_count_are_counted() {
    let mut all: Vec<RequestRecord> = (0..100)
        .map(|i| request(i, 1_000 * i64::try_from(i).unwrap(), true, 0..0))
        .collect();
    for record in &mut all[40..45] {
        record.output_tokens = None;
    }
    for record in &mut all[50..52] {
        record.wire.events = EventLog::default();
    }
    all[7].turn = Some(1);
    for record in &mut all {
        record.wire.connected = record.dispatched;
        record.wire.sent = record.dispatched.map(|at| at + Nanos::from_millis(3));
    }
    for record in &mut all[80..90] {
        record.wire.outcome = Outcome::Cancelled {
            reason: "after 1.00 s".to_owned(),
        };
    }
    all[80].wire.events = EventLog::default();
    let facts = CellFacts::of(&all);
    assert_eq!((facts.answers_untold, facts.answers_empty), (5, 2));
    let counted = facts.answers_counted;
    for record in &mut all[20..23] {
        (record.output_tokens, record.token_source) = (Some(9), TokenSource::Tokenizer);
    }
    let by_text = CellFacts::of(&all);
    assert_eq!(
        (by_text.answers_by_text, by_text.answers_counted),
        (3, counted - 3)
    );
    assert_eq!(by_text.answers_short, facts.answers_short);
    assert!(facts.later_turns);
    assert_eq!(facts.cancelled_unanswered, 1);
    assert_eq!(facts.to_send, Nanos::from_millis(3));
}

#[test]
fn answers_that_go_on_beyond_what_was_asked_until_something_ends_them_are_told() {
    let clock = clock(ClockKind::Kernel);
    // of a hundred answers of ten events each
    let judge = |of: &dyn Fn(u64) -> u64| {
        let all = (0..100).map(|i| {
            let mut record = request(i, 1_000 * i64::try_from(i).unwrap(), true, 0..0);
            record.wire.streamed = true;
            if of(i) != 10 {
                record.wire.outcome = Outcome::TimedOut {
                    stage: Stage::Stream,
                };
                record.wire.events = EventLog::default();
                for token in 0..of(i) {
                    let at = 50_000_000 * i64::try_from(token + 1).unwrap();
                    record.wire.events.push(event(Stamp::new(at)));
                }
            }
            record
        });
        let cells = BTreeMap::from([("c8".to_owned(), CellFacts::of(&all.collect::<Vec<_>>()))]);
        trust(&TrustFacts::of(&clock, &cells), &[closed(|_| ())])
    };
    let told = judge(&|i| if i == 7 { 742 } else { 10 });
    speaks(&told, "runaway_answers", TrustVerdict::Untrusted);
    insta::assert_snapshot!(told.reasons[0].sentence(), @"1 response did not end and went on for 732 content events beyond the requested `max_tokens` (42 % of all): tokens/s includes them (limit 10 %); find out what keeps these responses from ending (a stop token, a loop), and limit them on the server");
    let few = judge(&|i| if i == 7 { 40 } else { 10 });
    speaks(&few, "runaway_answers", TrustVerdict::Doubtful);
    // one that was cut within what was asked for, or a little beyond, is no such
    let cut = judge(&|i| if i == 7 { 18 } else { 10 });
    assert!(
        cut.reasons
            .iter()
            .all(|reason| reason.code != "runaway_answers")
    );
}

/// Of a hundred answers with ten events each and as many tokens asked for, changed before the server tells their count.
fn told_as(change: &dyn Fn(u64, &mut RequestRecord)) -> CellFacts {
    let all = (0..100).map(|i| {
        let mut record = request(i, 1_000 * i64::try_from(i).unwrap(), true, 0..0);
        record.wire.streamed = true;
        change(i, &mut record);
        record.wire.usage = Some(Usage {
            completion_tokens: record.output_tokens,
            ..Usage::default()
        });
        record
    });
    CellFacts::of(&all.collect::<Vec<_>>())
}

/// Answers and events that are missed, answers that are short, tokens told and events.
fn counted(facts: &CellFacts) -> ((u64, u64), u64, u64, u64) {
    let missed = (facts.answers_missed, facts.tokens_missed);
    (missed, facts.answers_short, facts.tokens_told, facts.events)
}

fn six_events() -> EventLog {
    let mut six = EventLog::default();
    for token in 1..=6 {
        six.push(event(Stamp::new(50_000_000 * token)));
    }
    six
}

#[test]
fn an_answer_whose_count_is_far_below_its_content_events_is_told_apart_from_a_short_one() {
    assert_eq!(counted(&told_as(&|_, _| ())), ((0, 0), 0, 1_000, 1_000));
    // all ten events came, and the server says five tokens
    let fewer = told_as(&|i, record| {
        if i < 23 {
            record.output_tokens = Some(5);
        }
    });
    assert_eq!(counted(&fewer), ((23, 115), 0, 885, 1_000));
    // six of ten events came, and the server says two tokens: both
    let both = told_as(&|i, record| {
        if i == 0 {
            record.wire.events = six_events();
            record.output_tokens = Some(2);
        }
    });
    assert_eq!(counted(&both), ((1, 4), 1, 992, 996));
    // a short answer with a true count, and one whose tokens came in pieces
    let short = told_as(&|i, record| {
        if i == 0 {
            record.wire.events = six_events();
            record.output_tokens = Some(6);
        }
        if i == 1 {
            record.output_tokens = Some(8);
        }
    });
    assert_eq!(counted(&short).0, (0, 0));
    assert_eq!(short.answers_short, 2);
}

#[test]
fn a_count_below_the_events_is_wrong_where_these_are_as_many_as_was_asked() {
    // the count is a little low in most answers, and as many events came as tokens were asked for
    let low = told_as(&|i, record| record.output_tokens = Some(if i % 8 == 0 { 9 } else { 8 }));
    assert_eq!(counted(&low), ((100, 187), 0, 813, 1_000));
    // so it is where a part of the answers comes from a server that counts in this way
    let part = told_as(&|i, record| {
        if i % 4 == 0 {
            record.output_tokens = Some(8);
        }
    });
    assert_eq!(counted(&part), ((25, 50), 0, 950, 1_000));
    // fewer events than asked for: their count may be true, and tokens come in pieces
    let pieces = told_as(&|i, record| {
        record.wire.events = six_events();
        record.output_tokens = Some(if i == 0 { 4 } else { 5 });
    });
    assert_eq!(counted(&pieces), ((1, 2), 100, 499, 600));
    // tokens that come several at a time, of answers that are short
    let bundled = told_as(&|_, record| {
        record.wire.events = six_events();
        record.output_tokens = Some(9);
    });
    assert_eq!(counted(&bundled), ((0, 0), 100, 900, 600));
}

#[test]
fn a_count_below_the_events_is_wrong_where_the_servers_own_counter_agrees_with_the_events() {
    let clock = clock(ClockKind::Kernel);
    let judge = |tokens_told: u64, counted: Option<f64>| {
        let facts = CellFacts {
            tokens_told,
            events: 1_000,
            ..CellFacts::default()
        };
        let cells = BTreeMap::from([("c8".to_owned(), facts)]);
        let cell = closed(|c| {
            if let Some(over) = counted {
                c.hardware = Some(derived("server_output_tokens_over_client", over));
            }
        });
        trust(&TrustFacts::of(&clock, &cells), &[cell])
    };
    let low = judge(800, Some(1.24));
    speaks(&low, "tokens_per_event", TrustVerdict::Untrusted);
    insta::assert_snapshot!(low.reasons[0].sentence(), @"the server reported 800 tokens for 1,000 content events, and its own metrics agree with the events (20 % fewer, limit 10 %); if each chunk is a token, tokens/s and time per token are wrong by this; check with the model's own `--tokenizer`");
    // pieces of tokens, and a server that serves somebody else too
    for (told, counted) in [
        (800, None),
        (800, Some(1.01)),
        (800, Some(1.6)),
        (980, Some(1.02)),
    ] {
        let reasons = judge(told, counted).reasons;
        assert!(reasons.is_empty(), "{told} {counted:?}: {reasons:?}");
    }
}

#[test]
fn a_server_that_goes_away_and_one_that_stands_still_are_found_with_their_times() {
    let of = |answered: &dyn Fn(i64) -> bool, frozen: std::ops::Range<i64>| {
        let all = (0..200_i64)
            .map(|i| request(i.unsigned_abs(), 100 * i, answered(100 * i), frozen.clone()));
        CellFacts::of(&all.collect::<Vec<_>>())
    };
    let healthy = of(&|_| true, 0..0);
    assert_eq!((healthy.outage, healthy.stall), (None, None));
    // Answers that are all stopped on purpose are answers.
    let stopped = (0..200_i64).map(|i| {
        let mut record = request(i.unsigned_abs(), 100 * i, i < 120, 0..0);
        if i < 120 {
            record.wire.outcome = Outcome::Cancelled {
                reason: "after 10 events".to_owned(),
            };
        }
        record
    });
    let dead = CellFacts::of(&stopped.collect::<Vec<_>>()).outage.unwrap();
    assert!((dead.from.as_secs_f64() - 12.4).abs() < 0.1, "{dead:?}");
    let dead = of(&|ms| ms < 12_000, 0..0).outage.unwrap();
    assert!((dead.from.as_secs_f64() - 12.4).abs() < 0.1, "{dead:?}");
    assert!(dead.until.is_none() && (70..=80).contains(&dead.failed));
    let flapped = of(&|ms| !(5_000..8_000).contains(&ms), 0..0)
        .outage
        .unwrap();
    assert!(
        (flapped.until.unwrap().as_secs_f64() - 8.0).abs() < 0.1,
        "{flapped:?}"
    );
    assert!((20..=30).contains(&flapped.failed));
    // Every tenth request hangs for two seconds; the last of them are over long after the last answer.
    let hang = |ids: std::ops::Range<i64>, hangs: &dyn Fn(i64) -> bool| {
        let all = ids.map(|i| {
            let mut record = request(i.unsigned_abs(), 25 * i, !hangs(i), 0..0);
            if hangs(i) {
                let sent = record.dispatched;
                (record.wire.sent, record.wire.connected) = (sent, sent);
                record.wire.outcome = Outcome::TimedOut {
                    stage: Stage::Whole,
                };
                record.wire.closed = sent.map(|sent| sent + Nanos::from_secs(2));
            }
            record
        });
        CellFacts::of(&all.collect::<Vec<_>>()).outage
    };
    let few = hang(0..160, &|i| i % 10 == 9);
    assert!(few.is_none_or(|outage| outage.failed < 5));
    // A server that hangs for good takes those in flight with it.
    let all = hang(0..160, &|i| i >= 120).unwrap();
    assert!(all.until.is_none() && all.failed >= 40, "{all:?}");
    let frozen = of(&|_| true, 10_000..13_000).stall.unwrap();
    assert!(
        (frozen.length.as_secs_f64() - 3.0).abs() < 0.15,
        "{frozen:?}"
    );
    assert!((frozen.from.as_secs_f64() - 10.0).abs() < 0.1, "{frozen:?}");
}

#[test]
fn a_server_that_stops_while_everybody_waits_for_a_first_token_stands_still() {
    // Answers of one token after 50 ms; two requests every 50 ms, and what is sent in the stop waits for its end.
    let of = |stop: std::ops::Range<i64>| {
        let sent = |i: i64| 50 * (i / 2);
        let all = (0..800_i64).filter(|i| !(stop.start + 100..stop.end).contains(&sent(*i)));
        let all = all.map(|i| {
            let mut record = request(i.unsigned_abs(), sent(i), true, stop.clone());
            let first = record.wire.events.first();
            record.wire.events = EventLog::default();
            record.wire.events.push(Event {
                at: first.unwrap(),
                lag: Some(Nanos::ZERO),
                bound: Nanos::ZERO,
                tokens: None,
                channel: Channel::Answer,
            });
            record
        });
        CellFacts::of(&all.collect::<Vec<_>>()).stall
    };
    assert_eq!(of(0..0), None);
    let stop = of(10_001..13_000).unwrap();
    assert!((stop.length.as_secs_f64() - 3.0).abs() < 0.1, "{stop:?}");
    assert!((stop.from.as_secs_f64() - 10.0).abs() < 0.1, "{stop:?}");
}

#[test]
fn a_server_that_reads_a_prompt_does_not_stand_still() {
    // Every 3 s an answer waits, after two tokens, for a prompt of 1.08 s.
    let of = |prompt: u64| {
        let pair = |k: i64| {
            let t = 3_000 * k;
            let mut waits = request(2 * k.unsigned_abs(), t, true, t + 101..t + 1_200);
            let mut reads = request(2 * k.unsigned_abs() + 1, t + 110, true, 0..t + 1_190);
            for (record, tokens) in [(&mut waits, 60), (&mut reads, prompt)] {
                record.wire.usage = Some(Usage {
                    prompt_tokens: Some(tokens),
                    ..Usage::default()
                });
            }
            [waits, reads]
        };
        CellFacts::of(&(0..20).flat_map(pair).collect::<Vec<_>>()).stall
    };
    assert_eq!(of(4_000), None);
    // As short a prompt takes 50 ms at other times.
    let stall = of(60).unwrap();
    assert!((stall.length.as_secs_f64() - 1.1).abs() < 0.02, "{stall:?}");
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
    // An objective that is met or missed is so whatever its quantile rests on.
    for (verdict, doubted) in [("pass", false), ("fail", false), ("cannot_tell", true)] {
        let mut asked = few.clone();
        asked.slos = vec![
            serde_json::from_value(serde_json::json!({
                "slo": {"metric": "e2e", "q": 0.95, "limit": 2e9}, "measured": 2e8, "attainment": 1.0, "verdict": verdict,
                "attainment_interval": {"low": 0.9, "high": 1.0, "confidence": 0.95},
            }))
            .unwrap(),
        ];
        let reasons = judged(&[asked]).reasons;
        assert_eq!(
            reasons.iter().any(|r| r.code == "few_samples"),
            doubted,
            "{verdict}"
        );
    }
    let (clock, none) = (clock(ClockKind::Kernel), BTreeMap::new());
    let asked = [(Metric::E2e, 0.95)];
    let again = few.clone();
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
            .contains("70 values; 200 are needed")
    );
    let next = |trust: &Trust| trust.reasons[0].next.clone().unwrap();
    assert!(next(&trust).contains("`--requests`"), "{}", next(&trust));
    // that program has other flags
    let of_grid = bench_insight::trust(
        &TrustFacts {
            asked_quantiles: &asked,
            program: bench_schema::Benchmark::Latency,
            ..TrustFacts::of(&clock, &none)
        },
        &[again],
    );
    let next = next(&of_grid);
    assert!(
        next.contains("`--repeat`") && !next.contains("--requests"),
        "{next}"
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
    let trust = trust(&facts, &[closed(|_| ())]);
    speaks(&trust, "incomplete", TrustVerdict::Doubtful);
    assert!(trust.reasons[0].message.contains("interrupted"));
}
