//! The requests of a cell that still runs, in some thirty bytes each: a request has most of its instants soon after one another, and much in common
//! with the one before.

use bench_schema::{Nanos, RequestRecord, Stamp};

use crate::gaps::GapRange;
use crate::latency::Instants;
use crate::packed::{IntReader, PackedInts, presence};

use super::row::Row;
use super::rows::GroupSet;

/// What is kept of a request beside its instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Where its gaps begin in the store, or what is kept in their place.
    pub(crate) kept: Option<u32>,
    pub(crate) groups: GroupSet,
    pub(crate) repeat: u16,
    /// It was stopped as `--cancel-after` asks.
    pub(crate) stopped: bool,
    /// See [`Row::lost`].
    pub(crate) lost: bool,
}

impl Traits {
    pub(crate) fn of(record: &RequestRecord, kept: Option<u32>, groups: GroupSet) -> Self {
        let outcome = &record.wire.outcome;
        Self {
            kept,
            groups,
            repeat: u16::try_from(record.repeat).unwrap_or(u16::MAX),
            stopped: outcome.is_stopped(),
            lost: Row::is_lost(record),
        }
    }

    /// Where the gaps of a request with so many events lie.
    pub(crate) fn gaps(&self, events: u64) -> Option<GapRange> {
        let len = u32::try_from(events).unwrap_or(u32::MAX).saturating_sub(1);
        self.kept.map(|start| GapRange { start, len })
    }
}

/// Requests one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedRows {
    ints: PackedInts,
    len: usize,
    last: Before,
    newest: Option<Instants>,
}

/// What a request is told from: the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    due: i64,
    flags: u64,
    kept: u32,
    groups: u16,
    repeat: u16,
}

/// Numbers that a request may lack.
const NUMBERS: usize = 18;
/// What it is, in the bits above those that tell which numbers it has.
const COMPLETED: u64 = 1 << NUMBERS;
const STOPPED: u64 = 2 << NUMBERS;
const LOST: u64 = 4 << NUMBERS;

impl Before {
    /// The numbers of a request, each as the distance from what it is near to.
    fn numbers(self, i: &Instants, traits: &Traits) -> [Option<i64>; NUMBERS] {
        let after = |from: Stamp, to: Option<Stamp>| Some(to?.get().wrapping_sub(from.get()));
        let bound = |bound: Nanos| (bound != Nanos::ZERO).then(|| bound.get());
        let near = Near::of(i);
        let changed = |now: u16, before: u16| (now != before).then(|| i64::from(now));
        let tokens = |n: u64| n.wrapping_sub(i.events).cast_signed();
        [
            after(i.due, i.dispatched),
            after(near.taken, i.sent),
            after(near.begun, i.first),
            after(near.from, i.second),
            after(near.begun, i.first_answer),
            after(near.from, i.last),
            after(near.to, i.closed),
            bound(i.first_bound),
            bound(i.second_bound),
            bound(i.last_bound),
            i.tokens.map(tokens),
            (i.hidden_tokens != 0).then(|| i.hidden_tokens.cast_signed()),
            i.input_tokens.map(u64::cast_signed),
            i.queue.map(Nanos::get),
            i.connect.map(Nanos::get),
            (traits.kept).map(|kept| i64::from(kept) - i64::from(self.kept)),
            changed(traits.groups.0, self.groups),
            changed(traits.repeat, self.repeat),
        ]
    }

