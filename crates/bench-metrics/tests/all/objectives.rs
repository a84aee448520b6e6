//! Objectives and goodput.

use bench_metrics::summarise_cell;
use bench_schema::{EventLog, Metric, Outcome, RequestRecord, Slo, SloOutcome, SloVerdict};

use crate::aggregate::{assert_near, closed, one_by_one, open};
use crate::records::{ended, even, refused};

#[test]
fn objectives_are_judged_with_failures_and_intervals() {
    let mut context = closed(1);
    let limit = |metric, ms: f64| Slo {
        metric,
        q: 0.95,
        limit: ms * 1e6,
        use_case: None,
    };
    context.slos = vec![
        limit(Metric::Ttft, 50.0),
        limit(Metric::Ttft, 10.0),
        limit(Metric::E2e, 120.0),
    ];
    let records: Vec<RequestRecord> = (0..200)
        .map(|i| even(i, 200.0 * i as f64, 15.0 + (i * 37 % 11) as f64, 10.0, 11))
        .collect();
    let cell = summarise_cell(&records, context);
    let verdicts: Vec<SloVerdict> = cell.slos.iter().map(|s| s.verdict).collect();
    assert_eq!(
        verdicts,
        [SloVerdict::Pass, SloVerdict::Fail, SloVerdict::Fail]
    );
    // TTFT is 15 … 25 ms: never 10; E2E 115 … 125.
    assert!((cell.slos[0].attainment - 1.0).abs() < 1e-12 && cell.slos[1].attainment.abs() < 1e-12);
    let goodput = cell.goodput.unwrap();
    assert!(goodput.attainment.abs() < 1e-12 && goodput.requests_per_s.abs() < 1e-12);
}

#[test]
fn an_objective_on_few_requests_cannot_be_told() {
    let mut context = closed(1);
    context.slos = vec![Slo {
        metric: Metric::Ttft,
        q: 0.95,
        limit: 50e6,
        use_case: None,
    }];
    let verdict = |n: u64| summarise_cell(&one_by_one(n), context.clone()).slos[0].verdict;
    assert_eq!(
        verdict(15),
        SloVerdict::CannotTell,
        "15 of 15 do not show 95 %"
    );
    assert_eq!(
        verdict(100),
        SloVerdict::Pass,
        "100 of 100 do: 0.95 to the 100th is 0.6 %"
    );
}

fn with_objective(metric: Metric, limit_ms: f64, ttft: impl Fn(u64) -> f64, n: u64) -> SloOutcome {
    let mut context = open(8.0);
    context.slos = vec![Slo {
        metric,
        q: 0.95,
        limit: limit_ms * 1e6,
        use_case: None,
    }];
    let records: Vec<RequestRecord> = (0..n)
        .map(|i| even(i, 121.0 * i as f64, ttft(i), 10.0, 11))
        .collect();
    summarise_cell(&records, context).slos[0].clone()
}

#[test]
fn a_verdict_does_not_contradict_the_attainment_beside_it() {
    // An overload: every request waits longer than the one before, the first eight of 180 are within.
    let rising = with_objective(Metric::Ttft, 500.0, |i| 100.0 + 50.0 * i as f64, 180);
    assert!(rising.attainment_interval.high < 0.95, "{rising:?}");
    assert_eq!(rising.verdict, SloVerdict::Fail);
    // All of 80 are within: at least 95.4 %.
    let all = with_objective(Metric::Ttft, 50.0, |i| 15.0 + (i * 37 % 11) as f64, 80);
    assert!(all.attainment_interval.low >= 0.95, "{all:?}");
    assert_eq!(all.verdict, SloVerdict::Pass);
    for outcome in [rising, all] {
        let shown = outcome
            .interval
            .map_or((0.0, f64::INFINITY), |i| (i.low, i.high));
        let limit = outcome.slo.limit;
        assert!(
            shown.1 <= limit || shown.0 >= limit || outcome.interval.is_none(),
            "{outcome:?}"
        );
    }
}

#[test]
fn all_within_is_worth_less_where_neighbours_are_alike() {
    // Fifteen levels held for seven requests each, E2E of 120 to 134 ms: 105 requests tell little more than fifteen.
    let alike = with_objective(Metric::E2e, 135.0, |i| 20.0 + (i / 7 * 37 % 15) as f64, 105);
    assert!((alike.attainment - 1.0).abs() < 1e-12);
    assert!(alike.attainment_interval.low < 0.95, "{alike:?}");
    assert_eq!(alike.verdict, SloVerdict::CannotTell);
    // Where nothing comes near the limit, it does not matter how alike they are down there.
    let far = with_objective(Metric::E2e, 500.0, |i| 20.0 + (i / 7 * 37 % 15) as f64, 105);
    assert_eq!(far.verdict, SloVerdict::Pass);
}

