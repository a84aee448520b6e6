//! The conversations of a cell, each as one span of time: think time between turns is part of them, and of no request.

use std::collections::BTreeMap;

use bench_schema::{RequestRecord, Stamp};

use crate::blocks::Part;
use crate::latency::Instants;

/// Conversations by repeat and number; those of one turn each are none.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversations(BTreeMap<(u32, u64), Conversation>);

/// One of them, as far as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversation {
    /// When its first request was due.
    pub(super) due: Stamp,
    /// When a worker took that up, if one did.
    pub(super) taken: Option<Stamp>,
    pub(super) left: Stamp,
    /// Seconds in which the server had a request of it.
    pub(super) busy: f64,
    pub(super) completed: u32,
}

impl Conversations {
    pub(super) fn push(&mut self, record: &RequestRecord, instants: &Instants) {
        let (Some(session), Some(_)) = (record.session, record.turn) else {
            return;
        };
        let from = instants.sent.unwrap_or(instants.due);
        let left = instants.ended().unwrap_or(from);
        let new = Conversation {
            due: instants.due,
            taken: instants.dispatched.or(instants.sent),
            left,
            busy: 0.0,
            completed: 0,
        };
        let known = self.0.entry((record.repeat, session)).or_insert(new);
        if instants.due < known.due {
            (known.due, known.taken) = (new.due, new.taken);
        }
        known.left = known.left.max(left);
        known.busy += (left - from).as_secs_f64();
        known.completed += u32::from(instants.completed);
    }

    /// Those of a repeat, in the order in which they were due.
    pub(super) fn of(&self, repeat: u32) -> Vec<Conversation> {
        let all = self.0.range((repeat, 0)..=(repeat, u64::MAX));
        let mut all: Vec<Conversation> = all.map(|(_, one)| *one).collect();
        all.sort_by_key(|one| one.due);
        all
    }
}

impl Conversation {
    /// The answers that it gave, over the time that it took.
    pub(super) fn part(&self) -> Part {
        let begun = self.taken.unwrap_or(self.due);
        Part {
            num: f64::from(self.completed),
            den: (self.left - begun).as_secs_f64(),
        }
    }

    /// How often it thought.
    pub(super) fn pauses(&self) -> f64 {
        f64::from(self.completed.saturating_sub(1))
    }

    /// Seconds in which it thought.
    pub(super) fn thought(&self) -> f64 {
        (self.part().den - self.busy).max(0.0)
    }
}
