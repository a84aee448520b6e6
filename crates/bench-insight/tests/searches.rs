//! Whole searches in virtual time, on a simulated server of a known speed: what they answer, and what is said of that.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::collections::VecDeque;

use bench_insight::{Asked, CellConclusion, NextStage, SearchAsked, conclude_run};
use bench_schema::{
    Answer, ArrivalKind, CapacityRecord, Cause, CellRecord, Code, Exchange, Finding, Load, Nanos,
    Outcome, Phase, RequestRecord, RunRecord, SearchEnd, TokenSource, TrustVerdict, Usage,
};

use crate::diagnosis::sim::{Draw, Ms, bare, events_at, stamp, template};

/// How many times as long everything takes, by the second of the search.
type Pace = fn(f64) -> f64;

/// A server that adds a token to each running answer in a step; times in ms.
struct Server {
    slots: usize,
    step: Ms,
    step_each: Ms,
    /// A prompt holds up all answers for so long.
    prefill: Ms,
    /// Tokens of an answer, from … to ….
    tokens: [f64; 2],
    pace: Pace,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            slots: 64,
            step: 10.0,
            step_each: 1.5,
            prefill: 0.1,
            tokens: [40.0, 40.0],
            pace: |_| 1.0,
        }
    }
}

/// A request that waits or is answered.
struct Under {
    due: Ms,
    phase: Phase,
    output: u64,
    events: Vec<Ms>,
}

/// A search that is carried out.
struct Searching<'a> {
    server: &'a Server,
    draw: Draw,
    now: Ms,
}

impl Searching<'_> {
    /// A stage: its warm-up and its requests under its load, until all are answered.
    fn stage(&mut self, cell: &CellRecord, warmup: u64, own: &mut CellConclusion) {
        let all = warmup + cell.stop.requests.unwrap();
        let mut due = self.arrivals(cell, all);
        let (mut asked, mut queue, mut running) = (0, VecDeque::new(), Vec::new());
        loop {
            while due.front().is_some_and(|at| *at <= self.now) && !own.is_enough() && asked < all {
                let [low, high] = self.server.tokens;
                asked += 1;
                queue.push_back(Under {
                    due: due.pop_front().unwrap(),
                    phase: if asked <= warmup {
                        Phase::Warmup
                    } else {
                        Phase::Measure
                    },
                    output: self.draw.whole(low, high + 0.999),
                    events: Vec::new(),
                });
            }
            let is_over = asked == all || own.is_enough() || due.is_empty();
            if queue.is_empty() && running.is_empty() {
                match due.front().filter(|_| !is_over) {
                    Some(next) => self.now = self.now.max(*next),
                    None => break,
                }
                continue;
            }
            let mut takes = 0.0;
            while running.len() < self.server.slots && !queue.is_empty() {
                takes += self.server.prefill;
                running.extend(queue.pop_front());
            }
            takes += self.server.step + self.server.step_each * running.len() as f64;
            self.now += takes * (self.server.pace)(self.now / 1e3) * self.draw.between(0.97, 1.03);
            for request in &mut running {
                request.events.push(self.now);
            }
            let is_done = |request: &mut Under| request.events.len() as u64 == request.output;
            for done in running.extract_if(.., is_done) {
                own.push(&record(&cell.id, &done));
                if !cell.load.is_open() {
                    due.push_back(self.now);
                }
            }
        }
    }

    fn arrivals(&mut self, cell: &CellRecord, all: u64) -> VecDeque<Ms> {
        match cell.load {
            Load::Closed { concurrency, .. } => (0..concurrency).map(|_| self.now).collect(),
            Load::Open { rate_per_s, .. } => {
                let mut at = 0.0;
                let mut next = |_| {
                    at -= self.draw.uniform().max(1e-12).ln();
                    at
                };
                let times: Vec<f64> = (0..all).map(&mut next).collect();
                let each = 1e3 / rate_per_s.unwrap() * all as f64 / at;
                times
                    .into_iter()
                    .map(|time| self.now + each * time)
                    .collect()
            }
        }
    }
}

fn record(cell: &str, done: &Under) -> RequestRecord {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(stamp(done.due));
    wire.status = Some(200);
    wire.events = events_at(done.events.iter().map(|at| stamp(*at)));
    wire.closed = wire.events.last();
    wire.usage = Some(Usage {
        prompt_tokens: Some(100),
        completion_tokens: Some(done.output),
        cached_tokens: Some(0),
        reasoning_tokens: None,
    });
    RequestRecord {
        due: stamp(done.due),
        dispatched: wire.sent,
        phase: done.phase,
        asked_output_tokens: Some(done.output),
        output_tokens: Some(done.output),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(0, cell, wire)
    }
}

