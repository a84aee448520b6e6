//! A whole phase in virtual time: planner, queues, workers, against a server by script.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use bench_client::{RequestEncoder, Target, protocol_by_name};
use bench_schema::{
    ArrivalKind, FailureKind, Load, Outcome, Phase as PhaseKind, RequestRecord, Stage as At,
};
use bench_workload::{Plan, PlanSpec, TokenCounter, WorkloadError};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tokio::sync::Notify;
use tokio::task::{LocalSet, yield_now};

use super::*;
use crate::health::Health;
use crate::open_record::{Label, RecordSink};
use crate::phase::{PhaseCounts, Window};
use crate::planner::{PlannerHandle, PlannerLoop};
use crate::progress::ProgressCounters;
use crate::recorder::{Kept, Recorder};
use crate::redact::Secrets;
use crate::stop::Stop;

/// What the server does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// A whole answer after so many milliseconds.
    Answers(u64),
    /// A refusal with this status, and what it asks for in seconds.
    Refuses(u16, Option<i64>),
    /// Nothing, until it is called back.
    Hangs,
    /// The client's own code is broken.
    Panics,
}

/// Each word is a token.
#[derive(Debug)]
struct WordTokens;

impl TokenCounter for WordTokens {
    fn name(&self) -> &'static str {
        "tokenizer"
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        Ok(text.split_whitespace().count() as u64)
    }
}

/// Virtual time, and a server that does what the script says, request after request.
struct Stage {
    now: Cell<Stamp>,
    /// Everybody who waits for time to pass.
    waiting: TimerQueue,
    script: Box<dyn Fn(usize) -> Does>,
    /// When which request came, with its body.
    sent: RefCell<Vec<(Stamp, String, String)>>,
    recalled: Cell<bool>,
    recall: Notify,
}

impl Stage {
    async fn sleep(&self, ms: u64) {
        let time = Nanos::from_millis(i64::try_from(ms).unwrap());
        self.waiting.wait_until(self.now.get() + time).await;
    }

    /// Let time pass whenever nobody has anything to do. The planner takes so long for each thing it does.
    async fn pass_time(&self, mut planner: PlannerLoop, takes: Nanos) {
        let mut planner_free = self.now.get();
        loop {
            for _ in 0..ROUNDS {
                yield_now().await;
            }
            let now = self.now.get();
            if now >= planner_free {
                planner_free = now + takes;
                if planner.work() {
                    while takes == Nanos::ZERO && planner.work() {}
                    continue;
                }
            }
            let planner = Some(planner_free).filter(|free| *free > now);
            let next = self.waiting.next().into_iter().chain(planner).min();
            let next = next.expect("nothing will ever happen again");
            self.now.set(next.max(now));
            self.waiting.ring(self.now.get());
        }
    }
}

/// More than any chain of tasks that wake each other is long.
const ROUNDS: usize = 32;

impl WorkerIo for Rc<Stage> {
    fn now(&self) -> Stamp {
        self.now.get()
    }

    async fn send(&self, request: &PreparedRequest) -> Exchange {
        let number = self.sent.borrow().len();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let name = request.request_id().unwrap().to_owned();
        self.sent.borrow_mut().push((self.now(), name, body));
        let mut wire = Exchange::nothing(Outcome::Completed);
        wire.sent = Some(self.now());
        if self.recalled.get() {
            return cancelled();
        }
        match (self.script)(number) {
            Does::Answers(ms) => {
                tokio::select! {
                    () = self.sleep(ms) => wire.text = Some(format!("answer-{number}")),
                    () = self.recall.notified() => return cancelled(),
                }
            }
            Does::Refuses(status, wait) => {
                self.sleep(1).await;
                wire.status = Some(status);
                wire.retry_after = wait.map(Nanos::from_secs);
                wire.outcome = Outcome::Failed {
                    stage: At::Headers,
                    failure: FailureKind::Status,
                    message: format!("HTTP {status}"),
                };
            }
            Does::Hangs => {
                self.recall.notified().await;
                return cancelled();
            }
            Does::Panics => panic!("as the script says"),
        }
        wire.closed = Some(self.now());
        wire
    }

    fn recall(&self) {
        self.recalled.set(true);
        self.recall.notify_waiters();
    }
}

fn cancelled() -> Exchange {
    Exchange::nothing(Outcome::Cancelled {
        reason: "the run was ended".to_owned(),
    })
}

