//! Answers that stand still: beside others' prompts, or by themselves.

use bench_schema::{Cause, Experiment, Finding, Known, Metric, Stamp};

use super::fit::median;
use super::look::{Look, Seen};
use super::spans::{Cover, UnderWay};
use super::unexplained::{COSTS, FEWEST};
use crate::draft::Draft;
use crate::samples::{NOTHING, STANDS_OUT};
use crate::signals::Signal;
use crate::view;

/// Share of the pauses in which another prompt is processed, from which on that is what they are.
const OF_PROMPTS: f64 = 0.6;

/// Gaps of four times the usual and more.
pub(super) struct Stood {
    /// Their share of the users' time.
    pub(super) cost: f64,
    /// Of that the part beside somebody's prompt.
    beside: f64,
    /// Of that the part in pauses that ended as somebody else's first token came.
    until_first: f64,
    /// Of the answers under way meanwhile, the part that went on.
    go_on: f64,
}

impl Stood {
    /// Whether they are beside prompts that may be why: a prompt that holds up one answer holds up nearly all.
    fn may_be_of_prompts(&self) -> bool {
        const GO_ON: f64 = 0.3;
        self.beside >= OF_PROMPTS && self.go_on < GO_ON
    }
}

/// Answers under way, and those of them that stand still.
struct Company {
    under_way: UnderWay,
    at_rest: UnderWay,
}

impl Company {
    fn of(look: &Look<'_>) -> Self {
        let streams = look.seen.iter().filter_map(|s| Some((s.first?, s.end)));
        let stalls = look.seen.iter().flat_map(|s| &s.request.stalls);
        let stalls = stalls.map(|(at, length)| (look.ns(*at), look.ns(*at) + length));
        Self {
            under_way: UnderWay::of(streams),
            at_rest: UnderWay::of(stalls),
        }
    }

    /// How many are under way, and how many of them go on.
    fn at(&self, at: f64) -> (usize, usize) {
        let all = self.under_way.at(at);
        (all, all.saturating_sub(self.at_rest.at(at).max(1)))
    }
}

/// Whether answers wait for one of a number of places once they have their first token.
fn wait_after_first(look: &Look<'_>) -> bool {
    look.places().is_some_and(|places| places.after_first)
}

/// The pauses of an answer but for one at its beginning in which it waits for a place.
fn own_pauses<'a>(seen: &Seen<'a>, queue: bool) -> impl Iterator<Item = &'a (Stamp, f64)> {
    let first = seen.request.ttft.unwrap_or(0.0);
    let waits = move |at: Stamp| queue && (at - seen.request.start).as_f64() <= first;
    seen.request.stalls.iter().filter(move |s| !waits(s.0))
}

/// Of however few requests.
pub(super) fn pauses_of(look: &Look<'_>) -> Option<Stood> {
    stood_but(look, None)
}

/// But for the pauses in some stops.
fn stood_but(look: &Look<'_>, stops: Option<&Cover>) -> Option<Stood> {
    if view::in_bundles(look.cell) {
        return None;
    }
    let taken = look.taken();
    let prompts = &look.prompts().in_progress;
    let queue = wait_after_first(look);
    let mut firsts: Vec<f64> = look.seen.iter().filter_map(|s| s.first).collect();
    firsts.sort_by(f64::total_cmp);
    let usual = look.tpot().unwrap_or(0.0);
    let company = Company::of(look);
    let (mut stood, mut beside, mut until_first, mut go_on) = (0.0, 0.0, 0.0, 0.0);
    for (at, length) in look.seen.iter().flat_map(|s| own_pauses(s, queue)) {
        let (from, to) = (look.ns(*at), look.ns(*at) + length);
        if stops.is_some_and(|stops| stops.within(from, to) > 0.5 * length) {
            continue;
        }
        stood += length;
        beside += prompts.within(from, to);
        // One step makes the tokens of all: within half a gap they are of one.
        let after = firsts.partition_point(|first| *first < to - 0.5 * usual);
        let met = firsts
            .get(after)
            .is_some_and(|first| *first <= to + 0.5 * usual);
        until_first += if met { *length } else { 0.0 };
        let (all, moving) = company.at(f64::midpoint(from, to));
        go_on += length * moving as f64 / all.max(1) as f64;
    }
    (stood > 0.0).then(|| Stood {
        cost: stood / taken,
        beside: beside / stood,
        until_first: until_first / stood,
        go_on: go_on / stood,
    })
}

