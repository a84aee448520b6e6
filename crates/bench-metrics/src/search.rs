//! The search for a capacity: the highest load at which objectives hold, and what load to measure next to know it better.
//!
//! Everything here is a function of the stages so far: which load each had, what share of its values were within each objective, and
//! what that cost. Whoever carries a stage out asks [`Search::next`] again, and who only reads stored stages asks [`Search::found`];
//! both come to the same.
//!
//! `docs/verification.md` has what it covers, and an architecture decision record why it is no bisection and no isotonic regression.

mod crossing;

use bench_schema::{SearchEnd, Share};

pub use crossing::Crossing;
use crossing::{crossing, reach};

use crate::estimate::{Estimate, wilson_share};
use crate::num::ceil_count;
use crate::objective::share_interval;

/// What is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The share of values that each objective asks for, 0 to 1, in the order in which stages tell them; an objective without a share to
    /// ask for has none.
    pub attain: Vec<f64>,
    /// The load of one request after the other.
    pub first: f64,
    /// Whether those plainly missed an objective.
    pub missed_alone: bool,
    /// The longest that a request may wait within the objectives, in seconds: a rate that is met for less than that could not have missed them.
    pub patience: f64,
    /// Whether loads are whole numbers, as concurrencies are.
    pub whole: bool,
    /// The relative half-width of the interval at which the answer is known well enough.
    pub precision: f64,
    /// What may be spent.
    pub budget: Budget,
}

/// What a search may spend, on everything: warm-ups, stages, and the time that they take to drain. No stage begins that there is nothing left for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Requests.
    Requests(u64),
    /// Seconds.
    Seconds(f64),
}

/// One stage: a stretch of one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Requests per second, or requests in flight.
    pub load: f64,
    /// The share within each objective; absent where the stage does not tell. One that tells of none only costs.
    pub shares: Vec<Option<Share>>,
    /// Measured requests.
    pub requests: u64,
    /// Requests that were sent for it: those, and its warm-up.
    pub cost: u64,
    /// The time that it took, from the end of the stage before it.
    pub seconds: f64,
    /// Answers per second, where they fell behind the requests; absent where they kept up.
    pub served: Option<Estimate>,
}

impl Stage {
    fn tells(&self) -> bool {
        self.shares.iter().any(Option::is_some)
    }
}

/// A load to measure next.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Measure {
    /// Requests per second, or requests in flight.
    pub load: f64,
    /// Measured requests.
    pub requests: u64,
    /// Requests of the same load right before them.
    pub warmup: u64,
    /// The most seconds that are left for it, where time is what may be spent.
    pub seconds: Option<f64>,
}

/// What to do after the stages so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Measure this load.
    Measure(Measure),
    /// Nothing more.
    Stop(SearchEnd),
}

/// What is known after the stages so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The objective that is missed first, as a place in [`Search::attain`].
    pub binding: usize,
    /// Each objective's own crossing; absent where no stage tells of it.
    pub objectives: Vec<Option<Crossing>>,
}

impl Found {
    /// That of the binding objective: the capacity.
    pub fn capacity(&self) -> Option<&Crossing> {
        self.objectives.get(self.binding)?.as_ref()
    }
}

