//! The search for a capacity, from what was asked and the cells so far: which stage comes next, and what is known.
//!
//! A stage is an ordinary cell. What is found is a function of the cells that are stored, so that a live run and whoever reads its journals
//! come to the same.

use std::collections::BTreeMap;

use bench_metrics::{
    Budget, Crossing, Estimate, Found, LEVEL, Measure, Next, Search, Stage, share_interval,
};
use bench_schema::{
    Answer, CapacityRecord, Cause, CellRecord, Code, Counts, FailureKind, Finding, Load, Metric,
    ObjectiveCapacity, Origin, RunRecord, SearchEnd, Share, Slo, SloOutcome, Trust, TrustReason,
    TrustVerdict, Unit, counted,
};
use serde::{Deserialize, Serialize};

use crate::diagnosis::{self, SpeedChange};
use crate::samples::{CellSamples, Lost, LostSample};
use crate::text;
use crate::trust;
use crate::view;

/// What a search is asked for, as the run's configuration stores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchAsked {
    /// Whether a concurrency is searched, and not a rate.
    pub closed: bool,
    /// The relative half-width at which the answer is known well enough.
    pub precision: f64,
    /// What may be measured.
    pub budget: Budget,
}

impl Default for SearchAsked {
    fn default() -> Self {
        Self {
            closed: false,
            precision: 0.05,
            budget: Budget::Seconds(1200.0),
        }
    }
}

/// The stage to carry out next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextStage {
    /// One request at a time, so many of them: a search for a rate begins with what that suggests.
    Alone(u64),
    /// This load.
    Measure(Measure),
}

/// The factor of the stages.
pub(crate) const CONCURRENCY: &str = "concurrency";
const RATE: &str = "rate";
/// Requests one at a time that tell where to begin.
const ALONE: u64 = 5;
const OF_A_PART: &str = "this is one shard's part of the search; merge the results of all shards with `bench-report merge`";
const NO_BEGINNING: &str = "the first requests, sent one at a time, all failed, so the search has no starting point; see the failures";
/// Whether an interval is narrow enough for its middle to be an answer: its ends are within a quarter of it, or so.
fn is_value((low, high): (f64, f64)) -> bool {
    high <= low * 1.65
}

/// Stages near a crossing before it is told.
const ENOUGH: usize = 2;
/// So many stages in a row in which the client was the limit, and it is no accident.
const IN_A_ROW: usize = 2;
/// The part of a time limit that may be the client's own lateness.
const LATE: f64 = 0.1;

impl SearchAsked {
    /// The next stage; `None` where the search is over, of which [`SearchAsked::found`] says why.
    pub fn next(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<NextStage> {
        let Some(search) = self.search(slos, cells) else {
            return cells.is_empty().then_some(NextStage::Alone(ALONE));
        };
        if self.over(slos, cells).is_some() {
            return None;
        }
        match self.next_of(&search, cells) {
            Ok(Next::Measure(load)) => Some(NextStage::Measure(load)),
            _ => None,
        }
    }

    /// What the cells come to.
    pub fn found(&self, slos: &[Slo], cells: &[CellRecord]) -> CapacityRecord {
        let search = self.search(slos, cells);
        let stages = self.stages(cells);
        let found = search.as_ref().and_then(|search| search.found(&stages));
        // where next to no load misses an objective, more of it may meet it: that is no side of a capacity
        let is_missed_low = search.as_ref().is_some_and(|s| s.is_missed_low(&stages));
        let found = found.filter(|_| !is_missed_low);
        let enough = |own: &&Crossing| own.stages >= ENOUGH;
        let capacity = found.as_ref().and_then(Found::capacity).filter(enough);
        let capacity = capacity.map(|own| own.load);
        let without = self.over(slos, cells);
        let is_judged = without.is_none();
        let (stopped, why) = match search.as_ref().map(|search| self.next_of(search, cells)) {
            _ if without.is_some() => (SearchEnd::Ended, without),
            Some(Err(why)) => (SearchEnd::ClientLimit, Some(why)),
            Some(Ok(Next::Stop(why))) => {
                let bounds = capacity.as_ref().and_then(Estimate::bounds);
                (why, self.why(why, bounds, slos, cells))
            }
            // an answer to not even one request is no beginning
            None if cells.iter().any(|cell| cell.counts.went_wrong() > 0) => {
                (SearchEnd::Ended, Some(NO_BEGINNING.to_owned()))
            }
            _ => (SearchEnd::Ended, failed_meanwhile(cells)),
        };
        let of_objective = |(i, slo): (usize, &Slo)| {
            let own = found.as_ref().and_then(|found| *found.objectives.get(i)?);
            Self::of_objective(slo, own.filter(|own| enough(&own)))
        };
        // stages that contradict each other bound nothing
        let capacity = capacity.filter(|_| {
            is_judged && !matches!(stopped, SearchEnd::Unsteady | SearchEnd::NotMonotone)
        });
        // a value is one where both sides are known well enough, and nobody broke off
        let is_told = matches!(stopped, SearchEnd::Precise | SearchEnd::Budget);
        let whole = |load: f64| if self.closed { load.floor() } else { load };
        CapacityRecord {
            factor: self.factor().to_owned(),
            stopped,
            why,
            value: capacity
                .filter(|c| {
                    let bounds = c.bounds().map(|(low, high)| (whole(low), whole(high)));
                    is_told && bounds.is_some_and(is_value)
                })
                .map(|c| whole(c.value)),
            low: capacity.and_then(|c| c.low).map(whole),
            high: capacity.and_then(|c| c.high).map(whole),
            precision: self.precision,
            binding: (found.as_ref())
                .filter(|_| capacity.is_some_and(|c| c.high.is_some()))
                .and_then(|found| u32::try_from(found.binding).ok()),
            objectives: slos.iter().enumerate().map(of_objective).collect(),
            left_out: self.left_out(cells),
            requests: stages.iter().map(|stage| stage.cost).sum(),
            seconds: stages.iter().map(|stage| stage.seconds).sum(),
        }
    }

    /// How far one objective alone would let the load go.
    fn of_objective(slo: &Slo, own: Option<Crossing>) -> ObjectiveCapacity {
        let told = own.filter(|own| own.load.bounds().is_some());
        ObjectiveCapacity {
            slo: slo.clone(),
            value: told.map(|own| own.load.value),
            low: own.and_then(|own| own.load.low),
            high: own.and_then(|own| own.load.high),
            slope: told.map(|own| own.slope),
        }
    }

    /// What one shard's part of the stages comes to: nothing, since its requests alone say nothing of the whole load.
    pub fn of_part(&self) -> CapacityRecord {
        CapacityRecord {
            stopped: SearchEnd::Ended,
            why: Some(OF_A_PART.to_owned()),
            ..self.found(&[], &[])
        }
    }

    /// Whether a stage with these outcomes so far is so plainly beyond the capacity that going on with it tells nothing.
    pub fn is_over(&self, outcomes: &[SloOutcome]) -> bool {
        let slos: Vec<Slo> = outcomes.iter().map(|o| o.slo.clone()).collect();
        let shares: Vec<_> = outcomes.iter().map(|outcome| outcome.within).collect();
        self.searching(&slos, 1.0).is_over(&shares)
    }

    /// Requests of a stage of so many before it can be plainly beyond the capacity.
    pub fn looked_at(&self, slos: &[Slo], requests: Option<u64>) -> usize {
        let search = self.searching(slos, 1.0);
        usize::try_from(search.looked_at(requests.unwrap_or_default())).unwrap_or(usize::MAX)
    }

    /// Requests of the shortest stage.
    pub fn fewest(&self, slos: &[Slo]) -> usize {
        usize::try_from(self.searching(slos, 1.0).fewest()).unwrap_or(usize::MAX)
    }

    /// `rate` or `concurrency`: the factor of its stages.
    pub fn factor(&self) -> &'static str {
        if self.closed { CONCURRENCY } else { RATE }
    }

