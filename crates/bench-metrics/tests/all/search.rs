//! The search for a capacity in virtual time: servers whose truth is known by exhaustive simulation.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::too_many_lines,
    clippy::too_many_arguments,
    clippy::allow_attributes,
    clippy::expect_used,
    reason = "counts of a simulation, and a server that is one loop"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::TAU;

use bench_metrics::{Budget, Estimate, Measure, Next, Search, Stage, share_within};
use bench_schema::{SearchEnd, Share};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A server in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Server {
    /// One server, first come first served; service times of this mean and squared coefficient of variation (gamma-like, two phases).
    Queue { squared_cov: f64 },
    /// Continuous batching: a step takes `base + per_slot · running + per_token · prompt tokens that join it`; at most `slots` run, as far as
    /// their tokens fit into `cache`.
    Batch {
        slots: usize,
        cache: f64,
        base: f64,
        per_slot: f64,
        per_token: f64,
        prompt: f64,
        output: f64,
    },
    /// So many requests at a time, first come first served, each for the same time: the first token after `first`, then `tokens - 1` gaps.
    /// `drift` is how much slower and faster all of that becomes, a share, and the period in seconds.
    Slots {
        slots: usize,
        first: f64,
        gap: f64,
        tokens: u32,
        drift: (f64, f64),
    },
}

/// An objective of such a server: what is limited, to what, and which share has to be within.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objective {
    pub(crate) of: Of,
    pub(crate) limit: f64,
    pub(crate) attain: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Of {
    FirstToken,
    Gap,
    Whole,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    first: f64,
    gap: f64,
    whole: f64,
}

impl Of {
    fn pick(self, times: &Times) -> f64 {
        match self {
            Self::FirstToken => times.first,
            Self::Gap => times.gap,
            Self::Whole => times.whole,
        }
    }
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

impl Server {
    /// Times of requests due at these instants, in that order.
    pub(crate) fn serve(&self, due: &[f64], rng: &mut ChaCha8Rng) -> Vec<Times> {
        match *self {
            Self::Queue { squared_cov } => {
                let mut free = 0.0_f64;
                due.iter()
                    .map(|due| {
                        // two-point mixture of exponentials, or an Erlang-like sum below 1
                        let service = if squared_cov >= 1.0 {
                            let p =
                                0.5 * (1.0 + ((squared_cov - 1.0) / (squared_cov + 1.0)).sqrt());
                            let mean = if rng.random::<f64>() < p {
                                0.5 / p
                            } else {
                                0.5 / (1.0 - p)
                            };
                            mean * exponential(rng)
                        } else {
                            let k = (1.0 / squared_cov.max(0.01)).round();
                            (0..k as u32).map(|_| exponential(rng)).sum::<f64>() / k
                        };
                        free = free.max(*due) + service;
                        Times {
                            first: free - due,
                            gap: service,
                            whole: free - due,
                        }
                    })
                    .collect()
            }
            Self::Batch {
                slots,
                cache,
                base,
                per_slot,
                per_token,
                prompt,
                output,
            } => {
                let lengths: Vec<(f64, f64)> = due
                    .iter()
                    .map(|_| {
                        (
                            (prompt * (0.25 + 1.5 * rng.random::<f64>())).ceil(),
                            (output * (0.25 + 1.5 * rng.random::<f64>()))
                                .ceil()
                                .max(2.0),
                        )
                    })
                    .collect();
                let mut times = vec![Times::default(); due.len()];
                let (mut now, mut steps, mut next) = (0.0_f64, 0_u64, 0_usize);
                let mut held = 0.0;
                // by the step at which they end
                let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
                while next < due.len() || !running.is_empty() {
                    if running.is_empty() && due[next] > now {
                        now = due[next];
                    }
                    let mut joined = 0.0;
                    let from = next;
                    while next < due.len()
                        && due[next] <= now
                        && running.len() < slots
                        && held + lengths[next].0 + lengths[next].1 <= cache
                    {
                        let (input, tokens) = lengths[next];
                        joined += input;
                        held += input + tokens;
                        running.push(Reverse((steps + tokens as u64, next)));
                        next += 1;
                        // at most one long prompt a step
                        if joined > 4.0 * prompt {
                            break;
                        }
                    }
                    now += base + per_slot * running.len() as f64 + per_token * joined;
                    steps += 1;
                    for i in from..next {
                        times[i].first = now - due[i];
                    }
                    while let Some(Reverse((end, i))) = running.peek().copied()
                        && end <= steps
                    {
                        running.pop();
                        held -= lengths[i].0 + lengths[i].1;
                        times[i].whole = now - due[i];
                        times[i].gap = (times[i].whole - times[i].first) / (lengths[i].1 - 1.0);
                    }
                }
                times
            }
            Self::Slots {
                slots,
                first,
                gap,
                drift: (share, period),
                ..
            } => {
                let mut free = vec![0.0_f64; slots];
                due.iter()
                    .map(|due| {
                        // the slot that is free first
                        let slot = (0..slots).min_by(|a, b| free[*a].total_cmp(&free[*b]));
                        let free = &mut free[slot.expect("a slot")];
                        let begun = free.max(*due);
                        let slower = 1.0 + share * (TAU * begun / period).sin();
                        *free = begun + slower * self.alone();
                        Times {
                            first: begun + slower * first - due,
                            gap: slower * gap,
                            whole: *free - due,
                        }
                    })
                    .collect()
            }
        }
    }

