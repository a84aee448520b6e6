//! What changes over a cell: a slow start, a level that drifts or steps, streams that stop together.

use std::collections::BTreeMap;

use bench_schema::{Cause, ClockKind, Evidence, Experiment, Finding, Known, Metric};

use super::levels::{self, Level, Parts, Rhythm};
use super::load::gap;
use super::look::{Cover, Look, Seen, mean, median, quantile, squares};
use super::machines::is_local;
use super::places::Places;
use crate::draft::Draft;
use crate::outages::{EARLY, MOST_ALONE, Standstill, all_wait, go_on_beside, silences};
use crate::samples::RequestSample;
use crate::signals::derived;
use crate::view;

/// Requests below which a change cannot be told from chance; a straight line is told of half as many, and of a quarter where they were one at a time, which
/// do not depend on each other.
const FEWEST: usize = 40;

/// Slower at first, drifting, or another level from some moment on; lengths are taken out, and arrivals that come and go.
pub(super) fn levels_change(look: &Look<'_>) -> Option<Finding> {
    let points = look.slowness();
    if follows_places(look) {
        return None;
    }
    // A period may begin slowly.
    if let Some(rhythm) = Rhythm::of(look, &per_token(look)) {
        return rhythm.finding(look);
    }
    if let Some(cold) = slow_start(look, &points) {
        return start_finding(look, &cold);
    }
    if points.len() < FEWEST {
        return along_a_line(look, &points);
    }
    if look.is_open() && !look.load_moves() && super::load::follows_load(look) {
        return None;
    }
    let found = look.levels();
    if found.is_empty() {
        return falls(look, &points).or_else(|| along_a_line(look, &points));
    }
    let (first, last) = (found.first()?, found.last()?);
    let best = found.iter().map(|l| l.mean).fold(f64::INFINITY, f64::min);
    let whole = mean(points.iter().map(|p| p.1))?;
    let cost = 1.0 - best / whole;
    let total: usize = found.iter().map(|l| l.n).sum();
    let slowest = found.iter().max_by(|a, b| a.mean.total_cmp(&b.mean))?;
    // The drain at the end, when fewer compete, is no change of the server.
    let drains = last.n * 10 < total || last.from >= draining(look);
    if last.mean < first.mean && (drains && found.len() == 2 || piles_up(look)) {
        return None;
    }
    let quickest = found.iter().min_by(|a, b| a.mean.total_cmp(&b.mean))?;
    if !typical_moves(&points, quickest, slowest) {
        return None;
    }
    let cold = begins_slowly(look, &points, found);
    // A queue that comes and goes, as after a burst, is no change of the server.
    let of_load = are_bursts(look, &[(slowest.from, slowest.to)]);
    if of_load || !cold && !of_the_server(look) {
        return falls(look, &points).or_else(|| along_a_line(look, &points));
    }
    let comes_back = !cold && levels::comes_back(found);
    if comes_back && !rises_and_falls(look, &points) {
        return None;
    }
    let (cause, experiment) = if cold {
        (Cause::ColdStart, Experiment::LongerWarmUp)
    } else if !comes_back && is_drift(&points, found) {
        (Cause::Drift, Experiment::Longer)
    } else {
        (Cause::Step, Experiment::Longer)
    };
    let mut draft = Draft::in_cell(cause, cost, look.cell);
    for (figure, value) in movement(cause, &points, found) {
        draft = draft.because(figure, value);
    }
    draft
        .because(Known::Requests, total as f64)
        .refuted_by(experiment)
        .done()
}

/// Whether an open loop's answers wait for a place with their first token, now more and now less, and are as quick as ever once they have it.
fn follows_places(look: &Look<'_>) -> bool {
    let pace = Places::pace(look).filter(|_| look.is_open());
    pace.is_some_and(|pace| levels::of(&pace).is_empty())
}

