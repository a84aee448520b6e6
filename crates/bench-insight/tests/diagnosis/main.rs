//! Causes that were put in come out first, and no others: a simulated server with known faults, and healthy shapes that look like
//! faults. Each with the server's metrics and without them.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use bench_insight::{CellSamples, Lost, LostSample, findings};
use bench_schema::{
    Action, Cause, Distribution, FailureKind, Finding, Known, LagRecord, Metric, Nanos, RunRecord,
    SloOutcome, SloVerdict, Stage,
};

mod mistaken;
mod one_at_a_time;
pub(crate) mod sim;

use sim::{Asks, Cell, Draw, Lengths, Server, run, scaled_run};

fn equal(_: usize, _: &mut Draw) -> (u64, u64) {
    (100, 64)
}

fn mixed(_: usize, draw: &mut Draw) -> (u64, u64) {
    (draw.whole(20.0, 800.0), draw.whole(8.0, 200.0))
}

fn long_prompts(_: usize, draw: &mut Draw) -> (u64, u64) {
    (draw.whole(2000.0, 8000.0), 16)
}

fn of_all_lengths(_: usize, draw: &mut Draw) -> (u64, u64) {
    (draw.whole(60.0, 2500.0), 50)
}

fn one_in_ten_long(i: usize, _: &mut Draw) -> (u64, u64) {
    if i % 10 == 3 { (8000, 32) } else { (50, 64) }
}

fn short_answers(_: usize, draw: &mut Draw) -> (u64, u64) {
    (draw.whole(20.0, 200.0), 3)
}

fn cell(asks: Asks, lengths: Lengths, server: Server) -> Cell {
    Cell {
        asks,
        lengths,
        seconds: 40.0,
        warmup: 0.0,
        server,
    }
}

/// A situation: its name, its cells, what must come first with metrics and without, what may come beside.
struct Situation {
    name: &'static str,
    cells: Vec<Cell>,
    with: Cause,
    without: Cause,
}

fn situation(name: &'static str, cells: Vec<Cell>, cause: Cause) -> Situation {
    Situation {
        name,
        cells,
        with: cause,
        without: cause,
    }
}