    /// What one request alone takes.
    pub(crate) fn alone(&self) -> f64 {
        match *self {
            Self::Queue { .. } => 1.0,
            Self::Batch {
                base,
                per_slot,
                per_token,
                prompt,
                output,
                ..
            } => output * (base + per_slot) + per_token * prompt,
            Self::Slots {
                first, gap, tokens, ..
            } => first + gap * f64::from(tokens - 1),
        }
    }
}

/// With `STRETCHED=1` the last of so many arrivals is due at exactly so many over the load, as in the program; else on average.
fn is_stretched() -> bool {
    std::env::var_os("STRETCHED").is_some()
}

/// A stage of Poisson arrivals from an instant on, after a warm-up at the same load.
pub(crate) fn stage(
    server: &Server,
    objectives: &[Objective],
    (load, from): (f64, f64),
    (requests, warmup): (u64, u64),
    rng: &mut ChaCha8Rng,
    cut: Option<&Search>,
) -> (Stage, u64) {
    let warm = warmup as usize;
    let mut gaps = |n: usize| -> Vec<f64> {
        let gaps: Vec<f64> = (0..n).map(|_| exponential(rng)).collect();
        let stretch = if is_stretched() {
            n as f64 / gaps.iter().sum::<f64>()
        } else {
            1.0
        };
        gaps.into_iter().map(|gap| gap * stretch / load).collect()
    };
    let gaps = [gaps(warm), gaps(requests as usize)].concat();
    let mut at = from;
    let due: Vec<f64> = (gaps.into_iter())
        .map(|gap| {
            at += gap;
            at
        })
        .collect();
    let all = server.serve(&due, rng);
    let end = |i: usize| due[i] + all[i].whole;
    // measured requests in the order in which they end, as they are looked at
    let mut ended: Vec<usize> = (warm..due.len()).collect();
    ended.sort_by(|a, b| end(*a).total_cmp(&end(*b)));
    let shares = |of: &[usize]| -> Vec<Option<Share>> {
        objectives
            .iter()
            .map(|o| {
                let values: Vec<f64> = of.iter().map(|i| o.of.pick(&all[*i])).collect();
                share_within(&values, o.limit, o.attain)
            })
            .collect()
    };
    let mut sent = due.len();
    if let Some(search) = cut {
        let mut look = search.looked_at(requests) as usize;
        while look < ended.len() {
            if search.is_over(&shares(&ended[..look])) {
                let now = end(ended[look - 1]);
                sent = due.partition_point(|at| *at <= now).max(warm + 1);
                break;
            }
            look += look / 4 + 1;
        }
    }
    let used: Vec<usize> = (warm..sent).collect();
    let seconds = due[sent - 1] - from;
    let stage = Stage {
        load,
        shares: shares(&used),
        requests: used.len() as u64,
        cost: sent as u64,
        seconds,
        served: fell_behind(server, &due[..sent], &all[..sent], warm),
    };
    (stage, sent as u64)
}

/// Answers per second that fell behind the requests, as `bench-insight` has it of a cell: those of the second half of the load where the number in flight grows
/// by more than chance, else by the line on which waits grow.
fn fell_behind(server: &Server, due: &[f64], times: &[Times], warm: usize) -> Option<Estimate> {
    const BLOCKS: usize = 8;
    let (from, to) = (due[warm], due[due.len() - 1]);
    let (middle, lasted) = (f64::midpoint(from, to), to - from);
    let ends = || due.iter().zip(times).map(|(due, of)| due + of.whole);
    let within = |at: &f64, from: f64, to: f64| *at > from && *at <= to;
    let ended = ends().filter(|at| within(at, middle, to)).count() as f64;
    let came = due.iter().filter(|at| within(at, middle, to)).count() as f64;
    let n = (due.len() - warm) as f64;
    let waits = due[warm..].iter().zip(&times[warm..]);
    let waits: Vec<(f64, f64)> = waits.map(|(due, of)| (*due, of.first)).collect();
    let slope = bench_metrics::linear_fit(&waits, 0.95).and_then(|fit| fit.slope.low);
    let told = |value: f64, error: f64| Estimate {
        value,
        low: Some(value * (1.0 - error)),
        high: Some(value * (1.0 + error)),
        level: 0.95,
    };
    if n >= 40.0 && slope.is_some_and(|slope| slope > 0.04) && ended < 0.93 * came {
        let first = ends().filter(|at| *at > from).fold(to, f64::min);
        let block = (to - first) / BLOCKS as f64;
        let counts: Vec<f64> = (0..BLOCKS)
            .map(|i| first + block * i as f64)
            .map(|at| ends().filter(|end| within(end, at, at + block)).count() as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / BLOCKS as f64;
        let squares = counts
            .iter()
            .map(|count| (count - mean).powi(2))
            .sum::<f64>();
        let error = (squares / (BLOCKS * (BLOCKS - 1)) as f64).sqrt() / mean;
        return Some(told(mean / block, 2.36 * error));
    }
    let took = times[warm..].iter().map(|of| of.whole).sum::<f64>() / n;
    let waited = (took - server.alone()).max(0.0) / lasted;
    (took > lasted / 2.0).then(|| told(n / lasted / (1.0 + 2.0 * waited), 1.0))
}

pub(crate) struct Outcome {
    pub(crate) stages: Vec<Stage>,
    pub(crate) why: SearchEnd,
    pub(crate) asked: u64,
}

pub(crate) fn search(
    server: &Server,
    objectives: &[Objective],
    search: &Search,
    seed: u64,
) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut stages, mut asked) = (Vec::new(), 0);
    loop {
        match search.next(&stages) {
            Next::Stop(why) => return Outcome { stages, why, asked },
            Next::Measure(Measure {
                load,
                requests,
                warmup,
                ..
            }) => {
                let from = stages.iter().map(|stage: &Stage| stage.seconds).sum();
                let (done, cost) = stage(
                    server,
                    objectives,
                    (load, from),
                    (requests, warmup),
                    &mut rng,
                    Some(search),
                );
                asked += cost;
                stages.push(done);
            }
        }
        assert!(
            stages.len() < 500,
            "no end: {:?}",
            stages
                .iter()
                .rev()
                .take(9)
                .map(|s| (s.load, s.requests))
                .collect::<Vec<_>>()
        );
    }
}

/// The capacity with both bounds, where two stages near it were long enough to tell.
fn told_by(ask: &Search, stages: &[Stage]) -> Option<Estimate> {
    let found = ask.found(stages)?;
    let own = found.capacity().filter(|own| own.stages >= 2)?;
    own.load.bounds().map(|_| own.load)
}

