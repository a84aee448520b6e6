//! From records to a cell's aggregates.

use bench_metrics::{CellAccumulator, CellContext, CellSummary, summarise_cell};
use bench_schema::{
    ArrivalKind, Event, EventLog, FailureKind, Load, Metric, Nanos, Outcome, Phase, RequestRecord,
    Slo, SloVerdict, Stage,
};

use crate::noise::Noise;
use crate::records::{answer, at, ended, even, event, refused, with_events};

pub(crate) fn closed(concurrency: u32) -> CellContext {
    CellContext::new(Load::closed(concurrency))
}

pub(crate) fn open(rate_per_s: f64) -> CellContext {
    CellContext::new(Load::Open {
        rate_per_s: Some(rate_per_s),
        arrival: ArrivalKind::Constant,
        in_flight_cap: None,
    })
}

/// One at a time, back to back: `n` answers of 11 tokens, 20 ms to the first and 10 ms a token (120 ms each).
pub(crate) fn one_by_one(n: u64) -> Vec<RequestRecord> {
    (0..n)
        .map(|i| even(i, 121.0 * i as f64, 20.0, 10.0, 11))
        .collect()
}

pub(crate) fn assert_near(got: Option<f64>, wanted: f64, relative: f64) {
    assert!(
        got.is_some_and(|g| (g - wanted).abs() <= relative * wanted.abs()),
        "got {got:?}, wanted {wanted}"
    );
}

#[test]
fn a_steady_closed_loop_is_summarised_as_it_was_made() {
    let records = one_by_one(100);
    let cell = summarise_cell(&records, closed(1));
    assert!(cell.counts.add_up() && cell.counts.completed == 100);
    assert_near(cell.metrics[&Metric::Ttft].p50(), 20e6, 1e-9);
    assert_near(cell.metrics[&Metric::Itl].quantile(0.99), 10e6, 1e-9);
    assert_eq!(
        cell.metrics[&Metric::Itl].n,
        10 * cell.metrics[&Metric::Ttft].n
    );
    let whole = cell.windows.whole.as_ref().unwrap();
    // 100 answers of 11 tokens in 100 × 121 ms, less the 1 ms after the last event.
    assert_near(whole.requests_per_s, 100.0 / 12.099, 1e-6);
    assert_near(whole.output_tokens_per_s, 1_100.0 / 12.099, 1e-6);
    assert_near(whole.total_tokens_per_s, 2_100.0 / 12.099, 1e-6);
    let steady = cell.windows.steady.as_ref().unwrap();
    assert_near(steady.output_tokens_per_s, 11.0 / 0.121, 0.01);
    // One at a time there is no ramp and no drain: all hundred are in the steady part, the first and the last included.
    assert_near(steady.requests_per_s, 100.0 / 12.1, 1e-6);
    assert_eq!(cell.metrics[&Metric::Ttft].n, 100);
    assert_near(Some(steady.mean_in_flight), 1.0, 0.02);
    assert_eq!(
        cell.windows
            .stationarity
            .as_ref()
            .and_then(|s| s.stationary),
        Some(true)
    );
    assert_near(cell.analysis.littles_law_ratio, 1.0, 0.02);
    assert_near(cell.analysis.ms_per_token, 120.0 / 11.0, 1e-9);
    assert!(cell.analysis.decode_identity_residual.unwrap().abs() < 1e-9);
    assert!(cell.metrics[&Metric::E2e].with_failures.is_none());
}

#[test]
fn every_planned_request_is_accounted_for_and_warm_up_is_not_one() {
    let plain = || even(0, 0.0, 20.0, 10.0, 3);
    let mut warm = plain();
    warm.phase = Phase::Warmup;
    let why = String::new;
    let outcomes = [
        Outcome::TimedOut {
            stage: Stage::FirstToken,
        },
        Outcome::Truncated {
            message: "no end".to_owned(),
        },
        Outcome::Cancelled { reason: why() },
        Outcome::Unsent { reason: why() },
        refused(),
        refused(),
    ];
    let mut records = vec![warm, plain()];
    records.extend(outcomes.map(|outcome| ended(plain(), outcome)));
    let counts = summarise_cell(&records, closed(1)).counts;
    assert!(counts.add_up());
    let lost = [
        counts.failed,
        counts.timed_out,
        counts.truncated,
        counts.cancelled,
        counts.unsent,
    ];
    assert_eq!(lost, [2, 1, 1, 1, 1]);
    assert_eq!((counts.planned, counts.warmup, counts.completed), (7, 1, 1));
    assert_eq!(
        counts.messages,
        [
            ("connection refused".to_owned(), 2),
            ("no end".to_owned(), 1)
        ]
    );
    assert_eq!(counts.failures.iter().map(|f| f.2).sum::<u64>(), 2);
}

