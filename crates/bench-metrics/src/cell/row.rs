//! One request in 64 bytes, as its cell is concluded.

use bench_schema::{Metric, Nanos, Outcome, RequestRecord, Stamp};

use crate::gaps::GapRange;
use crate::latency::Instants;

use super::packed_rows::{Near, Traits};
use super::rows::GroupSet;
use super::started;

/// No value.
const NONE: u32 = u32::MAX;

/// One request after its events were counted. Times are kept as the distance from the one before, [`Row::instants`] has them.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    due: Stamp,
    /// What few requests have, or what does not fit.
    rest: Option<Box<Rest>>,
    dispatched: u32,
    sent: u32,
    second: u32,
    closed: u32,
    events: u32,
    tokens: u32,
    input_tokens: u32,
    kept: u32,
    first: Long,
    last: Long,
    pub(crate) groups: GroupSet,
    repeat: u16,
    ended: Ended,
    /// See [`Row::is_lost`].
    pub(crate) lost: bool,
}

/// How a request ended, as far as its latencies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Its answer is whole.
    Whole,
    /// It was stopped as `--cancel-after` asks: what came until then is known.
    Stopped,
    Otherwise,
}

const _: () = assert!(
    size_of::<Row>() == 64,
    "docs/reliability.md states this size"
);

/// A distance of up to 18 minutes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Long([u8; 5]);

impl Long {
    const NONE: Self = Self([u8::MAX; 5]);

    fn of(from: Stamp, to: Option<Stamp>) -> Self {
        let distance = to.and_then(|to| u64::try_from((to - from).get()).ok());
        match distance.map(u64::to_le_bytes) {
            Some([low @ .., 0, 0, 0]) => Self(low),
            _ => Self::NONE,
        }
    }

    fn after(self, from: Stamp) -> Option<Stamp> {
        let mut bytes = [0; size_of::<i64>()];
        bytes[..self.0.len()].copy_from_slice(&self.0);
        (self != Self::NONE).then(|| from + Nanos::new(i64::from_le_bytes(bytes)))
    }
}

#[derive(Clone, Debug)]
struct Rest {
    /// Of the first, the second and the last event.
    bounds: [u32; 3],
    queue: u32,
    connect: u32,
    first_answer: Long,
    /// Everything, where something is too far from what is before it.
    whole: Option<Box<Instants>>,
}

const _: () = assert!(
    size_of::<Rest>() == 40,
    "docs/reliability.md states this size"
);

impl Rest {
    /// What fits.
    fn of(i: &Instants) -> Self {
        let length = |length: Nanos| u32::try_from(length.get()).unwrap_or(NONE);
        Self {
            bounds: [i.first_bound, i.second_bound, i.last_bound].map(length),
            queue: i.queue.map_or(NONE, length),
            connect: i.connect.map_or(NONE, length),
            first_answer: Long::of(Near::of(i).begun, i.first_answer),
            whole: None,
        }
    }
}

/// So long after; nothing where there is no such distance.
fn after(from: Stamp, distance: u32) -> Option<Stamp> {
    (distance != NONE).then(|| from + Nanos::new(i64::from(distance)))
}

impl Row {
    pub(crate) fn new(instants: Instants, traits: Traits) -> Self {
        let mut row = Self::packed(&instants);
        if row.instants() != instants {
            let rest = row
                .rest
                .get_or_insert_with(|| Box::new(Rest::of(&instants)));
            rest.whole = Some(Box::new(instants));
        }
        row.kept = traits.kept.unwrap_or(NONE);
        row.groups = traits.groups;
        row.repeat = traits.repeat;
        if traits.stopped {
            row.ended = Ended::Stopped;
        }
        row.lost = traits.lost;
        row
    }

    /// Whether a request counts as +∞: failed, timed out, truncated or never sent; or an answer without content, which has no latency that could be
    /// good.
    pub(crate) fn is_lost(record: &RequestRecord) -> bool {
        match record.wire.outcome {
            Outcome::Completed => record.wire.events.is_empty(),
            Outcome::Cancelled { .. } => false,
            _ => true,
        }
    }

