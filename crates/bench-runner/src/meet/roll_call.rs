//! The roll call: who is there, and whether all are about to do the same.

use std::collections::BTreeMap;
use std::time::Duration;

use bench_schema::Secret;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::link::{self, Link, LinkError, Side};
use super::{Facts, Invitation, LONGER, Message, Other, PATIENCE, Part};
use crate::RunError;
use crate::progress::Progress;

/// For a stranger to show that it is a shard.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Callers that are looked at at once.
const MOST_STRANGERS: usize = 64;
/// Refused callers that are told of one by one.
const MOST_TOLD: usize = 8;
/// Between two calls of a shard 0 that is not there yet.
const CALL_AGAIN: Duration = Duration::from_millis(100);
/// Calls after which that is told.
const TOLD_AFTER: u32 = 50;
/// Once it is known that the run is refused: for the others to come and hear why.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// Shard 0: listen until all others are there and agree.
pub(super) async fn first(
    invitation: &Invitation,
    facts: &Facts,
    progress: &Progress,
) -> Result<(String, Part), RunError> {
    let at = &invitation.at;
    let mut listener = Err(std::io::ErrorKind::InvalidInput.into());
    for place in places_to_listen(at) {
        listener = TcpListener::bind(&place).await;
        if listener.is_ok() {
            break;
        }
    }
    let listener = listener.map_err(|error| {
        RunError::Meet(format!(
            "shard 0 cannot listen at {at}: {error}\n  help: --meet must name this host and a free port"
        ))
    })?;
    gather(listener, invitation, facts, progress).await
}

/// An address is listened at as it is. A host's own idea of its name may be another one than everybody else's (`127.0.1.1`, or nothing yet): for a name it is all
/// of its addresses.
pub(super) fn places_to_listen(at: &str) -> Vec<String> {
    let (host, port) = at.rsplit_once(':').unwrap_or((at, ""));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok() {
        return vec![at.to_owned()];
    }
    // the first takes IPv4 too, where there is IPv6 at all
    vec![format!("[::]:{port}"), format!("0.0.0.0:{port}")]
}

pub(super) async fn gather(
    listener: TcpListener,
    invitation: &Invitation,
    facts: &Facts,
    progress: &Progress,
) -> Result<(String, Part), RunError> {
    let name = link::name().map_err(|error| RunError::Meet(error.to_string()))?;
    let (at, count) = (&invitation.at, invitation.count);
    progress.note(&format!("waiting for {} other shards at {at}", count - 1));
    let mut others = BTreeMap::<u32, Other>::new();
    let mut strangers = JoinSet::new();
    let (mut refused, mut told) = (None::<String>, 0);
    let mut patience = Box::pin(sleep(PATIENCE));
    while others.len() + 1 < count as usize {
        tokio::select! {
            () = &mut patience => break,
            came = listener.accept(), if strangers.len() < MOST_STRANGERS => {
                if let Ok((stream, from)) = came {
                    let token = invitation.token.clone();
                    strangers.spawn_local(async move { (from, introduced(stream, &token).await) });
                }
            }
            Some(Ok((from, introduced))) = strangers.join_next() => match introduced {
                Ok((link, index, theirs)) => {
                    let wrong = unlike(index, count, facts, &theirs)
                        .or_else(|| others.contains_key(&index).then(|| format!("two shards have the number {index} of {count}")));
                    if let Some(wrong) = wrong {
                        refused.get_or_insert(wrong);
                        patience.set(sleep(AFTER_REFUSAL));
                    }
                    // of two with one index each has to hear of it
                    let index = if others.contains_key(&index) { u32::MAX } else { index };
                    others.insert(index, Other { link, ready: None });
                }
                Err(error) if told < MOST_TOLD => {
                    told += 1;
                    progress.note(&format!("warning: {from} was rejected: {error}"));
                }
                Err(_) => {}
            },
        }
    }
    if refused.is_none() && others.len() + 1 < count as usize {
        let missing: Vec<String> = (1..count)
            .filter(|index| !others.contains_key(index))
            .map(|index| index.to_string())
            .collect();
        let wait = PATIENCE.as_secs() / 60;
        refused = Some(format!(
            "these of the {count} shards did not connect to {at} within {wait} minutes: {}",
            missing.join(", ")
        ));
    }
    for other in others.values_mut() {
        let message = match &refused {
            Some(why) => Message::Refused { why: why.clone() },
            None => Message::Agreed { name: name.clone() },
        };
        // who is gone by now is missed at the first meeting
        let _gone = other.link.send(&message).await;
    }
    refused.map_or(Ok((name, Part::First(others))), |why| {
        Err(RunError::Meet(why))
    })
}