/// Pauses that others' prompts make, whatever else was found: as long as these take, and over as their first tokens come. Where requests are always
/// waiting a prompt is beside every pause, so that alone says nothing.
pub(super) fn interrupted(look: &Look<'_>) -> Option<Finding> {
    let of_prompts = |s: &Stood| s.may_be_of_prompts() && s.until_first >= OF_PROMPTS;
    // what stops all without a prompt does so beside one
    let enough = look.seen.len() >= FEWEST;
    let but_stops = || stood_but(look, Some(&look.unprompted().time)).filter(of_prompts);
    let stood = in_many_steps(look).or_else(|| but_stops().filter(|_| enough));
    let stood = stood.filter(|stood| stood.cost >= COSTS)?;
    told(
        Cause::DecodeInterrupted,
        look,
        &stood,
        Experiment::OneAtATime,
    )
}

/// The same where many steps hold prompts, so that their gaps are the usual ones or make the mean, and none stands out. A step that is full of prompt tokens takes as long
/// each time, one without any far less, and there are hardly others: of gaps of two lengths the longer one, mean and variance tell the shorter one, and that is
/// the shortest gap.
fn in_many_steps(look: &Look<'_>) -> Option<Stood> {
    /// Over the longer length, what nearly all gaps are below, and by how much their mean is.
    const AS_LONG: f64 = 1.15;
    const OTHERS: f64 = 0.95;
    /// Of the difference between both lengths, by how much the shorter one may be above the shortest gap; it is not below.
    const NEAR: f64 = 0.3;
    let gaps = look.cell.headline(Metric::Icl)?;
    let (full, mean) = (gaps.quantile(0.9)?, gaps.mean);
    let even = gaps.quantile(0.95)? <= AS_LONG * full && mean <= OTHERS * full;
    let alone = look.concurrency() == Some(1) || view::in_bundles(look.cell);
    (even && !alone).then_some(())?;
    let below = full - mean;
    let apart = (gaps.sd?.powi(2) + below * below) / below;
    let without = full - apart;
    // What takes next to nothing came with the token before it, and is no step.
    let is_step = without >= NOTHING * full && without * STANDS_OUT <= full;
    let near = (0.0..=NEAR * apart).contains(&(without - 0.95 * gaps.min));
    let prompts = &look.prompts().in_progress;
    let streams = look.seen.iter().filter_map(|s| Some((s.first?, s.end)));
    let streams = streams.map(|(from, to)| (to - from, prompts.within(from, to)));
    let (streamed, beside) = streams.fold((0.0, 0.0), |all, own| (all.0 + own.0, all.1 + own.1));
    let stood = Stood {
        cost: (1.0 - without / mean) * streamed / look.taken(),
        beside: beside / streamed,
        until_first: 1.0,
        go_on: 0.0,
    };
    (is_step && near && stood.may_be_of_prompts()).then_some(stood)
}

/// Whether pauses are no mere tail of uneven gaps, of which each longer one is rarer: most are half as long again as the shortest that is told, or next to none is as
/// short as that.
fn are_a_kind(lengths: &[f64], usual: f64) -> bool {
    const SHORT: f64 = 1.125;
    const LONG: f64 = 1.5;
    let beyond = |times: f64| {
        let least = times * STANDS_OUT * usual;
        lengths.iter().filter(|length| **length >= least).count()
    };
    beyond(LONG) * 2 > lengths.len() || beyond(SHORT) * 10 >= lengths.len() * 9
}

/// Answers that stand still while others go on, again and again.
struct Interrupted {
    requests: usize,
    lengths: Vec<f64>,
    cost: f64,
}

impl Interrupted {
    /// Share of the answers, and of the users' time, from which on it is no accident of the network.
    const SHARE: f64 = 0.1;
    const COSTS: f64 = 0.03;