struct Sleeper(Rc<Stage>);

impl WorkerTimer for Sleeper {
    async fn wait_until(&mut self, due: Stamp) {
        self.0.waiting.wait_until(due).await;
    }
}

/// What a test asks for.
struct Play {
    spec: PlanSpec,
    warmup: Option<(Option<u64>, Option<Nanos>)>,
    workers: u32,
    ramp_up: Nanos,
    keep_going: bool,
    /// Virtual time that the planner takes for each conversation and turn.
    planner_ms: u64,
    depth: usize,
    does: Box<dyn Fn(usize) -> Does>,
    /// When the run is told to drain, and to cut.
    drain_ms: Option<u64>,
    cut_ms: Option<u64>,
    enough_ms: Option<u64>,
}

/// What came of it.
struct Played {
    records: Vec<RequestRecord>,
    planned: u64,
    warm_planned: u64,
    phase: Arc<Phase>,
    bodies: Vec<String>,
    names: Vec<String>,
    result: Result<(), RunError>,
}

fn open(rate_per_s: f64, in_flight_cap: Option<u32>) -> Load {
    Load::Open {
        rate_per_s: Some(rate_per_s),
        arrival: ArrivalKind::Constant,
        in_flight_cap,
    }
}

impl Play {
    fn new(load: Load, requests: u64, does: impl Fn(usize) -> Does + 'static) -> Self {
        Self {
            spec: PlanSpec {
                dataset: "random".parse().unwrap(),
                input: Some("4".parse().unwrap()),
                output: Some("2".parse().unwrap()),
                load,
                requests: Some(requests),
                chat: true,
                ..PlanSpec::default()
            },
            warmup: None,
            workers: 1,
            ramp_up: Nanos::ZERO,
            keep_going: true,
            planner_ms: 0,
            depth: 64,
            does: Box::new(does),
            drain_ms: None,
            cut_ms: None,
            enough_ms: None,
        }
    }

    fn run(self) -> Played {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, self.carried_out())
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a whole phase is put together here, part by part"
    )]
    async fn carried_out(self) -> Played {
        let stage = Rc::new(Stage {
            now: Cell::new(Stamp::new(5_000_000_000)),
            waiting: TimerQueue::default(),
            script: self.does,
            sent: RefCell::default(),
            recalled: Cell::new(false),
            recall: Notify::new(),
        });
        let protocol = protocol_by_name("openai-chat").unwrap();
        let target = Target::new("http://127.0.0.1:1", protocol, "m").unwrap();
        let handle = PlannerHandle::new(
            RequestEncoder::new(&target).unwrap(),
            true,
            Some(Arc::new(WordTokens)),
        );
        let (recorder, kept) = Recorder::to_memory();
        let health = Arc::new(Health::new(self.keep_going, Secrets::default()));
        let sink = Arc::new(RecordSink {
            recorder,
            counters: Arc::<ProgressCounters>::default(),
            health: Arc::clone(&health),
        });
        let part = |kind, spec: PlanSpec, length| {
            let label = Label {
                cell: "c".to_owned(),
                repeat: 0,
                kind,
            };
            let queues = if spec.load.is_open() {
                self.workers as usize
            } else {
                1
            };
            let plan = Plan::new(spec, Arc::new(WordTokens)).unwrap();
            let sink = (label, Arc::clone(&sink));
            Part {
                queues: handle.deal(plan.iter(), queues, self.depth, sink),
                requests: plan.requests(),
                length,
                not_reached: Mutex::default(),
            }
        };
        let warmup = self.warmup.map(|(requests, length)| {
            let spec = PlanSpec {
                requests,
                duration: length.filter(|_| requests.is_none()),
                phase: PhaseKind::Warmup,
                ..self.spec.clone()
            };
            part(PhaseKind::Warmup, spec, length)
        });
        let measure = part(PhaseKind::Measure, self.spec.clone(), self.spec.duration);
        // As long as the planner has made nothing no phase begins.
        let waits = {
            let primed = std::pin::pin!(measure.primed());
            let now = primed.poll(&mut Context::from_waker(Waker::noop()));
            now.is_pending()
        };
        assert!(waits, "a phase would begin without prompts");
        let mut planner = PlannerLoop::new(handle.clone());
        while planner.work() {}
        for part in warmup.iter().chain([&measure]) {
            part.primed().await;
        }
        let stop = Stop::new();
        let phase = Arc::new(Phase {
            load: self.spec.load.clone(),
            start: stage.now(),
            ramp_up: self.ramp_up,
            warmup,
            measure: Some(measure),
            limiter: None,
            enough: Arc::default(),
            health,
            stop: stop.clone(),
            planner: handle,
            window: Window::default(),
            counts: PhaseCounts::default(),
        });
        let mut pool = JoinSet::new();
        for index in 0..self.workers {
            let worker = Rc::new(Worker {
                index,
                count: self.workers,
                io: Rc::clone(&stage),
                timer_queue: TimerQueue::default(),
                since: Cell::new(None),
            });
            let (phase, mut timer) = (Arc::clone(&phase), Sleeper(Rc::clone(&stage)));
            pool.spawn_local(async move { worker.carry_out(&phase, &mut timer).await });
        }
        let all_back = async {
            let mut result = Ok(());
            while let Some(ended) = pool.join_next().await {
                result = result.and(ended.unwrap());
            }
            result
        };
        let interrupted = async {
            let at = async |ms: Option<u64>| match ms {
                Some(ms) => stage.sleep(ms).await,
                None => std::future::pending().await,
            };
            tokio::join!(
                async {
                    at(self.drain_ms).await;
                    stop.advance(Ending::Draining);
                },
                async {
                    at(self.cut_ms).await;
                    stop.advance(Ending::Cutting);
                },
                async {
                    at(self.enough_ms).await;
                    phase.enough.store(true, Ordering::Relaxed);
                },
            );
            std::future::pending::<()>().await;
        };
        let takes = Nanos::from_millis(i64::try_from(self.planner_ms).unwrap());
        let result = tokio::select! {
            result = all_back => result,
            () = interrupted => Ok(()),
            () = stage.pass_time(planner, takes) => Ok(()),
        };
        played(phase, &kept, &stage, result)
    }
}

