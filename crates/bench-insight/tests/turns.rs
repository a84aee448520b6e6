//! Two sides in turns in virtual time, on a server that drifts: how often a difference is said that is not there, how often one of 3 % is found, and what two
//! runs one after the other would have said.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::f64::consts::TAU;

use bench_insight::{
    CellSamples, ComparedSamples, ComparisonVerdict, RequestSample, RunComparison, compare,
};
use bench_metrics::{CellContext, CompareOptions, Looks, summarise_cell};
use bench_schema::{
    CellRecord, Channel, Event, Exchange, Load, Metric, Nanos, Outcome, RequestRecord, RunRecord,
    Stamp, TokenSource,
};

use crate::load;
use crate::simulated::Noise;

/// Blocks at most.
const MOST: usize = 12;
/// Requests of a turn, and of all turns of a side.
const TURN: u64 = 40;
const ALL: u64 = TURN * 2 * MOST as u64;
const SLOTS: usize = 4;
/// Tokens of an answer, the time to the first and between two, in seconds.
const TOKENS: u32 = 9;
const FIRST: f64 = 0.05;
const GAP: f64 = 0.01;
/// What all turns take with the pauses between them, in seconds: the period of the drift.
const WHOLE: f64 = 75.0;
const PAUSE: f64 = 0.2;

/// How many times as long everything takes at this part of the experiment; `own` is a random number of the trial.
type Drift = fn(f64, f64) -> f64;

#[derive(Clone, Copy)]
struct Side {
    first: f64,
    gap: f64,
    /// Each request of which number takes six times as long.
    odd: Option<u64>,
}

/// Requests of a closed loop from `now` on; the server's times follow the drift, and vary by 2 % from request to request and 0.5 % from turn to turn.
fn requests(
    (side, many): (Side, u64),
    now: &mut f64,
    drift: impl Fn(f64) -> f64,
    noise: &mut Noise,
) -> Vec<RequestRecord> {
    let mut free = [*now; SLOTS];
    let own = (0.005 * noise.normal()).exp();
    let made = (0..many).map(|id| {
        free.sort_by(f64::total_cmp);
        let sent = free[0];
        let is_odd = side.odd.is_some_and(|each| id % each == each / 2);
        let much = if is_odd { 6.0 } else { 1.0 };
        let slower = much * own * drift(sent) * (0.02 * noise.normal()).exp();
        let first = FIRST * side.first * slower * (0.1 * noise.normal()).exp();
        let gap = GAP * side.gap * slower;
        let at =
            |token: u32| Stamp::EPOCH + Nanos::from_secs_f64(sent + first + f64::from(token) * gap);
        let mut wire = Exchange::nothing(Outcome::Completed);
        wire.sent = Some(Stamp::EPOCH + Nanos::from_secs_f64(sent));
        let event = |token| Event {
            at: at(token),
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        };
        (0..TOKENS)
            .map(event)
            .for_each(|event| wire.events.push(event));
        wire.closed = wire.events.last();
        free[0] = sent + first + f64::from(TOKENS - 1) * gap;
        RequestRecord {
            due: wire.sent.unwrap(),
            dispatched: wire.sent,
            asked_output_tokens: Some(TOKENS.into()),
            output_tokens: Some(TOKENS.into()),
            token_source: TokenSource::Usage,
            ..RequestRecord::bare(id, "", wire)
        }
    });
    let made = made.collect();
    *now = free.iter().copied().fold(*now, f64::max) + PAUSE;
    made
}

fn samples_of(records: &[RequestRecord]) -> CellSamples {
    let of = |r: &RequestRecord| RequestSample {
        id: r.id,
        start: r.wire.sent.unwrap(),
        end: r.wire.events.last().unwrap(),
        ttft: r
            .wire
            .events
            .first()
            .map(|at| (at - r.wire.sent.unwrap()).as_f64()),
        output_tokens: Some(TOKENS),
        events: TOKENS,
        ..RequestSample::default()
    };
    CellSamples {
        cell: "c4".to_owned(),
        requests: records.iter().map(of).collect(),
        ..CellSamples::default()
    }
}