fn sweep(levels: &[usize], lengths: Lengths, server: &Server) -> Vec<Cell> {
    levels
        .iter()
        .map(|n| cell(Asks::Closed(*n), lengths, server.clone()))
        .collect()
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn healthy() -> Vec<Situation> {
    let server = Server::default();
    let roomy = Server {
        step_each: 0.05,
        ..Server::default()
    };
    let of = |name, asks, lengths, server: &Server| {
        situation(
            name,
            vec![cell(asks, lengths, server.clone())],
            Cause::Healthy,
        )
    };
    vec![
        of("mixed lengths, closed", Asks::Closed(8), mixed, &roomy),
        of("mixed lengths, Poisson", Asks::Poisson(4.0), mixed, &roomy),
        of(
            "equal lengths, one at a time",
            Asks::Closed(1),
            equal,
            &server,
        ),
        of(
            "a closed loop that fills the server",
            Asks::Closed(64),
            equal,
            &roomy,
        ),
        of(
            "mixed lengths fill the server",
            Asks::Closed(64),
            mixed,
            &roomy,
        ),
        of(
            "answers that come whole, one at a time",
            Asks::Closed(1),
            mixed,
            &Server {
                at_once: true,
                ..Server::default()
            },
        ),
        situation(
            "only the first prompts have beginnings that are not known",
            vec![Cell {
                seconds: 9.0,
                ..cell(
                    Asks::Closed(3),
                    |_, _| (400, 40),
                    Server {
                        cache: Some(|i| i >= 4),
                        prefill_token: 0.5,
                        ..Server::default()
                    },
                )
            }],
            Cause::Healthy,
        ),
        of(
            "tokens of reasoning that are told and not sent",
            Asks::Closed(3),
            |_, _| (60, 90),
            &Server {
                hides: 50,
                ..Server::default()
            },
        ),
        of("bursts that drain", Asks::Bursts(20, 4.0), mixed, &roomy),
        of("two requests a second", Asks::Even(2.0), equal, &server),
        of(
            "54 % of capacity",
            Asks::Poisson(8.0),
            mixed,
            &Server {
                slots: 18,
                ..roomy.clone()
            },
        ),
        of(
            "answers of three tokens",
            Asks::Closed(8),
            short_answers,
            &server,
        ),
        situation(
            "a short cell whose last wave has the server to itself",
            vec![Cell {
                seconds: 9.0,
                ..cell(
                    Asks::Closed(32),
                    mixed,
                    Server {
                        step: 5.0,
                        step_each: 0.6,
                        ..Server::default()
                    },
                )
            }],
            Cause::Healthy,
        ),
        situation(
            "a sweep within the server's room",
            sweep(&[1, 4, 16], mixed, &roomy),
            Cause::Healthy,
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "one entry for each situation")]
fn faulty() -> Vec<Situation> {
    let server = Server::default();
    let with = |change: fn(&mut Server)| {
        let mut server = Server::default();
        change(&mut server);
        server
    };
    let of = |name, asks, lengths, server, cause| {
        situation(name, vec![cell(asks, lengths, server)], cause)
    };
    let narrow = || with(|s| s.slots = 4);
    vec![
        Situation {
            with: Cause::Queueing,
            ..of(
                "short prompts that are taken up every 600 ms only",
                Asks::Closed(5),
                |_, _| (64, 30),
                with(|s| {
                    s.admits = Some(600.0);
                    s.step = 12.0;
                }),
                Cause::WaitingOrPrefill,
            )
        },
        of(
            "overload, twice the capacity",
            Asks::Poisson(12.0),
            equal,
            narrow(),
            Cause::Overload,
        ),
        of(
            "overload, a third too much",
            Asks::Poisson(8.0),
            equal,
            narrow(),
            Cause::Overload,
        ),
        of(
            "overload, evenly",
            Asks::Even(7.0),
            mixed,
            narrow(),
            Cause::Overload,
        ),
        Situation {
            without: Cause::WaitingOrPrefill,
            ..of(
                "a queue in front of four slots",
                Asks::Closed(16),
                equal,
                narrow(),
                Cause::Queueing,
            )
        },
        situation(
            "a queue of an open loop beside requests that were sent one at a time, as a search begins",
            vec![
                cell(Asks::Closed(1), equal, narrow()),
                cell(Asks::Poisson(5.4), equal, narrow()),
            ],
            Cause::Queueing,
        ),
        situation(
            "a queue in a sweep",
            sweep(&[1, 4, 16], equal, &narrow()),
            Cause::Queueing,
        ),
        of(
            "long prompts",
            Asks::Closed(4),
            long_prompts,
            with(|s| s.prefill_token = 0.2),
            Cause::Prefill,
        ),
        of(
            "long prompts, one at a time",
            Asks::Closed(1),
            long_prompts,
            with(|s| s.prefill_token = 0.2),
            Cause::Prefill,
        ),
        of(
            "prompts processed one after the other, which the server counts as running",
            Asks::Poisson(2.5),
            |_, _| (100, 20),
            with(|s| {
                s.serial = true;
                s.prefill = 300.0;
            }),
            Cause::Queueing,
        ),
        situation(
            "decoding slows",
            sweep(&[1, 8, 32], equal, &with(|s| s.step_each = 1.0)),
            Cause::DecodeSlowsWithLoad,
        ),
        of(
            "long prompts hold others up",
            Asks::Poisson(4.0),
            one_in_ten_long,
            with(|s| {
                s.blocking = true;
                s.prefill_token = 0.1;
            }),
            Cause::HeadOfLine,
        ),
        of(
            "a replica at 40 % of its speed",
            Asks::Closed(8),
            mixed,
            with(|s| s.second = Some(2.5)),
            Cause::SlowReplica,
        ),
        of(
            "a replica at 60 %, open",
            Asks::Poisson(4.0),
            equal,
            with(|s| s.second = Some(1.7)),
            Cause::SlowReplica,
        ),
        of(
            "a replica at 40 % behind the same address",
            Asks::Closed(8),
            mixed,
            with(|s| {
                s.second = Some(2.5);
                s.one_address = true;
            }),
            Cause::SlowRequests,
        ),
        of(
            "every second request at 70 % of the speed, behind the same address",
            Asks::Closed(6),
            equal,
            with(|s| {
                s.second = Some(1.4);
                s.one_address = true;
            }),
            Cause::SlowRequests,
        ),
        of(
            "whole waves of prompts, processed in one step each",
            Asks::Closed(6),
            |_, draw| (draw.whole(50.0, 1500.0), 45),
            with(|s| {
                s.blocking = true;
                s.prefill_token = 0.4;
            }),
            Cause::Prefill,
        ),
        of(
            "answers are held back until they are whole",
            Asks::Closed(4),
            equal,
            with(|s| s.buffers = true),
            Cause::HeldBack,
        ),
        of(
            "slow for 2 s of every 8 s",
            Asks::Closed(8),
            mixed,
            with(|s| {
                s.pace = |t| {
                    if (t + 5_000.0) % 8_000.0 < 2_000.0 {
                        3.0
                    } else {
                        1.0
                    }
                }
            }),
            Cause::Step,
        ),
        of(
            "a speed that falls for 7 s and is back at once, again and again",
            Asks::Closed(4),
            equal,
            with(|s| s.pace = |t| 1.0 + 0.8 * (t % 7_000.0) / 7_000.0),
            Cause::Step,
        ),
        of(
            "answers are thrown out of the batch for a while, one at a time",
            Asks::Closed(8),
            equal,
            with(|s| s.evicts = Some(2)),
            Cause::Pauses,
        ),
        of(
            "each prompt interrupts the others' answers",
            Asks::Closed(4),
            equal,
            with(|s| {
                s.blocking = true;
                s.prefill = 60.0;
            }),
            Cause::DecodeInterrupted,
        ),
        of(
            "all streams stop for 200 ms every 1.5 s",
            Asks::Closed(4),
            equal,
            with(|s| {
                s.freezes = (0..27)
                    .map(|i| (f64::from(i) * 1500.0 + 700.0, 200.0))
                    .collect();
            }),
            Cause::PeriodicStall,
        ),
        of(
            "the same every 4 s, and four shorter stops of something else",
            Asks::Closed(4),
            equal,
            with(|s| {
                s.freezes = (0..20)
                    .map(|i| (f64::from(i) * 4000.0 + 700.0, 200.0))
                    .chain([5_300.0, 13_900.0, 22_500.0, 31_600.0].map(|at| (at, 80.0)))
                    .collect();
            }),
            Cause::PeriodicStall,
        ),
        of(
            "the same, and three stops of the machine, one as long",
            Asks::Closed(4),
            equal,
            with(|s| {
                s.freezes = (0..20)
                    .map(|i| (f64::from(i) * 4000.0 + 700.0, 200.0))
                    .chain([(5_300.0, 105.0), (5_600.0, 105.0), (10_300.0, 180.0)])
                    .collect();
            }),
            Cause::PeriodicStall,
        ),
        situation(
            "frozen for 2.5 s of 10 s, while most wait for their first tokens",
            vec![Cell {
                seconds: 10.0,
                ..cell(
                    Asks::Poisson(12.0),
                    |_, _| (64, 32),
                    with(|s| {
                        s.prefill = 40.0;
                        s.freezes = vec![(2_850.0, 2_500.0)];
                    }),
                )
            }],
            Cause::Frozen,
        ),
        of(
            "frozen for 4 s, few under way",
            Asks::Poisson(2.0),
            short_answers,
            with(|s| s.freezes = vec![(15_000.0, 4_000.0)]),
            Cause::Frozen,
        ),
        of(
            "a quarter more than it can do",
            Asks::Poisson(15.0),
            equal,
            with(|s| s.slots = 8),
            Cause::Overload,
        ),
        of(
            "all streams stop every 4 s",
            Asks::Closed(8),
            mixed,
            with(|s| {
                s.freezes = (0..10)
                    .map(|i| (f64::from(i) * 4000.0 + 1500.0, 400.0))
                    .collect();
            }),
            Cause::PeriodicStall,
        ),
        of(
            "all streams stop every 4 s, open",
            Asks::Poisson(6.0),
            equal,
            with(|s| {
                s.freezes = (0..10)
                    .map(|i| (f64::from(i) * 4000.0 + 1500.0, 400.0))
                    .collect();
            }),
            Cause::PeriodicStall,
        ),
        of(
            "frozen for 3 s",
            Asks::Closed(8),
            mixed,
            with(|s| s.freezes = vec![(15_000.0, 3_000.0)]),
            Cause::Frozen,
        ),
        of(
            "frozen for 3 s, open",
            Asks::Poisson(5.0),
            equal,
            with(|s| s.freezes = vec![(15_000.0, 3_000.0)]),
            Cause::Frozen,
        ),
        of(
            "slow for the first 5 s",
            Asks::Closed(8),
            mixed,
            with(|s| s.pace = |t| if t < 5_000.0 { 3.0 } else { 1.0 }),
            Cause::ColdStart,
        ),
        of(
            "slow for the first 2 s, open",
            Asks::Poisson(5.0),
            equal,
            with(|s| s.pace = |t| if t < 2_000.0 { 4.0 } else { 1.0 }),
            Cause::ColdStart,
        ),
        situation(
            "times that grow slowly, open",
            vec![Cell {
                seconds: 24.0,
                ..cell(
                    Asks::Poisson(5.0),
                    equal,
                    with(|s| s.pace = |t| 1.0 + 0.9 * t / 24_000.0),
                )
            }],
            Cause::Drift,
        ),
        of(
            "times double over the cell",
            Asks::Closed(8),
            mixed,
            with(|s| s.pace = |t| 1.0 + t / 40_000.0),
            Cause::Drift,
        ),
        of(
            "a seventh slower from 20 s on",
            Asks::Closed(8),
            equal,
            with(|s| s.pace = |t| if t < 20_000.0 { 1.0 } else { 1.15 }),
            Cause::Step,
        ),
        of(
            "prompts of all lengths that hold up answers",
            Asks::Poisson(1.4),
            of_all_lengths,
            with(|s| {
                s.blocking = true;
                s.step = 8.0;
                s.prefill_token = 0.3;
            }),
            Cause::DecodeInterrupted,
        ),
        of(
            "the same in a closed loop",
            Asks::Closed(5),
            of_all_lengths,
            with(|s| {
                s.blocking = true;
                s.step = 8.0;
                s.prefill_token = 0.2;
            }),
            Cause::DecodeInterrupted,
        ),
        of(
            "half the speed from 20 s on",
            Asks::Closed(8),
            mixed,
            with(|s| s.pace = |t| if t < 20_000.0 { 1.0 } else { 2.0 }),
            Cause::Step,
        ),
        of(
            "half the speed from 15 s to 22 s",
            Asks::Closed(5),
            equal,
            with(|s| {
                s.pace = |t| {
                    if (15_000.0..22_000.0).contains(&t) {
                        2.0
                    } else {
                        1.0
                    }
                }
            }),
            Cause::Step,
        ),
        of(
            "a long way to the server and back",
            Asks::Closed(1),
            |_, draw| (draw.whole(20.0, 800.0), 20),
            with(|s| {
                s.prefill = 300.0;
                s.prefill_token = 0.0;
            }),
            Cause::WaitingOrPrefill,
        ),
        of(
            "a rate limit",
            Asks::Poisson(10.0),
            equal,
            with(|s| s.limit = Some(4.0)),
            Cause::RateLimited,
        ),
        of(
            "one in twenty fails",
            Asks::Closed(8),
            equal,
            with(|s| s.fails = Some(20)),
            Cause::Failing,
        ),
        of(
            "away for 2 s",
            Asks::Closed(8),
            equal,
            with(|s| s.away = Some((10_000.0, 12_000.0))),
            Cause::ServerGone,
        ),
        of(
            "away for 3 s, open",
            Asks::Poisson(8.0),
            mixed,
            with(|s| s.away = Some((10_000.0, 13_000.0))),
            Cause::ServerGone,
        ),
        of(
            "every second beginning is known",
            Asks::Closed(4),
            long_prompts,
            Server {
                cache: Some(|i| i % 2 == 1),
                prefill_token: 0.05,
                ..server
            },
            Cause::PrefixCache,
        ),
    ]
}

fn causes(found: &[Finding]) -> Vec<Cause> {
    found.iter().filter_map(Finding::cause).collect()
}

/// What is wrong with what is said of these situations, with the server's metrics and without.
fn misses(situations: &[Situation]) -> Vec<String> {
    let mut wrong = Vec::new();
    for situation in situations {
        let mut named = Vec::new();
        for metrics in [true, false] {
            let (run, samples) = run(&situation.cells, metrics, 2);
            let all = findings(&run, &samples);
            let found = causes(&all);
            let wanted = if metrics {
                situation.with
            } else {
                situation.without
            };
            if found.first() != Some(&wanted) || found.len() > 2 {
                wrong.push(format!("{} (metrics {metrics}): {found:?}", situation.name));
            }
            wrong.extend(all.iter().filter_map(unsound));
            named.push(found);
        }
        // Hiding the metrics may lose a cause, or leave it open; it never makes one.
        let invented = named[1].iter().filter(|cause| {
            !named[0].contains(cause) && !matches!(cause, Cause::Healthy | Cause::WaitingOrPrefill)
        });
        wrong.extend(
            invented.map(|cause| format!("{}: {cause} only without metrics", situation.name)),
        );
    }
    wrong
}

/// Advice without a cause, or a cause that nothing would refute.
fn unsound(finding: &Finding) -> Option<String> {
    let sound = match finding.cause() {
        Some(Cause::Healthy | Cause::PrefixCache) | None => finding.advice.is_empty(),
        // Slower tokens that buy throughput need nothing, unless an objective is missed.
        Some(Cause::DecodeSlowsWithLoad) => finding.refute.is_some(),
        Some(_) => !finding.advice.is_empty() && finding.refute.is_some(),
    };
    (!sound).then(|| format!("{finding:?}"))
}

#[test]
fn a_queue_that_goes_when_more_serves_is_a_step_and_one_that_comes_and_goes_by_chance_is_none() {
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let steps = |server: &Server, rate: f64, seeds: std::ops::RangeInclusive<u64>| {
        let of = |seed| {
            let asked = cell(Asks::Poisson(rate), equal, server.clone());
            let (run, samples) = run(&[asked], false, seed);
            let found = findings(&run, &samples);
            found.iter().any(|f| f.cause() == Some(Cause::Step))
        };
        seeds.filter(|seed| of(*seed)).count()
    };
    let joined = Server {
        joins: Some((20_000.0, 12)),
        ..server.clone()
    };
    assert_eq!(steps(&joined, 7.5, 1..=5), 5);
    // 90 % of what it can do
    assert!(steps(&server, 5.3, 1..=40) <= 2);
}

#[test]
fn what_was_put_in_comes_out_first() {
    let wrong = misses(&faulty());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_a_prompt_token_takes_is_told_of_waves_too_and_events_are_counted() {
    let waves = Server {
        blocking: true,
        prefill_token: 0.4,
        ..Server::default()
    };
    let lengths: Lengths = |_, draw| (draw.whole(50.0, 1500.0), 45);
    let (one, samples) = run(&[cell(Asks::Closed(6), lengths, waves)], false, 2);
    let found = findings(&one, &samples);
    let each = found[0].figure(&Known::TtftPerToken.into()).unwrap();
    assert!((3.6e5..4.4e5).contains(&each), "{:?}", found[0]);
    let buffers = Server {
        buffers: true,
        ..Server::default()
    };
    let (one, samples) = run(&[cell(Asks::Closed(4), equal, buffers)], false, 2);
    let found = findings(&one, &samples);
    let events = found[0].evidence.iter();
    let events: Vec<_> = events
        .filter(|e| e.figure == Known::EventsAtOnce.into())
        .map(|e| (e.value, e.unit))
        .collect();
    assert_eq!(events, [(64.0, bench_schema::Unit::Count)]);
}

#[test]
fn a_prompt_that_waits_for_those_in_progress_is_prefill_too() {
    let server = Server {
        step: 8.0,
        ..Server::default()
    };
    let (run, mut samples) = run(&[cell(Asks::Closed(5), equal, server)], false, 2);
    // One prompt is in progress when four more come, which are processed together after it: 0.25 ms a token, for all of them.
    let mut draw = Draw::new(5);
    let like = samples[0].requests[0].clone();
    let mut now = 0.0;
    samples[0].requests.clear();
    for _ in 0..13 {
        let [first, rest @ ..] = [(); 5].map(|()| draw.whole(100.0, 1800.0));
        let alone = 0.25 * first as f64;
        let all = alone + 0.25 * rest.iter().sum::<u64>() as f64;
        let mut push = |sent: f64, tokens: u64, ttft: f64| {
            let (start, e2e) = (now + sent, ttft + 480.0);
            let at = |ms: f64| like.start + Nanos::from_f64(ms * 1e6);
            samples[0].requests.push(bench_insight::RequestSample {
                due: at(start),
                start: at(start),
                end: at(start + e2e),
                ttft: Some(1e6 * ttft),
                input_tokens: u32::try_from(tokens).ok(),
                stalls: Box::default(),
                ..like.clone()
            });
        };
        push(0.0, first, alone);
        for tokens in rest {
            push(5.0, tokens, all - 5.0);
        }
        now += all + 500.0;
    }
    let found = findings(&run, &samples);
    assert_eq!(causes(&found).first(), Some(&Cause::Prefill), "{found:?}");
    let each = found[0].figure(&Known::TtftPerToken.into()).unwrap();
    assert!((2.4e5..2.6e5).contains(&each), "{each}");
}

#[test]
fn times_per_token_are_of_the_tokens_that_came() {
    let server = Server {
        hides: 50,
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(3), |_, _| (60, 90), server)], false, 2);
    for metric in [Metric::Tpot, Metric::Itl] {
        let of = run.cells[0].metrics.get(&metric);
        let median = of.and_then(|of| of.quantile(0.5)).unwrap_or(0.0);
        assert!((9.5e6..10.5e6).contains(&median), "{metric}: {median}");
    }
    let own = samples[0].requests[7].tpot().unwrap();
    assert!((9.5e6..10.5e6).contains(&own), "{own}");
}

/// Requests of slots that ask again at once after each answer (and `think` ms), for `seconds`: `times` are the first token and the rest of each
/// answer in ms, by the number of the slot's request and its slot.
fn of_slots(
    slots: u32,
    seconds: f64,
    think: f64,
    times: impl Fn(u32, u32) -> (u32, f64, f64),
) -> (RunRecord, Vec<CellSamples>) {
    let asked = cell(
        Asks::Closed(slots as usize),
        |_, _| (50, 50),
        Server::default(),
    );
    let (run, mut samples) = run(&[asked], false, 2);
    let like = samples[0].requests[0].clone();
    let at = |ms: f64| like.start + Nanos::from_f64(ms * 1e6);
    samples[0].requests.clear();
    for slot in 0..slots {
        let (mut now, mut nth) = (f64::from(slot) * 0.1, 0);
        while now < seconds * 1e3 {
            let (input, ttft, decode) = times(nth, slot);
            samples[0].requests.push(bench_insight::RequestSample {
                due: at(now),
                start: at(now),
                end: at(now + ttft + decode),
                ttft: Some(1e6 * ttft),
                input_tokens: Some(input),
                output_tokens: Some(50),
                stalls: Box::default(),
                ..like.clone()
            });
            now += ttft + decode + think;
            nth += 1;
        }
    }
    (run, samples)
}

/// Users of four turns who think for as long each time ask in waves, and the first of a wave is held up by the prompts of the others.
#[test]
fn the_rhythm_of_conversations_is_not_the_server_s() {
    let (run, samples) = of_slots(10, 20.0, 80.0, |nth, slot| {
        let turn = nth % 4;
        let (ttft, decode) = match slot {
            0 => (10.0, 480.0 + 20.0 * f64::from(turn)),
            _ => (60.0 + 10.0 * f64::from(turn), 425.0),
        };
        (50 + 110 * turn, ttft, decode)
    });
    let found = causes(&findings(&run, &samples));
    assert!(!found.contains(&Cause::Step), "{found:?}");
}

#[test]
fn slow_connections_that_ask_at_the_same_moments_are_no_level_that_comes_and_goes() {
    let (run, samples) = of_slots(12, 18.0, 0.0, |_, slot| {
        let slow = if slot < 4 { 1.7 } else { 1.0 };
        (60, 20.0 * slow, 400.0 * slow)
    });
    let found = causes(&findings(&run, &samples));
    assert_eq!(found, [Cause::SlowRequests]);
}

#[test]
fn first_requests_whose_first_tokens_come_late_are_a_slow_start_and_no_stop() {
    let (run, samples) = of_slots(5, 16.0, 0.0, |nth, _| {
        (60, if nth < 2 { 706.0 } else { 6.0 }, 320.0)
    });
    let found = causes(&findings(&run, &samples));
    assert_eq!(found, [Cause::ColdStart]);
}

#[test]
fn what_a_server_counts_as_waiting_is_no_prefill_where_it_is_longer_than_that() {
    let server = Server {
        prefill: 300.0,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(6), equal, server)], true, 2);
    let cell = &mut run.cells[0];
    let running = cell.hardware.as_mut().unwrap();
    running.derived.get_mut("running_peak").unwrap().value = 6.0;
    let mut first = |queue: f64, prefill: f64| {
        run.cells[0].phases = Some(bench_schema::PhaseShares {
            queue,
            prefill,
            decode: 1.0 - queue - prefill,
            queue_source: "server_metrics".to_owned(),
            by_percentile: Vec::new(),
        });
        causes(&findings(&run, &samples)).first().copied()
    };
    assert_eq!(first(0.35, 0.05), Some(Cause::Queueing));
    assert_eq!(first(0.2, 0.35), Some(Cause::Prefill));
}

