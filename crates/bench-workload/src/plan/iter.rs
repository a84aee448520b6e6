//! A plan, request by request.

use std::collections::VecDeque;
use std::sync::Arc;

use bench_schema::{ArrivalKind, GenerationRequest, Load, Nanos, Sampling};

use super::{Inner, Shard};
use crate::WorkloadError;
use crate::arrivals::Arrivals;
use crate::item::{After, Item, Planned};
use crate::source::{Parts, Rows};

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
    pub(super) fn new(plan: Arc<Inner>) -> Self {
        Self {
            shard: plan.spec.shard,
            arrivals: plan.arrivals.clone(),
            rows: None,
            opened: false,
            unit: 0,
            index: 0,
            ready: VecDeque::new(),
            over: false,
            plan,
        }
    }

    pub(super) fn of_shard(mut self, shard: Shard) -> Self {
        self.shard = shard;
        self
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
                Some(due) if plan.spec.duration.is_none_or(|end| due < end) => Some(due),
                _ => return Ok(false),
            },
            (Some(row), None) => {
                let due = plan.spec.replay_speed().and_then(|speed| row.due(speed));
                if due
                    .zip(plan.spec.duration)
                    .is_some_and(|(due, end)| due >= end)
                {
                    return Ok(false);
                }
                due
            }
            (None, None) => None,
        };
        let (unit, first) = (self.unit, self.index);
        let turns = match &row {
            Some(row) => row.turns(),
            None => plan.source.turns(&plan.composer, unit),
        };
        self.unit += 1;
        self.index += u64::from(turns);
        if self.shard.has(unit) {
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
    pub(super) fn finish(&self, parts: Vec<Parts>, first: u64, due: Option<Nanos>) -> Vec<Planned> {
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
            (Some(mut own), Some(given)) => {
                own.extend(
                    given
                        .iter()
                        .map(|(key, value)| (key.clone(), value.clone())),
                );
                Some(Arc::new(own))
            }
            (Some(own), None) => Some(Arc::new(own)),
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
