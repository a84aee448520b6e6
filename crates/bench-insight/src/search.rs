//! The search for a capacity, from what was asked and the cells so far: which stage comes next, and what is known.
//!
//! A stage is an ordinary cell. What is found is a function of the cells that are stored, so that a live run and whoever reads its journals
//! come to the same. Below: cells as stages, why a search ended, what its run is judged by, and a server whose speed changed meanwhile.

mod ended;
mod judged;
mod speed;
mod stages;

use bench_metrics::{Budget, Crossing, Estimate, Found, LEVEL, Measure, Next, Search};
use bench_schema::{
    CapacityRecord, CellRecord, ObjectiveCapacity, SearchEnd, Slo, SloOutcome, Unit,
};
use serde::{Deserialize, Serialize};

use crate::text;
use crate::view;
use ended::failed_meanwhile;
pub use judged::nearest_stage;
pub(crate) use judged::{judged, stage_up_to, stops, without_what_it_does, without_what_it_makes};
pub(crate) use speed::{doubt_its_speed, of_one_speed};
use stages::{one_by_one, patience};

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
        let only_waits = search.as_ref().is_some_and(|s| s.only_waits(&stages));
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
                let changed = (why == SearchEnd::Budget && bounds.is_none())
                    .then(|| self.met_after_missed(slos, cells));
                match changed.flatten() {
                    Some(how) => (SearchEnd::Unsteady, Some(how)),
                    None => (why, self.why(why, bounds, slos, cells)),
                }
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
                .filter(|_| capacity.is_some_and(|c| c.high.is_some()) && !only_waits)
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