    /// The request again.
    fn request(
        self,
        due: Stamp,
        events: u64,
        flags: u64,
        numbers: &[Option<i64>; NUMBERS],
    ) -> (Instants, Traits) {
        let [
            dispatched,
            sent,
            first,
            second,
            first_answer,
            last,
            closed,
            first_bound,
            second_bound,
            last_bound,
            tokens,
            hidden_tokens,
            input_tokens,
            queue,
            connect,
            kept,
            groups,
            repeat,
        ] = *numbers;
        let at = |from: Stamp, distance: Option<i64>| {
            Some(Stamp::new(from.get().wrapping_add(distance?)))
        };
        let bound = |bound: Option<i64>| Nanos::new(bound.unwrap_or(0));
        let narrow =
            |n: Option<i64>, before: u16| n.and_then(|n| u16::try_from(n).ok()).unwrap_or(before);
        let mut i = Instants {
            due,
            dispatched: at(due, dispatched),
            sent: None,
            first: None,
            second: None,
            first_answer: None,
            last: None,
            closed: None,
            first_bound: bound(first_bound),
            second_bound: bound(second_bound),
            last_bound: bound(last_bound),
            events,
            tokens: tokens.map(|n| n.cast_unsigned().wrapping_add(events)),
            hidden_tokens: hidden_tokens.map_or(0, i64::cast_unsigned),
            input_tokens: input_tokens.map(i64::cast_unsigned),
            queue: queue.map(Nanos::new),
            connect: connect.map(Nanos::new),
            completed: flags & COMPLETED != 0,
        };
        i.sent = at(Near::of(&i).taken, sent);
        let begun = Near::of(&i).begun;
        (i.first, i.first_answer) = (at(begun, first), at(begun, first_answer));
        let from = Near::of(&i).from;
        (i.second, i.last) = (at(from, second), at(from, last));
        i.closed = at(Near::of(&i).to, closed);
        let traits = Traits {
            kept: kept.and_then(|kept| u32::try_from(kept + i64::from(self.kept)).ok()),
            groups: GroupSet(narrow(groups, self.groups)),
            repeat: narrow(repeat, self.repeat),
            stopped: flags & STOPPED != 0,
            lost: flags & LOST != 0,
        };
        (i, traits)
    }

    fn next(self, due: Stamp, flags: u64, traits: &Traits) -> Self {
        Self {
            due: due.get(),
            flags,
            kept: traits.kept.unwrap_or(self.kept),
            groups: traits.groups.0,
            repeat: traits.repeat,
        }
    }
}

/// Instants that others come soon after.
pub(super) struct Near {
    pub(super) taken: Stamp,
    pub(super) begun: Stamp,
    pub(super) from: Stamp,
    pub(super) to: Stamp,
}

impl Near {
    pub(super) fn of(i: &Instants) -> Self {
        let taken = i.dispatched.unwrap_or(i.due);
        let begun = i.sent.unwrap_or(taken);
        let from = i.first.unwrap_or(begun);
        let to = i.last.unwrap_or(from);
        Self {
            taken,
            begun,
            from,
            to,
        }
    }
}

impl PackedRows {
    pub(crate) fn push(&mut self, instants: &Instants, traits: &Traits) {
        let numbers = self.last.numbers(instants, traits);
        let mut flags = presence(&numbers);
        for (is, flag) in [
            (instants.completed, COMPLETED),
            (traits.stopped, STOPPED),
            (traits.lost, LOST),
        ] {
            flags |= if is { flag } else { 0 };
        }
        self.ints.push(flags ^ self.last.flags);
        let due = instants.due.get();
        self.ints.push_signed(due.wrapping_sub(self.last.due));
        self.ints.push(instants.events);
        self.ints.push_present(&numbers);
        self.last = self.last.next(instants.due, flags, traits);
        self.len += 1;
        self.newest = Some(*instants);
    }

    /// The request that was pushed last.
    pub(crate) fn newest(&self) -> Option<&Instants> {
        self.newest.as_ref()
    }

    /// The requests in the order in which they were pushed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Instants, Traits)> + '_ {
        unpack(self.ints.read_from(0))
    }

    /// The same; what was read is given back.
    pub(crate) fn into_requests(self) -> impl Iterator<Item = (Instants, Traits)> {
        unpack(self.ints.into_reader())
    }

    /// The requests as rows.
    pub(crate) fn rows(&self) -> Vec<Row> {
        rows(self.len, self.iter())
    }

    /// The same; what was read is given back.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        rows(self.len, self.into_requests())
    }
}

fn rows(len: usize, requests: impl Iterator<Item = (Instants, Traits)>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(len);
    rows.extend(requests.map(|(i, traits)| Row::new(i, traits)));
    rows
}

fn unpack<I: Iterator<Item: AsRef<[u8]>>>(
    mut ints: IntReader<I>,
) -> impl Iterator<Item = (Instants, Traits)> {
    let mut before = Before::default();
    std::iter::from_fn(move || {
        let flags = ints.unsigned()? ^ before.flags;
        let due = Stamp::new(before.due.wrapping_add(ints.signed()?));
        let events = ints.unsigned()?;
        let numbers = ints.present(flags)?;
        let (instants, traits) = before.request(due, events, flags, &numbers);
        before = before.next(due, flags, &traits);
        Some((instants, traits))
    })
}

#[cfg(test)]
#[path = "../../tests/unit/cell_packed_rows.rs"]
mod tests;