#[test]
fn a_client_that_is_late_to_send_holds_first_tokens_back_itself() {
    let server = Server {
        prefill: 105.0,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(4), |_, _| (100, 32), server)], true, 2);
    let told = bench_schema::Quantity {
        value: 3e7,
        unit: bench_schema::Unit::Ns,
        interval: None,
    };
    let hardware = run.cells[0].hardware.as_mut().unwrap();
    hardware.derived.insert("server_ttft_mean".to_owned(), told);
    assert_eq!(causes(&findings(&run, &samples)), [Cause::HeldBack]);
    run.trust = doubted("run_queue", 0.6, Some(run.cells[0].id.clone()));
    assert_eq!(causes(&findings(&run, &samples)), [Cause::ClientLimited]);
}

/// The server's own TTFT begins in its front end, its queue and prefill in its scheduler.
#[test]
fn what_the_servers_scheduler_does_not_count_is_held_before_it() {
    let server = Server {
        prefill: 105.0,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(4), |_, _| (100, 32), server)], true, 2);
    let told = [
        ("server_ttft_mean", 1.05e8),
        ("server_queue_mean", 5e6),
        ("server_prefill_mean", 2e7),
        ("server_queue_share", 0.01),
    ];
    for (name, value) in told {
        let quantity = bench_schema::Quantity {
            value,
            unit: bench_schema::Unit::Ns,
            interval: None,
        };
        let hardware = run.cells[0].hardware.as_mut().unwrap();
        hardware.derived.insert(name.to_owned(), quantity);
    }
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::HeldBack]);
    let counted = all[0].figure(&Known::ScheduledTtft.into());
    assert_eq!(counted, Some(2.5e7));
    assert!(all[0].figure(&Known::ServerTtft.into()).is_none());
}