#[test]
fn a_verdict_does_not_contradict_the_interval_beside_it() {
    let mut context = closed(1);
    context.slos = vec![Slo {
        metric: Metric::Ttft,
        q: 0.9,
        limit: 50e6,
        use_case: None,
    }];
    // The first four are within, the twelve after them are not: the median is known badly, what share is within is not.
    let ttft = |i: u64| if i < 4 { 20.0 } else { 60.0 + i as f64 };
    let records: Vec<RequestRecord> = (0..16)
        .map(|i| even(i, 200.0 * i as f64, ttft(i), 10.0, 5))
        .collect();
    let slo = summarise_cell(&records, context).slos[0].clone();
    assert!(slo.attainment_interval.high < 0.9, "{slo:?}");
    assert_eq!(slo.verdict, SloVerdict::Fail);
}

#[test]
fn a_failing_tail_fails_the_objective_however_fast_the_rest() {
    let mut context = open(8.0);
    context.slos = vec![Slo {
        metric: Metric::Ttft,
        q: 0.95,
        limit: 50e6,
        use_case: None,
    }];
    let records: Vec<RequestRecord> = (0..400)
        .map(|i| even(i, 121.0 * i as f64, 20.0, 10.0, 11))
        .map(|r| {
            if r.id % 5 == 0 {
                ended(r, refused())
            } else {
                r
            }
        })
        .collect();
    let cell = summarise_cell(&records, context);
    assert_eq!(
        (cell.slos[0].verdict, cell.slos[0].measured),
        (SloVerdict::Fail, None)
    );
    assert!((cell.slos[0].attainment - 0.8).abs() < 0.01);
    let goodput = cell.goodput.unwrap();
    assert_near(Some(goodput.requests_per_s), 0.8 / 0.121, 0.02);
    assert_near(Some(goodput.tokens_per_s), 0.8 * 11.0 / 0.121, 0.02);
}

#[test]
fn one_token_answers_meet_an_objective_on_gaps_and_are_counted_as_such() {
    let mut context = closed(1);
    context.slos = vec![Slo {
        metric: Metric::Tpot,
        q: 0.95,
        limit: 50e6,
        use_case: None,
    }];
    let records: Vec<RequestRecord> = (0..10)
        .map(|i| even(i, 100.0 * i as f64, 20.0, 10.0, if i < 4 { 1 } else { 5 }))
        .collect();
    let cell = summarise_cell(&records, context);
    assert_eq!(cell.slos[0].vacuous, 4);
    let goodput = cell.goodput.unwrap();
    assert_eq!(goodput.vacuous, 4);
    assert!((goodput.attainment - 1.0).abs() < 1e-12);
}

#[test]
fn where_no_answer_has_the_metric_nobody_can_tell_unless_lost_requests_do() {
    let outcome = |metric, lost_every: u64, kept| {
        let mut context = closed(1);
        context.exact_gaps = kept;
        context.slos = vec![Slo {
            metric,
            q: 0.95,
            limit: 5e6,
            use_case: None,
        }];
        let all: Vec<RequestRecord> = (0..100)
            .map(|i| even(i, 100.0 * i as f64, 20.0, 10.0, 1))
            .map(|r| match r.id % lost_every {
                0 => ended(r, refused()),
                _ => r,
            })
            .collect();
        summarise_cell(&all, context).slos[0].clone()
    };
    for (metric, kept) in [
        (Metric::Itl, usize::MAX),
        (Metric::Itl, 0),
        (Metric::Tpot, usize::MAX),
    ] {
        let none = outcome(metric, 101, kept);
        assert_eq!(none.verdict, SloVerdict::CannotTell, "{metric}: {none:?}");
        assert_eq!((none.within, none.measured), (None, None));
        assert_eq!(none.vacuous, 99, "the first was lost");
        let some = outcome(metric, 50, kept);
        assert_eq!(some.verdict, SloVerdict::CannotTell, "two lost: {some:?}");
        let many = outcome(metric, 4, kept);
        assert_eq!(many.verdict, SloVerdict::Fail, "a quarter lost: {many:?}");
        assert!(many.within.is_some());
    }
}