    fn searching(&self, slos: &[Slo], first: f64) -> Search {
        Search {
            attain: slos.iter().map(|slo| slo.q).collect(),
            first,
            missed_alone: false,
            patience: patience(slos),
            whole: self.closed,
            precision: self.precision,
            budget: self.budget,
        }
    }

    /// The search, once it is known where it begins.
    fn search(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<Search> {
        let first = if self.closed {
            1.0
        } else {
            let alone = cells.first().filter(|cell| !cell.load.is_open())?;
            one_by_one(alone)?
        };
        Some(Search {
            missed_alone: self.is_missed_alone(cells),
            ..self.searching(slos, first)
        })
    }

    /// What comes next, or why nobody can go on: the client was the limit of one stage after the other.
    fn next_of(&self, search: &Search, cells: &[CellRecord]) -> Result<Next, String> {
        let last: Vec<String> = cells
            .iter()
            .rev()
            .map_while(|cell| self.client_limit(cell))
            .take(IN_A_ROW)
            .collect();
        match last.first() {
            Some(why) if last.len() == IN_A_ROW => Err(format!(
                "the client is the limit, not the server: {why}; give the client more CPU (`--workers`) or its own machine"
            )),
            // no load mends what fails
            _ if search.missed_alone && cells.first().is_some_and(Self::is_missed_by_failures) => {
                Ok(Next::Stop(SearchEnd::MissedAlone))
            }
            _ => Ok(search.next(&self.stages(cells))),
        }
    }

    /// What ends the search whatever its stages say.
    fn over(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        self.without_value(slos, cells)
            .or_else(|| self.silent(cells))
    }

    /// That the server answered nothing in one stage after the other, or was away in them.
    fn silent(&self, cells: &[CellRecord]) -> Option<String> {
        /// Stages in a row in which it was away for a while.
        const AWAY: usize = 4;
        let all: Vec<&CellRecord> = self.loads(cells).map(|(_, cell)| cell).collect();
        let ends_with = |n: usize| all.get(all.len().checked_sub(n)?..);
        let is_silent = |cell: &CellRecord| {
            let counts = &cell.counts;
            counts.planned > 0 && counts.lost() >= counts.planned
        };
        let is_away = |cell: &CellRecord| is_silent(cell) || away(cell).is_some();
        let silent = ends_with(IN_A_ROW).filter(|last| last.iter().all(|cell| is_silent(cell)));
        let away = || ends_with(AWAY).filter(|last| last.iter().all(|cell| is_away(cell)));
        let last = silent.or_else(away)?;
        let sum = |of: fn(&Counts) -> u64| last.iter().map(|cell| of(&cell.counts)).sum::<u64>();
        let (planned, failed) = (sum(|counts| counts.planned), sum(Counts::lost));
        let requests = counted(planned, "request");
        let how = match planned - failed {
            0 => format!("it answered none of the last {requests}"),
            _ => format!("{failed} of the last {requests} failed"),
        };
        Some(format!("the server failed meanwhile: {how}; see its log"))
    }

    /// That no request of a whole stage has what an objective limits: no load can miss it, and the search would go on to any.
    fn without_value(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let fewest = self.fewest(slos) as u64;
        let whole = cells.iter().filter(|cell| cell.counts.planned >= fewest);
        let mut outcomes = whole.flat_map(|cell| &cell.slos);
        let none = outcomes.find(|o| o.vacuous > 0 && crate::is_unmeasured(o))?;
        Some(format!(
            "no request has {}, so no load can miss the objective {} and no capacity within it can be found; remove that objective",
            none.slo.metric.title(),
            crate::findings::objective_name(none),
        ))
    }

    /// Whether requests sent one at a time plainly miss an objective, so that no rate can meet it. One of a few misses it by chance.
    fn is_missed_alone(&self, cells: &[CellRecord]) -> bool {
        let alone = cells
            .first()
            .filter(|cell| !self.closed && !cell.load.is_open());
        let missed = |cell: &CellRecord| {
            let shares = cell.slos.iter().filter_map(|outcome| outcome.within);
            let most = shares.map(|share| 1.0 - share.value).fold(0.0, f64::max);
            most * cell.counts.planned as f64
        };
        alone.is_some_and(|cell| is_plainly_missed(cell) && missed(cell) > 1.5)
    }

    /// Every cell, the one that tells where to begin too: it tells of no objective, and costs.
    fn stages(&self, cells: &[CellRecord]) -> Vec<Stage> {
        let mut end = None;
        let alone = cells.first().and_then(one_by_one);
        let alone = alone.map_or(0.0, |rate| 1.0 / rate);
        let mut stage = |cell: &CellRecord| {
            let whole = cell.windows.whole.as_ref()?;
            let from = end.unwrap_or(whole.window.from);
            end = Some(whole.window.to);
            let load = self.load_of(cell);
            let tells = load.is_some() && self.says_nothing(cell).is_none();
            let present = if self.closed { present(cell) } else { 1.0 };
            let share = |outcome: &SloOutcome| {
                let within = outcome.within.filter(|_| tells)?;
                let value = within.value * present;
                Some(Share { value, ..within })
            };
            Some(Stage {
                load: load.unwrap_or(1.0),
                shares: cell.slos.iter().map(share).collect(),
                requests: cell.counts.planned,
                cost: cell.counts.planned + cell.counts.warmup,
                seconds: (whole.window.to - from).as_secs_f64(),
                served: load
                    .filter(|_| tells)
                    .and_then(|load| fell_behind(cell, load, alone)),
            })
        };
        cells.iter().filter_map(&mut stage).collect()
    }

    fn load_of(&self, cell: &CellRecord) -> Option<f64> {
        load_of(cell, self.closed)
    }

    fn loads<'a>(&self, cells: &'a [CellRecord]) -> impl Iterator<Item = (f64, &'a CellRecord)> {
        let closed = self.closed;
        let all = cells.iter();
        all.filter_map(move |cell| Some((load_of(cell, closed)?, cell)))
    }