fn doubted(code: &str, measured: f64, cell: Option<String>) -> bench_schema::Trust {
    bench_schema::Trust::from_reasons(vec![bench_schema::TrustReason {
        also_in: Vec::new(),
        code: code.to_owned(),
        verdict: bench_schema::TrustVerdict::Doubtful,
        message: String::new(),
        next: None,
        cell,
        measured: Some(measured),
        threshold: Some(0.01),
    }])
}

#[test]
fn a_server_that_ends_answers_early_is_not_called_healthy() {
    let (mut run, samples) = run(&[cell(Asks::Closed(4), equal, Server::default())], false, 2);
    assert!(causes(&findings(&run, &samples)).contains(&Cause::Healthy));
    run.trust = doubted("short_answers", 0.2, None);
    let found = causes(&findings(&run, &samples));
    assert!(!found.contains(&Cause::Healthy), "{found:?}");
}

/// What is said of lost requests is of all of them: also of those in an outage that is too short to be told, and where few single requests were kept.
#[test]
fn lost_requests_are_counted_whole() {
    let server = Server {
        fails: Some(20),
        away: Some((10_000.0, 10_800.0)),
        ..Server::default()
    };
    let asked = Cell {
        seconds: 300.0,
        ..cell(Asks::Poisson(8.0), equal, server)
    };
    let (run, mut samples) = run(&[asked], false, 2);
    let lost = run.cells[0].counts.lost();
    for _ in 0..3 {
        let found = findings(&run, &samples);
        assert_eq!(causes(&found).first(), Some(&Cause::Failing), "{found:?}");
        let failed =
            |e: &&bench_schema::Evidence| e.figure == Known::Failed.into() && e.of.is_none();
        let told = found[0].evidence.iter().find(failed).unwrap().value;
        assert!((told - lost as f64).abs() < 0.5, "{told} of {lost}");
        for kept in &mut samples {
            let mut index = 0;
            let mut second = || {
                index += 1;
                index % 2 == 0
            };
            kept.requests.retain(|_| second());
            kept.lost.retain(|_| second());
            kept.keep_every *= 2;
        }
    }
}

