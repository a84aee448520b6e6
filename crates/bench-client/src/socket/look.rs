//! Events that waited together are read one by one: the kernel keeps a stamp for each segment in its queue, and gives that of the last
//! one which a read touches. A read that ends where an event ends, and where its segment ends too, has that event's own stamp.

use std::os::fd::BorrowedFd;

use bench_schema::Stamp;

use super::log::ReadLog;
use crate::sys;
use crate::sys::Received;

/// Bytes that are looked at for the end of the first event.
pub(super) const LOOK: usize = 2048;

/// What waited with an event when it was decided to read no more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More, or nobody looked.
    #[default]
    OfSeveral,
    /// Nothing behind it.
    Last,
}

/// What is known of a read before it is made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Its bytes, where they are one segment's.
    pub(super) segment: Option<usize>,
    /// Bytes to the end of the first of several events that wait; `None` where everything is to be read at once.
    pub(super) piece: Option<usize>,
    pub(super) kind: Piece,
    /// The stamp of the last that was seen waiting.
    pub(super) seen: Option<i64>,
}

pub(super) fn look_ahead(fd: BorrowedFd<'_>, log: &ReadLog, now: Stamp) -> Look {
    if log.is_shared.get() {
        return next_of_shared(fd, log);
    }
    let piecewise = log.may_hold_several(now);
    let nothing = Look::default();
    if !piecewise && !log.stamps.expects_several() {
        return nothing;
    }
    let Some(arrived) = sys::arrived(fd) else {
        return nothing;
    };
    let (queued, segments) = log.waiting(arrived);
    if segments == Some(1) {
        let segment = Some(queued);
        return Look { segment, ..nothing };
    }
    let unusual = piecewise && log.is_unusual(queued);
    let begun = Some(log.rest_of_record()).filter(|rest| *rest > 0);
    let first = |bytes: &[u8]| begun.or_else(|| end_of_first(bytes));
    let found = unusual.then(|| peek(fd, first)).flatten();
    let Some((piece, seen)) = found.filter(|found| found.0 < queued) else {
        return nothing;
    };
    let piece = Some(piece);
    Look {
        piece,
        seen,
        ..nothing
    }
}

/// What waits on a connection that several exchanges share is of several answers, and each needs its own stamp: a read takes one event or
/// one TLS record, or a part of one that is longer than the look. Where there is no end of either, nobody knows what ends with the read.
fn next_of_shared(fd: BorrowedFd<'_>, log: &ReadLog) -> Look {
    let begun = Some(log.rest_of_record()).filter(|rest| *rest > 0);
    let found = peek(fd, |bytes| {
        let end = begun.or_else(|| next_end(bytes))?;
        Some((end, bytes.len()))
    });
    let Some(((end, waiting), seen)) = found else {
        return Look::default();
    };
    Look {
        piece: Some(end.min(waiting)),
        kind: if end >= waiting && waiting < LOOK {
            Piece::Last
        } else {
            Piece::OfSeveral
        },
        seen,
        segment: None,
    }
}

/// Where the first event or record ends, or how much of it may be read without its end: not the first half of an empty line, since the other
/// half would not be known for one.
pub(super) fn next_end(bytes: &[u8]) -> Option<usize> {
    let half_a_line = match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    };
    let within = || {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let last = bytes.iter().rposition(|byte| !is_end(byte))?;
        (bytes.len() == LOOK).then_some(last + 1)
    };
    half_a_line.or_else(|| end_of_first(bytes)).or_else(within)
}

/// What is to be found in the first bytes that wait, where any do, and the stamp of the last of them.
fn peek<T>(fd: BorrowedFd<'_>, find: impl FnOnce(&[u8]) -> Option<T>) -> Option<(T, Option<i64>)> {
    let mut room = [0_u8; LOOK];
    let Received {
        len, realtime_ns, ..
    } = sys::peek(fd, &mut room).ok()?;
    let found = find(room.get(..len).filter(|bytes| !bytes.is_empty())?)?;
    Some((found, realtime_ns))
}

/// Where the first event, with its chunk, or the first TLS record ends.
pub(super) fn end_of_first(bytes: &[u8]) -> Option<usize> {
    /// Content types of TLS records: from `change_cipher_spec` to `application_data`.
    const RECORDS: std::ops::RangeInclusive<u8> = 20..=23;
    if let [kind, 3, 0..=4, high, low, ..] = *bytes
        && RECORDS.contains(&kind)
    {
        return Some(RECORD_HEAD + usize::from(u16::from_be_bytes([high, low])));
    }
    // An event ends with an empty line; a chunk that ends with a line's end has one too.
    let end = memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..)? {
        [b'\r', b'\n', ..] => Some(at + 3),
        [b'\n', ..] => Some(at + 2),
        _ => None,
    })?;
    let chunk = bytes.get(end..)?.starts_with(b"\r\n");
    Some(if chunk { end + 2 } else { end })
}

/// Bytes of a TLS record's head; the last two say how many follow.
pub(super) const RECORD_HEAD: usize = 5;

/// Where the TLS records of a connection end, in the bytes as they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Records {
    /// Bytes of the head that were read.
    head: usize,
    /// Bytes that follow it; while it is not whole, as far as it says so.
    left: usize,
}

impl Records {
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.head < RECORD_HEAD {
                self.head += 1;
                self.left = (self.left << 8 | usize::from(byte)) & 0xffff;
                bytes = rest;
            } else {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = bytes.get(taken..).unwrap_or_default();
            }
            if self.head == RECORD_HEAD && self.left == 0 {
                self.head = 0;
            }
        }
    }

    /// Bytes to the end of the record, or of its head, that has begun.
    pub(super) fn rest(self) -> usize {
        match self.head {
            0 => 0,
            RECORD_HEAD => self.left,
            part => RECORD_HEAD - part,
        }
    }
}