/// The capacity by exhaustive simulation: bisected, then read off a line through the log odds at five loads around it, a million requests each.
pub(crate) fn truth(server: &Server, objectives: &[Objective], near: f64) -> f64 {
    let of = |o: &Objective| {
        let share = |load: f64, n: u32, seed: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut at = 0.0;
            let due: Vec<f64> = (0..n)
                .map(|_| {
                    at += exponential(&mut rng) / load;
                    at
                })
                .collect();
            let times = server.serve(&due, &mut rng);
            let times = &times[times.len() / 20..];
            let within = times.iter().filter(|t| o.of.pick(t) <= o.limit).count();
            within as f64 / times.len() as f64
        };
        let (mut low, mut high) = (near / 3.0, near * 3.0);
        for seed in 0..12 {
            let middle = f64::sqrt(low * high);
            if share(middle, 100_000, seed) >= o.attain {
                low = middle;
            } else {
                high = middle;
            }
        }
        let odds = |share: f64| (share / (1.0 - share)).ln();
        let steps = [-0.04, -0.02, 0.0, 0.02, 0.04];
        let points: Vec<(f64, f64)> = (steps.iter().zip(100..))
            .map(|(step, seed)| (low * (1.0 + step), seed))
            .map(|(load, seed)| (load, odds(share(load, 1_000_000, seed))))
            .collect();
        let line = bench_metrics::linear_fit(&points, 0.95).expect("a line");
        (odds(o.attain) - line.intercept.value) / line.slope.value
    };
    objectives.iter().map(of).fold(f64::INFINITY, f64::min)
}

pub(crate) fn scenarios() -> Vec<(&'static str, Server, Vec<Objective>)> {
    let e2e = |limit, attain| Objective {
        of: Of::Whole,
        limit,
        attain,
    };
    let ttft = |limit, attain| Objective {
        of: Of::FirstToken,
        limit,
        attain,
    };
    let gap = |limit, attain| Objective {
        of: Of::Gap,
        limit,
        attain,
    };
    let batch = Server::Batch {
        slots: 16,
        cache: f64::INFINITY,
        base: 0.02,
        per_slot: 0.0005,
        per_token: 2e-5,
        prompt: 100.0,
        output: 24.0,
    };
    vec![
        (
            "M/M/1, p95 E2E",
            Server::Queue { squared_cov: 1.0 },
            vec![e2e(10.0, 0.95)],
        ),
        (
            "M/G/1 (CoV 2), p90 E2E",
            Server::Queue { squared_cov: 4.0 },
            vec![e2e(12.0, 0.9)],
        ),
        ("batch-limited, p95 TTFT", batch, vec![ttft(0.25, 0.95)]),
        (
            "KV-limited, p95 TTFT",
            Server::Batch {
                slots: 64,
                cache: 1500.0,
                base: 0.02,
                per_slot: 0.0005,
                per_token: 2e-5,
                prompt: 100.0,
                output: 24.0,
            },
            vec![ttft(0.25, 0.95)],
        ),
        (
            "prefill-heavy, p99 TTFT, p95 TPOT",
            Server::Batch {
                slots: 64,
                cache: f64::INFINITY,
                base: 0.02,
                per_slot: 0.0003,
                per_token: 1e-4,
                prompt: 600.0,
                output: 16.0,
            },
            vec![ttft(0.6, 0.99), gap(0.09, 0.95)],
        ),
    ]
}

/// Eight requests at a time of 185 ms each, and at most 300 ms to the first token for 99 % of them.
fn eight_slots() -> (Server, Vec<Objective>) {
    let server = Server::Slots {
        slots: 8,
        first: 0.03,
        gap: 0.005,
        tokens: 32,
        drift: (0.0, 1.0),
    };
    let objective = Objective {
        of: Of::FirstToken,
        limit: 0.3,
        attain: 0.99,
    };
    (server, vec![objective])
}

pub(crate) fn asked(server: &Server, objectives: &[Objective]) -> Search {
    let waits = objectives.iter().filter(|o| o.of != Of::Gap);
    let waits = waits.map(|o| o.limit);
    Search {
        attain: objectives.iter().map(|o| o.attain).collect(),
        first: 1.0 / server.alone(),
        missed_alone: false,
        patience: waits.fold(0.0, f64::max),
        whole: false,
        precision: 0.05,
        budget: Budget::Requests(2_000_000),
    }
}

#[test]
fn a_search_finds_the_capacity_of_a_batching_server() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = asked(&server, &objectives);
    let done = search(&server, &objectives, &ask, 7);
    assert_eq!(done.why, SearchEnd::Precise);
    let found = ask.found(&done.stages).unwrap();
    let load = found.capacity().unwrap().load;
    // by exhaustive simulation: 17.5 requests/s
    assert!((load.value / 17.5).ln().abs() < 0.1, "{load:?}");
    let (low, high) = load.bounds().unwrap();
    assert!((high / low).ln() / 2.0 <= 0.05, "{load:?}");
}

/// Eight requests at a time of 160 ms each, so 50/s, and two seconds to the first token: thirty requests that come at once wait 0.6 s at most, at any rate.
#[test]
fn a_stage_lasts_long_enough_for_its_objective_to_be_missed() {
    let server = Server::Slots {
        slots: 8,
        first: 0.03,
        gap: 0.005,
        tokens: 27,
        drift: (0.0, 1.0),
    };
    let objectives = [Objective {
        of: Of::FirstToken,
        limit: 2.0,
        attain: 0.95,
    }];
    let ask = Search {
        budget: Budget::Seconds(120.0),
        ..asked(&server, &objectives)
    };
    for seed in 0..4 {
        let done = search(&server, &objectives, &ask, seed);
        let most = done.stages.iter().map(|stage| stage.load);
        let most = most.fold(0.0, f64::max);
        assert!(most < 200.0, "{most}");
        let load = told_by(&ask, &done.stages).unwrap();
        // by queueing theory: 1.5 % below what the server can do
        assert!(load.covers(49.3), "{load:?}");
    }
}

/// Thirty requests at 100/s, of which 52 a second were answered although none missed: so much is measured next, and for so long that it can be missed. Where 450 fell
/// behind, no longer stage is needed to know that the capacity is no more than what was answered.
#[test]
fn answers_that_fall_behind_tell_where_to_measure_and_where_the_capacity_ends() {
    let ask = Search {
        attain: vec![0.95],
        first: 6.25,
        missed_alone: false,
        patience: 2.0,
        whole: false,
        precision: 0.05,
        budget: Budget::Seconds(600.0),
    };
    let behind = |load, served, requests, error| Stage {
        served: Some(Estimate {
            value: served,
            low: Some(served * (1.0 - error)),
            high: Some(served * (1.0 + error)),
            level: 0.95,
        }),
        ..told_stage(load, 1.0, requests as f64, requests)
    };
    let mut stages = vec![
        told_stage(25.0, 1.0, 30.0, 30),
        behind(100.0, 52.0, 30, 1.0),
    ];
    let next = ask.next(&stages);
    let is_there =
        matches!(next, Next::Measure(m) if (m.load - 52.0).abs() < 0.1 && m.requests >= 400);
    assert!(is_there, "{next:?}");
    assert_eq!(
        ask.found(&stages).unwrap().capacity().unwrap().load.high,
        None
    );
    stages.push(behind(54.0, 50.0, 450, 0.02));
    stages.push(told_stage(46.0, 1.0, 400.0, 400));
    let load = told_by(&ask, &stages).unwrap();
    assert!(
        load.value <= 50.0 && load.high.unwrap() <= 51.01,
        "{load:?}"
    );
    let next = ask.next(&stages);
    assert!(
        matches!(next, Next::Measure(m) if m.load < 54.0),
        "{next:?}"
    );
}