/// Of a long run every second, fourth, … single request is kept: as many as are told of each kind were counted, not those that were kept times so many.
#[test]
fn each_kind_of_failure_is_told_as_often_as_it_was_counted() {
    let server = Server {
        fails: Some(5),
        ..Server::default()
    };
    let asked = cell(Asks::Poisson(8.0), equal, server);
    let (mut run, mut samples) = run(&[asked], false, 2);
    let kinds = [
        (Stage::Headers, FailureKind::Reset),
        (Stage::Stream, FailureKind::Closed),
    ];
    for (i, lost) in samples[0].lost.iter_mut().enumerate() {
        let (stage, kind) = kinds[usize::from(i % 3 == 0)];
        (lost.how, lost.status) = (Lost::Failed(stage, kind), None);
    }
    let failures = kinds.map(|(stage, kind)| {
        let same = |lost: &&LostSample| lost.how == Lost::Failed(stage, kind);
        (
            stage,
            kind,
            samples[0].lost.iter().filter(same).count() as u64,
        )
    });
    run.cells[0].counts.failures = failures.to_vec();
    samples[0].lost.truncate(7);
    let found = findings(&run, &samples);
    assert_eq!(causes(&found).first(), Some(&Cause::Failing), "{found:?}");
    let of_kind = |e: &bench_schema::Evidence| e.of.is_some().then_some(e.value);
    let told: Vec<f64> = found[0].evidence.iter().filter_map(of_kind).collect();
    let counted = failures.map(|(.., n)| n as f64);
    assert!(counted.iter().all(|n| *n > 7.0));
    assert_eq!(told, counted);
}