fn played(phase: Arc<Phase>, kept: &Kept, stage: &Stage, result: Result<(), RunError>) -> Played {
    Played {
        records: kept.take(),
        planned: phase.planned().0,
        warm_planned: phase.warmup.as_ref().map_or(0, |part| part.planned().0),
        bodies: stage
            .sent
            .borrow()
            .iter()
            .map(|sent| sent.2.clone())
            .collect(),
        names: stage.sent.borrow().iter().map(|s| s.1.clone()).collect(),
        phase,
        result,
    }
}

impl Played {
    fn of(&self, kind: PhaseKind) -> Vec<&RequestRecord> {
        self.records.iter().filter(|r| r.phase == kind).collect()
    }

    fn measured(&self) -> Vec<&RequestRecord> {
        self.of(PhaseKind::Measure)
    }

    fn outcomes(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for record in &self.records {
            *counts.entry(record.wire.outcome.name()).or_default() += 1;
        }
        counts
    }

    /// Every request that was handed out has one record, and no other has.
    fn add_up(&self) -> bool {
        let ids: BTreeSet<_> = self
            .records
            .iter()
            .map(|r| (r.phase == PhaseKind::Warmup, r.id))
            .collect();
        ids.len() == self.records.len()
            && self.measured().len() as u64 == self.planned
            && self.of(PhaseKind::Warmup).len() as u64 == self.warm_planned
    }

    /// Every request that was sent has a record, and went out under the name of what it is recorded as.
    fn names_agree(&self) -> bool {
        let name = |r: &&RequestRecord| {
            let warmup = if r.phase == PhaseKind::Warmup {
                "w"
            } else {
                ""
            };
            format!("{}-{}-{warmup}{}", r.cell, r.repeat, r.id)
        };
        let recorded = self.records.iter().filter(|r| r.dispatched.is_some());
        let recorded: BTreeSet<_> = recorded.map(|r| name(&r)).collect();
        let sent: BTreeSet<_> = self.names.iter().cloned().collect();
        sent.len() == self.names.len() && sent == recorded
    }

    fn dispatched_ms(&self) -> Vec<i64> {
        let mut at: Vec<i64> = self
            .records
            .iter()
            .filter_map(|r| Some(ms(r.dispatched?)))
            .collect();
        at.sort_unstable();
        at
    }
}