/// A time per token that moves in whatever way while nothing else was found, as where heat holds a server back, a cache fills or memory is collected: neither
/// levels nor a line need fit, but when a request was sent tells more of it than the number in flight does, and nothing of its lengths.
pub(super) fn wanders(look: &Look<'_>) -> Option<Finding> {
    /// Of the lowest level, what the highest is above it; more where requests of a closed loop share the server.
    const MOVES: f64 = 0.15;
    /// Of the variance, what one step may leave of itself: a request is under way when it comes.
    const LEFT_OF_A_STEP: f64 = 0.1;
    if look.load_moves() || follows_places(look) {
        return None;
    }
    // slower answers pile up, too
    if let Some(step) = two_values(look) {
        return Some(step);
    }
    if piles_up(look) {
        return None;
    }
    let points = at_any_load(look);
    let parts = Parts::of(&points, look.concurrency())?;
    let (low, high) = parts.ends()?;
    let is_of_lengths = lengths_wander(look);
    let shares = look.concurrency().is_some_and(|slots| slots > 1);
    let moves = if shares { levels::STEP } else { MOVES };
    let is_of_load = look.is_open() && super::load::explained(look) >= parts.told();
    (high - low >= moves * low && !is_of_lengths && !is_of_load).then_some(())?;
    let is_high = |level: &f64| *level > f64::midpoint(low, high);
    let turns = parts.levels.chunk_by(|a, b| is_high(a) == is_high(b));
    let changes = turns.count() - 1;
    let is_step = |two: &TwoLevels| two.left <= parts.within.max(LEFT_OF_A_STEP * parts.whole);
    let step = two_levels(&points).filter(|two| changes == 1 && is_step(two));
    let at = step.as_ref().and_then(|two| points.get(two.n)).map(|p| p.0);
    let (before, after) = match (&step, changes) {
        (Some(step), _) => (step.before, step.after),
        (None, 1) => (*parts.levels.first()?, *parts.levels.last()?),
        _ => (low, high),
    };
    let soon = at.is_some_and(|at| at <= EARLY * look.whole());
    let (cause, experiment) = match (&step, changes) {
        (Some(_), _) if soon && before > after => (Cause::ColdStart, Experiment::LongerWarmUp),
        (None, 1) => (Cause::Drift, Experiment::Longer),
        _ => (Cause::Step, Experiment::Longer),
    };
    Draft::in_cell(cause, 1.0 - low / parts.mean, look.cell)
        .because(Known::At, at)
        .because(Known::Changes, several(changes))
        .because(Known::LevelBefore, before / parts.typical)
        .because(Known::LevelAfter, after / parts.typical)
        .because(Known::Requests, parts.n as f64)
        .refuted_by(experiment)
        .done()
}

/// Whether prompts or answers of other lengths came at other times.
fn lengths_wander(look: &Look<'_>) -> bool {
    let lengths: [fn(&RequestSample) -> Option<u32>; 2] =
        [|r| r.input_tokens, RequestSample::streamed_tokens];
    lengths.iter().any(|length| {
        let point = |s: &Seen<'_>| Some((s.sent, f64::from(length(s.request)?)));
        let points: Vec<(f64, f64)> = look.seen.iter().filter_map(point).collect();
        Parts::of(&points, None).is_some()
    })
}

/// An open loop whose time per token has one value up to some moment and another one from then on, and next to none between, at the same numbers in flight: what
/// more at once cost is not of one size however many they are.
fn two_values(look: &Look<'_>) -> Option<Finding> {
    /// Of the variance, what the step may leave: a request is under way when it comes.
    const LEFT: f64 = 0.1;
    const FEWEST: usize = 5;
    if !look.is_open() {
        return None;
    }
    let mut points = beside_others(look);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1)).collect();
    let two = two_levels(&values)?;
    let (before, after) = points.split_at_checked(two.n)?;
    let mean = mean(values.iter().map(|p| p.1))?;
    let clear = two.left <= LEFT * squares(values.iter().map(|p| p.1))
        && levels::differ(two.before, two.after);
    let rises = two.before < two.after;
    let (quick, slow) = if rises {
        (before, after)
    } else {
        (after, before)
    };
    let beside = |of: &[(f64, f64, f64)], q| quantile(of.iter().map(|p| p.2).collect(), q);
    let (most, few) = beside(quick, 1.0).zip(beside(slow, 0.1))?;
    let enough = before.len().min(after.len()) >= FEWEST;
    (clear && enough && few <= most && !lengths_wander(look)).then_some(())?;
    let at = after.first()?.0;
    let (cause, experiment) = if !rises && at <= EARLY * look.whole() {
        (Cause::ColdStart, Experiment::LongerWarmUp)
    } else {
        (Cause::Step, Experiment::Longer)
    };
    let typical = median(values.iter().map(|p| p.1).collect())?;
    Draft::in_cell(cause, 1.0 - two.before.min(two.after) / mean, look.cell)
        .because(Known::At, at)
        .because(Known::LevelBefore, two.before / typical)
        .because(Known::LevelAfter, two.after / typical)
        .because(Known::Requests, points.len() as f64)
        .refuted_by(experiment)
        .done()
}

/// The time per token of each request while the load was whole, by when it was sent; of an open loop without what others beside it add.
fn at_any_load(look: &Look<'_>) -> Vec<(f64, f64)> {
    let drain = draining(look);
    let mut points = beside_others(look);
    points.retain(|point| point.0 < drain);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if !look.is_open() {
        return points.iter().map(|p| (p.0, p.1)).collect();
    }
    let times: Vec<f64> = points.iter().map(|p| p.0).collect();
    let part = |at: f64| times.partition_point(|time| *time < at) * levels::PARTS / times.len();
    at_equal_load(&points, part)
}

/// Whether the first of several levels is a slow start, which none of the later ones and few of their requests come near.
fn begins_slowly(look: &Look<'_>, points: &[(f64, f64)], found: &[Level]) -> bool {
    let Some((first, rest)) = found.split_first() else {
        return false;
    };
    let calm = mean(rest.iter().map(|l| l.mean)).unwrap_or(first.mean);
    let best = rest.iter().map(|l| l.mean).fold(first.mean, f64::min);
    let is_back = |level: &Level| level.mean > f64::midpoint(best, first.mean);
    let later = || points.iter().filter(|p| p.0 >= first.to);
    let as_slow = later().filter(|p| p.1 >= first.mean).count();
    first.mean > 1.25 * calm
        && !rest.iter().any(is_back)
        && as_slow * 5 <= later().count()
        && is_start(look, points, first.to, first.mean)
}