fn run_of(like: &RunRecord, records: &[RequestRecord]) -> RunRecord {
    let mut run = like.clone();
    let load = Load::closed(u32::try_from(SLOTS).unwrap());
    let mut cell = CellRecord {
        id: "c4".to_owned(),
        load: load.clone(),
        ..like.cells[0].clone()
    };
    summarise_cell(records, CellContext::new(load)).fill(&mut cell);
    run.cells = vec![cell];
    run
}

/// The experiment as `--versus` makes it: blocks until what decides is judged.
fn in_turns(effect: Side, drift: Drift, trial: u64) -> (RunComparison, usize) {
    let looks = Looks::new(MOST).unwrap();
    let mut turns = Turns::new(trial);
    for block in 1..=MOST {
        turns.take_block(effect, drift, block);
        if looks.at().any(|at| at == block) {
            let found = turns.compared();
            if block == MOST || found.is_decided() {
                assert_eq!(found.blocks, Some((block, MOST)));
                return (found, block);
            }
        }
    }
    unreachable!("the last block is a look");
}

/// The runs of both sides so far, with their requests.
struct Turns {
    like: RunRecord,
    noise: Noise,
    own: f64,
    now: f64,
    runs: [Vec<RunRecord>; 2],
    samples: [Vec<[CellSamples; 1]>; 2],
}

impl Turns {
    fn new(trial: u64) -> Self {
        let mut noise = Noise(trial * 7_919 + 1);
        Self {
            like: load::run("concurrency-sweep"),
            own: noise.uniform(),
            noise,
            now: 0.0,
            runs: Default::default(),
            samples: Default::default(),
        }
    }

    fn take_block(&mut self, effect: Side, drift: Drift, block: usize) {
        let b_first = self.noise.uniform() < 0.5;
        for turn in 0..4 {
            let is_b = (turn == 1 || turn == 2) != b_first;
            let side = if is_b { effect } else { NONE };
            let own = self.own;
            let drift = |time: f64| 1.0 + drift(time / WHOLE, own);
            let began = Nanos::from_secs_f64(self.now);
            let records = requests((side, TURN), &mut self.now, drift, &mut self.noise);
            let mut run = run_of(&self.like, &records);
            run.config = serde_json::json!({"versus": "http://b", "blocks": MOST});
            run.clock.unix_epoch_ns = Some(began.get());
            run.tags.insert("block".to_owned(), block.to_string());
            self.samples[usize::from(is_b)].push([samples_of(&records)]);
            self.runs[usize::from(is_b)].push(run);
        }
    }

    fn compared(&self) -> RunComparison {
        let samples = self.samples.each_ref().map(|side| {
            let runs = side.iter().map(<[CellSamples; 1]>::as_slice);
            runs.collect::<Vec<_>>()
        });
        let samples = ComparedSamples {
            base: &samples[0],
            new: &samples[1],
        };
        compared(&self.runs[0], &self.runs[1], samples)
    }
}

/// As many requests of one side, and then of the other.
fn one_after_the_other(effect: Side, drift: Drift, trial: u64) -> RunComparison {
    let like = load::run("concurrency-sweep");
    let mut noise = Noise(trial * 7_919 + 1);
    let (own, mut now) = (noise.uniform(), 0.0);
    let sides = [NONE, effect].map(|side| {
        let drift = |time: f64| 1.0 + drift(time / WHOLE, own);
        requests((side, ALL), &mut now, drift, &mut noise)
    });
    let runs = sides.each_ref().map(|records| [run_of(&like, records)]);
    let samples = sides.each_ref().map(|records| [samples_of(records)]);
    let samples = ComparedSamples {
        base: &[&samples[0]],
        new: &[&samples[1]],
    };
    compared(&runs[0], &runs[1], samples)
}

fn compared(a: &[RunRecord], b: &[RunRecord], samples: ComparedSamples<'_>) -> RunComparison {
    let [a, b] = [a, b].map(|runs| runs.iter().collect::<Vec<_>>());
    let options = CompareOptions {
        margin: 0.02,
        ..CompareOptions::default()
    };
    compare(&a, &b, samples, &options).unwrap()
}