/// What a caller is, as far as it can show it.
pub(super) async fn introduced(
    stream: TcpStream,
    token: &Secret,
) -> Result<(Link, u32, Facts), LinkError> {
    let introduction = async {
        let mut link = Link::open(stream, Side::Listens, token).await?;
        match link.receive().await {
            Ok(Message::Here { index, facts }) => Ok((link, index, facts)),
            Ok(_) => Err(LinkError::Nonsense),
            Err(error) => {
                // it sees by the code that the tokens differ
                let why = error.to_string();
                let _gone = link.send(&Message::Refused { why }).await;
                Err(error)
            }
        }
    };
    timeout(HANDSHAKE, introduction)
        .await
        .unwrap_or(Err(LinkError::NoShard))
}

/// In what another shard differs from this one, where it does.
fn unlike(index: u32, count: u32, ours: &Facts, theirs: &Facts) -> Option<String> {
    if index == 0 || index >= count {
        return Some(format!(
            "a shard has the number {index}, but there are {count} shards, numbered from 0"
        ));
    }
    let mut keys = ours.keys().chain(theirs.keys());
    let key = keys.find(|key| ours.get(*key) != theirs.get(*key))?;
    let shown = |facts: &Facts| facts.get(key).map_or("absent", String::as_str).to_owned();
    let (ours, theirs) = (shown(ours), shown(theirs));
    Some(format!(
        "shard {index} has a different configuration than shard 0: {key} is {theirs} in shard {index} and {ours} in shard 0"
    ))
}

/// Another shard: call until shard 0 answers, and hear whether all agree.
pub(super) async fn other(
    invitation: &Invitation,
    facts: Facts,
    progress: &Progress,
) -> Result<(String, Part), RunError> {
    let (at, index) = (&invitation.at, invitation.index);
    progress.note(&format!("connecting to shard 0 at {at}"));
    let wrong = |what: &dyn std::fmt::Display| {
        RunError::Meet(format!(
            "shard {index}, connecting to shard 0 at {at}: {what}"
        ))
    };
    let mut why = String::new();
    let stream = call(at, progress, &mut why);
    let Ok(stream) = timeout(PATIENCE, stream).await else {
        let minutes = PATIENCE.as_secs() / 60;
        return Err(wrong(&format!(
            "no response within {minutes} minutes: {why}"
        )));
    };
    let answer = async {
        let mut link = Link::open(stream, Side::Calls, &invitation.token).await?;
        link.send(&Message::Here { index, facts }).await?;
        let answer = link.receive().await?;
        Ok::<_, LinkError>((link, answer))
    };
    let answer = timeout(LONGER, answer).await;
    match answer.map_err(|_| wrong(&"it did not confirm that all shards are connected"))? {
        Ok((link, Message::Agreed { name })) => Ok((name, Part::Other(Some(Box::new(link))))),
        Ok((_, Message::Refused { why })) => Err(RunError::Meet(why)),
        Ok(_) => Err(wrong(&LinkError::Nonsense)),
        Err(error) => Err(wrong(&error)),
    }
}

/// Until somebody is there; meanwhile `why` has what came of the last call. A name may not be known yet, either.
async fn call(at: &str, progress: &Progress, why: &mut String) -> TcpStream {
    let mut calls = 0_u32;
    loop {
        match TcpStream::connect(at).await {
            Ok(stream) => return stream,
            Err(error) => *why = error.to_string(),
        }
        calls += 1;
        if calls == TOLD_AFTER {
            progress.note(&format!("shard 0 is not reachable at {at} yet: {why}"));
        }
        sleep(CALL_AGAIN).await;
    }
}