/// Whether most requests of one level are slower than most of another, and not a few of them by much: by chance those may come close together.
fn typical_moves(points: &[(f64, f64)], quick: &Level, slow: &Level) -> bool {
    const PART: f64 = 0.3;
    let typical = |level: &Level| {
        let own = points
            .iter()
            .filter(|p| (level.from..=level.to).contains(&p.0));
        median(own.map(|p| p.1).collect())
    };
    let moved = typical(slow).zip(typical(quick));
    moved.is_some_and(|(slower, quicker)| slower - quicker >= PART * (slow.mean - quick.mean))
}

/// When a level moved, for how long or how often, and from where to where.
fn movement(cause: Cause, points: &[(f64, f64)], found: &[Level]) -> Vec<(Known, f64)> {
    let (Some(first), Some(last), Some(rest)) = (found.first(), found.last(), found.get(1..))
    else {
        return Vec::new();
    };
    let means = || found.iter().map(|l| l.mean);
    let at = (Known::At, first.to);
    let comes_back = levels::comes_back(found);
    let (mut told, (before, after)) = match cause {
        Cause::ColdStart => {
            let calm = mean(rest.iter().map(|l| l.mean));
            (vec![at], (first.mean, calm.unwrap_or(last.mean)))
        }
        Cause::Drift => {
            let line = bench_metrics::linear_fit(points, bench_metrics::LEVEL);
            let ends = points.first().zip(points.last());
            let along = line
                .zip(ends)
                .map(|(line, (a, b))| (line.at(a.0), line.at(b.0)));
            (Vec::new(), along.unwrap_or((first.mean, last.mean)))
        }
        _ if found.len() > 3 => {
            let changes = (Known::Changes, rest.len() as f64);
            let ends = (
                means().fold(f64::INFINITY, f64::min),
                means().fold(0.0, f64::max),
            );
            (vec![changes], ends)
        }
        _ if comes_back => {
            let between = rest.first().map_or(first.mean, |level| level.mean);
            let lasted = (Known::Lasted, last.from - first.to);
            (vec![at, lasted], (first.mean, between))
        }
        _ => (vec![at], (first.mean, last.mean)),
    };
    told.push((Known::LevelBefore, before));
    told.push((Known::LevelAfter, after));
    told
}

/// Whether a level goes and comes back while the load is whole: the first wave of a closed loop and its drain are quick on any server.
fn rises_and_falls(look: &Look<'_>, points: &[(f64, f64)]) -> bool {
    let drain = draining(look);
    let full: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.0 < drain).collect();
    levels::of(&full).len() > 2
}

/// Whether ever more wait in an open loop: those that come last are quicker since no more follow.
fn piles_up(look: &Look<'_>) -> bool {
    look.is_open() && super::load::piles_up(look)
}

/// A drift so slow that no moment parts two levels, or of too few requests for them. In an open loop the time per token has to drift too, or the time to
/// the first where as many are in flight, and nothing may pile up: more in flight makes both.
fn along_a_line(look: &Look<'_>, points: &[(f64, f64)]) -> Option<Finding> {
    let drain = draining(look);
    let full: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.0 < drain).collect();
    let points = full.as_slice();
    let alone = look.concurrency() == Some(1);
    if points.len() < FEWEST / if alone { 4 } else { 2 } || piles_up(look) {
        return None;
    }
    let mut ends = levels::drift(points)?;
    if look.is_open() && levels::drift(&per_token(look)).is_none() && !first_tokens_drift(look) {
        return None;
    }
    let step = two_levels(points).filter(|two| two.left < off_line(points));
    if let Some(two) = &step {
        ends = (two.before, two.after);
    }
    let (before, after) = ends;
    let whole = mean(points.iter().map(|p| p.1))?;
    let half = |from: usize, to: usize| {
        let own = points.get(from..to).unwrap_or_default();
        Some(Level {
            from: own.first()?.0,
            to: own.last()?.0,
            n: own.len(),
            mean: mean(own.iter().map(|p| p.1))?,
        })
    };
    let middle = points.len() / 2;
    let (first, second) = half(0, middle).zip(half(middle, points.len()))?;
    let rises = first.mean < second.mean;
    let (quick, slow) = if rises {
        (&first, &second)
    } else {
        (&second, &first)
    };
    typical_moves(points, quick, slow).then_some(())?;
    let cause = step.as_ref().map_or(Cause::Drift, |_| Cause::Step);
    let at = step.and_then(|two| points.get(two.n)).map(|p| p.0);
    Draft::in_cell(cause, 1.0 - before.min(after) / whole, look.cell)
        .because(Known::At, at)
        .because(Known::LevelBefore, before)
        .because(Known::LevelAfter, after)
        .because(Known::Requests, points.len() as f64)
        .refuted_by(Experiment::Longer)
        .done()
}