    /// Why a stage says nothing of the server, by its cell; each of them is left out.
    fn left_out(&self, cells: &[CellRecord]) -> BTreeMap<String, String> {
        let why = |cell: &CellRecord| Some((cell.id.clone(), self.says_nothing(cell)?));
        cells.iter().filter_map(why).collect()
    }

    /// Why a stage's figures are those of no load.
    fn says_nothing(&self, cell: &CellRecord) -> Option<String> {
        let client = self.client_limit(cell);
        let client = client.map(|why| format!("the client was the limit: {why}"));
        client.or_else(|| {
            let refused = away(cell).filter(|_| self.load_of(cell).is_some())?;
            let planned = counted(cell.counts.planned, "request");
            Some(format!(
                "the server was away: {refused} of {planned} could not connect to it"
            ))
        })
    }

    /// What kept the client from offering a stage's load, or what of its times is the client's own; `None` where nothing of that matters.
    fn client_limit(&self, cell: &CellRecord) -> Option<String> {
        self.load_of(cell)?;
        let slos = cell.slos.iter().map(|outcome| &outcome.slo);
        let mut of_time = slos.filter(|slo| cell.load.is_open() && from_due(slo.metric));
        let own = of_time.find_map(|slo| {
            let late = view::quantile(cell, Metric::Lateness, slo.q);
            let late = late.or_else(|| view::quantile(cell, Metric::Lateness, 0.99))?;
            (late > LATE * slo.limit).then(|| {
                format!(
                    "requests were sent up to {} late, more than {} of the limit of {}",
                    text::time(late),
                    text::percent(LATE),
                    text::time(slo.limit)
                )
            })
        });
        own.or_else(|| trust::client_limit(cell))
    }

    fn why(
        &self,
        why: SearchEnd,
        bounds: Option<(f64, f64)>,
        slos: &[Slo],
        cells: &[CellRecord],
    ) -> Option<String> {
        match why {
            SearchEnd::Precise | SearchEnd::ClientLimit | SearchEnd::Ended => None,
            SearchEnd::Budget => Some(self.used_up(bounds, slos, cells)),
            SearchEnd::MissedAlone => self.missed_alone(cells),
            SearchEnd::NeverMissed => Some("no tested load misses an objective: set stricter ones with `--slo`".to_owned()),
            SearchEnd::Unsteady => Some(
                "similar loads gave different results, by more than chance: the server's speed changes over time; see the charts over time, and search again when it is stable".to_owned(),
            ),
            SearchEnd::NotMonotone => self.not_monotone(slos, cells),
        }
    }