/// Six at a time of 150 ms each, so 40/s: whatever is offered, a token takes as long, and what is too much waits for its first one.
#[test]
fn the_capacity_of_an_objective_that_limits_no_wait_is_where_answers_fall_behind() {
    let server = Server::Slots {
        slots: 6,
        first: 0.03,
        gap: 0.006,
        tokens: 21,
        drift: (0.0, 1.0),
    };
    let objectives = [Objective {
        of: Of::Gap,
        limit: 0.01,
        attain: 0.95,
    }];
    for seed in 0..8 {
        let ask = Search {
            budget: Budget::Seconds(300.0),
            ..asked(&server, &objectives)
        };
        let done = search(&server, &objectives, &ask, seed);
        let shown: Vec<_> = done
            .stages
            .iter()
            .map(|s| (s.load, s.requests, s.served))
            .collect();
        assert!(ask.only_waits(&done.stages), "{shown:?}");
        let load = told_by(&ask, &done.stages).unwrap();
        assert!((load.value / 40.0 - 1.0).abs() < 0.06, "{load:?} {shown:?}");
    }
}

/// What anyone serves has no capacity, and a client does not have that many connections.
#[test]
fn a_concurrency_that_is_always_met_is_not_doubled_for_ever() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = Search {
        attain: vec![0.95],
        first: 1.0,
        whole: true,
        ..asked(&server, &objectives)
    };
    let met = |up_to: u32| {
        let loads = (0..=up_to).map(|i| f64::from(1_u32 << i));
        loads
            .map(|load| told_stage(load, 1.0, 30.0, 30))
            .collect::<Vec<_>>()
    };
    assert!(matches!(ask.next(&met(13)), Next::Measure(m) if (m.load - 16_384.0).abs() < 0.5));
    assert_eq!(ask.next(&met(14)), Next::Stop(SearchEnd::NeverMissed));
}

/// Five minutes of it, 10,000 requests, of which the interval holds the truth: 36.0 requests/s by exhaustive simulation.
#[test]
fn minutes_tell_the_capacity_of_eight_slots() {
    const SEEDS: u64 = 8;
    let (server, objectives) = eight_slots();
    let ask = Search {
        budget: Budget::Seconds(300.0),
        ..asked(&server, &objectives)
    };
    let mut bias = 0.0;
    let (mut told, mut covered) = (0, 0);
    for seed in 0..SEEDS {
        let done = search(&server, &objectives, &ask, seed);
        let Some(load) = told_by(&ask, &done.stages) else {
            continue;
        };
        told += 1;
        covered += u32::from(load.covers(36.0));
        bias += (load.value / 36.0).ln();
    }
    assert!(told >= 7, "{told} of {SEEDS}");
    assert!(covered + 1 >= told, "{covered} of {told}");
    assert!((bias / f64::from(told)).abs() < 0.05, "{bias} of {told}");
}

/// A stage of which this was told.
fn told_stage(load: f64, value: f64, effective: f64, requests: u64) -> Stage {
    Stage {
        load,
        shares: vec![Some(Share { value, effective })],
        requests,
        cost: requests,
        seconds: 1.0,
        served: None,
    }
}

/// A burst at a load that is too high ends within its first requests, one at a load that is not goes on all within: neither is a reason to measure lower.
/// Stages of a server of six slots that a stranger's search made: it was told 26.5 to 81.8, though nothing was within at 46.8 and more.
#[test]
fn an_interval_ends_where_a_stage_was_plainly_beyond() {
    let stages = [
        told_stage(28.7, 1.0, 30.0, 30),
        told_stage(57.4, 0.0, 1.85, 30),
        told_stage(36.5, 1.0, 21.5, 30),
        told_stage(44.2, 1.0, 6.35, 30),
        told_stage(46.8, 0.0217, 20.2, 46),
        told_stage(38.7, 0.9333, 15.1, 120),
        told_stage(39.5, 0.8333, 3.19, 240),
        told_stage(36.2, 0.7583, 4.48, 600),
        told_stage(31.3, 0.9977, 188.0, 443),
    ];
    let (server, objectives) = eight_slots();
    let ask = Search {
        attain: vec![0.95],
        first: 6.8,
        ..asked(&server, &objectives)
    };
    let found = ask.found(&stages);
    let load = found
        .as_ref()
        .and_then(bench_metrics::Found::capacity)
        .map(|own| own.load);
    let known =
        load.is_some_and(|load| load.high.is_some_and(|high| high <= 46.8) && load.value <= 46.8);
    assert!(known, "{load:?}");
}

#[test]
fn nothing_is_measured_below_a_load_that_was_met() {
    let (server, objectives) = eight_slots();
    let ask = asked(&server, &objectives);
    let next = ask.next(&[
        told_stage(21.6, 1.0, 150.0, 150),
        told_stage(86.4, 0.0, 150.0, 150),
    ]);
    assert!(
        matches!(next, Next::Measure(Measure { load, .. }) if load > 21.6),
        "{next:?}"
    );
}

/// Such a search asked for the same load until its budget was used up.
#[test]
fn a_short_stage_with_bad_luck_does_not_bound_a_search() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = asked(&server, &objectives);
    let mut stages = vec![
        told_stage(8.1, 1.0, 30.0, 30),
        told_stage(16.2, 0.2, 10.0, 30),
    ];
    stages.extend((0..6).map(|_| told_stage(16.2, 0.999, 500.0, 1920)));
    let next = ask.next(&stages);
    assert!(
        matches!(next, Next::Measure(Measure { load, .. }) if load > 16.2),
        "{next:?}"
    );
}