/// Whether the time to the first token rises or falls along a line by a quarter among requests that found as many in flight: a queue makes those wait alike.
fn first_tokens_drift(look: &Look<'_>) -> bool {
    let mut levels: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for (seen, prefill) in look
        .seen
        .iter()
        .filter(|s| s.first.is_some())
        .zip(look.prefills())
    {
        let over = seen.request.ttft.map_or(1.0, |ttft| ttft / prefill.quick);
        let own = levels.entry(seen.in_flight.to_bits()).or_default();
        own.push((seen.sent, over));
    }
    let middle = |of: &[(f64, f64)]| {
        let times = mean(of.iter().map(|p| p.0))?;
        Some((times, mean(of.iter().map(|p| p.1))?))
    };
    let all: Vec<(f64, f64)> = levels.values().flatten().copied().collect();
    let Some((time, usual)) = middle(&all) else {
        return false;
    };
    let around = |of: &Vec<(f64, f64)>| {
        let (t, level) = middle(of).unwrap_or((time, usual));
        let beside = of.iter().map(|p| (time + p.0 - t, usual + p.1 - level));
        beside.collect::<Vec<_>>()
    };
    let mut within: Vec<(f64, f64)> = levels.values().flat_map(around).collect();
    within.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = bench_metrics::drift(&within, levels::STEP);
    ends.is_some_and(|(before, after)| levels::differ(before, after))
}

/// From when on requests of a closed loop were sent that ended when no more followed: fewer and fewer compete with them.
pub(super) fn draining(look: &Look<'_>) -> f64 {
    if look.is_open() {
        return f64::INFINITY;
    }
    let last_sent = look.seen.iter().map(|s| s.sent).fold(0.0, f64::max);
    let late = look.seen.iter().filter(|s| s.end > last_sent);
    late.map(|s| s.sent).fold(f64::INFINITY, f64::min)
}

/// The factor by which the time per token stepped within a cell, and stayed.
pub(super) fn token_step(look: &Look<'_>) -> Option<f64> {
    let found = levels::of(&per_token_of_full_load(look));
    let stays = !levels::comes_back(&found) && of_the_server(look);
    let (first, last) = found.first().zip(found.last()).filter(|_| stays)?;
    Some(last.mean / first.mean)
}

/// The same as [`per_token`] while the load was whole.
pub(super) fn per_token_of_full_load(look: &Look<'_>) -> Vec<(f64, f64)> {
    let drain = draining(look);
    let mut points = per_token(look);
    points.retain(|point| point.0 < drain);
    points
}

/// The time per token of each request that has one, by when it was sent.
pub(super) fn per_token(look: &Look<'_>) -> Vec<(f64, f64)> {
    let seen = look.seen.iter();
    seen.filter_map(|s| Some((s.sent, s.request.tpot()?)))
        .collect()
}

/// Of what levels differ by, the part that has to be left among requests beside which as many were under way: what more at once cost is no straight line.
const LEFT: f64 = 0.3;

/// Whether the time per token moved too, or that of whole answers where few have one, more than the number in flight makes it. In an open loop times move
/// with that number, which comes and goes by chance; in a closed loop there is none that could.
fn of_the_server(look: &Look<'_>) -> bool {
    if !look.is_open() {
        return true;
    }
    let points = beside_others(look);
    let values: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1)).collect();
    let found = levels::of(&values);
    let own = |at: f64| found.partition_point(|level| level.to <= at);
    let left = levels::of(&at_equal_load(&points, own));
    !left.is_empty() && levels::range(&left) >= LEFT * levels::range(&found)
}

/// Whether the number in flight, as it comes and goes by chance, makes what is slow in some stretches of an open loop.
pub(super) fn are_of_load(look: &Look<'_>, stretches: &[(f64, f64)]) -> bool {
    let points = beside_others(look);
    let held = |at: f64| {
        stretches
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&at))
    };
    let differ = |points: &[(f64, f64)]| {
        let level = |within: bool| {
            let own = points.iter().filter(|p| held(p.0) == within);
            mean(own.map(|p| p.1)).unwrap_or(0.0)
        };
        level(true) - level(false)
    };
    let values: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1)).collect();
    let left = at_equal_load(&points, |at| usize::from(held(at)));
    look.is_open() && differ(&left) < LEFT * differ(&values)
}

/// `(when it was sent, its time per token, how many were under way while its tokens came)` of each request; where few have such a time, that of whole answers.
fn beside_others(look: &Look<'_>) -> Vec<(f64, f64, f64)> {
    let under_way = look.under_way();
    let tokens = look.seen.iter().filter_map(|s| {
        let beside = under_way.during(s.first?, s.end);
        Some((s.sent, s.request.tpot()?, beside))
    });
    let tokens: Vec<_> = tokens.collect();
    if tokens.len() * 2 >= look.seen.len() {
        return tokens;
    }
    let whole = |s: &Seen<'_>| (s.sent, s.slow, under_way.during(s.sent, s.end));
    look.seen.iter().map(whole).collect()
}