    /// What is said where the budget ended it.
    fn used_up(&self, bounds: Option<(f64, f64)>, slos: &[Slo], cells: &[CellRecord]) -> String {
        let (search, stages) = (self.search(slos, cells), self.stages(cells));
        let spent = self.spent(&stages);
        if let Some((low, high)) = bounds {
            let is_one = self.closed && low.floor() >= high.floor();
            let more = "; a larger `--budget` gives a narrower interval";
            return spent.to_owned() + if is_one { "" } else { more };
        }
        let low = search
            .as_ref()
            .filter(|search| search.is_missed_low(&stages));
        if let Some((at, _)) = low.and_then(|_| self.missed_low(cells)) {
            return format!(
                "an objective is missed already {at}, where requests hardly queue, and {spent} before higher loads were tried: relax the objectives with `--slo`, or use a larger `--budget`"
            );
        }
        let searching = self.searching(slos, 1.0);
        if self.loads(cells).next().is_none() {
            return format!(
                "the budget is too small for a stage, which takes {} requests or more: use a larger `--budget`, or an objective for a smaller share",
                searching.fewest()
            );
        }
        let sides = search.map_or([None; 2], |search| search.sides(&stages));
        let is_between = self.loads(cells).any(
            |(load, _)| matches!(sides, [Some(met), Some(missed)] if met < load && load < missed),
        );
        let known = match sides.map(|load| load.map(|load| self.amount(load))) {
            [Some(met), Some(missed)] => format!(
                "too few of its stages were long and near the capacity: all of them up to {met} met the objectives, one at {missed} missed one{}",
                if is_between {
                    ", and those between are not alike"
                } else {
                    ""
                }
            ),
            [Some(met), None] => format!("no load missed an objective, up to {met}"),
            [None, Some(missed)] => {
                format!("no load met the objectives, and the lowest that missed one is {missed}")
            }
            [None, None] => "no load clearly met or missed the objectives".to_owned(),
        };
        let is_both = sides.iter().all(Option::is_some);
        if let Some(failing) = (!is_both).then(|| self.failing(cells)).flatten() {
            return format!(
                "{spent} when {known}: {failing}; check the server's log, then search again with a larger `--budget`"
            );
        }
        let patience = patience(slos);
        let lasts = (!self.closed && patience >= 0.5)
            .then(|| format!(" and {} or more", text::time(4e9 * patience)));
        format!(
            "{spent} when {known}: use a larger `--budget`; near the capacity a stage takes {} requests or more{}",
            searching.least_near(),
            lasts.unwrap_or_default()
        )
    }

    /// Whether nothing of the budget is left, or too little for a stage.
    fn spent(&self, stages: &[Stage]) -> &'static str {
        /// Of it, what is next to all.
        const NEARLY: f64 = 0.95;
        let part = match self.budget {
            Budget::Requests(most) => {
                stages.iter().map(|stage| stage.cost as f64).sum::<f64>() / most as f64
            }
            Budget::Seconds(most) => stages.iter().map(|stage| stage.seconds).sum::<f64>() / most,
        };
        if part >= NEARLY {
            "the budget is used up"
        } else {
            "what is left of the budget is too little for another stage"
        }
    }

    /// That whatever missed an objective had failed.
    fn failing(&self, cells: &[CellRecord]) -> Option<String> {
        let told = self.loads(cells).map(|(_, cell)| cell);
        let missed = told.filter(|cell| {
            self.client_limit(cell).is_none() && !Self::missed_by(cell, 0.0).is_empty()
        });
        let missed: Vec<&CellRecord> = missed.collect();
        let is_failure = |cell: &&CellRecord| Self::is_missed_by_failures(cell);
        (!missed.is_empty() && missed.iter().all(is_failure)).then(|| {
            let lost: u64 = missed.iter().map(|cell| cell.counts.lost()).sum();
            let planned: u64 = missed.iter().map(|cell| cell.counts.planned).sum();
            let planned = counted(planned, "request");
            format!("what missed an objective were {lost} of {planned} that failed")
        })
    }

    /// The objectives that a cell misses, also if so much more were within.
    fn missed_by(cell: &CellRecord, more: f64) -> Vec<&SloOutcome> {
        let short = |o: &&SloOutcome| o.within.is_some_and(|w| w.value + more < o.slo.q);
        cell.slos.iter().filter(short).collect()
    }

    fn is_missed_by_failures(cell: &CellRecord) -> bool {
        let (lost, planned) = (cell.counts.lost(), cell.counts.planned.max(1));
        lost > 0 && Self::missed_by(cell, lost as f64 / planned as f64).is_empty()
    }

    fn amount(&self, load: f64) -> String {
        amount(load, self.closed)
    }

    /// What is missed where hardly anything waits: by requests sent one at a time, else by the stage of the lowest load that missed it plainly; and how.
    fn missed_low<'a>(&self, cells: &'a [CellRecord]) -> Option<(String, &'a CellRecord)> {
        if self.is_missed_alone(cells) {
            return Some(("by requests sent one at a time".to_owned(), cells.first()?));
        }
        let tells =
            |cell: &CellRecord| is_plainly_missed(cell) && self.client_limit(cell).is_none();
        let tell = self.loads(cells).filter(|(_, cell)| tells(cell));
        let (load, cell) = tell.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((format!("at {}", self.amount(load)), cell))
    }

    fn missed_alone(&self, cells: &[CellRecord]) -> Option<String> {
        let (at, cell) = self.missed_low(cells)?;
        let (planned, lost) = (cell.counts.planned, cell.counts.lost());
        if Self::is_missed_by_failures(cell) {
            return Some(format!(
                "missed already {at}, where requests hardly queue, because {lost} of {} failed: check the server's log",
                counted(planned, "request")
            ));
        }
        let missed = Self::missed_by(cell, 0.0).into_iter();
        let missed: Vec<String> = missed.map(crate::findings::objective_name).collect();
        let most = self.loads(cells).map(|(load, _)| load).reduce(f64::max);
        let tried =
            most.map(|most| format!(", and at every load tried, up to {}", self.amount(most)));
        Some(format!(
            "missed already {at}, where requests hardly queue{}: {}; relax the objectives with `--slo`, or use shorter requests",
            tried.unwrap_or_default(),
            text::list(&missed)
        ))
    }

    /// Where the objectives are missed, and that more load meets them.
    fn not_monotone(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let (search, stages) = (self.search(slos, cells)?, self.stages(cells));
        let is_low = search.is_missed_low(&stages);
        let (missed, met, is_met) = if is_low {
            let told = search.not_missed(&stages);
            let is_met = told.iter().any(|(.., is_met)| *is_met);
            let met = told.into_iter().filter(|(.., own)| *own || !is_met);
            (
                self.missed_low(cells)?.0,
                met.map(|(load, ..)| load).collect(),
                is_met,
            )
        } else {
            let (low, high) = search.upside_down(&stages)?;
            (format!("at {}", self.amount(low)), vec![high], true)
        };
        let (low, high) = (met.first()?, met.last()?);
        let met = if low < high {
            format!("from {} to {}", self.amount(*low), self.amount(*high))
        } else {
            format!("at {}", self.amount(*low))
        };
        let or = if is_low {
            "there is no single capacity"
        } else {
            "either there is no single capacity or the server changed between the two"
        };
        Some(format!(
            "an objective is missed {missed} and {} {met}, so {or}; measure several loads with `--{}`",
            if is_met { "met" } else { "may be met" },
            self.factor()
        ))
    }
}