/// A closed loop on a server whose gap grows by a quarter of a millisecond for each stream: all gaps are within at 20, next to none at 21, and a few of
/// hundreds late for reasons of the machine's. No line in log odds is that steep, but no stage contradicts another.
#[test]
fn a_crossing_steeper_than_any_curve_is_no_change_of_speed() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = Search {
        attain: vec![0.95],
        first: 1.0,
        whole: true,
        ..asked(&server, &objectives)
    };
    let low = [1.0, 2.0, 4.0, 8.0, 16.0].map(|load| told_stage(load, 1.0, 30.0, 30));
    let near = [
        told_stage(32.0, 0.0, 30.0, 30),
        told_stage(22.0, 0.0, 44.1, 52),
        told_stage(17.0, 1.0, 480.0, 480),
        told_stage(20.0, 0.9974, 880.5, 960),
        told_stage(23.0, 0.0, 71.0, 71),
        told_stage(23.0, 0.0175, 1.0, 69),
        told_stage(22.0, 0.0, 48.5, 63),
        told_stage(21.0, 0.0526, 106.0, 78),
        told_stage(19.0, 0.9983, 181.4, 600),
        told_stage(20.0, 0.9961, 478.8, 600),
        told_stage(21.0, 0.0374, 45.5, 76),
    ];
    let mut stages = [&low[..], &near].concat();
    let next = ask.next(&stages);
    assert!(next != Next::Stop(SearchEnd::Unsteady), "{next:?}");
    let capacity = ask.found(&stages).unwrap().capacity().unwrap().load;
    let bounds = capacity.bounds().unwrap();
    assert!(bounds.0 >= 19.5 && bounds.1 < 21.0, "{capacity:?}");
    // one that was faster for a while is found all the same
    stages.extend((0..4).map(|_| told_stage(22.0, 0.99, 300.0, 600)));
    assert_eq!(ask.next(&stages), Next::Stop(SearchEnd::Unsteady));
}

/// A stage that is plainly beyond is cut short, and one that is all within says little of the slope: such a search asked for 16 again, 52 times.
#[test]
fn loads_in_whole_numbers_are_known_where_neighbours_are_plainly_within_and_beyond() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = |attain| Search {
        attain: vec![attain],
        first: 1.0,
        whole: true,
        ..asked(&server, &objectives)
    };
    let told = |ask: &Search, stages: &[Stage]| {
        let found = ask.found(stages)?;
        let own = found.capacity().filter(|own| own.stages >= 2)?.load;
        let (low, high) = own.bounds()?;
        Some([low, own.value, high].map(f64::floor))
    };
    let low = [1.0, 2.0, 4.0, 8.0].map(|load| told_stage(load, 1.0, 30.0, 30));
    let near = [
        told_stage(16.0, 0.4667, 1.0, 30),
        told_stage(32.0, 0.0, 30.0, 30),
        told_stage(12.0, 1.0, 240.0, 240),
        told_stage(16.0, 0.0, 56.0, 56),
        told_stage(14.0, 1.0, 960.0, 960),
        told_stage(16.0, 0.0, 54.0, 54),
    ];
    let mut stages = [&low[..], &near].concat();
    let next = ask(0.95).next(&stages);
    let is_between =
        matches!(next, Next::Measure(Measure { load, .. }) if (load - 15.0).abs() < 0.1);
    assert!(is_between, "{next:?}");
    stages.push(told_stage(15.0, 1.0, 600.0, 600));
    assert_eq!(ask(0.95).next(&stages), Next::Stop(SearchEnd::Precise));
    assert_eq!(told(&ask(0.95), &stages), Some([15.0; 3]));
    // what few values, or few requests, say is not plain
    stages.pop();
    for (effective, requests) in [(20.0, 600), (60.0, 60)] {
        let short = [&stages[..], &[told_stage(15.0, 1.0, effective, requests)]].concat();
        assert!(matches!(ask(0.95).next(&short), Next::Measure(_)));
    }
    // the budget of this one was used up
    let low = [1.0, 2.0, 4.0, 8.0, 16.0].map(|load| told_stage(load, 1.0, 150.0, 150));
    let near = [
        told_stage(32.0, 0.0, 6.1, 150),
        told_stage(22.0, 0.0, 172.0, 172),
        told_stage(17.0, 1.0, 1816.0, 1816),
    ];
    let stages = [&low[..], &near].concat();
    let between = told(&ask(0.99), &stages).unwrap();
    assert!(between[0] >= 17.0 && between[2] <= 21.0, "{between:?}");
    assert_eq!(ask(0.99).sides(&stages), [Some(17.0), Some(22.0)]);
    assert_eq!(ask(0.99).sides(&low), [Some(16.0), None]);
}

/// Such searches went on until their budget was used up: one at a time meets the objective in each of 150 requests and two miss it in each; all seven meet it,
/// and of eight 85 % do, whatever is added.
#[test]
fn neighbours_are_decided_by_all_their_stages_together() {
    let (_, server, objectives) = scenarios().remove(2);
    let ask = Search {
        attain: vec![0.95],
        first: 1.0,
        whole: true,
        ..asked(&server, &objectives)
    };
    let one = [
        told_stage(1.0, 1.0, 30.0, 30),
        told_stage(2.0, 0.0, 30.0, 30),
        told_stage(1.0, 1.0, 30.0, 30),
        told_stage(1.0, 1.0, 30.0, 30),
        told_stage(1.0, 1.0, 60.0, 60),
    ];
    let seven = [
        told_stage(1.0, 1.0, 30.0, 30),
        told_stage(4.0, 1.0, 30.0, 30),
        told_stage(16.0, 0.0, 30.0, 30),
        told_stage(7.0, 1.0, 600.0, 600),
        told_stage(8.0, 0.852, 30.0, 135),
        told_stage(8.0, 0.854, 171.0, 171),
    ];
    // three of thirty failed by chance, and nine of six hundred
    let eight = [
        told_stage(1.0, 1.0, 30.0, 30),
        told_stage(4.0, 1.0, 30.0, 30),
        told_stage(7.0, 0.983, 120.0, 120),
        told_stage(8.0, 0.9, 30.0, 30),
        told_stage(9.0, 0.047, 129.0, 129),
        told_stage(8.0, 0.985, 600.0, 600),
    ];
    for (stages, capacity) in [(&one[..], 1.0), (&seven[..], 7.0), (&eight[..], 8.0)] {
        assert_eq!(ask.next(stages), Next::Stop(SearchEnd::Precise));
        let load = ask.found(stages).unwrap().capacity().unwrap().load;
        let known = load.bounds().map(|(low, high)| (low.floor(), high.floor()));
        assert_eq!(known, Some((capacity, capacity)), "{load:?}");
        // with one stage less it is not sure
        let less = ask.next(stages.split_last().unwrap().1);
        assert!(matches!(less, Next::Measure(_)), "{less:?}");
    }
}