/// A stage that only tells a side has so many values that may be beyond an objective.
const MAY_MISS: f64 = 1.5;
/// The first stage, as a multiple of what one request after the other would be: most servers serve several at a time, and low loads take long.
const START: f64 = 4.0;
/// Loads below the first, as parts of it, at which nothing waits for anything; and at which what requests sent one at a time missed is looked at again.
const ALONE: f64 = 1.0 / 8.0;
const LOW: f64 = 1.0 / 2.0;
/// By how much more is answered, as the concurrency doubles, by a server that has not reached what it can do.
const MORE_ANSWERS: f64 = 1.25;
/// How many times [`Search::patience`], or the time of a request alone, a stage of an open loop lasts at least where it matters, near what the server can do: at
/// one and a quarter times that, requests then wait too long at its end. Elsewhere as many times the time of a request alone are enough to see whether answers keep up.
const PATIENT: f64 = 4.0;
/// Warm-up requests of a stage for each measured one: the load is the same, and its queue has time to build.
pub const WARM_UP: f64 = 0.15;
/// Requests that may come in one bunch.
const AT_ONCE: u64 = 16;
/// A load is plainly more than what one server answers from so many times that on.
const MORE: f64 = 1.3;
/// How well that has to be known to bound a capacity: the upper end of its interval over its value.
const CLOSE: f64 = 1.1;
/// And plainly no more than what is known to be met up to so many times that.
const ALIKE: f64 = 1.1;
/// Beyond the first by so much, nobody looks any further; nor at so many in flight, for which a client has no connections.
const HIGHEST: f64 = 1e6;
const MOST_IN_FLIGHT: f64 = 16_384.0;
/// Stages near the crossing before it is told how they scatter about the curve.
const FEWEST: usize = 4;
/// And before an answer can be precise: of fewer, the two speeds of a server that changes can pass for a steep curve.
const FEWEST_PRECISE: usize = 6;
/// Stages near the crossing from which on its two sides are measured: until then what is nearest is, with ever longer stages.
const BEGUN: usize = 2;
/// Stages of fewer requests than so many times [`Search::fewest`] tell a side and no more: a queue that had no time to build is within.
const LONG: u64 = 2;
/// Those of at least so many are surely in their steady state, so that they can contradict each other.
const STEADY: u64 = 12;
/// Stages of whole loads from so many requests for each slot on tell what a load does for good.
const WAVES: f64 = 4.0;
/// How sure it is that such a load is within an objective, or beyond it, before it is not asked again.
const SURE: f64 = 0.99;
/// A load is plainly higher than another from so many times that on.
const HIGHER: f64 = 1.25;
/// Requests of a stage near the crossing, at least and at first at most, in the same unit.
const STAGE: (u64, u64) = (4, 20);
/// How far below and above the crossing stages are placed, in log odds: so far apart that they tell the slope too, and where it is told for less.
const ARMS: (f64, f64) = (0.5, 0.8);
/// Scatter up to which an answer is precise.
const CALM: f64 = 4.0;
/// Scatter from which on the curve does not describe the stages.
const UNSTEADY: f64 = 20.0;

impl Search {
    /// The next stage, or why there is none.
    pub fn next(&self, stages: &[Stage]) -> Next {
        let told = self.told(stages);
        if self.is_missed_low(stages) {
            return self.look_above(stages);
        }
        let Some(found) = self.found(stages) else {
            let start = if self.whole { 1.0 } else { START };
            let served = stages.iter().filter_map(|stage| stage.served);
            let least = |load: f64, served: Estimate| load.min(served.value / ALIKE);
            let load = served.fold(start * self.first, least);
            return self.measure(load, self.brief(load), stages);
        };
        if let Some(why) = self.hopeless(&told) {
            return Next::Stop(why);
        }
        let Some(crossing) = found.capacity() else {
            return Next::Stop(SearchEnd::NeverMissed);
        };
        let near = self.near(&told, crossing);
        let width = half_width(&crossing.load);
        let is_unsteady = crossing.scatter > UNSTEADY;
        // one stage with bad luck is none of many
        if near.len() >= 2 * FEWEST && is_unsteady {
            return Next::Stop(SearchEnd::Unsteady);
        }
        let is_precise = width.is_some_and(|w| w <= self.precision);
        let is_calm = crossing.scatter <= CALM;
        if near.len() >= FEWEST_PRECISE && is_precise && is_calm {
            return Next::Stop(SearchEnd::Precise);
        }
        let outpaced = self.outpaced(stages, &told);
        let served = (Self::served(stages), &outpaced[..]);
        let (load, requests) = self.place(&told, crossing, &near, served);
        if !self.whole {
            return self.measure(load, requests, stages);
        }
        // what is plain already is not asked again
        let (within, beyond) = self.plain_sides(&told);
        if within.zip(beyond).is_some_and(|(l, h)| h - l < 1.5) {
            return Next::Stop(SearchEnd::Precise);
        }
        let load = load.round().min(beyond.map_or(load, |high| high - 1.0));
        self.measure(
            load.max(within.map_or(load, |low| low + 1.0)),
            requests,
            stages,
        )
    }

    /// Whether an objective is missed by requests of which next to none wait for others: at next to no load, or one at a time and at a load that is hardly more.
    pub fn is_missed_low(&self, stages: &[Stage]) -> bool {
        let told = self.told(stages);
        let up_to = |load: f64| told.iter().filter(move |stage| stage.load <= 1.01 * load);
        let lowest = if self.whole { 1.0 } else { self.first * ALONE };
        let is_met_low = || up_to(self.first * LOW).any(|stage| !self.is_missed(stage));
        up_to(lowest).any(|stage| self.is_missed(stage)) || self.missed_alone && !is_met_low()
    }

