//! Faults that take the place of the whole answer.

use crate::api::Reply;
use crate::fault::{FaultKind as K, FaultSet};
use crate::http::peer::Head;
use crate::http::{Gone, Peer};
use crate::ledger::Entry;
use crate::local::Local;
use crate::serve::{Left, send};

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\
<body><h1>Bad Gateway</h1><p>The upstream is away. <script>alert(1)</script></p></body></html>\n";

/// Plays the fault.
pub(crate) async fn instead(
    local: &Local,
    faults: &FaultSet,
    peer: Peer,
    entry: &mut Entry,
) -> Left {
    if faults.has(K::ResetHead) {
        peer.reset().await;
        return None;
    }
    if faults.has(K::CloseHead) {
        peer.close().await;
        return None;
    }
    if let Some(ms) = faults.get(K::StallHead) {
        stall(local, peer, ms).await;
        return None;
    }
    if let Some(bytes) = faults.get(K::EndlessHeader) {
        endless_header(peer, bytes, entry).await;
        return None;
    }
    if faults.has(K::Html) {
        let page = Reply {
            status: 200,
            content_type: "text/html; charset=utf-8",
            body: PAGE.into(),
        };
        return send(local, page, faults, peer, entry).await;
    }
    if faults.has(K::EmptyBody) {
        let empty = Reply {
            status: 200,
            content_type: "text/event-stream; charset=utf-8",
            body: Vec::new(),
        };
        return send(local, empty, faults, peer, entry).await;
    }
    status(faults, peer, entry).await
}

/// The answers that are a status with a header.
async fn status(faults: &FaultSet, mut peer: Peer, entry: &mut Entry) -> Left {
    let (status, header) = if let Some(seconds) = faults.get(K::TooMany) {
        (429, Some(("retry-after", seconds.to_string())))
    } else if let Some(seconds) = faults.get(K::Unavailable) {
        (503, Some(("retry-after", seconds.to_string())))
    } else if faults.has(K::Redirect) {
        (
            307,
            Some((
                "location",
                "http://redirected.invalid/v1/chat/completions".to_owned(),
            )),
        )
    } else {
        (500, None)
    };
    let reply = Reply::error(status, "a planned fault", None);
    let mut head = Head::new(status, reply.content_type, Some(reply.body.len() as u64));
    head.headers.extend(header);
    entry.status = Some(status);
    let written = async {
        entry.headers_ns = Some(peer.head(&head).await?.after_ns);
        peer.write(&reply.body).await
    };
    match written.await {
        Ok(written) => {
            entry.end_ns = Some(written.after_ns);
            Some(peer)
        }
        Err(Gone) => None,
    }
}

/// Holds the connection for so long, or until the client goes.
pub(crate) async fn stall(local: &Local, mut peer: Peer, ms: u64) {
    tokio::select! {
        () = local.pacer.pause(ms.saturating_mul(1_000_000)) => {}
        () = peer.gone() => {}
    }
}

async fn endless_header(mut peer: Peer, mut bytes: u64, entry: &mut Entry) {
    const PIECE: &[u8] = &[b'a'; 65_536];
    if !matches!(peer, Peer::H1 { .. }) {
        return peer.reset().await;
    }
    let mut sent = peer.write(b"HTTP/1.1 200 OK\r\nx-endless: ").await;
    while bytes > 0 && sent.is_ok() {
        let n = bytes.min(PIECE.len() as u64);
        sent = peer
            .write(&PIECE[..usize::try_from(n).unwrap_or(PIECE.len())])
            .await;
        bytes -= n;
    }
    entry.end_ns = sent.ok().map(|written| written.after_ns);
    peer.close().await;
}