#[test]
fn a_search_says_why_it_cannot_tell() {
    let server = Server::Queue { squared_cov: 1.0 };
    let why = |limit: f64, requests: u64| {
        let objectives = [Objective {
            of: Of::Whole,
            limit,
            attain: 0.95,
        }];
        let ask = Search {
            budget: Budget::Requests(requests),
            ..asked(&server, &objectives)
        };
        let done = search(&server, &objectives, &ask, 3);
        (done.why, ask.found(&done.stages))
    };
    // a request alone takes 1 on average, and nobody waits so little
    assert_eq!(why(0.5, 50_000).0, SearchEnd::MissedAlone);
    let (spent, found) = why(10.0, 300);
    assert_eq!(spent, SearchEnd::Budget);
    // by then no stage was long enough to tell more than a side
    let found = found.unwrap();
    assert!(found.capacity().unwrap().stages < 2, "{found:?}");
}

/// A server that is slower in half of the stages, by chance; where that has the slower ones on one side it passes for a steep curve.
#[test]
fn a_server_that_changes_is_no_capacity() {
    let server = Server::Queue { squared_cov: 1.0 };
    let objectives = [Objective {
        of: Of::Whole,
        limit: 10.0,
        attain: 0.95,
    }];
    let ask = asked(&server, &objectives);
    let why = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut stages: Vec<Stage> = Vec::new();
        loop {
            match ask.next(&stages) {
                Next::Stop(why) => return why,
                Next::Measure(Measure {
                    load,
                    requests,
                    warmup,
                    ..
                }) => {
                    let slow = if rng.random::<bool>() { 1.4 } else { 1.0 };
                    let (mut done, _) = stage(
                        &server,
                        &objectives,
                        (load * slow, 0.0),
                        (requests, warmup),
                        &mut rng,
                        Some(&ask),
                    );
                    done.load = load;
                    stages.push(done);
                }
            }
            assert!(stages.len() < 500, "no end");
        }
    };
    let found = (6..10)
        .filter(|seed| why(*seed) != SearchEnd::Precise)
        .count();
    assert!(found >= 3, "{found} of 4");
}

#[test]
fn an_objective_that_more_load_meets_has_no_capacity() {
    let told = |load, value| told_stage(load, value, 1000.0, 5000);
    let ask = asked(
        &Server::Queue { squared_cov: 1.0 },
        &[Objective {
            of: Of::Whole,
            limit: 10.0,
            attain: 0.95,
        }],
    );
    let upside_down = [told(0.5, 0.80), told(1.0, 0.99)];
    assert_eq!(ask.next(&upside_down), Next::Stop(SearchEnd::NotMonotone));
    let usual = [told(0.5, 0.99), told(1.0, 0.80)];
    assert!(matches!(ask.next(&usual), Next::Measure(Measure { .. })));
}

/// What requests sent one at a time miss, more load may meet: of a server that waits to fill a batch, they do from 150/s on, and it can do 700/s.
#[test]
fn more_load_is_tried_before_it_is_said_that_none_meets_an_objective() {
    let ask = Search {
        attain: vec![0.95],
        first: 9.0,
        missed_alone: true,
        patience: 0.07,
        whole: false,
        precision: 0.05,
        budget: Budget::Requests(20_000),
    };
    let ends = |ask: &Search, within: &dyn Fn(f64) -> f64| {
        let mut stages: Vec<Stage> = Vec::new();
        loop {
            match ask.next(&stages) {
                Next::Stop(why) => return (why, stages),
                Next::Measure(Measure { load, requests, .. }) => stages.push(Stage {
                    served: (load > 700.0).then_some(Estimate {
                        value: 700.0,
                        low: Some(690.0),
                        high: Some(710.0),
                        level: 0.95,
                    }),
                    seconds: requests as f64 / load.min(700.0),
                    ..told_stage(load, within(load), requests as f64, requests)
                }),
            }
            assert!(stages.len() < 40, "no end: {stages:?}");
        }
    };
    let (why, stages) = ends(&ask, &|load| if load < 150.0 { 0.5 } else { 0.99 });
    assert_eq!(why, SearchEnd::NotMonotone);
    let met = ask.not_missed(&stages);
    let loads: Vec<f64> = met.iter().map(|(load, ..)| *load).collect();
    assert_eq!(loads, [288.0, 576.0]);
    assert!(
        met.iter().all(|(_, n, is_met)| *n >= 120 && *is_met),
        "{met:?}"
    );
    // what is not sure is measured for longer before it is said that none does
    let (why, stages) = ends(&ask, &|load| if load < 150.0 { 0.5 } else { 0.93 });
    assert_eq!(why, SearchEnd::NotMonotone);
    let open = ask.not_missed(&stages);
    assert!(
        !open.is_empty() && open.iter().all(|(_, n, is_met)| *n >= 120 && !*is_met),
        "{open:?}"
    );
    // nothing meets it: up to what the server can do
    let (why, stages) = ends(&ask, &|_| 0.5);
    assert_eq!(why, SearchEnd::MissedAlone);
    assert!(stages.iter().any(|stage| stage.load > 700.0));
    assert!(stages.len() <= 8, "{}", stages.len());
    // a server that was cold
    let (why, stages) = ends(&ask, &|load| if load < 500.0 { 0.99 } else { 0.5 });
    assert_eq!(why, SearchEnd::Precise, "{stages:?}");
    // as many in flight as get no more answers
    let closed = Search {
        whole: true,
        first: 1.0,
        missed_alone: false,
        ..ask
    };
    let (why, stages) = ends(&closed, &|_| 0.0);
    assert_eq!(why, SearchEnd::MissedAlone);
    assert!(stages.iter().any(|stage| stage.load > 700.0));
    let (why, stages) = ends(&closed, &|load| if load < 8.0 { 0.0 } else { 1.0 });
    assert_eq!(why, SearchEnd::NotMonotone);
    assert_eq!(
        closed.not_missed(&stages).first().map(|(load, ..)| *load),
        Some(8.0)
    );
}

