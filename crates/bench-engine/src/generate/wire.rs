//! Faults that lie in how bytes are written, not in which.

use crate::fault::{FaultKind, FaultSet};
use crate::http::peer::Head;
use crate::http::{Gone, Peer, Written};
use crate::ledger::Entry;
use crate::local::Local;

/// Pieces that a slow head is cut into.
const SLOW_PIECES: usize = 12;

/// Writes the response head, slowly if that is the fault.
pub(crate) async fn head(
    local: &Local,
    peer: &mut Peer,
    mut head: Head,
    faults: &FaultSet,
    entry: &mut Entry,
) -> Result<(), Gone> {
    if let Some(length) = &mut head.length {
        *length = length.saturating_add(faults.get(FaultKind::LengthLong).unwrap_or(0));
        *length = length.saturating_sub(faults.get(FaultKind::LengthShort).unwrap_or(0));
    }
    let slow = faults.get(FaultKind::SlowHeaders);
    let written = match (slow, &mut *peer) {
        (
            Some(ms),
            Peer::H1 {
                conn,
                chunked,
                keep_alive,
            },
        ) => {
            let bytes = head.bytes(*chunked, !*keep_alive);
            let gap = ms.saturating_mul(1_000_000) / SLOW_PIECES as u64;
            for piece in bytes.chunks(bytes.len().div_ceil(SLOW_PIECES).max(1)) {
                local.pacer.pause(gap).await;
                conn.write(piece).await.map_err(|_| Gone)?;
            }
            crate::clock::now_ns()
        }
        _ => peer.head(&head).await?.after_ns,
    };
    entry.headers_ns = Some(written);
    Ok(())
}

/// Writes framed bytes, cut where a fault wants them cut.
pub(crate) async fn events(
    peer: &mut Peer,
    bytes: &[u8],
    faults: &FaultSet,
) -> Result<Written, Gone> {
    let cut = if faults.has(FaultKind::SplitUtf8) {
        // After the first byte of the last character that has several.
        bytes
            .iter()
            .rposition(|b| *b >= 0xc0)
            .map(|at| vec![at + 1])
    } else {
        let size = faults
            .get(FaultKind::Split)
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1));
        size.map(|size| {
            (1..)
                .map_while(|k| size.checked_mul(k))
                .take_while(|at| *at < bytes.len())
                .collect()
        })
    };
    let Some(cuts) = cut else {
        return peer.write(bytes).await;
    };
    let mut from = 0;
    let mut first = None;
    for at in cuts {
        let written = peer.write(&bytes[from..at]).await?;
        first.get_or_insert(written.before_ns);
        // Let the reader run, so that the pieces are seen apart more often than not.
        tokio::task::yield_now().await;
        from = at;
    }
    let last = peer.write(&bytes[from..]).await?;
    Ok(Written {
        before_ns: first.unwrap_or(last.before_ns),
        after_ns: last.after_ns,
    })
}
