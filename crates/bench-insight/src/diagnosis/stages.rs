//! The server's speed over the stages of a search, of which each has a load of its own and is too short to tell it alone.

mod order;

use std::collections::BTreeMap;

use bench_schema::{CellRecord, RunRecord, Stamp};

use super::fit::{median, quantile};
use super::look::Look;
use super::rhythm::Rhythm;
use super::speed::{self, TimePerToken};
use crate::samples::{CellSamples, RequestSample};

/// A stage: its load, its cell, and its requests.
pub(crate) type StageSamples<'a> = (f64, &'a CellRecord, &'a CellSamples);

/// A speed that rises and falls again and again over the stages of a search, where no stage is long enough to show it: the period in ns, and the time per token in its
/// quickest and its slowest part, over the usual one. What follows the load of a stage is taken out.
pub(crate) fn swing(run: &RunRecord, stages: &[StageSamples<'_>]) -> Option<(f64, [f64; 2])> {
    let mut loads: Vec<(Stamp, f64, f64)> = Vec::new();
    let mut requests = Vec::new();
    for (load, _, samples) in stages {
        let own = samples.requests.iter();
        loads.extend(own.filter_map(|request| Some((request.start, *load, request.tpot()?))));
        requests.extend(samples.requests.iter().map(|request| RequestSample {
            repeat: 0,
            ..request.clone()
        }));
    }
    loads.sort_by_key(|(at, ..)| *at);
    let by_load: Vec<(f64, f64)> = loads.iter().map(|(_, load, tpot)| (*load, *tpot)).collect();
    let line = bench_metrics::linear_fit(&by_load, bench_metrics::LEVEL)?;
    let all = CellSamples {
        requests,
        ..CellSamples::default()
    };
    let look = Look::of(run, stages.first()?.1, Some(&all));
    let points = loads
        .iter()
        .map(|(at, load, tpot)| (look.ns(*at), tpot / line.at(*load)));
    let points: Vec<(f64, f64)> = points.filter(|(_, slow)| *slow > 0.0).collect();
    let rhythm = Rhythm::of(&look, &points)?;
    Some((rhythm.period, [rhythm.low, rhythm.high]))
}

/// That the server was of another speed later on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SpeedChange {
    /// From the stage at this place of those that were given on: how many times as long a token took.
    From(usize, f64),
    /// Within the stage at this place: how many times as long a token took at its end as at its beginning.
    Within(usize, f64),
    /// From the stage at one place to that at another: how many times as long a token took as in the others.
    Between([usize; 2], f64),
    /// In the later one of two stages: how many times as long a token took as in the other.
    Unlike([usize; 2], f64),
    /// More with each stage: how many times as long a token took in the last one as in the first.
    Gradual(f64),
}

/// Stages on each side of a change, at least.
const EACH: usize = 2;
/// And in all, of a gradual one.
const FEWEST: usize = 6;
/// A change that is told, as a logarithm.
const TOLD: f64 = 0.077;
/// How many times what stages differ by on either side lies between the two, and what they may always differ by.
const APART: f64 = 3.0;
const ALIKE: f64 = 0.01;
/// Of the pairs of stages, how many more are in order than are not, a share.
const IN_ORDER: f64 = 0.9;

/// Whether the server became slower or quicker over the stages of a search, in order of time: by the time per token of requests beside which equally many were answered,
/// so that the load of a stage has no part in it, and else of those beside which fewer were, which is told. A change that more load would make too is none.
pub(crate) fn change(run: &RunRecord, stages: &[StageSamples<'_>]) -> Option<(SpeedChange, bool)> {
    let looks = stages.iter();
    let looks = looks.map(|(_, cell, samples)| Look::of(run, cell, Some(samples)));
    let looks: Vec<Look<'_>> = looks.collect();
    let parts = |part: fn(&Look<'_>) -> Vec<Quick>| -> Vec<Part> {
        let all = stages.iter().zip(&looks).enumerate();
        let all = all.flat_map(|(place, ((load, ..), look))| {
            let own = part(look).into_iter();
            own.map(move |quick| Part {
                place,
                load: *load,
                quick,
            })
        });
        all.collect()
    };
    let whole = speeds(&parts(of_stage));
    let alike = step(&whole).or_else(|| for_a_while(&whole));
    let alike = alike.or_else(|| gradual(&whole));
    let swings = || swing(run, stages).is_some();
    match alike.map(|change| (change, true)) {
        None if swings() => None,
        None => order::out_of_order(&parts(of_pieces)).or_else(|| within_one(&looks)),
        told => told,
    }
}

/// A stage, or a part of its time: its place, its load, and how quick the server was.
struct Part {
    place: usize,
    load: f64,
    quick: Quick,
}

/// How slow the server was in the stage at a place, as a logarithm around 0, and the load of that.
#[derive(Clone, Copy, Debug)]
struct Speed {
    place: usize,
    load: f64,
    slow: f64,
}

/// The quicker time per token of some requests, as a logarithm; of how many requests, and how well it is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    log: f64,
    weight: f64,
    error: f64,
    /// First tokens of others meanwhile and tokens of their prompts, for each token.
    meanwhile: [f64; 2],
}

