//! The plan of a cell: every request and its due time, made from the seed before the clock starts.

mod spec;
mod summary;

pub use spec::{Calibration, OnBadLine, PlanSpec, RequestOptions, Salt, Shard};
pub use summary::{ArrivalSummary, LengthSummary, PlanSummary};

use std::collections::VecDeque;
use std::sync::Arc;

use bench_schema::{ArrivalKind, GenerationRequest, Load, Nanos, Sampling};

use crate::arrivals::{Arrivals, Extent};
use crate::composer::Composer;
use crate::item::{After, Item, Planned};
use crate::source::{self, Parts, Rows, Source};
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
    /// Units (requests, or conversations) that arrive; absent without arrivals or where they have no end.
    pub(crate) units_in_time: Option<u64>,
}

impl Plan {
    /// Checks the spec, reads what it names and builds the tables; makes no request yet.
    ///
    /// # Errors
    /// Where settings contradict each other, files cannot be read, or a tokenizer has no words to build prompts from.
    pub fn new(
        spec: PlanSpec,
        token_counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, WorkloadError> {
        spec.check()?;
        let composer = Composer::new(&spec, token_counter)?;
        let source = source::open(&spec, &composer)?;
        let units = units(&spec, &source, &composer)?;
        let arrivals = arrivals(&spec, units)?;
        let units_in_time = arrivals
            .as_ref()
            .and_then(|all| count(all, units, spec.duration));
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
        PlanIter::new(&self.inner, self.inner.spec.shard)
    }

    /// Requests of the whole plan, all shards; absent where it has no end or only its file knows.
    pub fn requests(&self) -> Option<u64> {
        self.inner.requests()
    }

    /// What the plan looks like: from its first `at_most` requests, all shards.
    ///
    /// # Errors
    /// Where a request cannot be made.
    pub fn summary(&self, at_most: u64) -> Result<PlanSummary, WorkloadError> {
        let all = PlanIter::new(&self.inner, Shard::WHOLE);
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
    /// The due times of all units; absent in a closed loop, and where only a file knows them or their number.
    fn due_times(&self) -> Option<Vec<Nanos>> {
        let all = self
            .arrivals
            .as_ref()
            .filter(|_| !self.source.ends_by_itself());
        let units = usize::try_from(self.units_in_time?).ok()?;
        all.map(|all| all.clone().take(units).collect())
    }

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

/// The units that make the plan's number of requests, for a schedule of them; absent in a closed loop, which has none, and where no number ends it.
fn units(spec: &PlanSpec, source: &Source, with: &Composer) -> Result<Option<u64>, WorkloadError> {
    let Some(requests) = spec.requests.filter(|_| spec.load.is_open()) else {
        return Ok(None);
    };
    if let Some(turns) = source.turns_of_every_unit() {
        let units = requests.div_ceil(u64::from(turns).max(1));
        return Ok(Some(units.max(spec.fewest_units)));
    }
    let mut rows = source.rows(spec)?;
    let (mut units, mut turns) = (0, 0);
    while turns < requests {
        turns += u64::from(match rows.as_mut().map(Rows::next_row).transpose()? {
            Some(None) => break,
            Some(Some(row)) => row.turns(),
            None => source.turns(with, units),
        });
        units += 1;
    }
    Ok(Some(units.max(spec.fewest_units)))
}

fn arrivals(spec: &PlanSpec, units: Option<u64>) -> Result<Option<Arrivals>, WorkloadError> {
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
        arrivals: units,
        duration: spec.duration,
    };
    let draw = Draw::new(spec.seed.stream("arrivals", &spec.shape_key()));
    // what has a pace of its own does not use it, and 0 is refused for all else
    Arrivals::new(arrival, rate_per_s.unwrap_or_default(), extent, draw).map(Some)
}

/// How many of the arrivals fall into the plan; unknown where it has no end.
fn count(arrivals: &Arrivals, units: Option<u64>, duration: Option<Nanos>) -> Option<u64> {
    let most = units.or(duration.map(|_| u64::MAX))?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let end = duration.unwrap_or(Nanos::MAX);
    let in_time = arrivals.clone().take(most).take_while(|due| *due < end);
    Some(in_time.count() as u64)
}

// A plan, request by request.

/// The requests of one shard of a plan, in order. After an error it ends.
#[derive(Debug)]
pub struct PlanIter {
    plan: Arc<Inner>,
    shard: Shard,
    arrivals: Option<Arrivals>,
    rows: Option<Rows>,
    opened: bool,
    unit: u64,
    index: u64,
    ready: VecDeque<Planned>,
    over: bool,
}

impl PlanIter {
    fn new(plan: &Arc<Inner>, shard: Shard) -> Self {
        Self {
            plan: Arc::clone(plan),
            shard,
            arrivals: plan.arrivals.clone(),
            rows: None,
            opened: false,
            unit: 0,
            index: 0,
            ready: VecDeque::new(),
            over: false,
        }
    }

    /// Bad lines that were passed over so far.
    pub fn skipped_lines(&self) -> u64 {
        self.rows.as_ref().map_or(0, Rows::skipped)
    }

    /// Makes the next unit; false at the end of the plan. Units of other shards are only counted.
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        let plan = Arc::clone(&self.plan);
        if !self.opened {
            self.rows = plan.source.rows(&plan.spec)?;
            self.opened = true;
        }
        let row = match self.rows.as_mut().map(Rows::next_row).transpose()? {
            Some(None) => return Ok(false),
            Some(row) => row,
            None => None,
        };
        let due = match (&row, &mut self.arrivals) {
            (_, Some(arrivals)) => match arrivals.next() {
                None => return Ok(false),
                due => due,
            },
            (Some(row), None) => plan.spec.replay_speed().and_then(|speed| row.due(speed)),
            (None, None) => None,
        };
        let end = plan.spec.duration;
        if due.zip(end).is_some_and(|(due, end)| due >= end) {
            return Ok(false);
        }
        let (unit, first) = (self.unit, self.index);
        let turns = match &row {
            Some(row) => row.turns(),
            None => plan.source.turns(&plan.composer, unit),
        };
        self.unit += 1;
        self.index += u64::from(turns);
        if self.shard.has(plan.spec.dealt(unit)) {
            let parts = plan.source.parts(&plan.composer, row.as_ref(), unit)?;
            let made = plan.finish(parts, first, due);
            let most = if unit < plan.spec.fewest_units {
                u64::MAX
            } else {
                plan.spec.requests.unwrap_or(u64::MAX)
            };
            self.ready
                .extend(made.into_iter().filter(|planned| planned.index < most));
        }
        Ok(true)
    }
}

impl Iterator for PlanIter {
    type Item = Result<Planned, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(planned) = self.ready.pop_front() {
                return Some(Ok(planned));
            }
            let most = self.plan.spec.requests.unwrap_or(u64::MAX);
            let enough = self.index >= most && self.unit >= self.plan.spec.fewest_units;
            if self.over || enough {
                return None;
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => self.over = true,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Inner {
    /// Requests from the parts of a unit.
    fn finish(&self, parts: Vec<Parts>, first: u64, due: Option<Nanos>) -> Vec<Planned> {
        let planned = parts.into_iter().enumerate().map(|(turn, parts)| {
            let index = first + turn as u64;
            let after = parts.after.map(|delay| After {
                index: index.saturating_sub(1),
                delay,
            });
            Planned {
                index,
                due: due.filter(|_| after.is_none()),
                item: self.item(parts, after, index),
            }
        });
        planned.collect()
    }

    /// Whose turn it is, where a number of users ask at an even cadence.
    fn user(&self, index: u64) -> Option<u64> {
        match &self.spec.load {
            Load::Open {
                arrival: ArrivalKind::Users { users, .. },
                ..
            } => index.checked_rem(u64::from(*users)),
            _ => None,
        }
    }

    fn item(&self, parts: Parts, after: Option<After>, index: u64) -> Item {
        let options = &self.spec.options;
        let own = parts.own.unwrap_or_default();
        let extra_body = match (own.extra_body, &options.extra_body) {
            (Some(mut own), given) => {
                own.extend(given.iter().flat_map(|given| (**given).clone()));
                Some(Arc::new(own))
            }
            (None, given) => given.clone(),
        };
        let request = GenerationRequest {
            prompt: parts.prompt,
            max_tokens: parts.output.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            min_tokens: options.min_tokens,
            ignore_eos: options.ignore_eos,
            sampling: own.sampling.map_or_else(
                || options.sampling.clone(),
                |own| over(own, &options.sampling),
            ),
            stream: options.stream,
            extra_body,
        };
        Item {
            use_case: parts.use_case,
            category: parts.category,
            session: parts.session.or(self.user(index)),
            turn: parts.turn,
            after,
            request,
            size: parts.size,
        }
    }
}

/// A dataset's own sampling parameters over those of the run.
fn over(own: Sampling, given: &Sampling) -> Sampling {
    Sampling {
        temperature: own.temperature.or(given.temperature),
        top_p: own.top_p.or(given.top_p),
        top_k: own.top_k.or(given.top_k),
        min_p: own.min_p.or(given.min_p),
        frequency_penalty: own.frequency_penalty.or(given.frequency_penalty),
        presence_penalty: own.presence_penalty.or(given.presence_penalty),
        repetition_penalty: own.repetition_penalty.or(given.repetition_penalty),
        seed: own.seed.or(given.seed),
        stop: if own.stop.is_empty() {
            given.stop.clone()
        } else {
            own.stop
        },
    }
}
