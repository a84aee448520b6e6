//! When the bytes of a read reached this machine.

use bench_schema::Stamp;

/// The socket read that brought some bytes of an answer.
///
/// An event that is completed by the last byte of a read has `arrival` as its stamp, exactly (unless `merged`). Every
/// other event that the same read completed arrived somewhere in `previous_return ..= arrival`, because the kernel keeps one
/// stamp, the last, for segments that waited together. Where nothing but closing events (usage, `[DONE]`) followed it, it arrived
/// in `last_token_from ..= arrival`: a server closes an answer right after its last token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMark {
    /// Kernel arrival of the last segment that the read took; the same as `returned` where the kernel gave no stamp.
    pub arrival: Stamp,
    /// When the read returned to this program.
    pub returned: Stamp,
    /// A moment at which the socket was seen empty: no byte of this read had arrived then. Normally the read before this one.
    pub previous_return: Stamp,
    /// From when on a last token can have arrived that was read together with the closing events of its answer, by how long after their
    /// last tokens such events have lately come (in nineteen of twenty answers that were read apart; else by how long this thread takes
    /// to be woken). Between `previous_return` and `arrival`; the former where nothing is known yet.
    pub last_token_from: Stamp,
    /// Whether the bytes may come from an earlier read than the one described (HTTP/2 reads ahead for all its streams): then
    /// even the last event is known only to have arrived in `previous_return ..= arrival`.
    pub merged: bool,
}