/// The same by the number of answers under way beside them.
type Quick = BTreeMap<u64, Known>;

fn of_stage(look: &Look<'_>) -> Vec<Quick> {
    vec![of_tokens(&speed::times_per_token(look))]
}

/// Of parts of a stage, each of so many requests or more.
fn of_pieces(look: &Look<'_>) -> Vec<Quick> {
    const REQUESTS: usize = 30;
    const MOST: usize = 4;
    let tokens = speed::times_per_token(look);
    let pieces = (tokens.len() / REQUESTS).clamp(1, MOST);
    let each = tokens.len().div_ceil(pieces).max(1);
    tokens.chunks(each).map(of_tokens).collect()
}

fn of_tokens(tokens: &[TimePerToken]) -> Quick {
    /// Requests of which that is known, and their least part of the stage; and of more nothing is known better.
    const KNOWN: f64 = 4.0;
    const PART: f64 = 0.05;
    const MOST: f64 = 200.0;
    let mut by_others: BTreeMap<u64, Vec<&TimePerToken>> = BTreeMap::new();
    for own in tokens {
        let others = bench_schema::whole(own.beside.round());
        by_others.entry(others).or_default().push(own);
    }
    let least = KNOWN.max(PART * tokens.len() as f64);
    let told = by_others.into_iter();
    let told = told.filter(|(_, own)| own.len() as f64 >= least);
    let told = told.filter_map(|(others, own)| {
        let n = own.len() as f64;
        let quarter = |q: f64| quantile(own.iter().map(|own| own.time.ln()).collect(), q);
        let (low, high) = (quarter(0.25)?, quarter(0.75)?);
        let mean = |of: fn(&TimePerToken) -> f64| own.iter().map(|own| of(own)).sum::<f64>() / n;
        // those that are answered side by side are alike
        let known = Known {
            log: low,
            weight: n.min(MOST),
            error: (high - low) * (others.max(1) as f64 / n).sqrt(),
            meanwhile: [mean(|own| own.firsts), mean(|own| own.prompts)],
        };
        Some((others, known))
    });
    told.collect()
}

/// How slow the server was in each stage, as a logarithm around 0, by their places; of the most that can be held against each other.
fn speeds(parts: &[Part]) -> Vec<Speed> {
    const ROUNDS: usize = 100;
    let members = comparable(parts);
    let mut known: BTreeMap<u64, usize> = BTreeMap::new();
    for part in &members {
        for others in part.quick.keys() {
            *known.entry(*others).or_default() += 1;
        }
    }
    let shared = |part: &Part| -> Vec<(u64, f64, f64)> {
        let told = part.quick.iter();
        let told = told.filter(|(others, _)| known.get(others) > Some(&1));
        told.map(|(others, own)| (*others, own.log, own.weight))
            .collect()
    };
    let stages = members.iter().map(|part| (*part, shared(part)));
    let stages: Vec<_> = stages.filter(|(_, of)| !of.is_empty()).collect();
    let mut slow = vec![0.0; stages.len()];
    for _ in 0..ROUNDS {
        let mut usual: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for ((_, of), slow) in stages.iter().zip(&slow) {
            for (others, log, weight) in of {
                let sum = usual.entry(*others).or_default();
                *sum = (sum.0 + weight * (log - slow), sum.1 + weight);
            }
        }
        let of_stage = |(_, of): &(&Part, Vec<(u64, f64, f64)>)| {
            let off = of.iter().filter_map(|(others, log, weight)| {
                let (sum, all) = usual.get(others)?;
                Some(weight * (log - sum / all))
            });
            off.sum::<f64>() / of.iter().map(|(.., weight)| weight).sum::<f64>()
        };
        slow = stages.iter().map(of_stage).collect();
        let middle = median(slow.clone()).unwrap_or(0.0);
        for slow in &mut slow {
            *slow -= middle;
        }
    }
    let each = stages.iter().zip(slow);
    let each = each.map(|((part, _), slow)| Speed {
        place: part.place,
        load: part.load,
        slow,
    });
    each.collect()
}

/// The most parts that have numbers of answers under way in common, each with some other.
fn comparable(parts: &[Part]) -> Vec<&Part> {
    let mut groups: Vec<Vec<(usize, &Part)>> = Vec::new();
    for own in parts
        .iter()
        .enumerate()
        .filter(|(_, p)| !p.quick.is_empty())
    {
        let in_common = |group: &Vec<(usize, &Part)>| {
            let mut others = group.iter().flat_map(|(_, part)| part.quick.keys());
            others.any(|others| own.1.quick.contains_key(others))
        };
        let (near, far): (Vec<_>, Vec<_>) = groups.into_iter().partition(in_common);
        groups = far;
        groups.push(near.into_iter().flatten().chain([own]).collect());
    }
    let mut most = groups.into_iter().max_by_key(Vec::len).unwrap_or_default();
    most.sort_unstable_by_key(|(place, _)| *place);
    most.into_iter().map(|(_, part)| part).collect()
}