    /// Where next to no load misses an objective: more of it may meet it, as of a server that waits to fill a batch. Loads are doubled until answers fall behind (until
    /// twice as many in flight hardly get more of them); what is not plainly missed is measured as long as stages near a crossing are, and next to no load once more.
    fn look_above(&self, stages: &[Stage]) -> Next {
        let tried: Vec<&Stage> = stages.iter().filter(|stage| stage.tells()).collect();
        let most = tried.iter().map(|stage| stage.load).fold(0.0, f64::max);
        let start = if self.whole { 1.0 } else { START * self.first };
        let met = self.not_missed(stages);
        let unsure = met.iter().find(|(_, n, _)| *n < self.least_near());
        let is_low = |stage: &&Stage| self.whole || stage.load <= self.first * LOW * 1.01;
        let is_alone = !self.whole && !tried.iter().any(is_low);
        let (load, requests) = if let Some((load, ..)) = unsure {
            (*load, self.least_near())
        } else if is_alone && !met.is_empty() {
            (self.first * LOW, self.fewest())
        } else if self.is_at_its_most(&tried, most) {
            let none = met.is_empty();
            return Next::Stop(if none {
                SearchEnd::MissedAlone
            } else {
                SearchEnd::NotMonotone
            });
        } else {
            ((2.0 * most).max(start), self.fewest())
        };
        let next = self.measure(load, requests.max(self.brief(load)), stages);
        let is_sure = !met.is_empty() && unsure.is_none() && !is_alone;
        match next {
            Next::Stop(_) if is_sure => Next::Stop(SearchEnd::NotMonotone),
            next => next,
        }
    }

    /// Whether a server answers no more of a higher load than of the highest one.
    fn is_at_its_most(&self, tried: &[&Stage], most: f64) -> bool {
        let answered = |stage: &&&Stage| stage.cost as f64 / stage.seconds;
        let best = |of: &dyn Fn(f64) -> bool| {
            let own = tried.iter().filter(|stage| of(stage.load));
            own.map(|stage| answered(&stage)).reduce(f64::max)
        };
        if !self.whole {
            let mut highest = tried.iter().filter(|stage| stage.load >= most);
            return most >= self.first * HIGHEST || highest.any(|stage| stage.served.is_some());
        }
        let (below, at) = (best(&|load| load < most), best(&|load| load >= most));
        let hardly_more = below.zip(at).is_some_and(|(b, at)| at < MORE_ANSWERS * b);
        most >= MOST_IN_FLIGHT || hardly_more
    }

    /// The loads at which no objective is plainly missed by all stages together: how many requests those had, and whether they meet each. None at which answers fell behind.
    pub fn not_missed(&self, stages: &[Stage]) -> Vec<(f64, u64, bool)> {
        let mut told: Vec<&Stage> = stages.iter().filter(|stage| stage.tells()).collect();
        told.sort_by(|a, b| a.load.total_cmp(&b.load));
        let level = |own: &[&Stage]| {
            let requests: u64 = own.iter().map(|stage| stage.requests).sum();
            let together = |i: usize| {
                let shares = || {
                    own.iter()
                        .filter_map(|s| Some((s.requests, (*s.shares.get(i)?)?)))
                };
                let within: f64 = shares().map(|(n, share)| n as f64 * share.value).sum();
                Share {
                    value: within / requests as f64,
                    effective: shares().map(|(_, share)| share.effective).sum(),
                }
            };
            let each = || {
                self.attain
                    .iter()
                    .enumerate()
                    .map(|(i, q)| (together(i), *q))
            };
            let keeps_up = own.iter().all(|stage| stage.served.is_none());
            let is_open = keeps_up && each().all(|(share, q)| share_interval(&share).high >= q);
            let is_met = each().all(|(share, q)| share.value >= q);
            is_open.then_some((own.first()?.load, requests, is_met))
        };
        let by_load = told.chunk_by(|a, b| a.load.total_cmp(&b.load).is_eq());
        by_load.filter_map(level).collect()
    }

    /// The stages that tell of an objective. Where answers fell behind, requests wait ever longer: all will be missed, but one of few requests may only have begun so.
    fn told(&self, stages: &[Stage]) -> Vec<Stage> {
        let is_told = |s: &&Stage| s.tells() && (s.served.is_none() || self.is_missed(s));
        stages.iter().filter(is_told).cloned().collect()
    }

