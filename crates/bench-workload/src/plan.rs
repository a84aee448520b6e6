//! The plan of a cell: every request and its due time, made from the seed before the clock starts.

mod iter;
mod spec;
mod summary;

pub use iter::PlanIter;
pub use spec::{Calibration, OnBadLine, PlanSpec, RequestOptions, Salt, Shard};
pub use summary::{ArrivalSummary, LengthSummary, PlanSummary};

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Nanos};

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
    /// Units (requests, or conversations) that fit into the duration; absent without arrivals or a duration.
    pub(crate) units_in_time: Option<u64>,
}

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
        let units_in_time = arrivals.as_ref().and_then(|all| count(all, &spec));
        let inner = Inner {
            spec,
            composer,
            source,
            arrivals,
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

    /// Requests of the whole plan, all shards; absent where it has no end or only its file knows.
    pub fn requests(&self) -> Option<u64> {
        self.inner.requests()
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

/// How many of the arrivals fall into the plan; unknown where it has no end.
fn count(arrivals: &Arrivals, spec: &PlanSpec) -> Option<u64> {
    if spec.requests.is_none() && spec.duration.is_none() {
        return None;
    }
    let most = usize::try_from(spec.requests.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let end = spec.duration.unwrap_or(Nanos::MAX);
    let in_time = arrivals.clone().take(most).take_while(|due| *due < end);
    Some(in_time.count() as u64)
}