/// The cell of a stage, and its warm-up.
fn cell_of(next: NextStage, search: &SearchAsked, place: usize) -> (CellRecord, u64) {
    let (id, load, requests, warmup, seconds) = match next {
        NextStage::Alone(requests) => ("alone".to_owned(), Load::closed(1), requests, 0, None),
        NextStage::Measure(next) if search.closed => {
            let level = bench_schema::whole(next.load);
            let load = Load::closed(u32::try_from(level).unwrap());
            let id = format!("s{place}-c{level}");
            (id, load, next.requests, next.warmup, next.seconds)
        }
        NextStage::Measure(next) => {
            let load = Load::Open {
                rate_per_s: Some(next.load),
                arrival: ArrivalKind::Poisson,
                in_flight_cap: None,
            };
            let id = format!("s{place}-r{}", next.load);
            (id, load, next.requests, next.warmup, next.seconds)
        }
    };
    let mut cell = bare(&id, usize::try_from(requests).unwrap());
    if load.is_open() {
        cell.headline = bench_schema::Origin::Due;
    }
    cell.load = load;
    cell.stop.requests = Some(requests);
    cell.stop.duration = seconds.map(Nanos::from_secs_f64);
    (cell, warmup)
}

/// A search for what holds this objective, with this budget.
fn search(server: &Server, (closed, slo, budget): (bool, &str, &str), seed: u64) -> RunRecord {
    let mut run = template();
    run.config = serde_json::json!({
        "find_capacity": true, "closed": closed, "slo": [slo], "budget": budget
    });
    let asked = Asked::of(&run.config).unwrap();
    let (search, slos) = (asked.search.unwrap(), asked.all_slos());
    let mut evidence = Vec::new();
    let mut searching = Searching {
        server,
        draw: Draw::new(seed),
        now: 0.0,
    };
    while let Some(next) = search.next(&slos, &run.cells) {
        let (mut cell, warmup) = cell_of(next, &search, run.cells.len());
        let mut own = CellConclusion::new(&cell, &asked);
        searching.stage(&cell, warmup, &mut own);
        evidence.push(own.finish(&mut cell, &run.cells, &[]));
        run.cells.push(cell);
    }
    conclude_run(&mut run, evidence).unwrap();
    run
}

fn found(run: &RunRecord) -> &CapacityRecord {
    run.analysis.capacity.as_ref().unwrap()
}

/// What of a search is to be seen in one line.
fn told(run: &RunRecord) -> String {
    let own = found(run);
    let stages = run.cells.iter().map(|cell| {
        let within = cell.slos.first().and_then(|slo| slo.within);
        format!(
            "{} {:.3}",
            cell.id,
            within.map_or(-1.0, |share| share.value)
        )
    });
    let causes: Vec<Option<Cause>> = run.findings.iter().map(Finding::cause).collect();
    format!(
        "{:?} {:?} [{:?}, {:?}] {:?} {:?} {:?} {causes:?} ({:.1} s) {}",
        own.stopped,
        own.value,
        own.low,
        own.high,
        own.why,
        run.trust.verdict,
        run.trust
            .reasons
            .iter()
            .map(|r| &*r.code)
            .collect::<Vec<_>>(),
        own.seconds,
        stages.collect::<Vec<_>>().join(", ")
    )
}

/// Searches of a server by its pace, on which a token takes as much longer from some second on; closed ones and open ones.
fn of_pace(closed: bool, pace: Pace, seed: u64) -> RunRecord {
    let (slots, slo) = if closed {
        (64, "p95:itl=30ms")
    } else {
        (8, "p95:ttft=300ms")
    };
    let server = Server {
        slots,
        pace,
        ..Server::default()
    };
    search(&server, (closed, slo, "90s"), seed)
}