/// A change from one stage to the next, or within one: all before are quicker than all after, or slower, by more than they differ among themselves.
fn step(told: &[Speed]) -> Option<SpeedChange> {
    let mut best: (f64, Option<SpeedChange>) = (APART, None);
    for meanwhile in [0, 1] {
        for at in EACH..told.len().saturating_sub(EACH + meanwhile - 1) {
            let (before, after) = (told.get(..at)?, told.get(at + meanwhile..)?);
            let from = after.first()?.place;
            if let Some((clear, times)) = apart(before, after).filter(|(c, _)| *c > best.0) {
                best = (clear, Some(SpeedChange::From(from, times)));
            }
        }
    }
    best.1
}

/// A change after which the server was as before: all stages of a while are slower than all others, or quicker, by more than they differ among themselves. Those in
/// which it came and went may be in between.
fn for_a_while(told: &[Speed]) -> Option<SpeedChange> {
    /// Stages beside that while, at least, on both sides together.
    const OTHERS: usize = 3;
    let mut best: (f64, Option<SpeedChange>) = (APART, None);
    let n = told.len();
    for (from, to) in (1..n).flat_map(|from| (from + EACH..n).map(move |to| (from, to))) {
        let within = told.get(from..to)?;
        for (came, went) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let before = told.get(..from - came)?;
            let after = told.get(to + went..).unwrap_or_default();
            let others = [before, after].concat();
            if before.is_empty() || after.is_empty() || others.len() < OTHERS {
                continue;
            }
            if let Some((clear, times)) = apart(&others, within).filter(|(c, _)| *c > best.0) {
                let ends = [within.first()?.place, within.last()?.place];
                best = (clear, Some(SpeedChange::Between(ends, times)));
            }
        }
    }
    best.1
}

/// How clearly the second of two groups of stages is of another speed than the first, and how many times as long a token took; nothing where that is too little, and
/// where more load would make it so.
fn apart(usual: &[Speed], others: &[Speed]) -> Option<(f64, f64)> {
    let apart = middle(others) - middle(usual);
    let (slow, quick) = if apart > 0.0 {
        (others, usual)
    } else {
        (usual, others)
    };
    let ((low, high), (least, most)) = (ends(slow), ends(quick));
    let clear = (low - most) / ((high - low).max(most - least) + ALIKE);
    (apart.abs() > TOLD && !more_load_does_it(slow, quick)).then(|| (clear, apart.exp()))
}

/// Stages that all but follow each other.
fn gradual(told: &[Speed]) -> Option<SpeedChange> {
    let (first, last) = (told.first()?.slow, told.last()?.slow);
    let n = told.len();
    // 1 where slower stages are those of more, -1 where those of less
    let order = |value: &dyn Fn(&Speed) -> f64| {
        let pairs = told.iter().enumerate();
        let pairs = pairs.flat_map(|(i, a)| told.iter().skip(i + 1).map(move |b| (a, b)));
        let signs = pairs.map(|(a, b)| {
            let order = value(b).total_cmp(&value(a)) as i32 * b.slow.total_cmp(&a.slow) as i32;
            f64::from(order)
        });
        signs.sum::<f64>() / (n * (n - 1) / 2) as f64
    };
    let by_time = order(&|stage| stage.place as f64);
    let by_load = order(&|stage| stage.load);
    let is_told = n >= FEWEST && by_time.abs() >= IN_ORDER && (last - first).abs() > TOLD;
    (is_told && by_load < IN_ORDER / 2.0).then(|| SpeedChange::Gradual((last - first).exp()))
}

/// A change within one stage of a closed loop, as its tokens show it.
fn within_one(looks: &[Look<'_>]) -> Option<(SpeedChange, bool)> {
    let closed = looks.iter().enumerate().filter(|(_, look)| !look.is_open());
    let mut changes = closed.filter_map(|(place, look)| {
        let times = speed::step_within(look)?;
        (times.ln().abs() > TOLD).then_some((SpeedChange::Within(place, times), true))
    });
    changes.next()
}

/// Whether all the slow stages have more load than all the quick ones.
fn more_load_does_it(slow: &[Speed], quick: &[Speed]) -> bool {
    let least = slow
        .iter()
        .map(|stage| stage.load)
        .fold(f64::INFINITY, f64::min);
    quick.iter().all(|stage| stage.load < least)
}

fn middle(stages: &[Speed]) -> f64 {
    median(stages.iter().map(|stage| stage.slow).collect()).unwrap_or(0.0)
}

fn ends(stages: &[Speed]) -> (f64, f64) {
    let all = || stages.iter().map(|stage| stage.slow);
    (
        all().fold(f64::INFINITY, f64::min),
        all().fold(f64::NEG_INFINITY, f64::max),
    )
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_stages.rs"]
mod tests;