/// The longest that a request may wait within the objectives, in seconds; those on the time per token limit no wait.
fn patience(slos: &[Slo]) -> f64 {
    let waits = slos.iter().filter(|slo| from_due(slo.metric));
    waits.map(|slo| slo.limit / 1e9).fold(0.0, f64::max)
}

fn is_plainly_missed(cell: &CellRecord) -> bool {
    let mut all = cell.slos.iter();
    all.any(|o| o.within.is_some_and(|w| share_interval(&w).high < o.slo.q))
}

/// The part of the users of a closed loop that had a request under way: whoever was turned away and waits to ask again is not within an objective.
fn present(cell: &CellRecord) -> f64 {
    /// Of the slots: fewer at any time is no beginning and no end of a stage.
    const FEW: f64 = 0.5;
    let Some(slots) = view::busy_slots(cell) else {
        return 1.0;
    };
    let whole = cell.windows.whole.as_ref();
    let most = whole.map_or(0, |whole| whole.peak_in_flight) as f64 / slots;
    if most > 0.0 && most < FEW {
        return most;
    }
    let asleep = trust::asleep(cell, 0.0, 0.0);
    1.0 - asleep.unwrap_or(0.0).clamp(0.0, 1.0)
}

/// How many connections were refused, where they alone miss an objective: nobody was there, whatever the load.
fn away(cell: &CellRecord) -> Option<u64> {
    let gone = [FailureKind::Refused, FailureKind::Unreachable];
    let refused = cell.counts.failures.iter();
    let refused = refused.filter(|(_, kind, _)| gone.contains(kind));
    let refused: u64 = refused.map(|(.., n)| n).sum();
    let planned = cell.counts.planned;
    let mut objectives = cell.slos.iter();
    let misses = |o: &SloOutcome| refused as f64 > (1.0 - o.slo.q) * planned as f64;
    (refused > 0 && objectives.any(misses)).then_some(refused)
}

/// What ended the last cell that ended early: the client, where it could open no more connections.
fn failed_meanwhile(cells: &[CellRecord]) -> Option<String> {
    let told = |cell: &CellRecord| {
        let who = match cell.ended_by {
            Some(FailureKind::ClientResources) => "client",
            _ => "server",
        };
        let early = cell.ended_early.as_ref()?;
        Some(format!("the {who} failed meanwhile: {early}"))
    };
    cells.iter().rev().find_map(told)
}

/// Requests per second of a cell that sends one after the other; all may end early, as `--cancel-after` asks.
fn one_by_one(alone: &CellRecord) -> Option<f64> {
    if let Some(e2e) = alone.metrics.get(&Metric::E2e) {
        return Some(1e9 / view::positive(e2e.mean)?);
    }
    let whole = alone.windows.whole.as_ref()?;
    (alone.counts.cancelled > 0)
        .then_some(alone.counts.planned as f64 / view::positive(whole.seconds)?)
}