#[test]
fn a_search_of_a_server_that_changed_cannot_tell_a_capacity() {
    let paces: [(Pace, f64); 3] = [
        (|s| if s < 35.0 { 1.0 } else { 1.4 }, 1.4),
        (|s| if s < 22.0 { 1.0 } else { 1.5 }, 1.5),
        (|s| if s < 50.0 { 1.0 } else { 1.2 }, 1.2),
    ];
    for ((pace, times), closed) in paces
        .into_iter()
        .flat_map(|pace| [(pace, true), (pace, false)])
    {
        let run = of_pace(closed, pace, 1);
        let own = found(&run);
        assert_eq!(own.stopped, SearchEnd::Unsteady, "{}", told(&run));
        assert_eq!((own.value, own.low, own.high), (None, None, None));
        let why = own.why.as_deref().unwrap();
        let said = why.split_once(" times as long").unwrap().0;
        let said: f64 = said.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((said / times - 1.0).abs() < 0.03, "{why}");
        assert_eq!(run.trust.verdict, TrustVerdict::Doubtful);
        assert!(run.trust.reasons.iter().any(|r| r.code == "not_stationary"));
        let relies = |f: &Finding| {
            f.code == Code::Answer(Answer::Capacity)
                || f.cause() == Some(Cause::DecodeSlowsWithLoad)
        };
        assert!(!run.findings.iter().any(relies), "{}", told(&run));
    }
}

#[test]
fn a_search_of_a_server_that_keeps_its_speed_says_nothing_of_a_change() {
    for closed in [true, false] {
        let run = of_pace(closed, |_| 1.0, 1);
        assert_ne!(found(&run).stopped, SearchEnd::Unsteady, "{}", told(&run));
        assert!(run.trust.reasons.is_empty(), "{:?}", run.trust);
    }
}

/// `SEEDS=20 cargo test -p bench-insight --test all -- --ignored --nocapture searches_of_servers`: how many searches say that the speed changed, how many are doubted,
/// and how many are trusted with a figure.
#[test]
#[ignore = "takes minutes: see docs/verification.md"]
fn searches_of_servers_by_what_changes() {
    const PERIOD: f64 = 20.0 / std::f64::consts::TAU;
    let cases: [(&str, Pace, Ms); 9] = [
        ("nothing", |_| 1.0, 0.1),
        ("nothing, prompts of 20 ms", |_| 1.0, 20.0),
        ("nothing, prompts of 60 ms", |_| 1.0, 60.0),
        (
            "1.6 times until 5 s",
            |s| if s < 5.0 { 1.6 } else { 1.0 },
            0.1,
        ),
        (
            "1.4 times from 35 s on",
            |s| if s < 35.0 { 1.0 } else { 1.4 },
            0.1,
        ),
        (
            "1.2 times from 50 s on",
            |s| if s < 50.0 { 1.0 } else { 1.2 },
            0.1,
        ),
        (
            "1.5 times from 40 to 60 s",
            |s| if (40.0..60.0).contains(&s) { 1.5 } else { 1.0 },
            0.1,
        ),
        ("up to 1.5 times at 90 s", |s| 1.0 + s / 180.0, 0.1),
        (
            "± 30 %, period 20 s",
            |s| 1.0 + 0.3 * (s / PERIOD).sin(),
            0.1,
        ),
    ];
    for (name, pace, prefill) in cases {
        let own = [[40.0, 40.0], [5.0, 120.0]].map(|tokens| counted(pace, prefill, tokens));
        println!("| {name} | {} |", own.concat().join(" | "));
    }
}

/// Three kinds of searches: how many say that the speed changed, are doubted, and are trusted with a figure.
#[expect(clippy::disallowed_methods, reason = "how many is the caller's")]
fn counted(pace: Pace, prefill: Ms, tokens: [f64; 2]) -> Vec<String> {
    let seeds: u64 = std::env::var("SEEDS").map_or(4, |n| n.parse().unwrap());
    let asked = [
        (true, "p95:itl=30ms"),
        (true, "p95:e2e=2s"),
        (false, "p95:ttft=300ms"),
    ];
    let each = asked.into_iter().map(|(closed, slo)| {
        let server = Server {
            pace,
            prefill,
            tokens,
            slots: if closed { 64 } else { 8 },
            ..Server::default()
        };
        let runs = (0..seeds).map(|seed| search(&server, (closed, slo, "90s"), seed));
        let runs: Vec<RunRecord> = runs.collect();
        let of = |is: fn(&RunRecord) -> bool| runs.iter().filter(|run| is(run)).count();
        let changed = of(|run| found(run).stopped == SearchEnd::Unsteady);
        let doubted = of(|run| run.trust.verdict != TrustVerdict::Trusted);
        let told =
            of(|run| found(run).value.is_some() && run.trust.verdict == TrustVerdict::Trusted);
        format!("{changed}, {doubted}, {told}")
    });
    each.collect()
}