#[test]
fn refusals_of_a_closed_loop_are_counted_as_pauses_and_those_of_the_warm_up_are_not() {
    let refusal = |status| {
        let mut record = ended(even(0, 0.0, 20.0, 10.0, 3), refused());
        let stage = Stage::Headers;
        record.wire.status = status;
        record.wire.outcome = Outcome::Failed {
            stage,
            failure: FailureKind::Status,
            message: String::new(),
        };
        record
    };
    let mut warm = refusal(Some(429));
    warm.phase = Phase::Warmup;
    let away = ended(even(0, 0.0, 20.0, 10.0, 3), refused());
    let records = [
        warm,
        refusal(Some(429)),
        refusal(Some(503)),
        refusal(Some(500)),
        away,
    ];
    assert_eq!(summarise_cell(&records, closed(1)).counts.backed_off, 3);
    assert_eq!(summarise_cell(&records, open(1.0)).counts.backed_off, 0);
}

#[test]
fn times_for_which_the_client_was_behind_are_summed_each_instant_once() {
    let read_late = |id: u64, sent: f64, lag_ms: i64| {
        let mut events = EventLog::default();
        for ms in [20.0, 30.0] {
            events.push(Event {
                lag: Some(Nanos::from_millis(lag_ms)),
                ..event(sent + ms)
            });
        }
        with_events(id, sent, events)
    };
    // 20 to 420 ms, when the first is read; then 2,020 to 2,420 ms and half of the time to the second; what is read within 20 ms is no stop
    let records = [
        read_late(0, 0.0, 400),
        read_late(2, 2000.0, 400),
        read_late(1, 5.0, 400),
        read_late(3, 4000.0, 19),
    ];
    let cell = summarise_cell(&records, closed(2));
    assert_eq!(cell.behind, Some(Nanos::from_millis(400 + 405)));
    let quick = summarise_cell(&one_by_one(3), closed(1));
    assert_eq!(quick.behind, None);
}

/// An answer without end that comes twice as fast as it is read: the last of it waits for a second, and the client never stood still.
#[test]
fn who_reads_all_the_time_did_not_stand_still_however_late_he_is() {
    let mut events = EventLog::default();
    for ms in 0..1000 {
        events.push(Event {
            lag: Some(Nanos::from_millis(ms)),
            ..event(20.0 + ms as f64)
        });
    }
    let cell = summarise_cell(&[with_events(0, 0.0, events)], closed(1));
    // until the first that was 20 ms late was read
    assert_eq!(cell.behind, Some(Nanos::from_millis(20)));
}

#[test]
fn failures_do_not_vanish_from_the_tail() {
    let mut records = one_by_one(95);
    records.extend((0..5).map(|i| {
        ended(
            even(95 + i, 11_495.0 + 121.0 * i as f64, 20.0, 10.0, 11),
            refused(),
        )
    }));
    let cell = summarise_cell(&records, open(8.0));
    let view = cell.metrics[&Metric::E2eDue]
        .with_failures
        .as_ref()
        .unwrap();
    let at = |q: f64| {
        view.quantiles
            .iter()
            .find(|v| (v.0 - q).abs() < 1e-9)
            .unwrap()
            .1
    };
    assert!(
        view.failed > 0 && at(0.5).is_some() && at(0.99).is_none(),
        "{view:?}"
    );
    assert!(cell.metrics[&Metric::E2eDue].quantile(0.99).is_some());
}

#[test]
fn an_open_loop_headlines_from_due_and_a_closed_one_from_sent() {
    assert_eq!(open(1.0).headline(), bench_schema::Origin::Due);
    assert_eq!(closed(1).headline(), bench_schema::Origin::Sent);
    // Each request is sent 5 ms late: 4 ms before it was taken up, and 1 ms after.
    let records: Vec<RequestRecord> = one_by_one(60)
        .into_iter()
        .map(|mut r| {
            r.due = r.due - Nanos::from_millis(5);
            r.dispatched = Some(r.due + Nanos::from_millis(4));
            r
        })
        .collect();
    let cell = summarise_cell(&records, open(8.0));
    assert_near(cell.metrics[&Metric::TtftDue].p50(), 25e6, 1e-9);
    assert_near(cell.metrics[&Metric::Ttft].p50(), 20e6, 1e-9);
    assert_near(cell.metrics[&Metric::Lateness].p50(), 4e6, 1e-9);
    assert_near(cell.offered_rate_per_s, 1.0 / 0.121, 1e-6);
    assert!(cell.gaps_ks.unwrap() < 1e-9);
    let phases = cell.phases.unwrap();
    assert_near(Some(phases.queue), 5.0 / 125.0, 1e-9);
    assert_near(
        Some(phases.queue + phases.prefill + phases.decode),
        1.0,
        1e-9,
    );
}

