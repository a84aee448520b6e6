//! The plan of a cell: every request and its due time, made from the seed before the clock starts.

mod iter;
mod spec;
mod summary;

pub use iter::PlanIter;
pub use spec::{Calibration, OnBadLine, PlanSpec, RequestOptions, Salt, Shard};
pub use summary::{ArrivalSummary, LengthSummary, PlanSummary};

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Nanos, PlanHash};

use crate::arrivals::{Arrivals, Extent};
use crate::composer::Composer;
use crate::item::Planned;
use crate::source::{self, Source};
use crate::{Draw, TokenCounter, WorkloadError};

/// A plan: cheap to clone and to share between threads; requests are made when they are asked for.
///
/// Iterating yields the requests of its shard in order. The same spec gives the same requests and due times in every run,
/// on every machine, in every split into shards.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) spec: PlanSpec,
    pub(crate) composer: Composer,
    pub(crate) source: Source,
    pub(crate) arrivals: Option<Arrivals>,
    /// The arrivals' state before every [`STRIDE`]th one, so that any due time is found in a few steps.
    marks: Vec<Arrivals>,
    /// Units (requests, or conversations) that fit into the duration; absent without arrivals or a duration.
    pub(crate) units_in_time: Option<u64>,
}

const STRIDE: u64 = 256;

