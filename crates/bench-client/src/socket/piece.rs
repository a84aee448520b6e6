//! Events that waited together are read one by one: the kernel keeps a stamp for each segment in its queue, and gives that of the last
//! one which a read touches. A read that ends where an event ends, and where its segment ends too, has that event's own stamp.

use std::os::fd::BorrowedFd;

use bench_schema::Stamp;
use rustix::net::RecvFlags;

use super::ReadLog;
use crate::sys::Received;

/// Bytes that are looked at for the end of the first event.
const LOOK: usize = 2048;

/// Where a piece ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceEnd {
    /// At the end of a segment: its stamp is the piece's arrival.
    OfASegment,
    /// Within what the kernel keeps as one segment, which may be several that it has put together: the stamp is that of the last.
    InASegment,
}

/// Bytes to the end of the first of several events that wait; `None` where everything is to be read at once.
pub(super) fn first(fd: BorrowedFd<'_>, log: &ReadLog, now: Stamp) -> Option<usize> {
    if !log.may_hold_several(now) {
        return None;
    }
    let queued = usize::try_from(rustix::io::ioctl_fionread(fd).ok()?).ok()?;
    if !log.is_unusual(queued) {
        return None;
    }
    let mut bytes = [0_u8; LOOK];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (read, _) = rustix::net::recv(fd, &mut bytes, flags).ok()?;
    end_of_first(bytes.get(..read)?).filter(|end| *end < queued)
}

/// What the stamp of the next byte says of the end of a piece.
pub(super) fn end(received: &Received, next: Option<i64>) -> PieceEnd {
    if next.is_some() && next != received.realtime_ns {
        PieceEnd::OfASegment
    } else {
        PieceEnd::InASegment
    }
}

/// Where the first event, with its chunk, or the first TLS record ends.
fn end_of_first(bytes: &[u8]) -> Option<usize> {
    /// Content types of TLS records: from `change_cipher_spec` to `application_data`.
    const RECORDS: std::ops::RangeInclusive<u8> = 20..=23;
    if let [kind, 3, 0..=4, high, low, ..] = *bytes
        && RECORDS.contains(&kind)
    {
        return Some(5 + usize::from(u16::from_be_bytes([high, low])));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_piece_ends_with_the_event_and_its_chunk() {
        let first = |bytes: &[u8]| end_of_first(bytes);
        let chunk = b"b\r\ndata: {}\n\n\r\nb\r\ndata: {}\n\n\r\n";
        assert_eq!(first(chunk), Some(15));
        assert_eq!(first(b"data: a\ndata: b\n\ndata: c\n\n"), Some(17));
        assert_eq!(first(b"data: a\r\n\r\ndata: b\r\n\r\n"), Some(11));
        assert_eq!(first(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nb\r\ndata"), Some(25));
        // A line of JSON each, chunk by chunk.
        assert_eq!(first(b"3\r\n{}\n\r\n3\r\n{}\n\r\n"), Some(8));
        assert_eq!(first(b"data: half of an"), None);
        assert_eq!(first(b"data: the other\n"), None);
        assert_eq!(first(&[23, 3, 3, 0, 2, 1, 1, 23, 3, 3]), Some(7));
    }
}