/// `(when, value)` of `(when, value, how many beside it)`, without what one more beside it adds among neighbours of one level.
fn at_equal_load(points: &[(f64, f64, f64)], level: impl Fn(f64) -> usize) -> Vec<(f64, f64)> {
    let (mut products, mut squares) = (0.0, 0.0);
    for own in points.chunk_by(|a, b| level(a.0) == level(b.0)) {
        let value = mean(own.iter().map(|p| p.1)).unwrap_or(0.0);
        let beside = mean(own.iter().map(|p| p.2)).unwrap_or(0.0);
        for p in own {
            products += (p.1 - value) * (p.2 - beside);
            squares += (p.2 - beside).powi(2);
        }
    }
    let each = if squares > 0.0 {
        (products / squares).max(0.0)
    } else {
        0.0
    };
    let usual = mean(points.iter().map(|p| p.2)).unwrap_or(0.0);
    let equal = |p: &(f64, f64, f64)| (p.0, p.1 - each * (p.2 - usual));
    points.iter().map(equal).collect()
}

/// The first requests, where all of them are slower than nearly all others.
struct SlowStart {
    n: usize,
    /// When the first was sent that is quick.
    to: f64,
    before: f64,
    after: f64,
    cost: f64,
}

/// Whether what was slow up to some moment is a start: soon over, and not the beginning of times that keep falling, nor of a queue.
fn is_start(look: &Look<'_>, points: &[(f64, f64)], until: f64, level: f64) -> bool {
    /// Of a straight fall a third lies between the middles of two quarters; of one that has ended in the first half, next to nothing.
    const FALLS_ON: f64 = 0.2;
    let drain = draining(look);
    let within = points.partition_point(|p| p.0 < drain);
    let full = points.get(..within).filter(|full| !full.is_empty());
    let full = full.unwrap_or(points);
    let (Some(from), Some(to)) = (full.first().map(|p| p.0), full.last().map(|p| p.0)) else {
        return false;
    };
    let quarter = |n: f64| {
        let edge = |n: f64| from + n * (to - from) / 4.0;
        let own = full
            .iter()
            .filter(|p| (edge(n)..=edge(n + 1.0)).contains(&p.0));
        median(own.map(|p| p.1).collect())
    };
    let quarters = quarter(1.0).zip(quarter(2.0)).zip(quarter(3.0));
    let falls_on = quarters.is_some_and(|((second, third), last)| {
        let much = FALLS_ON * (level - last);
        second - third >= much && third - last >= much
    });
    until - from <= EARLY * (to - from) && !falls_on && !piles_up(look)
}

fn slow_start(look: &Look<'_>, points: &[(f64, f64)]) -> Option<SlowStart> {
    if points.len() < 20 {
        return None;
    }
    let third = points.len() / 3;
    let rest: Vec<f64> = points.get(third..)?.iter().map(|p| p.1).collect();
    let (usual, high) = (median(rest.clone())?, quantile(rest, 0.95)?);
    let least = high.max(1.3 * usual);
    let early: Vec<f64> = points
        .iter()
        .take(third)
        .map(|p| p.1)
        .take_while(|slow| *slow > least)
        .collect();
    let n = early.len();
    // A third that is slow to its end is a level of its own.
    if n < 4 || n >= third {
        return None;
    }
    let before = median(early.clone())?;
    let until = points.get(n - 1)?.0;
    if are_bursts(look, &[(0.0, until)]) || !is_start(look, points, until, before) {
        return None;
    }
    let lost: f64 = early.iter().map(|slow| slow - usual).sum();
    let all: f64 = points.iter().map(|p| p.1).sum();
    Some(SlowStart {
        n,
        to: points.get(n)?.0,
        before,
        after: usual,
        cost: lost / all,
    })
}

/// Whether far more requests than usual came in some stretches of an open loop: then they compete with each other.
pub(super) fn are_bursts(look: &Look<'_>, stretches: &[(f64, f64)]) -> bool {
    const MORE: f64 = 1.5;
    const ERRORS: f64 = 2.0;
    const FEWEST: f64 = 6.0;
    let mut due: Vec<f64> = look.seen.iter().map(|seen| seen.from).collect();
    due.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (due.first().copied(), due.last().copied()) else {
        return false;
    };
    // the first of each begins its stretch
    let after_first = |(from, to): &(f64, f64)| {
        let before = due.partition_point(|due| due < from);
        let upto = due.partition_point(|due| due <= to);
        upto.saturating_sub(before + 1)
    };
    let came = stretches.iter().map(after_first).sum::<usize>() as f64;
    let lasted: f64 = stretches
        .iter()
        .map(|(from, to)| to - from.max(first))
        .sum();
    let usual = due.len() as f64 * lasted / (last - first);
    look.is_open() && came >= FEWEST.max(MORE * usual) && came - usual >= ERRORS * usual.sqrt()
}

fn start_finding(look: &Look<'_>, start: &SlowStart) -> Option<Finding> {
    Draft::in_cell(Cause::ColdStart, start.cost, look.cell)
        .because(Known::At, start.to)
        .because(Known::LevelBefore, start.before)
        .because(Known::LevelAfter, start.after)
        .because(Known::Requests, start.n as f64)
        .refuted_by(Experiment::LongerWarmUp)
        .done()
}