#[test]
fn groups_have_their_own_counts_distributions_and_objectives() {
    let mut context = closed(1);
    let slo = |name: &str, ms: f64| Slo {
        metric: Metric::E2e,
        q: 0.5,
        limit: ms * 1e6,
        use_case: Some(name.to_owned()),
    };
    context.slos = vec![slo("chat", 200.0), slo("code", 200.0)];
    let records: Vec<RequestRecord> = (0..80)
        .map(|i| {
            let code = i % 2 == 1;
            let mut r = even(
                i,
                500.0 * i as f64,
                20.0,
                if code { 40.0 } else { 10.0 },
                if code { 60 } else { 11 },
            );
            r.use_case = Some(if code { "code" } else { "chat" }.to_owned());
            r
        })
        .collect();
    let cell = summarise_cell(&records, context);
    let group = |by: &str, name: &str| {
        cell.groups
            .iter()
            .find(|g| g.by == by && g.name == name)
            .unwrap()
    };
    assert_eq!(
        (
            group("use_case", "chat").counts.planned,
            group("use_case", "code").counts.completed
        ),
        (40, 40)
    );
    assert_near(
        group("use_case", "chat").metrics[&Metric::Itl].p50(),
        10e6,
        1e-9,
    );
    assert_near(
        group("category", "short").metrics[&Metric::Itl].p50(),
        40e6,
        1e-9,
    );
    let told: Vec<&Metric> = group("use_case", "chat").metrics.keys().collect();
    assert!(told.contains(&&Metric::E2e) && told.contains(&&Metric::OutputTokens));
    for of_the_cell in [Metric::E2eDue, Metric::Tail, Metric::Lateness] {
        assert!(cell.metrics.contains_key(&of_the_cell) && !told.contains(&&of_the_cell));
    }
    assert_eq!(group("use_case", "chat").slos.len(), 1);
    assert_eq!(group("use_case", "chat").slos[0].verdict, SloVerdict::Pass);
    assert_eq!(group("use_case", "code").slos[0].verdict, SloVerdict::Fail);
    assert!(
        cell.groups.iter().all(|g| g.by != "endpoint"),
        "one endpoint is no group"
    );
}

#[test]
fn repeats_have_their_own_windows_and_a_spread() {
    let mut records = Vec::new();
    for repeat in 0..3_u32 {
        for mut r in one_by_one(60) {
            let shift = Nanos::from_secs(100 * i64::from(repeat));
            let slower = f64::from(repeat);
            let sent = (r.due + shift).as_secs_f64() * 1e3;
            r = even(r.id, sent, 20.0 + slower, 10.0, 11);
            r.repeat = repeat;
            records.push(r);
        }
    }
    let cell = summarise_cell(&records, closed(1));
    assert_near(
        Some(cell.windows.whole.as_ref().unwrap().seconds),
        3.0 * 60.0 * 0.121,
        0.01,
    );
    // Mean E2E of 120, 121 and 122 ms: sd 1 over 121.
    assert_near(cell.analysis.between_repeats_cov, 1.0 / 121.0, 1e-6);
    assert_eq!(cell.headline_windows.len(), 3);
}