/// Three stages as they came over sockets from a server that can do 43: a short one at 43 was within, one at 86 plainly beyond.
#[test]
fn nothing_is_measured_above_a_load_that_is_plainly_beyond() {
    let told = |load, value, effective| Stage {
        cost: 200,
        seconds: 5.0,
        ..told_stage(load, value, effective, 150)
    };
    let ask = Search {
        attain: vec![0.99],
        first: 5.37,
        missed_alone: false,
        patience: 0.3,
        whole: false,
        precision: 0.05,
        budget: Budget::Seconds(90.0),
    };
    let stages = [
        told(21.5, 1.0, 150.0),
        told(43.0, 1.0, 10.0),
        told(86.0, 0.0, 150.0),
    ];
    let next = ask.next(&stages);
    assert!(
        matches!(next, Next::Measure(Measure { load, .. }) if load < 86.0),
        "{next:?}"
    );
}

#[test]
fn warm_ups_and_stages_that_tell_nothing_are_paid_from_the_budget() {
    let server = Server::Queue { squared_cov: 1.0 };
    let objectives = [Objective {
        of: Of::Whole,
        limit: 10.0,
        attain: 0.95,
    }];
    for seed in 0..5 {
        let ask = Search {
            budget: Budget::Requests(5_000),
            ..asked(&server, &objectives)
        };
        let done = search(&server, &objectives, &ask, seed);
        assert_eq!(done.why, SearchEnd::Budget);
        assert!((4_000..=5_000).contains(&done.asked), "{}", done.asked);
    }
    let silent = Stage {
        load: 1.0,
        shares: vec![None],
        requests: 10,
        cost: 4_990,
        seconds: 100.0,
        served: None,
    };
    let ask = |budget| Search {
        budget,
        ..asked(&server, &objectives)
    };
    let stages = [silent];
    let left = |budget| ask(budget).next(&stages);
    assert_eq!(left(Budget::Requests(5_000)), Next::Stop(SearchEnd::Budget));
    assert_eq!(left(Budget::Seconds(101.0)), Next::Stop(SearchEnd::Budget));
    assert!(
        matches!(left(Budget::Seconds(1000.0)), Next::Measure(Measure { load, .. }) if load > 1.0)
    );
}

/// How many searches of each kind: `SEEDS`, or 200.
fn seeds() -> u32 {
    let asked = std::env::var_os("SEEDS").and_then(|n| n.to_str()?.parse().ok());
    asked.unwrap_or(200)
}

/// The table of docs/verification.md: `SEEDS=200 cargo test --release -p bench-metrics --test all -- --ignored --nocapture capacity_searches`; grids are the mean
/// of five.
#[test]
#[ignore = "an hour of simulation"]
fn capacity_searches_cover_the_truth() {
    let many = seeds();
    let (slots, of_slots) = eight_slots();
    let minutes = Budget::Seconds(1200.0);
    let all = scenarios().into_iter();
    let all = all.map(|(name, server, objectives)| (name, server, objectives, None));
    let eight = (
        "eight slots, p99 TTFT, 20 min",
        slots,
        of_slots,
        Some(minutes),
    );
    let one = |(name, server, objectives, budget): (
        &str,
        Server,
        Vec<Objective>,
        Option<Budget>,
    )| {
        let mut ask = asked(&server, &objectives);
        let first = search(&server, &objectives, &ask, 12_345);
        let near = told_by(&ask, &first.stages).expect("a capacity").value;
        let truth = truth(&server, &objectives, near);
        ask.budget = budget.unwrap_or(ask.budget);
        let (mut told, mut covered, mut precise) = (0, 0, 0);
        let (mut bias, mut width, mut requests) = (0.0, 0.0, 0);
        for seed in 0..many {
            let done = search(&server, &objectives, &ask, u64::from(seed));
            requests += done.asked / u64::from(many);
            precise += u32::from(done.why == SearchEnd::Precise);
            let Some(load) = told_by(&ask, &done.stages) else {
                continue;
            };
            told += 1;
            covered += u32::from(load.covers(truth));
            bias += (load.value / truth).ln();
            width += load
                .bounds()
                .map_or(0.0, |(low, high)| (high / low).ln() / 2.0);
        }
        let (bias, width) = (bias / f64::from(told), width / f64::from(told));
        let grids = (0..5).map(|seed| grid(&server, &objectives, &ask, (truth, width, seed)));
        let grid = grids.sum::<u64>() / 5;
        println!(
            "{name}: truth {truth:.3}, told {told} of {many}, covered {covered}, precise {precise}, bias {:+.2} %, ± {:.1} %, {requests} requests, a grid {grid}",
            bias * 100.0,
            width * 100.0,
        );
        assert!(told * 10 >= many * 9, "{name}: {told} of {many}");
        assert!(covered * 10 >= told * 9, "{name}: {covered} of {told}");
        assert!(bias.abs() < 0.02, "{name}: {bias}");
    };
    std::thread::scope(|scope| {
        for scenario in all.chain([eight]) {
            scope.spawn(move || one(scenario));
        }
    });
}

/// Slots, seconds to the first token and between the others, tokens; the objective's limit and share; the budget.
type Small = (usize, f64, f64, u32, Of, f64, f64, Budget);