#[test]
fn an_answer_without_content_meets_no_objective_and_is_no_good_request() {
    let mut context = closed(1);
    context.slos = vec![Slo {
        metric: Metric::E2e,
        q: 0.95,
        limit: 5e9,
        use_case: None,
    }];
    let records: Vec<RequestRecord> = (0..300)
        .map(|i| {
            let mut record = even(i, 100.0 * i as f64, 20.0, 10.0, 5);
            if i % 3 == 0 {
                record.wire.events = EventLog::default();
            }
            record
        })
        .collect();
    let cell = summarise_cell(&records, context);
    assert_eq!(cell.counts.completed, 300);
    assert_eq!(cell.slos[0].verdict, SloVerdict::Fail);
    let goodput = cell.goodput.unwrap();
    assert!((goodput.attainment - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(goodput.vacuous, 0);
}

#[test]
fn a_quarter_of_the_requests_refused_at_one_time_misses_every_objective() {
    let limit = |metric, q| Slo {
        metric,
        q,
        limit: 5e9,
        use_case: None,
    };
    let mut context = open(8.0);
    context.slos = [Metric::Ttft, Metric::E2e, Metric::Itl]
        .into_iter()
        .flat_map(|metric| [0.9, 0.95, 0.99].map(|q| limit(metric, q)))
        .collect();
    // One outage: the lost ones are as alike as can be.
    let records = (0..160).map(|i| even(i, 125.0 * i as f64, 20.0, 10.0, 11));
    let records: Vec<RequestRecord> = records
        .map(|r| {
            if (60..100).contains(&r.id) {
                ended(r, refused())
            } else {
                r
            }
        })
        .collect();
    for kept in [usize::MAX, 0] {
        context.exact_gaps = kept;
        let cell = summarise_cell(&records, context.clone());
        for slo in &cell.slos {
            assert_eq!(
                (slo.verdict, slo.measured),
                (SloVerdict::Fail, None),
                "{slo:?}"
            );
            assert!(slo.attainment_interval.high < 0.85, "{slo:?}");
        }
        assert!(cell.goodput.unwrap().attainment_interval.high < 0.85);
    }
}

#[test]
fn the_first_token_of_an_answer_that_was_stopped_as_asked_is_known() {
    let stopped = |reason: &str| -> Vec<RequestRecord> {
        let answers = (0..100).map(|i| {
            let mut record = even(i, 200.0 * i as f64, 20.0, 10.0, 5);
            record.output_tokens = None;
            record.wire.outcome = Outcome::Cancelled {
                reason: reason.to_owned(),
            };
            record
        });
        answers.collect()
    };
    let mut context = closed(1);
    let limit = |metric| Slo {
        metric,
        q: 0.95,
        limit: 50e6,
        use_case: None,
    };
    context.slos = vec![limit(Metric::Ttft), limit(Metric::E2e)];
    let asked = stopped(&Outcome::stopped_after("5 content events"));
    let cell = summarise_cell(&asked, context.clone());
    assert_near(cell.metrics[&Metric::Ttft].p50(), 20e6, 1e-9);
    // how long the rest would have taken is not
    assert!(!cell.metrics.contains_key(&Metric::E2e) && !cell.metrics.contains_key(&Metric::Tpot));
    let verdicts: Vec<SloVerdict> = cell.slos.iter().map(|slo| slo.verdict).collect();
    assert_eq!(verdicts, [SloVerdict::Pass, SloVerdict::CannotTell]);
    assert_near(Some(cell.slos[0].attainment), 1.0, 1e-12);
    assert!(cell.goodput.unwrap().requests_per_s.abs() < 1e-12);
    // where only the first token decides, all met it, and none is a whole answer to count: no goodput is beside that
    context.slos.truncate(1);
    let cell = summarise_cell(&asked, context.clone());
    assert_eq!(cell.goodput, None);
    let mut half = asked.clone();
    for record in half.iter_mut().step_by(2) {
        record.wire.outcome = even(0, 0.0, 20.0, 10.0, 5).wire.outcome;
    }
    let cell = summarise_cell(&half, context.clone());
    let goodput = cell.goodput.unwrap();
    assert_near(Some(goodput.attainment), cell.slos[0].attainment, 1e-12);
    let completed = cell.windows.steady.or(cell.windows.whole).unwrap();
    assert_near(
        Some(goodput.requests_per_s),
        completed.requests_per_s.unwrap(),
        1e-9,
    );
    // what the end of the cell stopped was the slow of its last requests
    let cell = summarise_cell(&stopped("the run was ended"), context);
    assert!(!cell.metrics.contains_key(&Metric::Ttft));
}