/// The load of a stage of a search for a concurrency, or else for a rate; of a cell that is none, nothing.
fn load_of(cell: &CellRecord, closed: bool) -> Option<f64> {
    match &cell.load {
        Load::Open { rate_per_s, .. } if !closed => *rate_per_s,
        Load::Closed { concurrency, .. } if closed => Some(f64::from(*concurrency)),
        _ => None,
    }
}

/// Answers per second of an open loop in which they fell behind this rate: where the queue is known to grow; and where requests took longer than half of the time
/// in which they came, of which one alone takes so many seconds: then by the line on which waits grow.
fn fell_behind(cell: &CellRecord, rate: f64, alone: f64) -> Option<Estimate> {
    const SHORT: f64 = 0.93;
    let whole = cell
        .windows
        .whole
        .as_ref()
        .filter(|_| cell.load.is_open())?;
    let planned = cell.counts.planned as f64;
    let told = |value, low, high| Estimate {
        value,
        low: Some(low),
        high: Some(high),
        level: 0.95,
    };
    let completed = 1.0 - cell.counts.lost() as f64 / planned;
    let of_a_queue = whole
        .served_requests_per_s
        .zip(whole.requests_per_s_interval);
    let of_a_queue = of_a_queue.map(|(served, interval)| {
        let [value, low, high] = [served, interval.low, interval.high].map(|x| x / completed);
        told(value, low, high)
    });
    let took = cell.metrics.get(&Metric::E2eDue).map(|e2e| e2e.mean / 1e9);
    let waits = took.map(|took| (took / (planned / rate), (took - alone) / (planned / rate)));
    let by_waits = waits.filter(|(took, _)| *took > 0.5);
    let by_waits = by_waits.map(|(_, waited)| rate / (1.0 + 2.0 * waited.max(0.0)));
    let of_a_queue = of_a_queue.filter(|served| served.value < SHORT * rate);
    of_a_queue.or(by_waits.map(|served| told(served, 0.0, 2.0 * served)))
}

/// Whether a time can be from when its request was due.
fn from_due(metric: Metric) -> bool {
    metric.from_origin(Origin::Due) != metric.from_origin(Origin::Sent)
}

/// The capacity that a search found, with its interval; nothing where it found no value.
pub(crate) fn capacity_of(found: &CapacityRecord) -> Option<Estimate> {
    let value = view::positive(found.value?)?;
    let bounds = found.low.zip(found.high);
    let told = bounds.map(|(low, high)| Estimate::bounded(value, low, high, LEVEL));
    Some(told.unwrap_or(Estimate::unbounded(value, LEVEL)))
}

/// What lies between the two bounds of a search: their middle, with them as its interval.
pub(crate) fn range_of(found: &CapacityRecord) -> Option<Estimate> {
    let (low, high) = (view::positive(found.low?)?, found.high?);
    Some(Estimate::bounded((low * high).sqrt(), low, high, LEVEL))
}

/// What is known of a search that found no capacity, in words.
pub(crate) fn known_of(found: &CapacityRecord) -> String {
    let closed = found.factor == CONCURRENCY;
    let amount = |load: f64| amount(load, closed);
    let number = if closed { text::grouped } else { text::number };
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!("between {} and {}", number(low), amount(high)),
        (Some(low), None) => format!("at least {}", amount(low)),
        (None, Some(high)) => format!("at most {}", amount(high)),
        (None, None) => "not known".to_owned(),
    }
}

/// A load with its unit.
fn amount(load: f64, closed: bool) -> String {
    if closed {
        format!("{} in flight", text::grouped(load))
    } else {
        format!("{} requests/s", text::number(load))
    }
}

/// The stage that is nearest to the capacity that a search found, of those that do not lie beyond it; none where none was found.
pub fn nearest_stage(run: &RunRecord) -> Option<&CellRecord> {
    let value = run.analysis.capacity.as_ref()?.value?;
    stage_up_to(run, value)
}