#[test]
fn healthy_servers_are_called_healthy_and_nothing_else() {
    let wrong = misses(&healthy());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_run_that_misses_an_objective_is_not_called_healthy() {
    for (verdict, healthy) in [(SloVerdict::Pass, true), (SloVerdict::Fail, false)] {
        let (mut run, samples) = run(&sweep(&[1, 2], equal, &Server::default()), false, 2);
        for cell in &mut run.cells {
            cell.slos = vec![missed_or_met(verdict)];
        }
        let found = causes(&findings(&run, &samples));
        assert_eq!(found.contains(&Cause::Healthy), healthy, "{found:?}");
    }
}

/// What was ended before it measured anything is no level of the sweep.
#[test]
fn a_healthy_sweep_reaches_no_further_than_what_it_measured() {
    let (mut run, samples) = run(&sweep(&[1, 2, 8], equal, &Server::default()), false, 2);
    let last = &mut run.cells[2];
    last.counts = bench_schema::Counts::default();
    last.windows = bench_schema::WindowRates::default();
    last.metrics.clear();
    let found = findings(&run, &samples);
    let healthy = found.iter().find(|f| f.cause() == Some(Cause::Healthy));
    let highest = healthy.unwrap().figure(&Known::HighestLevel.into());
    assert_eq!(highest, Some(2.0));
}

/// What is missing, as of a run that was interrupted or a shard that was lost, may be what is not healthy.
#[test]
fn a_run_that_was_cut_short_is_not_called_healthy() {
    let (mut run, samples) = run(&sweep(&[1, 2], equal, &Server::default()), false, 2);
    for complete in [true, false] {
        run.complete = complete;
        let found = causes(&findings(&run, &samples));
        assert_eq!(found.contains(&Cause::Healthy), complete, "{found:?}");
    }
}

/// The number in flight that is told is the table's.
#[test]
fn the_evidence_of_an_overload_is_what_was_in_flight() {
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let one = cell(Asks::Poisson(8.0), equal, server);
    let (run, samples) = run(&[one], false, 2);
    let found = findings(&run, &samples);
    let overload = found.iter().find(|f| f.cause() == Some(Cause::Overload));
    let told = overload.unwrap().figure(&Known::InFlight.into()).unwrap();
    let mean = run.cells[0].headline_rates().unwrap().mean_in_flight;
    assert!((told - mean).abs() < 1e-9, "{told} for {mean}");
}

#[test]
fn twice_the_time_loses_no_cause() {
    let lost: Vec<String> = faulty()
        .iter()
        .filter_map(|situation| {
            let longer = |cell: &Cell| Cell {
                seconds: 2.0 * cell.seconds,
                ..cell.clone()
            };
            let cells: Vec<Cell> = situation.cells.iter().map(longer).collect();
            let (run, samples) = run(&cells, true, 4);
            let found = causes(&findings(&run, &samples));
            (!found.contains(&situation.with)).then(|| format!("{}: {found:?}", situation.name))
        })
        .collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn neither_labels_nor_the_unit_of_time_change_a_cause() {
    for situation in faulty().iter().chain(&healthy()).step_by(2) {
        let (run, mut samples) = run(&situation.cells, false, 7);
        let plain = findings(&run, &samples);
        for (i, request) in samples.iter_mut().flat_map(|s| &mut s.requests).enumerate() {
            request.use_case = Some(["a", "b", "c"][i * 7 % 3].into());
        }
        assert_eq!(plain, findings(&run, &samples), "{}", situation.name);
        let (run, samples) = scaled_run(&situation.cells, false, 7, 10);
        let scaled = findings(&run, &samples);
        assert_eq!(causes(&plain), causes(&scaled), "{}", situation.name);
    }
}

/// Of so many runs at `load` times what the server can do, how many are called overloaded.
fn overloaded(load: f64, runs: u64) -> usize {
    let server = Server {
        slots: 16,
        ..Server::default()
    };
    let (full, _) = run(&[cell(Asks::Closed(48), mixed, server.clone())], false, 1);
    let most = full.cells[0]
        .headline_rates()
        .unwrap()
        .requests_per_s
        .unwrap();
    let named = |seed: &u64| {
        let one = cell(Asks::Poisson(load * most), mixed, server.clone());
        let (run, samples) = run(&[one], false, *seed);
        causes(&findings(&run, &samples)).contains(&Cause::Overload)
    };
    (1..=runs).filter(named).count()
}

#[test]
fn slow_requests_of_one_use_case_are_told_as_its() {
    let server = Server {
        second: Some(2.5),
        one_address: true,
        ..Server::default()
    };
    let (run, mut samples) = run(&[cell(Asks::Closed(8), mixed, server)], false, 2);
    for request in &mut samples[0].requests {
        let is_slow = request.tpot().is_some_and(|gap| gap > 18e6);
        request.use_case = Some(if is_slow { "tools" } else { "chat" }.into());
    }
    let found = findings(&run, &samples);
    assert_eq!(found[0].cause(), Some(Cause::SlowRequests));
    assert_eq!(found[0].evidence[0].of.as_deref(), Some("tools"));
}

#[test]
fn an_overload_is_told_with_the_rates_of_the_table() {
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let one = cell(Asks::Poisson(8.0), equal, server);
    let (run, samples) = run(&[one], false, 2);
    let found = findings(&run, &samples);
    let rates = run.cells[0].headline_rates().unwrap();
    let told = |figure: Known| found[0].figure(&figure.into());
    assert_eq!(found[0].cause(), Some(Cause::Overload));
    assert_eq!(told(Known::ServedRate), rates.requests_per_s);
    assert_eq!(told(Known::OfferedRate), rates.offered_requests_per_s);
    // The plain script: what ended from the first request due to the last.
    let requests = &samples[0].requests;
    let due = || requests.iter().map(|r| r.due);
    let (from, to) = (due().min().unwrap(), due().max().unwrap());
    let ended = requests.iter().filter(|r| r.end <= to).count();
    let plain = ended as f64 / (to - from).as_secs_f64();
    assert!(
        (rates.requests_per_s.unwrap() / plain - 1.0).abs() < 0.02,
        "{rates:?}, {plain}"
    );
}

#[test]
fn more_in_flight_because_each_answer_takes_longer_is_no_overload() {
    let overloads = |rate: f64, server: &Server| {
        let of = |seed| {
            let asked = Cell {
                seconds: 10.0,
                ..cell(Asks::Poisson(rate), |_, _| (64, 32), server.clone())
            };
            let (run, samples) = run(&[asked], false, seed);
            causes(&findings(&run, &samples)).contains(&Cause::Overload)
        };
        (1..=12).filter(|seed| of(*seed)).count()
    };
    let drifts = Server {
        slots: 200,
        prefill: 40.0,
        pace: |t| 1.0 + 0.8 * t / 10_000.0,
        ..Server::default()
    };
    // A server without a limit whose tokens take longer the more are in flight, at 1.5 times of what it can do.
    let shares = Server {
        slots: 2000,
        step: 5.0,
        step_each: 0.8,
        ..Server::default()
    };
    assert_eq!(
        (overloads(12.0, &drifts), overloads(60.0, &shares)),
        (0, 12)
    );
}

#[test]
fn requests_that_a_gauge_counts_as_waiting_are_a_queue_where_they_are_enough() {
    // Four of eight wait, and so does half of everybody's time.
    let server = Server {
        slots: 4,
        ..Server::default()
    };
    let one = cell(Asks::Closed(8), equal, server);
    let (mut run, samples) = run(&[one], true, 2);
    let mut told = |waiting: f64, running: f64| {
        let derived = &mut run.cells[0].hardware.as_mut().unwrap().derived;
        derived.get_mut("waiting_mean").unwrap().value = waiting;
        derived.get_mut("running_mean").unwrap().value = running;
        let found = findings(&run, &samples);
        let queue = found.iter().find(|f| f.cause() == Some(Cause::Queueing));
        queue.map(|queue| (queue.severity, queue.figure(&Known::Waiting.into())))
    };
    // Half of those that are there wait; half a request on average, and a tenth of all, is where it begins.
    let (cost, waiting) = told(4.0, 4.0).unwrap();
    assert!(
        (0.48..=0.5).contains(&cost) && waiting == Some(4.0),
        "{cost}"
    );
    assert!(told(0.6, 4.0).is_some());
    assert_eq!((told(0.4, 0.4), told(1.0, 11.0)), (None, None));
}

#[test]
fn a_queue_costs_no_more_than_the_share_that_the_server_tells() {
    let four = Server {
        slots: 4,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Poisson(4.0), equal, four)], false, 2);
    run.cells[0].phases = Some(bench_schema::PhaseShares {
        queue: 0.08,
        prefill: 0.01,
        decode: 0.91,
        queue_source: "server_metrics".to_owned(),
        by_percentile: Vec::new(),
    });
    let found = findings(&run, &samples);
    let queue = found.iter().find(|f| f.cause() == Some(Cause::Queueing));
    assert_eq!(queue.map(|queue| queue.severity), Some(0.08));
}