/// Whether a straight line fits better than two levels.
fn is_drift(points: &[(f64, f64)], found: &[Level]) -> bool {
    let rising = found.windows(2).all(|pair| pair[1].mean >= pair[0].mean);
    let falling = found.windows(2).all(|pair| pair[1].mean <= pair[0].mean);
    if !rising && !falling {
        return false;
    }
    two_levels(points).is_some_and(|two| off_line(points) < two.left)
}

/// Squares around a straight line.
fn off_line(points: &[(f64, f64)]) -> f64 {
    let line = bench_metrics::linear_fit(points, bench_metrics::LEVEL);
    line.map_or(f64::INFINITY, |line| {
        points.iter().map(|p| (p.1 - line.at(p.0)).powi(2)).sum()
    })
}

/// A series as two levels, the step wherever it fits best.
pub(super) struct TwoLevels {
    /// Values before the step.
    pub(super) n: usize,
    pub(super) before: f64,
    pub(super) after: f64,
    /// Squares around the two means.
    pub(super) left: f64,
}

pub(super) fn two_levels(points: &[(f64, f64)]) -> Option<TwoLevels> {
    let (sum, squares) = points.iter().fold((0.0, 0.0), |(sum, squares), p| {
        (sum + p.1, squares + p.1 * p.1)
    });
    let mut so_far = 0.0;
    let steps = points.iter().enumerate().map(|(i, point)| {
        so_far += point.1;
        let (n, rest) = ((i + 1) as f64, (points.len() - i - 1) as f64);
        let (before, after) = (so_far / n, (sum - so_far) / rest);
        TwoLevels {
            n: i + 1,
            before,
            after,
            left: squares - n * before * before - rest * after * after,
        }
    });
    steps
        .take(points.len().saturating_sub(1))
        .min_by(|a, b| a.left.total_cmp(&b.left))
}

/// A queue of an open loop that was there for long and then was not, though requests came as before: more serves them. What comes and goes by
/// chance explains less of the times.
fn falls(look: &Look<'_>, points: &[(f64, f64)]) -> Option<Finding> {
    const PART: f64 = 0.25;
    const EXPLAINED: f64 = 0.5;
    let two = two_levels(points).filter(|_| look.is_open() && !look.load_moves())?;
    let whole = mean(points.iter().map(|p| p.1))?;
    let all = squares(points.iter().map(|p| p.1));
    let (n, least) = (points.len(), PART * points.len() as f64);
    let long = two.n as f64 >= least && (n - two.n) as f64 >= least;
    (long && two.after * 2.0 <= two.before && two.left <= EXPLAINED * all).then_some(())?;
    Draft::in_cell(Cause::Step, 1.0 - two.after / whole, look.cell)
        .because(Known::At, points.get(two.n).map(|p| p.0))
        .because(Known::LevelBefore, two.before)
        .because(Known::LevelAfter, two.after)
        .because(Known::Requests, n as f64)
        .refuted_by(Experiment::Longer)
        .done()
}

/// Multiple of the mean gap from which on it is a stall.
const STANDS_OUT: f64 = 2.5;
/// Up to this multiple of the shortest stalls are about as long each time.
const ALIKE: f64 = 1.5;
/// Share of the time over which stalls that come again and again are spread.
const MOST: f64 = 0.4;

/// A stop of all streams, or of those of one endpoint beside which others go on: whichever costs more.
pub(super) fn stop(look: &Look<'_>, all: &[Look<'_>]) -> Option<Finding> {
    let found = |look: &Look<'_>| stalls(look).or_else(|| silence(look, all));
    let of_one = look.endpoints().into_iter().filter_map(|endpoint| {
        let own = look.at_endpoint(endpoint);
        let mut found = found(&own)?;
        found.severity *= own.taken() / look.taken();
        let is_length = |e: &&mut Evidence| e.figure == Known::StallLength.into();
        for length in found.evidence.iter_mut().filter(is_length) {
            length.of = Some(look.url(endpoint));
        }
        Some(found)
    });
    let all = of_one.chain(found(look));
    all.max_by(|a, b| a.severity.total_cmp(&b.severity))
}