const NONE: Side = Side {
    first: 1.0,
    gap: 1.0,
    odd: None,
};
const SLOWER_GAP: Side = Side {
    first: 1.0,
    gap: 1.03,
    odd: None,
};
const SLOWER_FIRST: Side = Side {
    first: 1.03,
    gap: 1.0,
    odd: None,
};

/// Whether anything is said to differ.
fn is_alarm(found: &RunComparison) -> bool {
    found.count(ComparisonVerdict::Better) + found.count(ComparisonVerdict::Worse) > 0
}

/// Whether the median of what was made slower is said to be.
fn is_found(found: &RunComparison, quantity: &str) -> bool {
    let row = found.row("c4", quantity);
    row.is_some_and(|row| row.verdict == ComparisonVerdict::Worse)
}

fn drifts() -> [(&'static str, Drift); 4] {
    [
        ("none", |_, _| 0.0),
        ("sine of ± 10 %, one period", |time, own| {
            0.1 * (TAU * (time + own)).sin()
        }),
        ("sine of ± 10 %, three periods", |time, own| {
            0.1 * (TAU * (3.0 * time + own)).sin()
        }),
        (
            "step of 10 %",
            |time, own| if time < own { 0.0 } else { 0.1 },
        ),
    ]
}

/// What so many trials come to: false alarms, medians that are said to be the same, blocks, how often a slower gap and a slower first token are found; the same of one side
/// after the other.
#[derive(Debug, Default)]
struct Told {
    alarms: usize,
    same: usize,
    blocks: usize,
    gap: usize,
    first: usize,
    first_median: usize,
    alarms_after: usize,
    gap_after: usize,
}

fn told(drift: Drift, trials: u64) -> Told {
    let mut told = Told::default();
    for trial in 0..trials {
        let (found, blocks) = in_turns(NONE, drift, trial);
        told.alarms += usize::from(is_alarm(&found));
        told.same += usize::from(found.is_decided() && !is_alarm(&found));
        told.blocks += blocks;
        let gap = in_turns(SLOWER_GAP, drift, trial).0;
        told.gap += usize::from(is_found(&gap, "itl.p50"));
        let first = in_turns(SLOWER_FIRST, drift, trial).0;
        told.first += usize::from(is_found(&first, "ttft.paired"));
        told.first_median += usize::from(is_found(&first, "ttft.p50"));
        let after = |effect| one_after_the_other(effect, drift, trial);
        told.alarms_after += usize::from(is_alarm(&after(NONE)));
        let after = after(SLOWER_GAP);
        told.gap_after += usize::from(is_found(&after, "itl.p50"));
    }
    told
}

#[test]
fn requests_are_only_paired_where_both_sides_sent_the_same() {
    let mut turns = Turns::new(3);
    for block in 1..=4 {
        turns.take_block(NONE, drifts()[0].1, block);
    }
    let found = turns.compared();
    let pairs = |found: &RunComparison, quantity| Some(found.row("c4", quantity)?.n);
    assert_eq!(pairs(&found, "ttft.paired"), Some((8 * TURN, 8 * TURN)));
    assert_eq!(found.answer().unwrap().matches("TTFT").count(), 1);
    turns.runs[1][2].seed += 1;
    assert_eq!(pairs(&turns.compared(), "ttft.paired"), None);
    assert!(turns.compared().answer().unwrap().contains("TTFT p50"));
}

#[test]
fn a_turn_that_does_not_know_a_figure_takes_its_block_away_and_no_other() {
    let mut turns = Turns::new(3);
    for block in 1..=6 {
        turns.take_block(NONE, drifts()[0].1, block);
    }
    let forget = |run: &mut RunRecord| {
        let cell = &mut run.cells[0];
        let e2e = Metric::E2e.from_origin(cell.headline);
        let told = cell.metrics.get_mut(&e2e).unwrap();
        told.quantiles.retain(|entry| entry.q < 0.9);
    };
    let all = turns.compared().row("c4", "e2e.p95").unwrap().n;
    // the first run of all, and one in the middle
    forget(&mut turns.runs[0][0]);
    forget(&mut turns.runs[1][7]);
    let found = turns.compared();
    let row = found.row("c4", "e2e.p95").unwrap();
    assert_eq!(row.test, "runs in turns");
    assert_ne!(row.n, all);
    forget(&mut turns.runs[1][5]);
    // three blocks are too few
    assert_eq!(turns.compared().row("c4", "e2e.p95"), None);
    assert!(turns.compared().row("c4", "e2e.p50").is_some());
}

#[test]
fn a_block_that_lacks_a_turn_is_left_out_with_a_word() {
    let mut turns = Turns::new(3);
    for block in 1..=6 {
        turns.take_block(NONE, drifts()[0].1, block);
    }
    let left_out = |found: &RunComparison| {
        let mut told = found.cautions.iter();
        told.any(|caution| caution.contains("1 block of turns is left out"))
    };
    assert!(!left_out(&turns.compared()));
    turns.runs[1][7].complete = false;
    let found = turns.compared();
    assert_eq!(found.blocks.map(|(measured, _)| measured), Some(5));
    assert!(left_out(&found), "{:?}", found.cautions);
}

#[test]
fn requests_that_failed_on_any_turn_are_told() {
    let mut turns = Turns::new(3);
    for block in 1..=6 {
        turns.take_block(NONE, drifts()[0].1, block);
    }
    assert_eq!(turns.compared().row("c4", "success_rate"), None);
    for run in &mut turns.runs[1][1..] {
        run.cells[0].counts.completed -= 2;
        run.cells[0].counts.failed += 2;
    }
    let found = turns.compared();
    let row = found.row("c4", "success_rate").unwrap();
    assert_eq!(row.verdict, ComparisonVerdict::Worse, "{row:?}");
    assert!(found.answer().unwrap().contains("success rate worse"));
}

#[test]
fn a_few_requests_that_take_long_are_told_beside_typical_ones_that_do_not() {
    let effect = Side {
        odd: Some(20),
        ..NONE
    };
    let (found, _) = in_turns(effect, drifts()[0].1, 5);
    let same = found.row("c4", "e2e.paired").unwrap().verdict;
    assert!(matches!(
        same,
        ComparisonVerdict::WithinMargin | ComparisonVerdict::NoDifferenceFound
    ));
    assert!(is_found(&found, "requests_per_s"));
    let said = found.answer().unwrap();
    let (typical, all) = said.split_once("; of all requests ").unwrap();
    assert!(typical.starts_with("Of typical requests TTFT"), "{said}");
    assert!(all.starts_with("requests/s worse (-"), "{said}");
    // what nobody can tell of all requests is not said of them
    let mut open = found.clone();
    for row in &mut open.rows {
        if row.quantity == "requests_per_s" {
            row.verdict = ComparisonVerdict::CannotTell;
        }
    }
    let said = open.answer().unwrap();
    assert!(
        said.contains("; of all requests requests/s cannot tell"),
        "{said}"
    );
}

#[test]
fn two_sides_in_turns_are_the_same_through_a_drift_and_a_slower_one_is_found() {
    let (_, sine) = drifts()[1];
    for trial in 0..2 {
        assert!(!is_alarm(&in_turns(NONE, sine, trial).0), "{trial}");
        let (found, blocks) = in_turns(SLOWER_GAP, sine, trial);
        assert!(is_found(&found, "itl.p50"), "{trial}: {blocks} blocks");
    }
}

/// The table of docs/verification.md: `TRIALS=200 cargo test --release -p bench-insight --test all -- --ignored --nocapture two_sides_in_turns_of_200`.
#[test]
#[ignore = "an hour of simulation"]
fn two_sides_in_turns_of_200_trials() {
    let asked = std::env::var_os("TRIALS").and_then(|n| n.to_str()?.parse().ok());
    let trials: u64 = asked.unwrap_or(200);
    let one = |(name, drift): (&str, Drift)| {
        let found = told(drift, trials);
        let mean = found.blocks as f64 / trials as f64;
        println!("{name}: of {trials} {found:?}, {mean:.1} blocks on average");
        assert!(found.alarms as u64 * 20 <= trials, "{name}: {found:?}");
    };
    std::thread::scope(|scope| {
        for drift in drifts() {
            scope.spawn(move || one(drift));
        }
    });
}