    fn of(look: &Look<'_>) -> Option<Self> {
        if view::in_bundles(look.cell) || look.seen.len() < FEWEST {
            return None;
        }
        let company = Company::of(look);
        let prompts = &look.prompts().in_progress;
        let queue = wait_after_first(look);
        let of_prompts = pauses_of(look).is_some_and(|stood| stood.may_be_of_prompts());
        // By itself: as many others go on as stand still, or there is none and most do so by themselves; and no prompt that may be why is in progress.
        let one_by_one = look.stops().one_by_one;
        let alone = |(at, length): &&(Stamp, f64)| {
            let from = look.ns(*at);
            let middle = from + length / 2.0;
            let (all, moving) = company.at(middle);
            (all >= 2 && 2 * moving >= all || one_by_one && all < 2)
                && (!of_prompts || prompts.within(from, from + length) < OF_PROMPTS * length)
        };
        let mut found = Self {
            requests: 0,
            lengths: Vec::new(),
            cost: 0.0,
        };
        for seen in &look.seen {
            let own = own_pauses(seen, queue).filter(alone).map(|s| s.1);
            let before = found.lengths.len();
            found.lengths.extend(own);
            found.requests += usize::from(found.lengths.len() > before);
        }
        let taken = look.taken();
        found.cost = found.lengths.iter().sum::<f64>() / taken;
        let often = found.requests as f64 >= Self::SHARE * look.seen.len() as f64;
        (often && found.cost >= Self::COSTS).then_some(found)
    }

    fn finding(self, look: &Look<'_>, usual: f64) -> Option<Finding> {
        let length = median(self.lengths).map(|length| length - usual);
        Draft::in_cell(Cause::Pauses, self.cost, look.cell)
            .because(Known::Requests, self.requests as f64)
            .because(Known::StallLength, length)
            .because(Known::PauseShare, self.cost)
            .because(Known::Itl, usual)
            .because(
                Known::KvCachePeak,
                Signal::KvCache.of(look.cell).map(|cache| cache.peak),
            )
            .refuted_by(Experiment::WithServerMetrics)
            .done()
    }
}

/// Answers that stand still by themselves, or for twice as long as stops of all cost.
pub(super) fn pauses_beside(look: &Look<'_>, stops: f64) -> Option<Finding> {
    let are_longer = |f: &Finding| f.cause() == Some(Cause::Pauses) && f.severity >= 2.0 * stops;
    pauses_one_by_one(look).or_else(|| pauses(look).filter(are_longer))
}

/// Answers that stand still by themselves, beside whatever stops all.
fn pauses_one_by_one(look: &Look<'_>) -> Option<Finding> {
    let usual = view::quantile(look.cell, Metric::Icl, 0.5)?;
    let found = Interrupted::of(look).filter(|found| are_a_kind(&found.lengths, usual));
    found?.finding(look, usual)
}

/// Answers that stand still, by themselves or beside others' prompts.
pub(super) fn pauses(look: &Look<'_>) -> Option<Finding> {
    if let Some(interrupted) = pauses_one_by_one(look) {
        return Some(interrupted);
    }
    let enough = look.seen.len() >= FEWEST;
    let stood = pauses_of(look).filter(|stood| enough && stood.cost >= COSTS)?;
    if stood.may_be_of_prompts() {
        told(
            Cause::DecodeInterrupted,
            look,
            &stood,
            Experiment::OneAtATime,
        )
    } else {
        let queue = wait_after_first(look);
        let lengths = look.seen.iter().flat_map(|s| own_pauses(s, queue));
        let lengths: Vec<f64> = lengths.map(|(_, length)| *length).collect();
        let usual = view::quantile(look.cell, Metric::Icl, 0.5)?;
        are_a_kind(&lengths, usual).then_some(())?;
        told(Cause::Pauses, look, &stood, Experiment::AgainWithLog)
    }
}

fn told(cause: Cause, look: &Look<'_>, stood: &Stood, experiment: Experiment) -> Option<Finding> {
    Draft::in_cell(cause, stood.cost, look.cell)
        .because(Known::PauseShare, stood.cost)
        .because(Known::PausePrompts, stood.beside)
        .because(Known::Itl, view::quantile(look.cell, Metric::Icl, 0.5))
        .refuted_by(experiment)
        .done()
}