    /// What the stages know; `None` where they tell of no objective.
    pub fn found(&self, stages: &[Stage]) -> Option<Found> {
        let (all, stages) = (stages, self.told(stages));
        let served = Self::served(all);
        let served = served.filter(|s| s.high.is_some_and(|high| high < CLOSE * s.value));
        let only_waits = self.only_waits(all);
        let crossing = |(i, attain): (usize, &f64)| {
            let found = crossing(&stages, i, *attain, LONG * self.fewest())?;
            let waits = served.filter(|_| only_waits);
            Some(if self.whole {
                self.between(&stages, i, found)
            } else if let Some(load) = waits {
                let stages = found.stages.max(BEGUN);
                Crossing {
                    load,
                    stages,
                    ..found
                }
            } else {
                // long stages tell by themselves
                let is_short = self.patience > self.precision / 2.0 * found.seconds;
                let found = found.down_to(self.patience);
                let served = served.filter(|_| is_short);
                served.map_or(found, |served| found.at_most(served))
            })
        };
        let objectives: Vec<_> = self.attain.iter().enumerate().map(crossing).collect();
        let known = objectives.iter().enumerate();
        let known = known.filter_map(|(i, found)| Some((i, found.as_ref()?.load.value)));
        let (binding, _) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Found {
            binding,
            objectives,
        })
    }

    /// Whether a stage is so plainly beyond the capacity that going on with it tells nothing: at least four times as many values as
    /// may be are beyond an objective.
    pub fn is_over(&self, shares: &[Option<Share>]) -> bool {
        let mut each = self.attain.iter().zip(shares);
        each.any(|(attain, share)| share.is_some_and(|share| is_over(&share, *attain)))
    }

    /// Requests before a stage of so many: a part of them, and at least as many as come until waits are long, or as there are slots.
    pub fn warmup(&self, load: f64, requests: u64) -> u64 {
        let least = self.least_warmup(load).min(if self.whole {
            f64::INFINITY
        } else {
            requests as f64
        });
        count((WARM_UP * requests as f64).max(least))
    }

    fn least_warmup(&self, load: f64) -> f64 {
        if self.whole {
            load
        } else {
            load * self.settled()
        }
    }

    /// How long the waits that matter take to come about.
    fn settled(&self) -> f64 {
        self.patience.max(1.0 / self.first)
    }

    /// Requests of a stage that only tells on which side of the crossing it is.
    pub fn fewest(&self) -> u64 {
        let strictest = self.attain.iter().copied().fold(0.5, f64::max);
        count((MAY_MISS / (1.0 - strictest)).min(1e6))
    }

    /// Requests of a stage that is to tell whether answers keep up with this load, and whether it is far beyond.
    fn brief(&self, load: f64) -> u64 {
        self.lasting(load, 1.0 / self.first)
    }

    /// Requests of a stage in which this load can miss an objective.
    fn least(&self, load: f64) -> u64 {
        self.lasting(load, self.settled())
    }

    fn lasting(&self, load: f64, seconds: f64) -> u64 {
        let steady = if self.whole {
            0.0
        } else {
            PATIENT * load * seconds
        };
        self.fewest().max(count(steady.min(1e9)))
    }

    /// What was answered a second of the longest stage of which answers fell behind.
    fn served(stages: &[Stage]) -> Option<Estimate> {
        let behind = stages.iter().filter(|stage| stage.served.is_some());
        behind.max_by_key(|stage| stage.requests)?.served
    }

    /// The stages above what was met with which answers did not keep up although nothing was missed.
    fn outpaced<'a>(&self, stages: &'a [Stage], told: &[Stage]) -> Vec<&'a Stage> {
        let met = told.iter().filter(|stage| !self.is_missed(stage));
        let met = met.map(|stage| stage.load).fold(0.0, f64::max);
        let all = stages
            .iter()
            .filter(|stage| stage.served.is_some() && stage.load > met);
        all.filter(|stage| !self.is_missed(stage)).collect()
    }

    /// Requests of a stage of so many before it is looked at whether it is plainly beyond the capacity: one bunch of arrivals is not.
    pub fn looked_at(&self, requests: u64) -> u64 {
        requests.div_ceil(4).max(AT_ONCE)
    }

    /// Requests of a stage near the crossing, at least.
    pub fn least_near(&self) -> u64 {
        STAGE.0 * self.fewest()
    }

    /// A stage as long as is wanted, or as is left; of what is too little for a stage, none.
    fn measure(&self, load: f64, requests: u64, stages: &[Stage]) -> Next {
        let load = if self.whole {
            load.round().max(1.0)
        } else {
            three_digits(load)
        };
        let (left, seconds) = match self.budget {
            Budget::Requests(most) => {
                let spent: u64 = stages.iter().map(|s| s.cost).sum();
                (most.saturating_sub(spent) as f64, None)
            }
            Budget::Seconds(most) => {
                let left = most - stages.iter().map(|s| s.seconds).sum::<f64>();
                // how many requests a closed loop makes in it is known once it has made some
                let rate = if self.whole {
                    let rates = stages.iter().map(|s| s.cost as f64 / s.seconds);
                    rates
                        .filter(|rate| rate.is_finite())
                        .reduce(f64::max)
                        .unwrap_or(f64::INFINITY)
                } else {
                    load
                };
                let left = left.max(0.0);
                let of_it = left / (1.0 + WARM_UP);
                let requests = if left > 0.0 { left * rate } else { 0.0 };
                (requests, Some(of_it))
            }
        };
        let least = self.least_warmup(load);
        let half = if self.whole { 0.0 } else { left / 2.0 };
        let left = (left / (1.0 + WARM_UP)).min(half.max(left - least));
        let left = count(left.clamp(0.0, 1e12).floor());
        if left < self.fewest() {
            return Next::Stop(SearchEnd::Budget);
        }
        let requests = requests.min(left);
        Next::Measure(Measure {
            load,
            requests,
            warmup: self.warmup(load, requests),
            seconds,
        })
    }

    /// The highest load at which every objective was met, there and at less, and the lowest one beyond it at which one was plainly missed.
    pub fn sides(&self, stages: &[Stage]) -> [Option<f64>; 2] {
        let stages = &self.told(stages);
        let loads = || stages.iter().map(|stage| stage.load);
        let met = loads().filter(|load| self.is_met(stages, *load));
        let met = met.reduce(f64::max);
        let beyond = |s: &&Stage| met.is_none_or(|met| s.load > met);
        let missed = stages.iter().filter(beyond).filter(|s| self.is_missed(s));
        [met, missed.map(|stage| stage.load).reduce(f64::min)]
    }

    /// Of whole loads: the highest one that is plainly within all objectives, and the lowest one that is plainly beyond one.
    fn plain_sides(&self, stages: &[Stage]) -> (Option<f64>, Option<f64>) {
        let each: Vec<_> = (0..self.attain.len())
            .map(|objective| self.plain_sides_of(stages, objective))
            .collect();
        let within: Option<Vec<f64>> = each.iter().map(|(within, _)| *within).collect();
        let within = within.and_then(|all| all.into_iter().reduce(f64::min));
        (
            within,
            each.iter()
                .filter_map(|(_, beyond)| *beyond)
                .reduce(f64::min),
        )
    }

    /// The highest load that is plainly within an objective, where no less is plainly beyond it; and the lowest one that is, where no more is within.
    fn plain_sides_of(&self, stages: &[Stage], objective: usize) -> (Option<f64>, Option<f64>) {
        let attain = self.attain.get(objective).copied().unwrap_or_default();
        let levels = levels(stages, objective);
        let loads = |is: &dyn Fn(&Level) -> bool| {
            let of = levels.iter().filter(|level| is(level));
            of.map(|level| level.load).collect::<Vec<_>>()
        };
        let within = loads(&|level| level.sure().is_some_and(|(low, _)| low > attain));
        let beyond = loads(&|level| {
            let is_missed = level.sure().is_some_and(|(_, high)| high < attain);
            is_missed || is_over(&level.share, attain)
        });
        (
            (within.iter().copied())
                .filter(|low| beyond.iter().all(|high| low < high))
                .reduce(f64::max),
            (beyond.iter().copied())
                .filter(|high| within.iter().all(|low| low < high))
                .reduce(f64::min),
        )
    }

    /// The crossing of whole loads, as far as it lies where they were plainly within and beyond, which a curve that is too flat leaves open.
    fn between(&self, stages: &[Stage], objective: usize, found: Crossing) -> Crossing {
        let (Some(low), Some(beyond)) = self.plain_sides_of(stages, objective) else {
            return found;
        };
        // the next lower whole number is the highest that it can be
        let high = beyond * (1.0 - 1e-9);
        let within = |own: f64| own.max(low).min(high);
        let load = Estimate {
            value: within(found.load.value),
            low: Some(found.load.low.map_or(low, within)),
            high: Some(found.load.high.map_or(high, within)),
            ..found.load
        };
        Crossing {
            load,
            stages: found.stages.max(BEGUN),
            ..found
        }
    }

    /// Whether an objective was plainly missed, or will be since answers fell behind.
    fn is_missed(&self, stage: &Stage) -> bool {
        let mut all = self.attain.iter().zip(&stage.shares);
        all.any(|(attain, share)| {
            let at_most = |share: Share| match stage.served {
                Some(_) if stage.requests >= LONG * self.fewest() => 0.0,
                Some(_) => share.value,
                None => share_interval(&share).high,
            };
            share.is_some_and(|share| at_most(share) < *attain)
        })
    }

    /// A load at which an objective was plainly missed, and one that is plainly higher at which it was plainly met.
    pub fn upside_down(&self, stages: &[Stage]) -> Option<(f64, f64)> {
        let long = STEADY * self.fewest();
        let mut each = self.attain.iter().enumerate();
        each.find_map(|(i, attain)| upside_down(stages, i, *attain, long))
    }

    /// The places of a stage that plainly missed an objective, and of a later one of plainly more load that met all of them, the missed one better than by chance and for
    /// long enough to miss it: no server of one speed does that.
    pub fn met_after_missed(&self, stages: &[Stage]) -> Option<[usize; 2]> {
        let is_long = |stage: &Stage| stage.tells() && stage.requests >= self.least(stage.load);
        let of = |share: &Option<Share>| share.as_ref().map(share_interval);
        let is_better = |missed: &Stage, met: &Stage| {
            let mut both = self
                .attain
                .iter()
                .zip(missed.shares.iter().zip(&met.shares));
            both.any(|(attain, (less, more))| {
                let ends = of(less).zip(of(more));
                ends.is_some_and(|(less, more)| less.high < *attain && less.high < more.low)
            })
        };
        let is_met = |stage: &Stage| {
            let mut each = self.attain.iter().zip(&stage.shares);
            stage.served.is_none()
                && each.all(|(attain, share)| share.is_some_and(|own| own.value >= *attain))
        };
        let all = || stages.iter().enumerate();
        let mut pairs = all().flat_map(|before| all().map(move |after| (before, after)));
        pairs.find_map(|((i, missed), (j, met))| {
            let is_more = i < j && met.load > HIGHER * missed.load;
            (is_more && is_long(met) && is_met(met) && is_better(missed, met)).then_some([i, j])
        })
    }

    /// Whether no objective limits a wait and every stage met all of them, though answers fell behind the requests of one: what is too much only waits, and the
    /// capacity is what was answered then.
    pub fn only_waits(&self, stages: &[Stage]) -> bool {
        let is_met = |stage: &Stage| {
            let mut each = self.attain.iter().zip(&stage.shares);
            each.all(|(attain, share)| share.is_none_or(|own| own.value >= *attain))
        };
        let is_behind = stages.iter().any(|stage| stage.served.is_some());
        !self.whole && self.patience <= 0.0 && is_behind && stages.iter().all(is_met)
    }

    /// Met at any load, or missed at less and met at more.
    fn hopeless(&self, stages: &[Stage]) -> Option<SearchEnd> {
        if self.upside_down(stages).is_some() {
            return Some(SearchEnd::NotMonotone);
        }
        let most = stages.iter().map(|s| s.load).fold(0.0, f64::max);
        let highest = if self.whole {
            MOST_IN_FLIGHT
        } else {
            self.first * HIGHEST
        };
        (most >= highest).then_some(SearchEnd::NeverMissed)
    }

    /// The stages that tell of the crossing, by their distance from it in ln load.
    fn near<'a>(&self, stages: &'a [Stage], crossing: &Crossing) -> Vec<(f64, &'a Stage)> {
        let reach = reach(crossing.slope);
        let at = crossing.load.value.ln();
        let long = LONG * self.fewest();
        let with_distance = stages
            .iter()
            .filter(|s| s.requests >= long)
            .map(|stage| (stage.load.ln() - at, stage));
        with_distance.filter(|(d, _)| d.abs() < reach).collect()
    }

    /// Whether every objective was met at this load and less, as far as was seen, by all stages of a load together: there is nothing to learn below it.
    fn is_met(&self, stages: &[Stage], load: f64) -> bool {
        let below = |stage: &&Stage| stage.load <= load;
        let is_met = |(objective, attain): (usize, &f64)| {
            let mut levels = levels(stages, objective).into_iter();
            levels.all(|level| level.load > load || level.share.value >= *attain)
        };
        let enough = |stage: &Stage| stage.requests >= self.fewest();
        stages.iter().filter(below).all(enough) && self.attain.iter().enumerate().all(is_met)
    }

    /// Whether a stage of the highest load was plainly beyond the capacity: one short stage cannot bound the crossing by itself, and yet there is nothing
    /// to learn above it, unless a longer one contradicts it.
    fn is_beyond(&self, stages: &[Stage], most: f64) -> bool {
        let mut highest = stages.iter().filter(|stage| stage.load >= most);
        highest.any(|stage| {
            let mut longer = (stages.iter())
                .filter(|other| other.load >= most && other.requests > stage.requests);
            self.is_beyond_all(stage) && longer.all(|other| self.is_beyond_all(other))
        })
    }

    fn is_beyond_all(&self, stage: &Stage) -> bool {
        self.is_over(&stage.shares) || stage.served.is_some() && self.is_missed(stage)
    }

    /// Where to measure, and how much.
    fn place(
        &self,
        stages: &[Stage],
        crossing: &Crossing,
        near: &[(f64, &Stage)],
        (served, outpaced): (Option<Estimate>, &[&Stage]),
    ) -> (f64, u64) {
        let fewest = self.fewest();
        let load = &crossing.load;
        let loads = || stages.iter().map(|s| s.load);
        let (most, least) = (
            loads().fold(0.0, f64::max),
            loads().fold(f64::INFINITY, f64::min),
        );
        let alone = if self.whole { 1.0 } else { self.first * ALONE };
        let beyond = self.is_beyond(stages, most);
        match (load.low, load.high) {
            (_, None) if !beyond && (load.low.is_some() || load.value >= most) => {
                return self.above(most, served, outpaced);
            }
            (None, _) if !self.is_met(stages, least) => {
                let load = (least / 2.0).max(alone);
                return (load, self.brief(load));
            }
            _ => {}
        }
        let width = half_width(load).unwrap_or(f64::INFINITY);
        if width > 0.25 && near.len() < BEGUN {
            // a stage that is too short for its queue has told nothing: the next is twice as long
            let long = stages.iter().filter(|s| s.requests >= LONG * fewest);
            let doublings = 1 + long.count().min(5);
            let served = served.map_or(f64::INFINITY, |served| self.no_more_than(served, stages));
            let load = load.value.min(served).clamp(alone, most.max(alone));
            return (load, self.least(load).max(fewest << doublings));
        }
        self.beside(crossing, near, width)
    }

    /// Above all that was met: twice as much; where answers fell behind, as much as was answered, and where that is met too, so much more that it has to be missed,
    /// each time for longer.
    fn above(&self, most: f64, served: Option<Estimate>, outpaced: &[&Stage]) -> (f64, u64) {
        let lowest = outpaced.iter().min_by(|a, b| a.load.total_cmp(&b.load));
        let Some((at, answered)) = lowest.and_then(|s| Some((s.load, s.served?.value))) else {
            let more = served.map_or(f64::INFINITY, |s| MORE * s.value.max(most));
            let load = more.min(2.0 * most);
            return (load, self.brief(load));
        };
        let load = if answered > ALIKE * most {
            answered
        } else {
            at.min(MORE * answered.max(most))
        };
        let longer = outpaced.len().clamp(1, 7) - 1;
        let least = self.least(load).max(LONG * self.fewest());
        (load, least << longer)
    }

    /// As much as was answered, or met; no bound where a long stage met that already.
    fn no_more_than(&self, served: Estimate, stages: &[Stage]) -> f64 {
        let met = |least: u64| {
            let met = stages.iter().filter(|stage| !self.is_missed(stage));
            let met = met.filter(|stage| stage.requests >= least);
            met.map(|stage| stage.load).fold(0.0, f64::max)
        };
        let served = served.value.max(met(0));
        if met(LONG * self.fewest()) * ALIKE < served {
            served
        } else {
            f64::INFINITY
        }
    }

    /// On one side of the crossing.
    fn beside(&self, crossing: &Crossing, near: &[(f64, &Stage)], width: f64) -> (f64, u64) {
        let (load, fewest) = (&crossing.load, self.fewest());
        // both sides alike, so that an error of the slope moves the crossing nowhere; but not in turns, in which a server that changes would be taken
        // for a steep curve
        let below: u64 = near
            .iter()
            .filter(|(d, _)| *d < 0.0)
            .map(|(_, s)| s.requests)
            .sum();
        let above: u64 = near
            .iter()
            .filter(|(d, _)| *d >= 0.0)
            .map(|(_, s)| s.requests)
            .sum();
        let arm = |odds: f64| (odds / crossing.slope).clamp(0.01, 0.1);
        let last_was_above = near.last().is_some_and(|(d, _)| *d >= 0.0);
        let is_above = if last_was_above {
            above <= below + below / 2
        } else {
            above + above / 2 < below
        };
        let side = if is_above { arm(ARMS.1) } else { -arm(ARMS.0) };
        let spent = below + above;
        let more = (width / self.precision).powi(2) - 1.0;
        let wanted = spent as f64 * more.max(0.25) / 2.0;
        let (low, high) = (self.least_near(), (STAGE.1 * fewest).max(spent / 4));
        let requests = wanted.clamp(low as f64, high as f64);
        let load = load.value * side.exp();
        (load, self.least(load).max(count(requests)))
    }
}