/// The table of small budgets in docs/verification.md: `SEEDS=200 cargo test --release -p bench-metrics --test all -- --ignored --nocapture small_budgets`.
#[test]
#[ignore = "minutes of simulation"]
fn searches_with_small_budgets() {
    let (requests, seconds) = (Budget::Requests, Budget::Seconds);
    let all: [Small; 9] = [
        (
            15,
            0.05,
            0.006,
            19,
            Of::FirstToken,
            0.4,
            0.99,
            requests(1500),
        ),
        (
            15,
            0.05,
            0.006,
            19,
            Of::FirstToken,
            0.4,
            0.95,
            requests(1500),
        ),
        (8, 0.03, 0.005, 32, Of::FirstToken, 0.3, 0.95, seconds(60.0)),
        (6, 0.03, 0.006, 21, Of::FirstToken, 2.5, 0.95, seconds(60.0)),
        (8, 0.03, 0.005, 27, Of::FirstToken, 2.0, 0.95, seconds(60.0)),
        (3, 0.04, 0.006, 20, Of::FirstToken, 5.0, 0.9, requests(2000)),
        (
            16,
            0.03,
            0.008,
            21,
            Of::FirstToken,
            1.0,
            0.95,
            seconds(60.0),
        ),
        (
            256,
            0.03,
            0.006,
            21,
            Of::FirstToken,
            5.0,
            0.95,
            seconds(120.0),
        ),
        (4, 0.05, 0.02, 50, Of::Whole, 4.0, 0.9, seconds(300.0)),
    ];
    for (slots, first, gap, tokens, of, limit, attain, budget) in all {
        let server = Server::Slots {
            slots,
            first,
            gap,
            tokens,
            drift: (0.0, 1.0),
        };
        let objectives = [Objective { of, limit, attain }];
        let near = 0.95 * slots as f64 / server.alone();
        let truth = truth(&server, &objectives, near);
        let ask = Search {
            budget,
            ..asked(&server, &objectives)
        };
        let (mut told, mut values, mut covered) = (0, 0, 0);
        let (mut bias, mut asked, mut most) = (0.0, 0, 0.0_f64);
        for seed in 0..seeds() {
            let done = search(&server, &objectives, &ask, u64::from(seed));
            asked += done.asked;
            let loads = done.stages.iter().map(|stage| stage.load);
            most = loads.fold(most, f64::max);
            let Some(load) = told_by(&ask, &done.stages) else {
                continue;
            };
            told += 1;
            covered += u32::from(load.covers(truth));
            let is_value = load.bounds().is_some_and(|(low, high)| high <= low * 1.65);
            values += u32::from(is_value);
            bias += (load.value / truth).ln();
        }
        println!(
            "{slots} slots, {of:?} within {limit} s for {attain}, {budget:?}: truth {truth:.2}, told {told}, as a value {values}, covered {covered}, bias {:+.1} %, {} requests, up to {:.1} times the truth",
            100.0 * bias / f64::from(told.max(1)),
            asked / u64::from(seeds()),
            most / truth,
        );
    }
}

/// Eight slots that become 30 % slower and faster with a period of 20 s: what searches of these budgets end with, beside the load up to which the objective is met
/// over many periods.
#[test]
#[ignore = "minutes of simulation"]
fn searches_of_a_server_that_swings() {
    let (mut server, objectives) = eight_slots();
    if let Server::Slots { drift, .. } = &mut server {
        *drift = (0.3, 20.0);
    }
    for attain in [0.95, 0.99] {
        let objectives = [Objective {
            attain,
            ..objectives[0]
        }];
        let truth = truth(&server, &objectives, 30.0);
        for seconds in [60.0, 300.0, 1200.0] {
            let ask = Search {
                budget: Budget::Seconds(seconds),
                ..asked(&server, &objectives)
            };
            let mut ends = std::collections::BTreeMap::<String, (u32, u32, f64)>::new();
            for seed in 0..seeds() {
                let done = search(&server, &objectives, &ask, u64::from(seed));
                let end = ends.entry(format!("{:?}", done.why)).or_default();
                if let Some(load) = told_by(&ask, &done.stages) {
                    end.0 += 1;
                    end.1 += u32::from(load.covers(truth));
                    end.2 += load.bounds().map_or(0.0, |(l, h)| (h / l).ln() / 2.0);
                } else {
                    ends.entry(format!("{:?}, not told", done.why))
                        .or_default()
                        .0 += 1;
                }
            }
            println!(
                "p{attain} {seconds} s: truth {truth:.2}; end: told, covered, sum of widths {ends:?}"
            );
        }
    }
}

/// The requests that ten loads from half of the capacity to one and a half take, as many at each, until the same rule is as precise from them.
fn grid(
    server: &Server,
    objectives: &[Objective],
    ask: &Search,
    (truth, precision, seed): (f64, f64, u64),
) -> u64 {
    let mut each = 4 * ask.fewest();
    loop {
        let mut rng = ChaCha8Rng::seed_from_u64(1_000 * each + seed);
        let loads = (0..10).map(|i| truth * (0.5 + f64::from(i) / 9.0));
        let measured = loads.map(|load| {
            let warmup = ask.warmup(load, each);
            stage(
                server,
                objectives,
                (load, 0.0),
                (each, warmup),
                &mut rng,
                None,
            )
        });
        let (stages, costs): (Vec<Stage>, Vec<u64>) = measured.unzip();
        let all: u64 = costs.iter().sum();
        let found = told_by(ask, &stages).and_then(|load| load.bounds());
        let is_precise = found.is_some_and(|(low, high)| (high / low).ln() / 2.0 <= precision);
        if is_precise || all > 3_000_000 {
            return all;
        }
        each += each / 4;
    }
}

proptest::proptest! {
    #[test]
    fn whatever_stages_say_there_is_a_load_to_measure_or_a_reason_to_stop(
        stages in proptest::collection::vec((0.01_f64..100.0, 0.0_f64..=1.0, 1.0_f64..1000.0, 1_u64..5000), 0..12),
        whole: bool,
        missed_alone: bool,
    ) {
        let ask = Search {
            attain: vec![0.95],
            first: 1.0,
            missed_alone,
            patience: 2.0,
            whole,
            precision: 0.05,
            budget: Budget::Requests(1_000_000),
        };
        let stages = stages.into_iter().map(|(load, value, effective, requests)| {
            told_stage(if whole { load.ceil() } else { load }, value, effective, requests)
        });
        let stages: Vec<Stage> = stages.collect();
        if let Next::Measure(Measure { load, requests, .. }) = ask.next(&stages) {
            proptest::prop_assert!(load.is_finite() && load > 0.0 && requests > 0);
            proptest::prop_assert!(!whole || (load.fract() == 0.0 && load >= 1.0), "{load}");
        }
        if let Some(found) = ask.found(&stages).as_ref().and_then(|found| found.capacity().copied()) {
            let load = found.load;
            proptest::prop_assert!(load.value.is_finite() && load.covers(load.value), "{load:?}");
        }
    }
}