/// The stage of the highest load up to this one, of those that a search did not leave out.
pub(crate) fn stage_up_to(run: &RunRecord, most: f64) -> Option<&CellRecord> {
    let found = run.analysis.capacity.as_ref()?;
    let told = run
        .cells
        .iter()
        .filter(|cell| !found.left_out.contains_key(&cell.id));
    let loads = told.filter_map(|cell| Some((cell, load_of(cell, found.factor == CONCURRENCY)?)));
    let up_to = loads.filter(|(_, load)| *load <= most);
    up_to
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// The cells that are judged, and those of the others that bound the answer from above or in which the server was away. Of a search the first are the stages that its
/// answer rests on, for what is beyond the capacity is overloaded on purpose, and what is left out has no say; where it found none, any cell that is not known to be
/// beyond it, and where nothing was searched, any cell.
pub(crate) fn judged(
    found: Option<&CapacityRecord>,
    cells: Vec<CellRecord>,
) -> (Vec<CellRecord>, Vec<CellRecord>) {
    let Some(found) = found else {
        return (cells, Vec::new());
    };
    let load = |cell: &CellRecord| load_of(cell, found.factor == CONCURRENCY);
    let Some(value) = found.value else {
        let beyond = beyond(found, &cells).unwrap_or(f64::INFINITY);
        let is_less = |cell: &CellRecord| load(cell).is_none_or(|load| load < beyond);
        return cells.into_iter().partition(is_less);
    };
    let has_a_say = |cell: &CellRecord| {
        let measured = cell.counts.planned > 0 && load(cell).is_some();
        measured && (!found.left_out.contains_key(&cell.id) || away(cell).is_some())
    };
    let high = found.high.unwrap_or(value);
    let stages = cells.into_iter().filter(has_a_say);
    stages.partition(|cell| away(cell).is_none() && load(cell).is_some_and(|load| load <= high))
}

/// The lowest load that a search knows to be beyond the capacity, though it ran out of budget before it found that: an objective was plainly missed there, not by
/// failures, and all were met at less.
fn beyond(found: &CapacityRecord, cells: &[CellRecord]) -> Option<f64> {
    let stages = cells.iter().filter_map(|cell| {
        let load = load_of(cell, found.factor == CONCURRENCY)?;
        (!found.left_out.contains_key(&cell.id)).then_some((load, cell))
    });
    let stages: Vec<(f64, &CellRecord)> = stages.collect();
    let is_missed =
        |cell: &CellRecord| is_plainly_missed(cell) && !SearchAsked::is_missed_by_failures(cell);
    let missed = stages.iter().filter(|(_, cell)| is_missed(cell));
    let missed = missed.map(|(load, _)| *load).reduce(f64::min)?;
    let is_met = |cell: &CellRecord| SearchAsked::missed_by(cell, 0.0).is_empty();
    let mut less = stages.iter().filter(|(load, _)| *load < missed);
    (found.stopped == SearchEnd::Budget && less.any(|(_, cell)| is_met(cell))).then_some(missed)
}

/// What says that the server stood still or was away, of stages that only bound the answer: no load makes it do that.
pub(crate) fn stops(
    run: &RunRecord,
    samples: &[CellSamples],
    trust: Trust,
) -> (Vec<TrustReason>, Vec<Finding>) {
    let told = |reason: &TrustReason| run.trust.reasons.iter().any(|r| r.code == reason.code);
    // who waits too long in an overload gives up, and a limit of its rate turns away who is too much
    let of_load = |lost: &LostSample| lost.how == Lost::TimedOut || lost.status == Some(429);
    let is_gone = |own: &&CellSamples| own.outage().is_some() && !own.lost.iter().any(of_load);
    let own = samples.iter().filter(|own| run.cell(&own.cell).is_some());
    let gone: Vec<&String> = own.filter(is_gone).map(|own| &own.cell).collect();
    let mut findings = diagnosis::causes(run, samples);
    findings.retain(|finding| match finding.cause() {
        Some(Cause::Frozen | Cause::PeriodicStall) => true,
        Some(Cause::ServerGone | Cause::Failing) => {
            finding.cells.iter().all(|cell| gone.contains(&cell))
        }
        _ => false,
    });
    let is_of_it = |reason: &TrustReason| match &*reason.code {
        "stalled" => true,
        "failures" | "away" => gone.iter().any(|cell| reason.names(cell)),
        _ => false,
    };
    let reasons = trust.reasons.into_iter();
    let reasons = reasons.filter(|reason| is_of_it(reason) && !told(reason));
    (reasons.collect(), findings)
}

/// Without what a search does on purpose: stages too short for a quantile or for their answers, of which only the share within is used; loads at which queues
/// come and go.
pub(crate) fn without_what_it_does(trust: Trust) -> Trust {
    let on_purpose = [
        "few_samples",
        "not_stationary",
        "rate_undecided",
        "load_not_reached",
    ];
    let reasons = trust.reasons.into_iter();
    Trust::from_reasons(
        reasons
            .filter(|reason| !on_purpose.contains(&reason.code.as_str()))
            .collect(),
    )
}

/// Without causes that a search makes itself: stages follow each other without a pause, so that none but the first begins on a cold server, and near the
/// capacity requests of an open loop wait by chance, whatever their lengths, and more and fewer of them from one moment to the next.
pub(crate) fn without_what_it_makes(run: &RunRecord, findings: &mut Vec<Finding>) {
    let first = run.cells.first().map(|cell| &cell.id);
    let is_open = |id: &String| run.cell(id).is_some_and(|cell| cell.load.is_open());
    let found = run.analysis.capacity.as_ref();
    let changed = found.is_some_and(|found| found.stopped == SearchEnd::Unsteady);
    // what compares stages, or relies on one, takes them for those of one server
    let relies_on_it = |finding: &Finding| {
        let compared = [Cause::DecodeSlowsWithLoad, Cause::Overload, Cause::Queueing];
        let is_compared = finding
            .cause()
            .is_some_and(|cause| compared.contains(&cause));
        is_compared
            || matches!(
                finding.code,
                Code::Answer(Answer::Capacity | Answer::Planning)
            )
    };
    findings.retain(|finding| !changed || !relies_on_it(finding));
    let is_of_open = |finding: &Finding| finding.cells.iter().all(is_open);
    let queues =
        |finding: &Finding| finding.cause() == Some(Cause::Queueing) && is_of_open(finding);
    let queues = findings.iter().any(queues);
    findings.retain(|finding| match finding.cause() {
        // Of a server of which it does not know what it can do nobody knows that either.
        Some(Cause::Healthy) => found.is_some_and(|found| found.value.is_some()),
        Some(Cause::ColdStart) => finding.cells.iter().any(|cell| Some(cell) == first),
        Some(Cause::SlowRequests | Cause::Step | Cause::Drift) => !is_of_open(finding),
        // what waits at one rate of a server that is known to queue at another
        Some(Cause::WaitingOrPrefill) => !(queues && is_of_open(finding)),
        _ => true,
    });
}

/// The stages that a search did not leave out, with their requests.
fn stages_of<'a>(
    run: &'a RunRecord,
    found: &CapacityRecord,
    samples: &'a [CellSamples],
) -> Vec<diagnosis::StageSamples<'a>> {
    let stage = |cell: &'a CellRecord| {
        let load = load_of(cell, found.factor == CONCURRENCY)?;
        let own = samples.iter().find(|own| own.cell == cell.id)?;
        (!found.left_out.contains_key(&cell.id)).then_some((load, cell, own))
    };
    run.cells.iter().filter_map(stage).collect()
}