fn ms(at: Stamp) -> i64 {
    at.get() / 1_000_000
}

#[test]
fn an_open_loop_starts_requests_when_they_are_due_whatever_the_answers_do() {
    for workers in [1, 3] {
        let played = Play {
            workers,
            ..Play::new(open(100.0, None), 20, |_| Does::Answers(1000))
        }
        .run();
        assert!(played.add_up() && played.planned == 20);
        for record in played.measured() {
            assert_eq!(record.dispatched, Some(record.due));
            assert_eq!(
                record.worker,
                u32::try_from(record.id).ok().map(|id| id % workers)
            );
        }
        let began = ms(played.phase.start);
        let due: Vec<i64> = (0..20).map(|n| began + 10 * n).collect();
        assert_eq!(played.dispatched_ms(), due);
        assert_eq!(played.phase.counts.starved(), 0);
    }
}

#[test]
fn every_turn_of_a_conversation_that_the_cap_refuses_is_recorded() {
    let mut play = Play::new(open(100.0, Some(1)), 9, |_| Does::Answers(10_000));
    play.spec.dataset = "multiturn:3:4:4:think=0".parse().unwrap();
    play.spec.input = None;
    let played = play.run();
    assert!(played.add_up() && played.planned == 9);
    assert_eq!(played.outcomes(), [("completed", 3), ("unsent", 6)].into());
    let outcomes = || played.records.iter().map(|r| &r.wire.outcome);
    assert_eq!(outcomes().filter(|o| o.is_capped()).count(), 6);
}

#[test]
fn a_later_turn_carries_the_answer_and_waits_for_its_think_time() {
    let mut play = Play::new(Load::closed(1), 3, |_| Does::Answers(100));
    play.spec.dataset = "multiturn:3:4:4:think=2".parse().unwrap();
    play.spec.input = None;
    let played = play.run();
    assert!(played.add_up());
    assert!(played.bodies[2].contains("answer-0") && played.bodies[2].contains("answer-1"));
    let sent: Vec<_> = played
        .measured()
        .iter()
        .map(|record| record.prompt.sent_tokens.zip(record.prompt.words))
        .collect();
    assert_eq!(
        sent,
        [Some((4, 4)), Some((9, 9)), Some((14, 14))],
        "of all that was said, answers of a word each included"
    );
    let began = ms(played.phase.start);
    assert_eq!(played.dispatched_ms(), [began, began + 2100, began + 4200]);
    let lateness = |r: &&RequestRecord| r.dispatched.is_some_and(|at| at > r.due);
    assert!(
        !played.measured().iter().any(lateness),
        "the planner's work was hidden"
    );
}

/// A cell that ends by time, a run that is ended, a precision that is reached: each after three seconds. Of the schedule of an open loop the end is
/// known; its conversations go on to theirs.
#[test]
fn a_turn_that_is_due_after_the_load_has_ended_is_not_part_of_the_plan() {
    let (closed, open) = (Load::closed(4), open(1.0, None));
    for (load, ends_by, requests, last) in [
        (&closed, "time", 8, 2),
        (&closed, "order", 8, 2),
        (&closed, "precision", 8, 2),
        (&open, "time", 9, 6),
        (&open, "order", 5, 3),
        (&open, "precision", 5, 3),
    ] {
        let mut play = Play::new(load.clone(), 1_000, |_| Does::Answers(100));
        play.spec.dataset = "multiturn:3:4:4:think=2".parse().unwrap();
        play.spec.input = None;
        match ends_by {
            "time" => {
                let requests = if load.is_open() { None } else { Some(1_000) };
                play.spec.requests = requests;
                play.spec.duration = Some(Nanos::from_secs(3));
            }
            "order" => play.drain_ms = Some(3_050),
            _ => play.enough_ms = Some(3_050),
        }
        let played = play.run();
        assert!(played.add_up());
        let measured = played.measured();
        assert!(
            measured.iter().all(|r| r.dispatched == Some(r.due)),
            "nothing goes out before it is due"
        );
        let seconds = |r: &&RequestRecord| (r.due - played.phase.start).as_secs_f64().floor();
        let came = (
            measured.len(),
            measured.iter().map(seconds).fold(0.0, f64::max),
        );
        assert_eq!(came, (requests, f64::from(last)), "{load:?} {ends_by}");
    }
}

