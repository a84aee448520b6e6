//! The life of a connection and of each request on it.

use std::rc::Rc;

use crate::api::{self, Answer, Reply};
use crate::clock::{now_ns, realtime_offset_ns};
use crate::config::PauseOf;
use crate::fault::{Fault, FaultKind, FaultSet};
use crate::generate;
use crate::http::h1::NoRequest;
use crate::http::{Conn, Head, Io, Peer, Request};
use crate::ledger::{Entry, Outcome};
use crate::server::Local;

/// What is left when a request is over: the way back, if it may carry another.
pub(crate) type Left = Option<Peer>;

/// Plays the faults of accepting; gives the connection back if it survives them.
pub(crate) async fn at_accept(local: &Local, io: Io, number: u64) -> Option<Io> {
    let mut faults = FaultSet::default();
    local.server.planned(number, true, &mut faults);
    if faults.has(FaultKind::ResetAccept) {
        Conn::new(io, number).reset();
        return None;
    }
    if faults.has(FaultKind::CloseAccept) {
        Conn::new(io, number).close().await;
        return None;
    }
    if let Some(ms) = faults.get(FaultKind::StallAccept) {
        local.pacer.pause(ms.saturating_mul(1_000_000)).await;
    }
    Some(io)
}

pub(crate) async fn connection(local: Rc<Local>, io: Io, number: u64) {
    let mut conn = Conn::new(io, number);
    let mut carried = 0;
    while let Some(next) = one(&local, conn, carried).await {
        conn = next;
        carried += 1;
    }
}

/// Serves one request; gives the connection back if it stays open.
async fn one(local: &Local, mut conn: Conn, carried: u64) -> Option<Conn> {
    let request = match read(local, &mut conn).await {
        Ok(request) => request,
        Err(NoRequest::Closed) => return None,
        Err(NoRequest::Bad(reason)) => {
            let reply = Reply::error(400, &reason, None);
            let head = Head::new(400, reply.content_type, Some(reply.body.len() as u64));
            let mut bytes = head.bytes(true, true);
            bytes.extend_from_slice(&reply.body);
            // The client may be gone already; there is no request to account for.
            conn.write(&bytes).await.ok();
            conn.close().await;
            return None;
        }
    };
    let limits = &local.server.config.keep_alive;
    let last = limits.max_requests.is_some_and(|most| carried + 1 >= most);
    let chunked = request.http == "1.1";
    let number = conn.number;
    let peer = Peer::H1 {
        conn,
        chunked,
        keep_alive: request.keep_alive && !last,
    };
    let peer = answer(local, &request, peer, (number, carried)).await?;
    match peer {
        Peer::H1 {
            conn,
            keep_alive: true,
            ..
        } => Some(conn),
        other => {
            other.close().await;
            None
        }
    }
}

async fn read(local: &Local, conn: &mut Conn) -> Result<Request, NoRequest> {
    let mut request = match local.server.config.keep_alive.idle_ms {
        Some(ms) => {
            let idle = local.pacer.pause(ms.saturating_mul(1_000_000));
            tokio::select! {
                request = Request::read_head(conn) => request?,
                () = idle => return Err(NoRequest::Closed),
            }
        }
        None => Request::read_head(conn).await?,
    };
    request.read_body(conn).await?;
    Ok(request)
}

/// Answers one request over whatever it came, and writes it into the ledger.
pub(crate) async fn answer(local: &Local, request: &Request, peer: Peer, on: (u64, u64)) -> Left {
    let server = &local.server;
    let accepted_ns = server.carried_one(on.0);
    // What looks at the server is not what is measured.
    let generates =
        request.method == "POST" && !matches!(request.path.as_str(), "/tokenize" | "/detokenize");
    if !generates && request.header("x-fault").is_none() {
        return match api::route(local, request, &FaultSet::default()) {
            Answer::Ready(reply) => {
                send(
                    local,
                    reply,
                    &FaultSet::default(),
                    peer,
                    &mut Entry::default(),
                )
                .await
            }
            Answer::Generate(_) => None,
        };
    }
    let number = server.next_request();
    let mut draft = Draft {
        local,
        entry: Entry {
            accepted_ns,
            ..entry_of(request, number, on)
        },
    };
    let entry = &mut draft.entry;
    let faults = match faults_of(local, request, number) {
        Ok(faults) => faults,
        Err(error) => {
            entry.outcome = Outcome::Refused;
            let reply = Reply::error(400, &error.to_string(), Some("x-fault"));
            return send(local, reply, &FaultSet::default(), peer, entry).await;
        }
    };
    if !faults.is_empty() {
        entry.fault = Some(faults.to_string());
    }
    if let Some(until) = server.conditions.paused_until(PauseOf::Requests, now_ns()) {
        local.pacer.until(until).await;
    }
    if let Some(fault) = faults.first_of(&generate::INSTEAD) {
        entry.outcome = Outcome::Fault;
        return generate::instead(local, fault, &faults, peer, entry).await;
    }
    match api::route(local, request, &faults) {
        Answer::Ready(reply) => {
            if reply.status >= 400 {
                entry.outcome = Outcome::Refused;
            }
            send(local, reply, &faults, peer, entry).await
        }
        Answer::Generate(job) => generate::run(local, job, &faults, peer, entry).await,
    }
}

/// The faults that a request asks for, those that are planned for it, and the rate limit's.
fn faults_of(
    local: &Local,
    request: &Request,
    number: u64,
) -> Result<FaultSet, crate::EngineError> {
    let server = &local.server;
    let mut faults = FaultSet::parse(request.header("x-fault").unwrap_or_default())?;
    server.planned(number, false, &mut faults);
    if let Some(argument) = server.conditions.turned_away(now_ns()) {
        let kind = FaultKind::TooMany;
        faults.add(Fault { kind, argument });
    }
    Ok(faults)
}

/// Sends an answer in one piece.
pub(crate) async fn send(
    local: &Local,
    reply: Reply,
    faults: &FaultSet,
    mut peer: Peer,
    entry: &mut Entry,
) -> Left {
    let mut head = Head::new(
        reply.status,
        reply.content_type,
        Some(reply.body.len() as u64),
    );
    if !entry.id.is_empty() {
        head = head.with("x-request-id", entry.id.clone());
    }
    entry.status = Some(reply.status);
    let sent = async {
        generate::write_head(local, &mut peer, head, faults, entry).await?;
        peer.write(&reply.body).await
    };
    let Ok(written) = sent.await else {
        entry.outcome = Outcome::ClientGone;
        return None;
    };
    entry.end_ns = Some(written.after_ns);
    if entry.outcome == Outcome::Open {
        entry.outcome = if faults.is_empty() {
            Outcome::Completed
        } else {
            Outcome::Fault
        };
    }
    Some(peer)
}

fn entry_of(request: &Request, number: u64, (connection, reused): (u64, u64)) -> Entry {
    Entry {
        id: request
            .header("x-request-id")
            .map_or_else(|| format!("engine-{number}"), str::to_owned),
        number,
        connection,
        reused,
        http: request.http.to_owned(),
        path: request.path.clone(),
        realtime_offset_ns: realtime_offset_ns(),
        head_ns: request.head_ns,
        body_ns: request.body_ns,
        ..Entry::default()
    }
}

/// An entry that reaches the ledger however its request ends, also by the server being stopped.
struct Draft<'a> {
    local: &'a Local,
    entry: Entry,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.local
            .server
            .ledger
            .push(std::mem::take(&mut self.entry));
    }
}