/// All streams stop together: again and again, or once or twice.
fn stalls(look: &Look<'_>) -> Option<Finding> {
    if view::in_bundles(look.cell) {
        return None;
    }
    let (unexplained, period) = not_of_prompts(look);
    let whole = look.whole();
    let (first, last) = (unexplained.first()?, unexplained.last()?);
    let alone = unexplained.iter().all(|stop| stop.streams < 2.0);
    // Several at the beginning and none later: a slow start, which levels tell.
    if unexplained.len() > 1 && last.from + last.length < EARLY * whole {
        return None;
    }
    let cost = lost_in(look, &unexplained);
    let length = median(unexplained.iter().map(|s| s.length).collect())?;
    let longest = unexplained.iter().map(|s| s.length).fold(0.0, f64::max);
    let cause = match period {
        Some(_) => Cause::PeriodicStall,
        // One pause among thousands of tokens has to be long to be anything, and that of a single stream longer.
        None if longest >= if alone { 0.03 } else { 0.01 } * whole => Cause::Frozen,
        None => return None,
    };
    let client = &look.cell.client;
    let paused = client.lag.as_ref().map(|lag| lag.max.as_f64());
    // A machine that holds up the client for about as long, or the server's threads for longer in all, stops both: that is none of the server's making.
    if is_local(look.run) && period.is_none() {
        let stood = unexplained.iter().map(|s| s.length).sum::<f64>();
        let held_up = paused.is_some_and(|pause| pause >= 0.5 * longest);
        if held_up || waited_for_a_cpu(look).is_some_and(|waited| waited >= stood) {
            return None;
        }
    }
    let exact = look.run.clock.arrival == ClockKind::Kernel;
    if !exact
        && paused.is_none_or(|pause| pause >= 0.5 * length)
        && client.run_queue_wait.is_none_or(|w| w > 0.1)
    {
        return None;
    }
    let experiment = period.map_or(Experiment::AgainWithLog, |_| Experiment::Longer);
    // The next token would have come a gap later all the same.
    let beyond = |length: f64| length - gap(look.cell).unwrap_or(0.0);
    let shortest = unexplained.iter().map(|s| s.length).fold(longest, f64::min);
    let alike = longest <= ALIKE * shortest;
    let ends = match period {
        Some(_) if alike => [Some(length), None],
        Some(_) => [Some(shortest), Some(longest)],
        None => [Some(longest), None],
    };
    Draft::in_cell(cause, cost, look.cell)
        .because(Known::Stalls, several(unexplained.len()))
        .because(Known::StallPeriod, period)
        .because(Known::StallLength, ends[0].map(beyond))
        .because(Known::StallLength, ends[1].map(beyond))
        .because(Known::At, first.from)
        .because(Known::InFlight, first.streams)
        .rules_out(
            Cause::ClientLimited,
            Known::ClientRunQueue,
            client.run_queue_wait,
        )
        .refuted_by(experiment)
        .done()
}

/// How long the server's threads waited for a CPU in all, ns, where others used the machine.
fn waited_for_a_cpu(look: &Look<'_>) -> Option<f64> {
    const OTHERS: f64 = 0.25;
    let pressure = derived(look.cell, "host_cpu_pressure_share")?;
    let waited = derived(look.cell, "server_run_queue_wait")?;
    (pressure >= OTHERS).then(|| waited * look.whole())
}

/// Share of their time that users spend in stretches in which nothing moves: those whose first tokens do not come lose it too.
fn lost_in(look: &Look<'_>, still: &[Standstill]) -> f64 {
    let still = Cover::of(still.iter().map(|s| (s.from, s.from + s.length)));
    let spans = || look.seen.iter().map(|s| (s.from, s.end));
    let lost: f64 = spans().map(|(from, to)| still.within(from, to)).sum();
    lost / spans().map(|(from, to)| to - from).sum::<f64>()
}

/// How many, where it is not one.
fn several(n: usize) -> Option<f64> {
    (n > 1).then_some(n as f64)
}

/// All requests wait for a token, and none comes: a server that stands still while few answers stream.
fn silence(look: &Look<'_>, all: &[Look<'_>]) -> Option<Finding> {
    let requests = || look.seen.iter().map(|seen| seen.request);
    let starts_slowly = || slow_start(look, &look.slowness()).is_some();
    let own = look.stops().one_by_one;
    let prompts = &look.prompts().in_progress;
    let warm_up = &look.warm_up;
    let mut found = silences(requests, warm_up, look.epoch, (prompts, own), starts_slowly);
    found.retain(|stop| go_on_beside(&look.others, stop, look.epoch));
    let longest = found.iter().max_by(|a, b| a.length.total_cmp(&b.length))?;
    // What keeps single requests waiting in one cell after another is theirs.
    let as_long = |s: &&Seen<'_>| {
        let first = s.first.unwrap_or(s.end);
        s.in_flight < 2.0 && first - s.sent >= longest.length / 2.0
    };
    let waited = || all.iter().flat_map(|look| &look.seen).filter(as_long);
    if longest.streams < 2.0 && waited().count() > MOST_ALONE {
        return None;
    }
    Draft::in_cell(Cause::Frozen, lost_in(look, &found), look.cell)
        .because(Known::Stalls, several(found.len()))
        .because(Known::StallLength, longest.length)
        .because(Known::At, found.first()?.from)
        .because(Known::InFlight, longest.streams)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}