#[test]
fn bounded_stamps_are_counted_and_give_quantiles_two_ends() {
    let records: Vec<RequestRecord> = (0..10)
        .map(|i| {
            let mut log = EventLog::default();
            let sent = 100.0 * i as f64;
            log.push(Event {
                bound: Nanos::from_millis(5),
                ..event(sent + 20.0)
            });
            log.push(event(sent + 30.0));
            with_events(i, sent, log)
        })
        .collect();
    let cell = summarise_cell(&records, closed(1));
    let stamps = cell.stamps.unwrap();
    assert_eq!((stamps.n, stamps.bounded), (20, 10));
    let ttft = &cell.metrics[&Metric::Ttft];
    assert_eq!(ttft.bounded_share, Some(1.0));
    assert_near(ttft.quantiles[0].at_least, 15e6, 1e-9);
    // All are alike, so that nothing but the stamps is open of the means.
    let ends = |metric: Metric| cell.metrics[&metric].mean_interval.as_ref().unwrap();
    let of = |metric: Metric| (ends(metric).low / 1e6, ends(metric).high / 1e6);
    assert_eq!(of(Metric::Ttft), (15.0, 20.0));
    assert_eq!(of(Metric::E2e), (30.0, 30.0));
    assert_eq!(of(Metric::Icl), (10.0, 10.0));
    // Of ten values p95 is the largest, and a second token by itself has no rule: neither can be told to 2 %.
    let told = |metric: Metric| cell.metrics[&metric].quantiles.iter().map(|entry| entry.q);
    assert_eq!(told(Metric::Ttft).collect::<Vec<_>>(), [0.5, 0.9]);
    assert_eq!(told(Metric::Ttst).count(), 0);
    assert_eq!(
        told(Metric::E2e).collect::<Vec<_>>(),
        [0.5, 0.9, 0.95, 0.99, 0.999]
    );
    // as stamped it is the most that it can be
    assert_eq!(ttft.quantiles[0].at_most, None);
    let gaps = &cell.metrics[&Metric::Icl].quantiles[0];
    assert_eq!(gaps.at_least, None);
    assert_near(gaps.at_most, 15e6, 1e-9);
    assert_near(Some(gaps.stamp_error()), 5e6, 1e-9);
    assert_eq!(cell.lag.unwrap().n, 20);
}

/// Answers of three tokens whose true gaps are known; the client read some tokens of each together, and stamped them with the last.
#[test]
fn the_ends_of_a_quantile_hold_the_truth_between_them() {
    for seed in 0..40 {
        let mut noise = Noise::seeded(seed);
        let mut true_gaps = Vec::new();
        let records: Vec<RequestRecord> = (0..30)
            .map(|i| {
                let sent = 1_000.0 * i as f64;
                let mut arrivals = vec![sent + 50.0 + noise.normal()];
                for _ in 0..9 {
                    let gap = (5.0 + 2.0 * noise.normal()).max(0.1);
                    true_gaps.push(gap * 1e6);
                    arrivals.push(arrivals.last().unwrap() + gap);
                }
                // Read in pairs: the first of each pair is stamped with the second, down to the read before.
                let mut log = EventLog::default();
                let mut seen = sent;
                for pair in arrivals.chunks(2) {
                    let read = *pair.last().unwrap();
                    log.push(Event {
                        bound: Nanos::from_secs_f64((read - seen) / 1e3),
                        ..event(read)
                    });
                    log.push(event(read));
                    seen = read;
                }
                with_events(i, sent, log)
            })
            .collect();
        let cell = summarise_cell(&records, closed(1));
        let truth = bench_metrics::Sample::new(true_gaps).unwrap();
        for entry in &cell.metrics[&Metric::Icl].quantiles {
            let end = |end: Option<f64>| end.unwrap_or(entry.value);
            let (low, high) = (end(entry.at_least), end(entry.at_most));
            let really = truth.quantile(entry.q);
            assert!(
                low <= really + 2.0 && really <= high + 2.0,
                "p{}: {really} is not within {low} to {high}",
                100.0 * entry.q
            );
        }
    }
}

#[test]
fn an_answer_without_token_counts_takes_the_cell_s_itl_away_but_not_its_icl() {
    let mut records = one_by_one(10);
    records[3].output_tokens = None;
    let cell = summarise_cell(&records, closed(1));
    assert!(!cell.metrics.contains_key(&Metric::Itl) && cell.metrics.contains_key(&Metric::Icl));
}

/// Noisy answers, one after the other.
fn noisy(n: u64) -> Vec<RequestRecord> {
    let mut noise = Noise::seeded(3);
    let mut now = 0.0;
    (0..n)
        .map(|i| {
            let (sent, level) = (now, 10.0 + noise.normal());
            let mut at = now + 30.0 + 3.0 * noise.normal();
            let stamps: Vec<f64> = (0..40)
                .map(|_| {
                    at += (level + 2.0 * noise.normal()).max(0.5);
                    at
                })
                .collect();
            now = at + 5.0;
            answer(i, sent, &stamps)
        })
        .collect()
}