/// What a search found, of a server that kept its speed meanwhile: of one that did not, early stages tell of another server than late ones do.
pub(crate) fn of_one_speed(
    run: &RunRecord,
    found: CapacityRecord,
    samples: &[CellSamples],
) -> CapacityRecord {
    let told = [
        SearchEnd::Precise,
        SearchEnd::Budget,
        SearchEnd::Unsteady,
        SearchEnd::NotMonotone,
    ];
    let stages = stages_of(run, &found, samples);
    let change = told
        .contains(&found.stopped)
        .then(|| diagnosis::change(run, &stages));
    let Some((change, is_alike)) = change.flatten() else {
        return found;
    };
    let how = how_it_changed(change, is_alike, |stage| {
        stages.get(stage).map_or("", |(_, cell, _)| &cell.id)
    });
    let objectives = found.objectives.into_iter();
    let objectives = objectives.map(|own| SearchAsked::of_objective(&own.slo, None));
    CapacityRecord {
        stopped: SearchEnd::Unsteady,
        why: Some(format!(
            "the server's speed changed during the search: {how}; search again when it is stable"
        )),
        value: None,
        low: None,
        high: None,
        binding: None,
        objectives: objectives.collect(),
        ..found
    }
}

/// When a server's speed changed, by how much, and beside how many requests that was seen.
fn how_it_changed<'a>(
    change: SpeedChange,
    is_alike: bool,
    id: impl Fn(usize) -> &'a str,
) -> String {
    let in_others = || "as in the others".to_owned();
    let (when, times, as_long) = match change {
        SpeedChange::From(stage, times) => {
            let when = format!("from stage {} on,", id(stage));
            (when, times, "as before".to_owned())
        }
        SpeedChange::Within(stage, times) => {
            let when = format!("within stage {},", id(stage));
            (when, times, "at its end as at its beginning".to_owned())
        }
        SpeedChange::Between([first, last], times) if first == last => {
            (format!("in stage {},", id(first)), times, in_others())
        }
        SpeedChange::Between([first, last], times) => {
            let when = format!("in stages {} to {},", id(first), id(last));
            (when, times, in_others())
        }
        SpeedChange::Unlike([first, last], times) => {
            let when = format!("in stage {},", id(last));
            (when, times, format!("as in {}", id(first)))
        }
        SpeedChange::Gradual(times) => {
            let when = "it moved from stage to stage, and".to_owned();
            (when, times, "in the last one as in the first".to_owned())
        }
    };
    let load = if is_alike {
        "with as many requests in flight"
    } else if times > 1.0 {
        "although fewer requests were in flight"
    } else {
        "although more requests were in flight"
    };
    let times = text::number(times);
    format!("{when} a token took {times} times as long {as_long}, {load}")
}

/// That the server's speed changed meanwhile, or rose and fell: stages shorter than its period each met a part of it.
pub(crate) fn doubt_its_speed(
    run: &RunRecord,
    found: &CapacityRecord,
    samples: &[CellSamples],
) -> Option<TrustReason> {
    if found.stopped == SearchEnd::Unsteady {
        let why = "the server's speed changed during the search, so its stages do not measure one and the same server";
        return Some(TrustReason::new(
            "not_stationary",
            TrustVerdict::Doubtful,
            why,
        ));
    }
    let stages = stages_of(run, found, samples);
    let (period, [low, high]) = diagnosis::swing(run, &stages)?;
    Some(TrustReason {
        next: Some("find out what slows the server down again and again, and search again; a longer `--budget` averages over more periods".to_owned()),
        ..TrustReason::new(
            "not_stationary",
            TrustVerdict::Doubtful,
            format!(
                "the server's speed changed again and again during the search, about every {}: the time per token was between {} and {} times its median; the capacity is an average over such periods",
                text::time(period),
                text::number(low),
                text::number(high)
            ),
        )
    })
}

/// A number of requests, or a time as configurations store it: a number and its unit.
fn budget(text: &str) -> Option<Budget> {
    if let Ok(requests) = text.parse() {
        return Some(Budget::Requests(requests));
    }
    let time = crate::target::limit(text, Unit::Ns).ok()?;
    Some(Budget::Seconds(time / 1e9))
}

/// From the texts of a stored configuration; nothing where no search was asked for.
pub(crate) fn asked(text: impl Fn(&str) -> Option<String>) -> Option<SearchAsked> {
    let is = |key| text(key).as_deref() == Some("true");
    let usual = SearchAsked::default();
    let width = text("precision").and_then(|text| text.strip_suffix('%')?.parse::<f64>().ok());
    let budget = text("budget").and_then(|text| budget(&text));
    is("find_capacity").then(|| SearchAsked {
        closed: is("closed"),
        precision: width.map_or(usual.precision, |percent| percent / 100.0),
        budget: budget.unwrap_or(usual.budget),
    })
}

#[cfg(test)]
#[path = "../tests/unit/search.rs"]
mod tests;