    /// What fits.
    fn packed(instants: &Instants) -> Self {
        let after = |from: Stamp, to: Option<Stamp>| {
            let distance = to.and_then(|to| u32::try_from((to - from).get()).ok());
            distance.unwrap_or(NONE)
        };
        let count = |n: Option<u64>| n.and_then(|n| u32::try_from(n).ok()).unwrap_or(NONE);
        let i = instants;
        let near = Near::of(i);
        let bounded = [i.first_bound, i.second_bound, i.last_bound] != [Nanos::ZERO; 3];
        let more = i.first_answer.is_some() || i.queue.is_some() || i.connect.is_some();
        Self {
            due: i.due,
            rest: (bounded || more).then(|| Box::new(Rest::of(i))),
            dispatched: after(i.due, i.dispatched),
            sent: after(near.taken, i.sent),
            first: Long::of(near.begun, i.first),
            second: after(near.from, i.second),
            last: Long::of(near.from, i.last),
            closed: after(near.to, i.closed),
            events: count(Some(i.events)),
            tokens: count(i.tokens),
            input_tokens: count(i.input_tokens),
            ended: if i.completed {
                Ended::Whole
            } else {
                Ended::Otherwise
            },
            kept: NONE,
            groups: GroupSet::default(),
            repeat: 0,
            lost: false,
        }
    }

    /// The instants and counts of its latencies.
    pub(crate) fn instants(&self) -> Instants {
        let rest = self.rest.as_deref();
        if let Some(whole) = rest.and_then(|rest| rest.whole.as_deref()) {
            return *whole;
        }
        let count = |n: u32| (n != NONE).then(|| u64::from(n));
        let dispatched = after(self.due, self.dispatched);
        let taken = dispatched.unwrap_or(self.due);
        let sent = after(taken, self.sent);
        let begun = sent.unwrap_or(taken);
        let first = self.first.after(begun);
        let from = first.unwrap_or(begun);
        let last = self.last.after(from);
        let length = |ns: u32| Nanos::new(i64::from(ns));
        let some = |of: fn(&Rest) -> u32| rest.map(of).filter(|ns| *ns != NONE).map(length);
        let [first_bound, second_bound, last_bound] =
            rest.map_or([0; 3], |rest| rest.bounds).map(length);
        Instants {
            due: self.due,
            dispatched,
            sent,
            first,
            second: after(from, self.second),
            first_answer: rest.and_then(|rest| rest.first_answer.after(begun)),
            last,
            closed: after(last.unwrap_or(from), self.closed),
            first_bound,
            second_bound,
            last_bound,
            events: u64::from(self.events),
            tokens: count(self.tokens),
            hidden_tokens: 0,
            input_tokens: count(self.input_tokens),
            queue: some(|rest| rest.queue),
            connect: some(|rest| rest.connect),
            completed: self.completed(),
        }
    }

    /// Whether its answer is whole.
    pub(crate) fn completed(&self) -> bool {
        self.ended == Ended::Whole
    }

    /// Whether it tells the server's latency `metric`: a whole answer tells all, one that was stopped as asked when its first token came, if one did.
    pub(crate) fn tells(&self, metric: Metric) -> bool {
        let is_first = matches!(metric, Metric::Ttft | Metric::TtftDue);
        self.completed()
            || self.ended == Ended::Stopped && is_first && self.instants().value(metric).is_some()
    }

    pub(crate) fn repeat(&self) -> u32 {
        u32::from(self.repeat)
    }

    /// Where its gaps lie in a store that keeps them one by one: one less than its events.
    pub(crate) fn gaps(&self) -> Option<GapRange> {
        let len = self.events.saturating_sub(1);
        self.kept().map(|start| GapRange { start, len })
    }

    /// Where what is kept of its gaps begins.
    pub(crate) fn kept(&self) -> Option<u32> {
        (self.kept != NONE).then_some(self.kept)
    }

    /// When it was sent, or due where it never was. Rows are sorted by it, so that it is looked up many times.
    pub(crate) fn started(&self) -> Stamp {
        if let Some(whole) = self.rest.as_deref().and_then(|rest| rest.whole.as_deref()) {
            return started(whole);
        }
        let taken = after(self.due, self.dispatched).unwrap_or(self.due);
        after(taken, self.sent).unwrap_or(self.due)
    }

    /// Its last known instant: the last content event of a whole answer, else when the client was done with it.
    pub(crate) fn left(&self) -> Stamp {
        let instants = self.instants();
        let end = instants.answered().or(instants.ended());
        end.or(instants.sent)
            .or(instants.dispatched)
            .map_or(instants.due, |at| at.max(instants.due))
    }

    /// Whether it ended one way or the other by itself.
    pub(crate) fn counts(&self) -> bool {
        self.lost || self.completed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cell_row.rs"]
pub(super) mod tests;
