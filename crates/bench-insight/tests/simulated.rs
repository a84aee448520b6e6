//! Decisions on simulated runs whose truth is known: how often a capacity is overstated, how often a gate raises a false alarm, and
//! what slowdown it finds.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use crate::load;
use bench_insight::{
    CellFacts, CellSamples, ComparedSamples, GateVerdict, RegressionRule, RequestSample,
    TrustFacts, compare, findings, gate, trust,
};
use bench_metrics::{CellContext, CompareOptions, summarise_cell};
use bench_schema::{
    Answer, CellRecord, Channel, Event, Exchange, Factor, FailureKind, Known, Load, Metric, Nanos,
    Outcome, RequestRecord, RunRecord, Slo, Stage, Stamp, TokenSource, TrustVerdict,
};
use proptest::prelude::*;

/// Standard normal noise from a seed (splitmix64, Box and Muller).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let top = u32::try_from(z >> 32).unwrap();
        (f64::from(top) + 0.5) / 4_294_967_296.0
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// An answer of two tokens after `e2e_ms`.
fn answered(id: u64, sent_ms: f64, e2e_ms: f64) -> RequestRecord {
    let at = |ms: f64| Stamp::EPOCH + Nanos::from_secs_f64(ms / 1e3);
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(at(sent_ms));
    for ms in [sent_ms + 0.2 * e2e_ms, sent_ms + e2e_ms] {
        wire.events.push(Event {
            at: at(ms),
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    wire.closed = wire.events.last();
    RequestRecord {
        due: at(sent_ms),
        dispatched: wire.sent,
        asked_output_tokens: Some(2),
        output_tokens: Some(2),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id, "", wire)
    }
}

/// A cell at this concurrency whose E2E has this true p95, in a limit of 1 s.
fn cell(like: &CellRecord, concurrency: u32, p95_ms: f64, noise: &mut Noise) -> CellRecord {
    let slots = f64::from(concurrency);
    let mut free: Vec<f64> = vec![0.0; usize::try_from(concurrency).unwrap()];
    let records: Vec<RequestRecord> = (0..150)
        .map(|id| {
            free.sort_by(f64::total_cmp);
            let sent = free[0];
            // lognormal: p95 is exp(mu + 1.645 sigma)
            let e2e = p95_ms * (0.25 * (noise.normal() - 1.644_854)).exp();
            free[0] = sent + e2e;
            answered(id, sent, e2e)
        })
        .collect();
    let load = Load::closed(concurrency);
    let context = CellContext {
        slos: vec![Slo {
            metric: Metric::E2e,
            q: 0.95,
            limit: 1e9,
            use_case: None,
        }],
        ..CellContext::new(load.clone())
    };
    let mut made = CellRecord {
        id: format!("c{slots}"),
        load,
        factors: [("concurrency".to_owned(), Factor::Number(slots))].into(),
        ..like.clone()
    };
    summarise_cell(&records, context).fill(&mut made);
    made
}

#[test]
fn capacity_within_an_objective_is_overstated_in_less_than_one_run_of_twenty() {
    let mut run = load::run("concurrency-sweep");
    let like = run.cells[0].clone();
    let (mut over, mut right, runs) = (0, 0, 200);
    for seed in 0..runs {
        let mut noise = Noise(seed);
        run.cells = [(1, 600.0), (2, 750.0), (4, 1_030.0), (8, 1_150.0)]
            .map(|(concurrency, p95)| cell(&like, concurrency, p95, &mut noise))
            .to_vec();
        let all = findings(&run, &[]);
        let said = |answer: Answer| all.iter().find(|f| f.code == answer.into());
        let planned = said(Answer::Capacity).map_or("none", |f| f.cells[0].as_str());
        let level = said(Answer::SloCapacity).and_then(|f| f.figure(&Known::Level.into()));
        let highest = level.unwrap_or(0.0);
        if matches!(planned, "c4" | "c8") || highest > 2.0 {
            over += 1;
        } else if planned == "c2" && highest > 1.0 {
            right += 1;
        }
    }
    println!("capacity overstated in {over} of {runs}, right in {right}");
    assert!(over * 20 <= runs, "{over} of {runs}");
    assert!(right * 10 >= runs * 9, "{right} of {runs}");
}

/// One run of a plan of `n` requests: their lengths are the plan's, what the server and the host do to them is the run's own, and it has
/// a memory, as queues and batches do.
fn side(n: u64, slower: f64, run: u64) -> CellSamples {
    let (mut plan, mut noise) = (Noise(7), Noise(1_000 + run));
    let (mut memory, mut now) = (0.0, 0.0);
    let requests = (0..n).map(|id| {
        let tokens = (5.0 + 0.8 * plan.normal()).exp();
        memory = 0.8 * memory + 0.6 * noise.normal();
        let times = (0.06 * memory + 0.08 * noise.normal()).exp();
        let e2e = 1e7 * tokens * slower * times;
        now += e2e / 8.0;
        let start = Stamp::EPOCH + Nanos::from_secs_f64(now / 1e9);
        RequestSample {
            id,
            start,
            end: start + Nanos::from_f64(e2e),
            ..RequestSample::default()
        }
    });
    CellSamples {
        cell: "c1".to_owned(),
        requests: requests.collect(),
        ..CellSamples::default()
    }
}

/// What a gate of `e2e:5%` says of two runs of one plan.
fn verdict(run: &RunRecord, slower: f64, pair: u64) -> GateVerdict {
    let (base, new) = (
        [side(200, 1.0, 2 * pair)],
        [side(200, slower, 2 * pair + 1)],
    );
    let samples = ComparedSamples {
        base: &[&base],
        new: &[&new],
    };
    let found = compare(&[run], &[run], samples, &CompareOptions::default()).unwrap();
    let rules = RegressionRule::list(&["e2e:5%"]).unwrap();
    gate(&found, &rules).unwrap()[0].verdict
}

#[test]
fn a_gate_on_paired_requests_finds_a_real_slowdown_and_raises_no_false_alarm() {
    let mut run = load::run("concurrency-sweep");
    run.cells.truncate(1);
    // Nothing but the pairs is of interest here.
    run.cells[0].metrics.clear();
    let pairs = 100;
    println!("slowdown  passed  cannot tell  missed   of {pairs}");
    let told = [1.0, 1.03, 1.05, 1.10].map(|slower| {
        let all: Vec<GateVerdict> = (0..pairs).map(|pair| verdict(&run, slower, pair)).collect();
        let count = |wanted| all.iter().filter(|v| **v == wanted).count();
        let row = [
            GateVerdict::Passed,
            GateVerdict::CannotTell,
            GateVerdict::Regressed,
        ]
        .map(count);
        println!(
            "{:>6.0} %  {:>6}  {:>11}  {:>6}",
            (slower - 1.0) * 100.0,
            row[0],
            row[1],
            row[2]
        );
        row
    });
    let all = usize::try_from(pairs).unwrap();
    assert_eq!(told[0][0], all, "false alarms: {:?}", told[0]);
    assert!(told[3][0] <= 2, "a slowdown of 10 % passed: {:?}", told[3]);
    assert!(told[3][2] * 10 >= all * 9, "{:?}", told[3]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a server's deaths: trust is what a plain count of the lost requests makes of them. (Counts, attainment and rates likewise:
    /// `bench-metrics`, `for_any_schedule_of_deaths_the_figures_are_those_of_a_plain_script`.)
    #[test]
    fn for_any_schedule_of_deaths_trust_is_that_of_a_plain_count(
        deaths in proptest::collection::vec((0.0_f64..40.0, 0.0_f64..15.0), 0..5),
        n in 50_u32..600,
        is_open in any::<bool>(),
        stay in 20.0_f64..2_000.0,
    ) {
        let dead = |ms: f64| deaths.iter().any(|(from, length)| {
            (from * 1e3..(from + length) * 1e3).contains(&ms)
        });
        let records: Vec<RequestRecord> = (0..n).map(|id| {
            let due = 40_000.0 * f64::from(id) / f64::from(n);
            let mut record = answered(id.into(), due, stay);
            if dead(due) || dead(due + stay) {
                let (stage, failure) = (Stage::Connect, FailureKind::Refused);
                let message = "nobody listens there".to_owned();
                record.wire = Exchange::nothing(Outcome::Failed { stage, failure, message });
                record.wire.closed = Some(record.due + Nanos::from_millis(1));
            }
            record
        }).collect();
        let lost = records.iter().filter(|r| !r.wire.outcome.is_completed()).count();
        let share = lost as f64 / f64::from(n);

        let run = load::run("concurrency-sweep");
        let load = if is_open {
            let (arrival, in_flight_cap) = (bench_schema::ArrivalKind::Constant, None);
            Load::Open { rate_per_s: Some(f64::from(n) / 40.0), arrival, in_flight_cap }
        } else {
            Load::closed(8)
        };
        let mut cell = CellRecord { id: "c".to_owned(), load: load.clone(), ..run.cells[0].clone() };
        summarise_cell(&records, CellContext::new(load)).fill(&mut cell);
        let facts = [("c".to_owned(), CellFacts::of(&records))].into();
        let said = trust(&TrustFacts::of(&run.clock, &facts), &[cell]);

        let of = |code: &str| said.reasons.iter().find(|r| r.code == code).map(|r| r.verdict);
        if lost == records.len() {
            prop_assert_eq!(said.verdict, TrustVerdict::Untrusted);
        } else {
            let wanted = match share {
                s if s > 0.10 => Some(TrustVerdict::Untrusted),
                s if s > 0.01 => Some(TrustVerdict::Doubtful),
                _ => None,
            };
            prop_assert_eq!(of("failures"), wanted, "{} of {}: {:?}", lost, n, said.reasons);
        }
    }
}
