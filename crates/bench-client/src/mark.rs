//! When the bytes of a read reached this machine.

use bench_schema::Stamp;

/// The socket read that brought some bytes of an answer.
///
/// An event that is completed by the last byte of a read has `arrival` as its stamp, exactly (unless `merged`). Every
/// other event that the same read completed arrived somewhere in `previous_return ..= arrival`, because the kernel keeps one
/// stamp, the last, for segments that waited together. Where nothing but closing events (usage, `[DONE]`) followed it, `woken ..= arrival`
/// is all that is left: the first segment of a read is what wakes the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMark {
    /// Kernel arrival of the last segment that the read took; the same as `returned` where the kernel gave no stamp.
    pub arrival: Stamp,
    /// When the read returned to this program.
    pub returned: Stamp,
    /// A moment at which the socket was seen empty: no byte of this read had arrived then. Normally the read before this one.
    pub previous_return: Stamp,
    /// The earliest instant at which the segment that woke this thread can have arrived: `returned` less the longest that this thread
    /// has lately taken from an arrival to its read. Between `previous_return` and `arrival`; the former where no lag is known yet.
    pub woken: Stamp,
    /// Whether the bytes may come from an earlier read than the one described (HTTP/2 reads ahead for all its streams): then
    /// even the last event is known only to have arrived in `previous_return ..= arrival`.
    pub merged: bool,
}