#[test]
fn histograms_stand_in_for_gaps_within_their_stated_error() {
    let records = noisy(400);
    let exact = summarise_cell(&records, closed(1));
    let mut context = closed(1);
    context.exact_gaps = 1_000;
    let coarse = summarise_cell(&records, context);
    for metric in [Metric::Icl, Metric::Itl] {
        let (a, b) = (whole_run(&exact, metric), whole_run(&coarse, metric));
        let allowed = b.resolution.unwrap();
        assert!(allowed < 0.001 && a.resolution.is_none());
        for (x, y) in a.quantiles.iter().zip(&b.quantiles) {
            assert_near(Some(y.value), x.value, 2.0 * allowed + 0.003);
        }
        assert_near(Some(b.mean), a.mean, 0.005);
        // Whole requests are the unit in both: intervals of like width.
        let width =
            |d: &bench_schema::Distribution| d.mean_interval.map(|i| i.high - i.low).unwrap();
        assert!(
            (0.5..2.0).contains(&(width(b) / width(a))),
            "{} {}",
            width(a),
            width(b)
        );
    }
}

fn whole_run(cell: &CellSummary, metric: Metric) -> &bench_schema::Distribution {
    &cell.metrics[&metric]
}

#[test]
fn an_accumulator_tells_how_it_stands_while_it_runs() {
    let mut cell = CellAccumulator::new(closed(1));
    for record in one_by_one(5) {
        cell.push(&record);
    }
    assert_eq!(cell.values(Metric::Ttft).len(), 5);
}

#[test]
fn nothing_at_all_is_summarised_as_nothing() {
    let cell = summarise_cell([], closed(4));
    assert!(cell.counts.add_up() && cell.metrics.is_empty() && cell.goodput.is_none());
    assert_eq!(
        (cell.windows.whole, cell.phases, cell.lag),
        (None, None, None)
    );
}

#[test]
fn tokens_of_requests_cut_off_at_the_end_still_count_as_output() {
    // Two streams of 10 ms a token; the second never ends and is cancelled after 100 events: no usage, so n is unknown.
    let whole = even(0, 0.0, 10.0, 10.0, 100);
    let mut cut = even(1, 0.0, 10.0, 10.0, 100);
    cut.wire.outcome = Outcome::Cancelled {
        reason: "end of run".to_owned(),
    };
    cut.output_tokens = None;
    let cell = summarise_cell(&[whole, cut], closed(2));
    let rates = cell.windows.whole.unwrap();
    assert_near(
        rates.output_tokens_per_s,
        200.0 / (at(1_001.0).as_secs_f64()),
        0.01,
    );
    assert_eq!(cell.metrics[&Metric::E2e].n, 1);
}

#[test]
#[ignore = "takes half a minute with --release: 500 million gaps; time and memory are in docs/verification.md"]
fn a_million_requests_of_500_tokens_are_summarised_in_bounded_memory() {
    let mut cell = CellAccumulator::new(closed(1_000));
    let template = even(0, 0.0, 40.0, 10.0, 500);
    for i in 0..1_000_000_u64 {
        let sent = 5.0 * (i / 1_000) as f64 * 1_000.0 + (i % 1_000) as f64;
        // Moving an answer in time means rebuilding its log: the cost is the client's, and is in the time measured here.
        let mut log = EventLog::default();
        for k in 0..500_u32 {
            let jitter = f64::from((k * 7_919 + u32::try_from(i % 4_096).unwrap()) % 1_000) / 500.0;
            log.push(event(sent + 40.0 + 10.0 * f64::from(k) + jitter));
        }
        let mut record = template.clone();
        record.id = i;
        record.due = at(sent);
        record.wire.sent = Some(at(sent));
        record.wire.closed = log.last();
        record.wire.events = log;
        cell.push(&record);
    }
    let cell = cell.finish();
    assert_eq!(cell.counts.completed, 1_000_000);
    assert_near(cell.metrics[&Metric::Itl].p50(), 10e6, 0.1);
    let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "{}",
        memory
            .lines()
            .find(|l| l.starts_with("VmHWM"))
            .unwrap_or("peak memory unknown")
    );
}

#[test]
fn a_window_that_reaches_far_beyond_the_events_is_summarised_in_a_moment() {
    // Found by the property test of odd records: a window had 10¹¹ bins of the narrowest width, all but a few of them empty.
    let years = 10.0 * 365.0 * 86_400e3;
    let records = [
        answer(0, -years, &[0.0, 1.0]),
        answer(1, 5.0, &[10.0, 11.0]),
    ];
    let cell = summarise_cell(&records, closed(1));
    let whole = cell.windows.whole.as_ref();
    assert_near(whole.map(|w| w.seconds), years / 1e3, 1e-3);
    assert_near(
        whole.map(|w| w.requests_per_s.unwrap() * w.seconds),
        2.0,
        1e-9,
    );
}