#[test]
fn what_the_think_time_does_not_hide_is_lateness() {
    let mut play = Play::new(Load::closed(1), 2, |_| Does::Answers(10));
    play.spec.dataset = "multiturn:2:4:4:think=0".parse().unwrap();
    play.spec.input = None;
    play.planner_ms = 40;
    let played = play.run();
    let late: Vec<_> = played
        .measured()
        .iter()
        .map(|r| r.dispatched.map_or(Nanos::ZERO, |at| at - r.due))
        .collect();
    // the answer is there after 10 ms, the planner looks up at 40
    assert_eq!(late, [Nanos::ZERO, Nanos::from_millis(30)]);
}

#[test]
fn the_turns_after_one_that_failed_are_recorded_as_unsent() {
    let mut play = Play::new(Load::closed(1), 4, |_| Does::Refuses(500, None));
    play.spec.dataset = "multiturn:4:4:4:think=0".parse().unwrap();
    play.spec.input = None;
    let played = play.run();
    assert!(played.add_up());
    assert_eq!(played.outcomes(), [("failed", 1), ("unsent", 3)].into());
}

#[test]
fn a_closed_loop_hands_its_slots_over_without_draining() {
    // answers of different lengths, so that slots come free one by one
    let played = Play {
        warmup: Some((Some(4), None)),
        workers: 2,
        ..Play::new(Load::closed(4), 20, |n| {
            Does::Answers(100 + 30 * (n as u64 % 5))
        })
    }
    .run();
    assert!(played.add_up());
    assert_eq!((played.warm_planned, played.planned), (4, 20));
    let opened = played.measured().iter().map(|r| r.due).min().unwrap();
    let warm = played.of(PhaseKind::Warmup);
    assert!(
        warm.iter().all(|r| r.due < opened),
        "what began before the window is warm-up"
    );
    assert!(
        warm.iter().any(|r| r.wire.closed > Some(opened)),
        "and may end within it"
    );
    // from the first request to the last one that is taken up, all slots are busy
    let last = *played.dispatched_ms().last().unwrap();
    for at in (ms(played.phase.start)..last).step_by(7) {
        let busy = played.records.iter().filter(|r| {
            r.dispatched.is_some_and(|from| ms(from) <= at)
                && r.wire.closed.is_some_and(|to| at < ms(to))
        });
        assert_eq!(busy.count(), 4, "at {at}");
    }
}

#[test]
fn a_warm_up_by_time_ends_at_its_instant() {
    let played = Play {
        warmup: Some((None, Some(Nanos::from_millis(450)))),
        ..Play::new(Load::closed(2), 6, |_| Does::Answers(100))
    }
    .run();
    assert!(played.add_up());
    // five rounds begin before it: at 0, 100, 200, 300 and 400
    assert_eq!(played.warm_planned, 10);
    let began = ms(played.phase.start);
    let first = played.measured().iter().map(|r| ms(r.due)).min();
    assert_eq!(first, Some(began + 500));
}

#[test]
fn an_open_loop_is_warmed_by_its_own_schedule_and_goes_on_at_its_end() {
    let played = Play {
        warmup: Some((Some(10), Some(Nanos::from_millis(100)))),
        ..Play::new(open(100.0, None), 10, |_| Does::Answers(500))
    }
    .run();
    assert!(played.add_up() && played.warm_planned == 10);
    let began = ms(played.phase.start);
    let due: Vec<i64> = (0..20).map(|n| began + 10 * n).collect();
    assert_eq!(played.dispatched_ms(), due, "no gap between the two");
    let first = played.measured().iter().map(|r| ms(r.due)).min();
    assert_eq!(first, Some(began + 100));
}

#[test]
fn a_cold_start_is_spread_where_that_is_asked_for() {
    let played = Play {
        ramp_up: Nanos::from_millis(400),
        ..Play::new(Load::closed(4), 4, |_| Does::Answers(5000))
    }
    .run();
    let began = ms(played.phase.start);
    let at: Vec<_> = played.dispatched_ms().iter().map(|at| at - began).collect();
    assert_eq!(at, [0, 100, 200, 300]);
}