/// What all stages of one load say of an objective together.
struct Level {
    load: f64,
    share: Share,
    /// Whether it is of stages in which every slot answered several times: of shorter ones the first wave is a large part.
    is_settled: bool,
}

impl Level {
    /// The share's interval, at a level that holds although it is looked at after each stage; absent where that is not known.
    fn sure(&self) -> Option<(f64, f64)> {
        let of = wilson_share(self.share.value, self.share.effective, SURE);
        of.filter(|_| self.is_settled)?.bounds()
    }
}

/// Each load with its stages together: those of several waves, where there are any.
fn levels(stages: &[Stage], objective: usize) -> Vec<Level> {
    let told = stages.iter().filter_map(|stage| {
        let share = (*stage.shares.get(objective)?)?;
        let is_settled = stage.requests as f64 >= WAVES * stage.load;
        Some((stage.load, is_settled, share, stage.requests as f64))
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by(|a, b| a.0.total_cmp(&b.0));
    let level = |same: &[(f64, bool, Share, f64)]| {
        let load = same.first()?.0;
        let is_settled = same.iter().any(|stage| stage.1);
        let of = || same.iter().filter(|stage| stage.1 == is_settled);
        let requests: f64 = of().map(|stage| stage.3).sum();
        let within: f64 = of().map(|stage| stage.2.value * stage.3).sum();
        // as of `dependence`: a lucky stage would count for more
        let dependent: f64 = of().map(|stage| stage.3.powi(2) / stage.2.effective).sum();
        Some(Level {
            load,
            share: Share {
                value: within / requests,
                effective: requests.powi(2) / dependent,
            },
            is_settled,
        })
    };
    let by_load = told.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    by_load.filter_map(level).collect()
}

fn is_over(share: &Share, attain: f64) -> bool {
    1.0 - share_interval(share).high > 4.0 * (1.0 - attain)
}

/// The load at which an objective is plainly missed and one that is plainly higher at which it is plainly met. Both stages are long enough for queues to build,
/// else that of the higher load is only too short.
fn upside_down(stages: &[Stage], objective: usize, attain: f64, long: u64) -> Option<(f64, f64)> {
    /// Standard errors between the two.
    const APART: f64 = 5.0;
    let told = |stage: &Stage| Some((stage.load, (*stage.shares.get(objective)?)?));
    let long: Vec<(f64, Share)> = (stages.iter().filter(|s| s.requests >= long))
        .filter_map(told)
        .collect();
    let variance = |share: &Share| {
        let value = share.value.clamp(1e-6, 1.0 - 1e-6);
        value * (1.0 - value) / share.effective
    };
    let pairs = long
        .iter()
        .flat_map(|low| long.iter().map(move |high| (low, high)));
    let mut pairs = pairs.filter(|(low, high)| high.0 > HIGHER * low.0);
    let found = pairs.find(|((_, low), (_, high))| {
        let apart = APART * (variance(low) + variance(high)).sqrt();
        share_interval(low).high < attain
            && share_interval(high).low > attain
            && high.value - low.value > apart
    });
    found.map(|(low, high)| (low.0, high.0))
}

/// A number of requests.
fn count(requests: f64) -> u64 {
    ceil_count(requests) as u64
}

fn half_width(load: &Estimate) -> Option<f64> {
    let (low, high) = load.bounds()?;
    Some((high / low).ln() / 2.0)
}

/// A load for people: three digits.
fn three_digits(load: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - load.log10().floor());
    (load * scale).round() / scale
}
