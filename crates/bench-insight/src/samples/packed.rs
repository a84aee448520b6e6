//! The completed requests of a cell that still runs, in some twenty bytes each.

use std::collections::BTreeMap;

use bench_metrics::{IntReader, PackedInts, presence};
use bench_schema::{Nanos, Stamp};

use super::RequestSample;

/// Requests one after the other, each told from the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedSamples {
    ints: PackedInts,
    len: usize,
    last: Before,
    /// Labels of kinds of requests by number, from 1; without one is 0.
    use_cases: BTreeMap<Box<str>, i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    flags: u64,
    id: i64,
    due: i64,
    repeat: i64,
    endpoint: i64,
    use_case: i64,
}

/// Numbers that a request may lack, or share with the one before.
const NUMBERS: usize = 13;
/// Whether it was asked again on another connection.
const REPLACED: u64 = 1 << NUMBERS;
/// Whether it was read late.
const READ_LATE: u64 = 1 << (NUMBERS + 1);

impl PackedSamples {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, request: &RequestSample) {
        let use_case = self.number_of(request.use_case.as_deref());
        let before = self.last;
        let changed = |now: i64, before: i64| (now != before).then_some(now);
        let some = |n: Option<u32>| n.map(i64::from);
        let start = request.start.get();
        let numbers: [Option<i64>; NUMBERS] = [
            // a whole number of nanoseconds
            request.ttft.map(|ns| Nanos::from_f64(ns).get()),
            some(request.input_tokens),
            some(request.output_tokens),
            some(request.hidden_tokens),
            some(request.cached_tokens),
            changed(i64::from(request.repeat), before.repeat),
            changed(i64::from(request.endpoint), before.endpoint),
            changed(use_case, before.use_case),
            (!request.stalls.is_empty()).then(|| whole(request.stalls.len())),
            changed(
                i64::from(request.events),
                some(request.output_tokens).unwrap_or(0),
            ),
            changed(i64::from(request.moments), i64::from(request.events)),
            (!request.parts.is_empty()).then(|| whole(request.parts.len())),
            changed(i64::from(request.at_first), 1),
        ];
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let flags = presence(&numbers)
            | flag(request.replaced, REPLACED)
            | flag(request.read_late, READ_LATE);
        let (id, due) = (request.id.cast_signed(), request.due.get());
        let ints = &mut self.ints;
        ints.push(flags ^ before.flags);
        for n in [
            id.wrapping_sub(before.id),
            due.wrapping_sub(before.due),
            start.wrapping_sub(due),
            request.end.get().wrapping_sub(start),
        ] {
            ints.push_signed(n);
        }
        ints.push_present(&numbers);
        for (at, gap) in &request.stalls {
            ints.push_signed(at.get().wrapping_sub(start));
            ints.push_signed(Nanos::from_f64(*gap).get());
        }
        let mut from = start;
        for part in &request.parts {
            ints.push_signed(part.get().wrapping_sub(from));
            from = part.get();
        }
        self.last = Before {
            flags,
            id,
            due,
            repeat: i64::from(request.repeat),
            endpoint: i64::from(request.endpoint),
            use_case,
        };
        self.len += 1;
    }

    fn number_of(&mut self, use_case: Option<&str>) -> i64 {
        let Some(name) = use_case else { return 0 };
        if let Some(known) = self.use_cases.get(name) {
            return *known;
        }
        let number = whole(self.use_cases.len()) + 1;
        self.use_cases.insert(name.into(), number);
        number
    }

    /// The requests in the order in which they were pushed; what was read is given back.
    pub(super) fn into_requests(self) -> impl Iterator<Item = RequestSample> {
        let names = self.use_cases.into_iter().map(|(name, n)| (n, name));
        let names: BTreeMap<i64, Box<str>> = names.collect();
        let mut ints = self.ints.into_reader();
        let mut before = Before::default();
        std::iter::from_fn(move || {
            let flags = ints.unsigned()? ^ before.flags;
            let id = before.id.wrapping_add(ints.signed()?);
            let due = before.due.wrapping_add(ints.signed()?);
            let start = due.wrapping_add(ints.signed()?);
            let end = start.wrapping_add(ints.signed()?);
            let [
                ttft,
                input,
                output,
                hidden,
                cached,
                repeat,
                endpoint,
                use_case,
                stalls,
                events,
                moments,
                parts,
                at_first,
            ] = ints.present::<NUMBERS>(flags)?;
            let count = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
            before = Before {
                flags,
                id,
                due,
                repeat: repeat.unwrap_or(before.repeat),
                endpoint: endpoint.unwrap_or(before.endpoint),
                use_case: use_case.unwrap_or(before.use_case),
            };
            let stalls = read_stalls(&mut ints, stalls.unwrap_or(0), start)?;
            let parts = read_parts(&mut ints, parts.unwrap_or(0), start)?;
            Some(RequestSample {
                id: id.cast_unsigned(),
                repeat: count(before.repeat),
                due: Stamp::new(due),
                start: Stamp::new(start),
                end: Stamp::new(end),
                ttft: ttft.map(|ns| Nanos::new(ns).as_f64()),
                input_tokens: input.map(count),
                output_tokens: output.map(count),
                events: count(events.or(output).unwrap_or(0)),
                moments: count(moments.or(events).or(output).unwrap_or(0)),
                at_first: count(at_first.unwrap_or(1)),
                hidden_tokens: hidden.map(count),
                cached_tokens: cached.map(count),
                endpoint: count(before.endpoint),
                stalls,
                parts,
                use_case: names.get(&before.use_case).cloned(),
                replaced: flags & REPLACED != 0,
                read_late: flags & READ_LATE != 0,
            })
        })
    }
}

fn read_stalls(
    ints: &mut IntReader<impl Iterator<Item: AsRef<[u8]>>>,
    n: i64,
    start: i64,
) -> Option<Box<[(Stamp, f64)]>> {
    let mut stall = || {
        let at = Stamp::new(start.wrapping_add(ints.signed()?));
        Some((at, Nanos::new(ints.signed()?).as_f64()))
    };
    (0..n).map(|_| stall()).collect()
}

fn read_parts(
    ints: &mut IntReader<impl Iterator<Item: AsRef<[u8]>>>,
    n: i64,
    start: i64,
) -> Option<Box<[Stamp]>> {
    let mut from = start;
    let mut part = || {
        from = from.wrapping_add(ints.signed()?);
        Some(Stamp::new(from))
    };
    (0..n).map(|_| part()).collect()
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "../../tests/unit/samples_packed.rs"]
mod tests;