#[test]
fn slots_leave_an_overloaded_server_alone_longer_and_longer() {
    let played = Play::new(Load::closed(1), 5, |n| match n {
        0..3 => Does::Refuses(429, None),
        3 => Does::Refuses(503, Some(7)),
        _ => Does::Answers(1),
    })
    .run();
    assert!(played.add_up());
    let at = played.dispatched_ms();
    let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // each pause follows a refusal of a millisecond
    assert_eq!(gaps, [101, 201, 401, 7001]);
    let lateness = |r: &&RequestRecord| r.dispatched.is_some_and(|at| at > r.due);
    assert!(
        !played.measured().iter().any(lateness),
        "a pause on purpose is not lateness"
    );
}

#[test]
fn a_closed_loop_on_a_server_that_fails_at_once_does_not_become_a_hot_loop() {
    let slots = 64;
    let played = Play {
        drain_ms: Some(60_000),
        ..Play::new(Load::closed(slots), 1_000_000, |_| Does::Refuses(500, None))
    }
    .run();
    assert!(played.add_up());
    // two at once, six pauses of 0.1 to 3.2 s, then one every 5 s, where 60,000 of a millisecond each would have been possible
    let most = usize::try_from(slots).unwrap() * 20;
    assert!(
        played.measured().len() <= most,
        "{}",
        played.measured().len()
    );
}

#[test]
fn the_window_of_a_cell_whose_slots_wait_at_its_end_goes_to_its_end() {
    let ends = [(Some(Nanos::from_secs(8)), None), (None, Some(8_000))];
    for (duration, drain_ms) in ends {
        let mut play = Play::new(Load::closed(2), 1000, |n| match n {
            0..20 => Does::Answers(100),
            _ => Does::Refuses(503, Some(30)),
        });
        (play.spec.duration, play.drain_ms) = (duration, drain_ms);
        let played = play.run();
        assert!(played.add_up());
        let all = [("completed", 20), ("failed", 2), ("unsent", 2)];
        assert_eq!(played.outcomes(), all.into());
        let end = played.phase.start + Nanos::from_secs(8);
        let unsent = played.measured().into_iter();
        for record in unsent.filter(|record| record.wire.outcome.name() == "unsent") {
            assert_eq!(record.due, end);
        }
    }
}

#[test]
fn an_open_loop_never_backs_off() {
    let played = Play::new(open(100.0, None), 10, |_| Does::Refuses(429, Some(60))).run();
    let began = ms(played.phase.start);
    let due: Vec<i64> = (0..10).map(|n| began + 10 * n).collect();
    assert_eq!(played.dispatched_ms(), due);
}

#[test]
fn a_planner_that_is_too_slow_is_seen() {
    for load in [open(1000.0, None), Load::closed(4)] {
        let played = Play {
            planner_ms: 50,
            depth: 4,
            ..Play::new(load, 12, |_| Does::Answers(5))
        }
        .run();
        assert!(played.add_up() && played.planned == 12);
        assert!(played.phase.counts.starved() > 0);
    }
}

/// The first six requests are ready before the phase begins; a warm-up that has to wait for the others is nothing that was measured.
#[test]
fn a_warm_up_that_starves_is_not_counted_as_the_measurement() {
    let load = open(1000.0, None);
    let played = Play {
        planner_ms: 50,
        depth: 4,
        warmup: Some((Some(40), Some(Nanos::from_millis(40)))),
        ..Play::new(load, 4, |_| Does::Answers(5))
    }
    .run();
    assert!(played.add_up() && played.planned == 4);
    assert!(played.phase.counts.starved() <= played.planned);
}

#[test]
fn a_request_whose_task_panics_is_recorded_as_lost() {
    let played = Play::new(open(100.0, Some(2)), 6, |n| {
        if n == 1 {
            Does::Panics
        } else {
            Does::Answers(5)
        }
    })
    .run();
    assert!(played.add_up() && played.planned == 6);
    assert_eq!(played.outcomes(), [("completed", 5), ("failed", 1)].into());
    // its place in flight is free again: nothing else is left out
}

#[test]
fn a_cell_whose_first_requests_all_fail_ends_early_unless_told_to_go_on() {
    for (keep_going, least, most) in [(false, 10, 14), (true, 200, 200)] {
        for load in [Load::closed(4), open(100.0, None)] {
            let played = Play {
                keep_going,
                ..Play::new(load, 200, |_| Does::Refuses(500, None))
            }
            .run();
            assert!(played.add_up());
            assert!(
                (least..=most).contains(&played.planned),
                "{}",
                played.planned
            );
            assert_eq!(played.phase.health.verdict().is_some(), !keep_going);
        }
    }
}