#[test]
fn a_queue_time_during_which_nobody_waits_is_no_queue() {
    let (mut run, samples) = run(&[cell(Asks::Closed(8), equal, Server::default())], true, 2);
    let mut told = |waiting: f64| {
        run.cells[0].phases = Some(bench_schema::PhaseShares {
            queue: 0.4,
            prefill: 0.05,
            decode: 0.55,
            queue_source: "server_metrics".to_owned(),
            by_percentile: Vec::new(),
        });
        let derived = &mut run.cells[0].hardware.as_mut().unwrap().derived;
        derived.get_mut("waiting_mean").unwrap().value = waiting;
        // It was seen to wait at times, so that its mean is a reading.
        let mut peak = derived["waiting_mean"].clone();
        peak.value = 4.0;
        derived.insert("waiting_peak".to_owned(), peak);
        derived.get_mut("running_mean").unwrap().value = 5.0;
        causes(&findings(&run, &samples)).contains(&Cause::Queueing)
    };
    // Eight slots that queue for 40 % of their time are 3.2 that wait; where 0.1 do, the time passes elsewhere.
    assert!(told(3.2) && !told(0.1));
}

#[test]
fn a_server_s_own_count_of_its_queue_rules_nothing_out() {
    // All prompts alike, four at a time, each waits for the prefill of three others, and the server says that none waits.
    let server = Server {
        serial: true,
        prefill: 300.0,
        ..Server::default()
    };
    let (run, samples) = run(&[cell(Asks::Closed(4), |_, _| (100, 20), server)], true, 2);
    let found = findings(&run, &samples);
    assert!(found[0].ruled_out.is_empty(), "{:?}", found[0]);
}

#[test]
fn overload_is_named_beyond_what_a_server_can_do_and_not_below() {
    assert_eq!((overloaded(0.85, 3), overloaded(1.5, 3)), (0, 3));
}

#[test]
#[ignore = "the curve that stands in docs/insight.md: run with --release, takes minutes"]
fn overload_from_half_to_twice_of_what_a_server_can_do() {
    for load in [0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2.0] {
        println!("{load}: {} of 20", overloaded(load, 20));
    }
}

#[test]
fn a_server_that_tells_wrong_lengths_has_no_slow_requests_by_its_word_alone() {
    let (run, mut samples) = run(&[cell(Asks::Closed(8), mixed, Server::default())], false, 3);
    let named = |samples: &[CellSamples]| causes(&findings(&run, samples));
    assert!(!named(&samples).contains(&Cause::SlowRequests));
    // of every second answer it tells a quarter of the tokens
    for request in samples[0].requests.iter_mut().step_by(2) {
        let told = request.output_tokens.map(|n| (n / 4).max(2));
        request.output_tokens = told;
    }
    let found = named(&samples);
    assert!(!found.contains(&Cause::SlowRequests), "{found:?}");
}