/// The stalls that nobody's prompt explains, and the time between them where it is the same each time.
pub(super) fn not_of_prompts(look: &Look<'_>) -> (Vec<Standstill>, Option<f64>) {
    let (stops, prompts) = (look.stops(), look.prompts());
    let n = stops.of_all.len();
    // tokens that are read together make an answer's usual gap next to nothing, and the one between reads stand out
    let usual = view::mean(look.cell, Metric::Icl).unwrap_or(0.0);
    let is_one = |stall: &Standstill| {
        let prompts = prompts.explain(stall, stops);
        let beside = || go_on_beside(&look.others, stall, look.epoch);
        stall.length >= STANDS_OUT * usual && !prompts && beside()
    };
    let all = stops.of_all.iter().copied();
    let rest: Vec<Standstill> = all.filter(is_one).collect();
    // A job takes about as long each time: what is much shorter or longer is something else, and hides no period. Neither does what differs less where
    // the rest differs hardly at all.
    let typical = median(rest.iter().map(|s| s.length).collect()).unwrap_or(0.0);
    let whole = look.whole();
    let found = [2.0, 1.2].into_iter().find_map(|times| {
        let is_alike = |s: &&Standstill| (1.0 / times..=times).contains(&(s.length / typical));
        let alike: Vec<Standstill> = rest.iter().filter(is_alike).copied().collect();
        // Waves of prompts come as regularly as a job of the server's: a few of them are not seen for what they are.
        let period = period(&alike).filter(|_| alike.len() >= 3 && alike.len() * 2 >= n)?;
        // What comes again and again does so for most of the time.
        let lasted = alike.last()?.from - alike.first()?.from >= MOST * whole;
        lasted.then_some((alike, Some(period)))
    });
    found
        .or_else(|| with_unseen(look, &rest, typical))
        .unwrap_or((rest, None))
}

/// Stops that come evenly though some met no stream. Where all wait for first tokens then and these come together, it ended with them and is taken to be as
/// long as the others; where nobody streams, one may be missing.
fn with_unseen(
    look: &Look<'_>,
    rest: &[Standstill],
    typical: f64,
) -> Option<(Vec<Standstill>, Option<f64>)> {
    /// Off the period on average, and times the typical length.
    const OFF: f64 = 0.03;
    const ALIKE: std::ops::RangeInclusive<f64> = 0.8..=1.25;
    const WAITED: std::ops::RangeInclusive<f64> = 0.3..=1.5;
    const FEWEST: usize = 4;
    let stops = look.stops();
    let alike = |s: &&Standstill| ALIKE.contains(&(s.length / typical));
    let mut all: Vec<Standstill> = rest.iter().filter(alike).copied().collect();
    if all.len() < 2 || all.len() < rest.len() {
        return None;
    }
    let waits = all_wait(
        look.seen.iter().map(|s| s.request),
        look.epoch,
        stops.one_by_one,
    );
    let prompts = &look.prompts().in_progress;
    let is_new = |wait: &Standstill| {
        let (from, to) = (wait.from, wait.from + wait.length);
        WAITED.contains(&(wait.length / typical))
            && prompts.within(from, to) < 0.5 * wait.length
            && !rest.iter().any(|s| s.from < to && from < s.from + s.length)
    };
    let waits: Vec<Standstill> = waits.into_iter().filter(is_new).collect();
    all.extend(waits.iter().map(|wait| Standstill {
        from: wait.from + wait.length - typical,
        length: typical,
        ..*wait
    }));
    all.sort_by(|a, b| a.from.total_cmp(&b.from));
    let period = even(&all, OFF)?;
    let is_whole = all.windows(2).all(|pair| {
        let periods = ((pair[1].from - pair[0].from) / period).round();
        let missing = pair[0].from + period + typical / 2.0;
        periods <= 1.0 || periods <= 2.0 && stops.streams_at(missing) == 0
    });
    let lasted = all.last()?.from - all.first()?.from;
    let is_it = is_whole && all.len() >= FEWEST && lasted >= MOST * look.whole();
    is_it.then_some((all, Some(period)))
}

/// The time between stalls, where it is the same each time, but for one of several.
pub(super) fn period(stalls: &[Standstill]) -> Option<f64> {
    /// Of more the mean forgives one.
    const SEVERAL: std::ops::RangeInclusive<usize> = 6..=40;
    /// Of fewer each has to be there, and at its time: two of three distances are even by chance too often.
    const FEW: usize = 4;
    if stalls.len() <= FEW {
        let even = even(stalls, 0.03)?;
        let lasted = stalls.last()?.from - stalls.first()?.from;
        return (lasted < even * (stalls.len() as f64 - 0.5)).then_some(even);
    }
    // by chance they are off by a quarter of it on average
    even(stalls, 0.1).or_else(|| {
        let without = |i: usize| Some([stalls.get(..i)?, stalls.get(i + 1..)?].concat());
        (0..stalls.len())
            .filter(|_| SEVERAL.contains(&stalls.len()))
            .find_map(|i| even(&without(i)?, 0.05))
    })
}

/// The time between stalls, where they are off by less than this part of it; one that was not seen counts as two periods.
fn even(stalls: &[Standstill], most: f64) -> Option<f64> {
    let gaps: Vec<f64> = stalls.windows(2).map(|p| p[1].from - p[0].from).collect();
    let shortest = quantile(gaps.clone(), 0.25).filter(|p| *p > 0.0)?;
    let periods: f64 = gaps
        .iter()
        .map(|gap| (gap / shortest).round().max(1.0))
        .sum();
    let period = gaps.iter().sum::<f64>() / periods;
    let off = |gap: &f64| (gap / period - (gap / period).round()).abs();
    let off = gaps.iter().map(off).sum::<f64>() / gaps.len() as f64;
    let missed = periods - gaps.len() as f64;
    (off < most && missed <= gaps.len() as f64).then_some(period)
}