impl Plan {
    /// Checks the spec, reads what it names and builds the tables; makes no request yet.
    ///
    /// # Errors
    ///
    /// Where settings contradict each other, files cannot be read, or a tokenizer has no words to build prompts from.
    pub fn new(
        spec: PlanSpec,
        token_counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, WorkloadError> {
        spec.check()?;
        let composer = Composer::new(&spec, token_counter)?;
        let source = source::open(&spec, &composer)?;
        let arrivals = arrivals(&spec)?;
        let (marks, units_in_time) = match &arrivals {
            Some(arrivals) => walk(arrivals, &spec),
            None => (Vec::new(), None),
        };
        let inner = Inner {
            spec,
            composer,
            source,
            arrivals,
            marks,
            units_in_time,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// What it was made from.
    pub fn spec(&self) -> &PlanSpec {
        &self.inner.spec
    }

    /// What sized the prompts, for the result: `words`, `tokenizer`, `server /tokenize`.
    pub fn sized_by(&self) -> &str {
        self.inner.composer.token_counter().name()
    }

    /// The requests of this shard, in order.
    pub fn iter(&self) -> PlanIter {
        PlanIter::new(Arc::clone(&self.inner))
    }

    /// The same plan as another shard of it, without reading anything again.
    ///
    /// # Errors
    ///
    /// Where the shard does not exist.
    pub fn shard(&self, shard: Shard) -> Result<PlanIter, WorkloadError> {
        shard.check()?;
        Ok(PlanIter::new(Arc::clone(&self.inner)).of_shard(shard))
    }

    /// Requests of the whole plan, all shards; absent where it has no end or only its file knows.
    pub fn requests(&self) -> Option<u64> {
        self.inner.requests()
    }

    /// The request with this index, made directly; `None` past the end.
    ///
    /// # Errors
    ///
    /// Where the source is a file, conversations of differing lengths, or an open loop without an end, which have to be
    /// iterated, and where the request cannot be made.
    pub fn get(&self, index: u64) -> Result<Option<Planned>, WorkloadError> {
        if self.requests().is_some_and(|count| index >= count) {
            return Ok(None);
        }
        let turns = self.inner.source.turns_of_every_unit();
        let turns = turns.ok_or(WorkloadError::NotRandomAccess {
            index,
            why: "the dataset is read from its start",
        })?;
        let unit = index / u64::from(turns);
        let due = self.inner.due_of(unit, index)?;
        let first = unit * u64::from(turns);
        let made = self.inner.make_unit(unit, first, due)?;
        Ok(made.into_iter().find(|planned| planned.index == index))
    }

    /// The sum of the digests of all planned requests with their due times, all shards.
    ///
    /// Makes every request. Two plans with the same hash ask the same at the same times.
    ///
    /// # Errors
    ///
    /// Where the plan has no end, or a request cannot be made. For a plan without an end add up [`Planned::hash`] of what was
    /// really taken from it.
    pub fn hash(&self) -> Result<PlanHash, WorkloadError> {
        if !self.inner.ends() {
            return Err(WorkloadError::Endless { what: "hash" });
        }
        let mut sum = PlanHash::default();
        for planned in PlanIter::new(Arc::clone(&self.inner)).of_shard(Shard::WHOLE) {
            sum += planned?.hash();
        }
        Ok(sum)
    }

    /// What the plan looks like: from its first `at_most` requests, all shards.
    ///
    /// # Errors
    ///
    /// Where a request cannot be made.
    pub fn summary(&self, at_most: u64) -> Result<PlanSummary, WorkloadError> {
        let all = PlanIter::new(Arc::clone(&self.inner)).of_shard(Shard::WHOLE);
        summary::summarise(self, all, at_most)
    }
}

impl IntoIterator for &Plan {
    type Item = Result<Planned, WorkloadError>;
    type IntoIter = PlanIter;

    fn into_iter(self) -> PlanIter {
        self.iter()
    }
}

impl Inner {
    pub(crate) fn requests(&self) -> Option<u64> {
        if self.source.ends_by_itself() {
            return None;
        }
        let turns = self.source.turns_of_every_unit().map(u64::from);
        let fewest = match (self.spec.fewest_units, turns) {
            (0, _) => 0,
            (units, Some(turns)) => units * turns,
            (_, None) => return None,
        };
        let by_count = self.spec.requests.map(|count| count.max(fewest));
        match (self.units_in_time, turns) {
            (None, _) => by_count,
            (Some(units), Some(turns)) => Some(by_count.unwrap_or(u64::MAX).min(units * turns)),
            // without a duration there are as many conversations as the requests need
            (Some(_), None) => by_count.filter(|_| self.spec.duration.is_none()),
        }
    }

    /// Whether iterating it comes to an end.
    fn ends(&self) -> bool {
        self.spec.requests.is_some() || self.units_in_time.is_some() || self.source.ends_by_itself()
    }

    /// When the unit is due; `None` in a closed loop.
    fn due_of(&self, unit: u64, index: u64) -> Result<Option<Nanos>, WorkloadError> {
        if self.arrivals.is_none() {
            return Ok(None);
        }
        let mark = usize::try_from(unit / STRIDE)
            .ok()
            .and_then(|at| self.marks.get(at));
        let mut arrivals = mark.cloned().ok_or(WorkloadError::NotRandomAccess {
            index,
            why: "its due time depends on all before it, and the plan has no end to count them up to",
        })?;
        let steps = usize::try_from(unit % STRIDE).unwrap_or(0);
        Ok(arrivals.nth(steps))
    }

    /// All requests of a unit, the first of which has this index and due time.
    pub(crate) fn make_unit(
        &self,
        unit: u64,
        first: u64,
        due: Option<Nanos>,
    ) -> Result<Vec<Planned>, WorkloadError> {
        let parts = self.source.unit(&self.composer, unit)?;
        Ok(self.finish(parts, first, due))
    }
}

fn arrivals(spec: &PlanSpec) -> Result<Option<Arrivals>, WorkloadError> {
    let Load::Open {
        rate_per_s,
        arrival,
        ..
    } = &spec.load
    else {
        return Ok(None);
    };
    if matches!(arrival, ArrivalKind::Trace { .. }) {
        return Ok(None); // the rows of the trace carry their times
    }
    let extent = Extent {
        requests: spec.requests,
        duration: spec.duration,
    };
    let draw = Draw::new(spec.seed.stream("arrivals", &spec.shape_key()));
    Arrivals::new(arrival, *rate_per_s, extent, draw).map(Some)
}

/// Marks along the arrivals and how many of them fall into the duration. Without any end there are no marks.
fn walk(arrivals: &Arrivals, spec: &PlanSpec) -> (Vec<Arrivals>, Option<u64>) {
    if spec.requests.is_none() && spec.duration.is_none() {
        return (Vec::new(), None);
    }
    let most = spec.requests.unwrap_or(u64::MAX);
    let end = spec.duration.unwrap_or(Nanos::MAX);
    let mut at = arrivals.clone();
    let mut marks = Vec::new();
    let mut count = 0;
    while count < most {
        if count % STRIDE == 0 {
            marks.push(at.clone());
        }
        match at.next() {
            Some(due) if due < end => count += 1,
            _ => break,
        }
    }
    (marks, Some(count))
}