#[test]
fn fewer_at_once_are_advised_only_where_they_serve_as_much_or_an_objective_is_missed() {
    let advised = |step: f64, step_each: f64, verdict: Option<SloVerdict>| {
        let server = Server {
            step,
            step_each,
            ..Server::default()
        };
        let (mut run, samples) = run(&sweep(&[1, 4, 16], equal, &server), false, 2);
        let cell = run.cells.last_mut().unwrap();
        cell.slos = verdict.map(missed_or_met).into_iter().collect();
        let found = findings(&run, &samples);
        let slow = |f: &&Finding| f.cause() == Some(Cause::DecodeSlowsWithLoad);
        let found = found.iter().find(slow).unwrap();
        let advised: Vec<Action> = found.advice.iter().map(|a| a.action).collect();
        let both = [Action::RunFewerAtOnce, Action::LowerLoadOrAddReplicas];
        // that slower tokens serve more is no fault
        assert!(advised == both || advised.is_empty(), "{advised:?}");
        (
            !advised.is_empty(),
            found.figure(&Known::ScalingFactor.into()),
        )
    };
    // Steps of 10 ms that 16 at once make 23 ms long give seven times the tokens.
    let (fewer, scaling) = advised(10.0, 0.8, None);
    assert!(
        !fewer && scaling.is_some_and(|x| (6.0..8.0).contains(&x)),
        "{scaling:?}"
    );
    assert!(!advised(10.0, 0.8, Some(SloVerdict::Pass)).0);
    assert!(advised(10.0, 0.8, Some(SloVerdict::Fail)).0);
    // Steps as long as the requests in them are many give nothing.
    assert_eq!(advised(0.1, 10.0, None), (true, None));
}

fn missed_or_met(verdict: SloVerdict) -> SloOutcome {
    serde_json::from_value(serde_json::json!({
        "slo": {"metric": "itl", "q": 0.95, "limit": 2e7}, "measured": 2.3e7, "attainment": 0.5,
        "attainment_interval": {"low": 0.4, "high": 0.6, "confidence": 0.95}, "verdict": verdict,
    }))
    .unwrap()
}

#[test]
fn connections_that_the_server_closes_are_told_with_what_they_cost() {
    let one = cell(Asks::Closed(4), equal, Server::default());
    let (mut run, samples) = run(&[one], false, 2);
    let e2e = run.cells[0].metrics[&Metric::E2e].clone();
    let mut told = |part: u64, each: f64, replaced: u64, asked: &str| {
        run.config = serde_json::json!({ "connections": asked });
        run.cells[0].counts.replaced_connections = replaced;
        let mut opened = e2e.clone();
        opened.n = e2e.n / part;
        opened.mean = each * e2e.mean;
        run.cells[0].metrics.insert(Metric::Connect, opened);
        let found = findings(&run, &samples);
        let first = found[0].cause().unwrap();
        (first, found[0].severity)
    };
    let (cause, cost) = told(1, 0.1, 0, "reuse");
    assert_eq!(cause, Cause::NewConnections);
    assert!((cost - 0.1 / 1.1).abs() < 1e-3, "{cost}");
    // Those that cost nobody anything, that were asked for, or that as many requests at once need.
    assert_eq!(told(1, 0.001, 0, "reuse").0, Cause::Healthy);
    assert_eq!(told(1, 0.1, 0, "per-request").0, Cause::Healthy);
    assert_eq!(told(50, 0.1, 0, "reuse").0, Cause::Healthy);
    let (run, samples) = with_late_first_tokens(&e2e, 105.0);
    let found = &findings(&run, &samples)[0];
    let share = found.figure(&Known::TtftShare.into());
    assert_eq!(found.cause(), Some(Cause::NewConnections));
    assert!(share.is_some_and(|share| share > 0.25), "{found:?}");
    // Closed without a word, so that requests are sent again.
    assert_eq!(told(1, 0.001, e2e.n, "reuse").0, Cause::NewConnections);
    assert_eq!(told(3, 0.001, e2e.n / 3, "reuse").0, Cause::NewConnections);
}

/// Four at a time whose first tokens take 15 ms more than the prefill, each on a connection of its own that is opened at once.
fn with_late_first_tokens(like: &Distribution, prefill: f64) -> (RunRecord, Vec<CellSamples>) {
    let server = Server {
        prefill,
        ..Server::default()
    };
    let one = cell(Asks::Closed(4), |_, _| (100, 32), server);
    let (mut run, samples) = run(&[one], false, 2);
    let cell = &mut run.cells[0];
    let opened = Distribution {
        n: cell.metrics[&Metric::E2e].n,
        mean: 1e5,
        ..like.clone()
    };
    cell.metrics.insert(Metric::Connect, opened);
    (run, samples)
}

#[test]
fn a_stop_that_the_client_on_the_same_machine_had_too_is_the_machine_s() {
    let server = Server {
        freezes: vec![(20_000.0, 700.0)],
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(4), equal, server)], false, 2);
    let mut frozen = |url: &str, held_up_ms: i64| {
        run.server.urls = vec![url.to_owned()];
        run.cells[0].client.lag = Some(LagRecord {
            n: 1000,
            p50: Nanos::ZERO,
            p99: Nanos::ZERO,
            max: Nanos::from_millis(held_up_ms),
        });
        causes(&findings(&run, &samples)).contains(&Cause::Frozen)
    };
    assert!(frozen("http://127.0.0.1:8000", 20) && frozen("http://server:8000", 600));
    assert!(!frozen("http://127.0.0.1:8000", 600));
    // Nor was it the server's own where its threads waited for a CPU for as long, on a machine that others used.
    let mut frozen = |pressure: f64, waited_per_s: f64| {
        run.cells[0].client.lag = None;
        let share = |value| bench_schema::Quantity {
            value,
            unit: bench_schema::Unit::Ratio,
            interval: None,
        };
        let hardware = run.cells[0].hardware.get_or_insert_default();
        for (name, value) in [
            ("host_cpu_pressure_share", pressure),
            ("server_run_queue_wait", waited_per_s),
        ] {
            hardware.derived.insert(name.to_owned(), share(value));
        }
        causes(&findings(&run, &samples)).contains(&Cause::Frozen)
    };
    assert!(frozen(0.8, 0.01) && frozen(0.1, 0.02));
    assert!(!frozen(0.8, 0.02));
}

#[test]
fn a_cache_for_beginnings_is_advised_only_where_prompts_could_share_one() {
    let server = Server {
        prefill_token: 0.5,
        ..Server::default()
    };
    let (mut run, samples) = run(&[cell(Asks::Closed(1), long_prompts, server)], false, 2);
    let mut advised = |salt: &str| {
        run.config = serde_json::json!({ "salt": salt });
        let found = findings(&run, &samples);
        assert_eq!(found[0].cause(), Some(Cause::Prefill), "{found:?}");
        let advice = found[0].advice.iter().map(|advice| advice.action);
        advice.collect::<Vec<_>>().contains(&Action::CachePrefixes)
    };
    assert!(!advised("auto") && advised("never"));
}