#[test]
fn a_reached_precision_ends_an_open_loop_too() {
    let played = Play {
        enough_ms: Some(100),
        ..Play::new(open(100.0, None), 1000, |_| Does::Answers(5))
    }
    .run();
    assert!(played.add_up());
    assert!((10..=13).contains(&played.planned), "{}", played.planned);
    assert_eq!(
        played.outcomes().len(),
        1,
        "what was not reached was not planned"
    );
}

#[test]
fn a_run_that_is_ended_drains_and_what_is_due_by_then_is_planned() {
    let played = Play {
        drain_ms: Some(95),
        ..Play::new(open(100.0, None), 1000, |_| Does::Answers(300))
    }
    .run();
    assert!(played.add_up());
    assert_eq!(
        played.outcomes().get("completed"),
        Some(&usize::try_from(played.planned).unwrap())
    );
    assert!((9..=11).contains(&played.planned), "{}", played.planned);
}

#[test]
fn what_is_in_flight_when_the_grace_is_over_is_called_back() {
    let played = Play {
        drain_ms: Some(50),
        cut_ms: Some(200),
        ..Play::new(Load::closed(3), 10, |_| Does::Hangs)
    }
    .run();
    assert!(played.add_up());
    assert_eq!(played.outcomes(), [("cancelled", 3)].into());
}

#[test]
fn a_dataset_that_cannot_be_read_on_is_an_error_and_loses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    std::fs::write(
        &file,
        "{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\nnot json\n",
    )
    .unwrap();
    let mut play = Play::new(Load::closed(1), 5, |_| Does::Answers(5));
    play.spec.dataset = format!("jsonl:{}", file.display()).parse().unwrap();
    play.spec.input = None;
    let played = play.run();
    assert!(matches!(played.result, Err(RunError::Workload(_))));
    assert!(played.add_up(), "{:?}", played.outcomes());
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        8 => (0_u64..200).prop_map(Does::Answers),
        2 => prop_oneof![Just(429_u16), Just(500), Just(503)].prop_map(|s| Does::Refuses(s, None)),
        1 => Just(Does::Panics),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/worker.txt"))),
        ..ProptestConfig::default()
    })]

    /// Whatever is planned and whatever happens (late, starved, refused by the cap, ended, handed over, cancelled, panicked).
    #[test]
    fn each_planned_request_has_one_record(
        script in prop::collection::vec(does(), 1..40),
        shape in (prop::bool::ANY, prop::bool::ANY, 1_u32..4, 1_u64..40),
        warmup in prop::option::of((1_u64..10, 10_i64..300)),
        ends in (prop::option::of(1_u64..400), prop::option::of(400_u64..800), prop::option::of(1_u64..400)),
        planner in (0_u64..20, 1_usize..20),
        keep_going in prop::bool::ANY,
    ) {
        let (is_open, talks, workers, requests) = shape;
        let load = if is_open { open(100.0, Some(3)) } else { Load::closed(3) };
        let answers = script.len();
        let mut play = Play::new(load, requests, move |n| {
            // a slot that panics ends its run; that is another test's business
            match script[n % answers] {
                Does::Panics if !is_open => Does::Answers(1),
                other => other,
            }
        });
        if talks {
            play.spec.dataset = "multiturn:1..4:4:4:think=0.02".parse().unwrap();
            play.spec.input = None;
        }
        play.workers = workers;
        play.warmup = warmup.map(|(n, ms)| {
            if is_open { (Some(n), Some(Nanos::from_millis(10 * i64::try_from(n).unwrap()))) }
            else if ms % 2 == 0 { (Some(n), None) }
            else { (None, Some(Nanos::from_millis(ms))) }
        });
        (play.drain_ms, play.cut_ms, play.enough_ms) = ends;
        (play.planner_ms, play.depth) = planner;
        play.keep_going = keep_going;
        let played = play.run();
        prop_assert!(played.result.is_ok());
        prop_assert!(played.add_up(), "{:?} of {} + {}", played.outcomes(), played.warm_planned, played.planned);
        prop_assert!(played.names_agree(), "{:?}", played.names);
        if ends == (None, None, None) && keep_going {
            prop_assert_eq!(played.planned, requests);
        }
    }
}
