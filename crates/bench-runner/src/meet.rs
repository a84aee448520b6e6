//! Shards of one load that agree on what they are, and begin each phase together. No request and no token passes here.
//!
//! Shard 0 listens, the others call. Before any load there is a roll call: each tells what it is about to do, and who differs is refused by name. Then they meet before
//! each phase and after each measurement. Meanwhile nobody speaks, unless `--precision` is to end the cell or a search judges it: then each tells shard 0 ten times a
//! second what its requests came to, and is told whether all of them are enough. Shard 0 chooses the stages of a search.
//!
//! A meeting is a *place* in the run, and places have an order: who has left one out (its cell was ended early) is not waited for there.

mod link;
mod pooled;
mod roll_call;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench_client::Clock;
use bench_insight::{Asked, EndedRequest, NextStage};
use bench_schema::{
    CellRecord, ClientRecord, ClockExchange, Nanos, Secret, Stamp, TrustReason, TrustVerdict,
};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use crate::RunError;
use crate::progress::Progress;
use crate::stop::{Ending, Stop};

use link::{FourStamps, Link, LinkError};
pub(crate) use pooled::Ended;
use pooled::Pooled;
use roll_call::{first, other};

/// How long the others are waited for: until all are there, and at each meeting. Shards have equal parts of a load, so who is this far behind is lost.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long shard 0 is waited for: it may itself wait for another, after its own part.
const LONGER: Duration = Duration::from_mins(21);
/// Exchanges of stamps at a meeting; the tightest counts.
const EXCHANGES: usize = 8;
/// From the word to the phase, beside the time that the word takes.
const LEAD: Nanos = Nanos::from_millis(20);
/// Most that is added for a slow way.
const MOST_LEAD: Nanos = Nanos::from_secs(1);

/// What shards have to have in common, by name.
pub(crate) type Facts = BTreeMap<String, String>;

/// The clock that stamps messages.
pub(crate) trait Now {
    fn now(&self) -> Stamp;
}

impl Now for Clock {
    fn now(&self) -> Stamp {
        Self::now(self)
    }
}

/// Where in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    cell: u32,
    repeat: u32,
    step: Step,
}

/// Where in a repeat of a cell, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Before the stage of a search: what the clients have to say of the one before.
    Told,
    /// Shard 0 has chosen it.
    Chosen,
    /// Before a warm-up that drains.
    WarmUp,
    /// Before the measurement.
    Measure,
    /// After it.
    Over,
}

impl Place {
    const START: Self = Self {
        cell: 0,
        repeat: 0,
        step: Step::WarmUp,
    };
    /// Every shard's result is written.
    const WRITTEN: Self = Self {
        cell: u32::MAX,
        ..Self::START
    };
    /// Shard 0 has made one result of all; it comes here only then.
    const MERGED: Self = Self {
        repeat: 1,
        ..Self::WRITTEN
    };

    /// Of a cell; they are counted from 0.
    pub(crate) fn of(cell: usize, repeat: u32, step: Step) -> Self {
        Self {
            cell: u32::try_from(cell).map_or(u32::MAX, |cell| cell.saturating_add(1)),
            repeat,
            step,
        }
    }
}

/// Who this is, and where all meet.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// Shard 0's address.
    pub(crate) at: String,
    pub(crate) token: Secret,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Message {
    /// A shard is there, and this is what it is about to do.
    Here {
        index: u32,
        facts: Facts,
    },
    /// All are there and agree; and what their meeting is called.
    Agreed {
        name: String,
    },
    /// The run is off.
    Refused {
        why: String,
    },
    /// What does your clock say?
    Ping {
        sent: Stamp,
    },
    Pong {
        sent: Stamp,
        came: Stamp,
        left: Stamp,
    },
    Ready(Ready),
    Go(Go),
    /// What these requests of a cell came to, on shard 0's clock.
    Ended {
        cell: u32,
        ended: Vec<EndedRequest>,
    },
    /// The answer: whether those of all shards are enough.
    Enough {
        enough: bool,
    },
}

/// A shard is ready for a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    at: Place,
    bound: Nanos,
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<Box<ClientRecord>>,
}

/// Shard 0's answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Go {
    /// When the phase begins, on shard 0's clock.
    start: Stamp,
    lost: Vec<u32>,
    /// Whether the cell has come to its end by the requests of all shards.
    enough: bool,
    /// What a search has next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<NextStage>,
}

/// A run's part in what its shards agree on.
pub(crate) struct Meeting {
    name: String,
    index: u32,
    count: u32,
    clock: Rc<dyn Now>,
    stop: Stop,
    part: Part,
    /// The stop rule of the cell that is measured, where it looks at the requests of all shards.
    pooled: Pooled,
    met: Vec<ClockExchange>,
    /// Where they met last.
    before: Place,
    /// After which meeting each of these was lost.
    lost: BTreeMap<u32, Place>,
    /// Where results lie: this shard's, and those that shard 0 heard of.
    folders: BTreeMap<u32, String>,
    search: Stages,
}

/// The stages of a search: of shard 0 those so far, as all shards measured them.
#[derive(Default)]
struct Stages {
    cells: Vec<CellRecord>,
    /// Of the last of them what the clients say, this shard's and those that shard 0 heard.
    client: Option<ClientRecord>,
    others: Vec<ClientRecord>,
    next: Option<NextStage>,
}

enum Part {
    /// Shard 0's: everybody else, by index.
    First(BTreeMap<u32, Other>),
    /// Another shard's, with the connection to shard 0; without one it goes on alone.
    Other(Option<Box<Link>>),
}

/// Another shard, as shard 0 sees it.
struct Other {
    link: Link,
    /// What it is ready for, where that is still to come.
    ready: Option<Ready>,
}

impl Meeting {
    /// The roll call.
    ///
    /// # Errors
    /// [`RunError::Meet`] where somebody does not come, cannot be reached, or is about to do something else.
    pub(crate) async fn begin(
        invitation: &Invitation,
        facts: Facts,
        (clock, stop, progress): (&Clock, &Stop, &Progress),
    ) -> Result<Self, RunError> {
        let called = if invitation.index == 0 {
            first(invitation, &facts, progress).await?
        } else {
            other(invitation, facts, progress).await?
        };
        Ok(Self::of(invitation, called, Rc::new(clock.clone()), stop).await)
    }

    /// The first meeting of those who are there.
    async fn of(
        invitation: &Invitation,
        (name, part): (String, Part),
        clock: Rc<dyn Now>,
        stop: &Stop,
    ) -> Self {
        let mut meeting = Self {
            name,
            index: invitation.index,
            count: invitation.count,
            clock,
            stop: stop.clone(),
            part,
            pooled: Pooled::default(),
            met: Vec::new(),
            before: Place::START,
            lost: BTreeMap::new(),
            folders: BTreeMap::new(),
            search: Stages::default(),
        };
        meeting.at(Place::START).await;
        meeting
    }

    /// Where this shard's results lie, for shard 0 to know from the next meeting on.
    pub(crate) fn writes_to(&mut self, folder: String) {
        self.folders.insert(self.index, folder);
    }

    /// A cell of all shards begins, the one at this place of all: where it has a rule of `--precision`, or a search judges it, the requests of all shards decide, and
    /// `enough` is set then. What is put into what this returns is told to shard 0.
    pub(crate) fn pool(
        &mut self,
        of: (&CellRecord, &Asked),
        at: usize,
        enough: &Arc<AtomicBool>,
    ) -> Option<Ended> {
        self.pooled = Pooled::of(of, (at, self.index), enough);
        self.pooled.own()
    }

    /// Agree on the stage of a search that is next, the one at this place of all; `client` is what this shard's says of the one before. Shard 0 chooses it by the stages
    /// so far, as all shards measured them. Nothing where the search is over, and where a shard is lost or has left the search: its part of the load would be missing.
    pub(crate) async fn next_stage(
        &mut self,
        at: usize,
        client: Option<&ClientRecord>,
        choose: impl FnOnce(&[CellRecord]) -> Option<NextStage>,
    ) -> Option<NextStage> {
        self.search.client = client.cloned();
        self.search.others.clear();
        self.search.next = None;
        self.at(Place::of(at, 0, Step::Told)).await?;
        if self.index == 0 {
            let clients: Vec<_> = client.into_iter().chain(&self.search.others).collect();
            let is_whole = at == 0 || clients.len() == self.count as usize;
            let stage = std::mem::take(&mut self.pooled);
            let stage = stage.into_stage(&clients, &self.search.cells);
            self.search.cells.extend(stage);
            let goes_on = is_whole && self.lost.is_empty();
            let next = choose(&self.search.cells).filter(|_| goes_on);
            self.search.next = next.and_then(|next| as_heard(&next));
        }
        self.search.client = None;
        self.at(Place::of(at, 0, Step::Chosen)).await?;
        self.search.next.filter(|_| self.lost.is_empty())
    }

    /// Tell of ended requests, and hear of those of the others, until this is dropped; where nothing is pooled, say nothing. `over` is the next meeting.
    pub(crate) async fn confer(&mut self, over: Place) {
        if self.pooled.is_asked() {
            let (pooled, clock) = (&self.pooled, self.clock.as_ref());
            match &mut self.part {
                Part::First(others) => {
                    let hears = others
                        .values_mut()
                        .map(|other| other.until(over, clock, pooled));
                    // who is gone is missed at the next meeting
                    tokio::join!(join_all(hears), pooled.keep_deciding());
                }
                Part::Other(Some(link)) => {
                    let offset = self.met.last().map_or(Nanos::ZERO, |met| met.offset);
                    let _gone = keep_telling(link, pooled, offset).await;
                }
                Part::Other(None) => {}
            }
        }
        std::future::pending::<()>().await;
    }

    /// Wait until every shard's result is written; false where that is not known of all of them.
    pub(crate) async fn written(&mut self) -> bool {
        self.at(Place::WRITTEN).await.is_some() && self.lost.is_empty()
    }

    /// Shard 0 says that it has made one result of all; the others wait until it does, and false is that it did not.
    pub(crate) async fn merged(&mut self) -> bool {
        self.at(Place::MERGED).await.is_some()
    }

    /// Wait for the others, and learn when all of them begin, on this clock. Who is alone, or is to end, begins when it likes.
    pub(crate) async fn at(&mut self, place: Place) -> Option<Stamp> {
        let stop = self.stop.clone();
        let start = tokio::select! {
            biased;
            // the connections are in the middle of something from then on: nobody is met any more
            () = stop.reached(Ending::Draining) => None,
            start = self.wait(place) => start,
        };
        self.before = place;
        start
    }

    async fn wait(&mut self, place: Place) -> Option<Stamp> {
        let heard = match &mut self.part {
            Part::First(others) => {
                let tools = (self.clock.as_ref(), &self.pooled, self.search.next);
                call_together(others, place, tools).await
            }
            Part::Other(link) => {
                let ready = Ready {
                    at: place,
                    bound: Nanos::ZERO,
                    folder: self.folders.get(&self.index).cloned(),
                    client: self.search.client.clone().map(Box::new),
                };
                let offset = self.met.last().map_or(Nanos::ZERO, |met| met.offset);
                let link_to_first = link.as_mut()?;
                let asked = async {
                    while self.pooled.has_untold() {
                        link_to_first.send(&self.pooled.message(offset)).await?;
                    }
                    ask(link_to_first, ready, self.clock.as_ref()).await
                };
                let heard = timeout(LONGER, asked).await.ok().and_then(Result::ok);
                heard.unwrap_or_else(|| {
                    *link = None;
                    let go = Go {
                        lost: vec![0],
                        ..Go::default()
                    };
                    Heard {
                        go,
                        ..Heard::default()
                    }
                })
            }
        };
        let Heard { go, exchange, .. } = heard;
        self.pooled.heard(go.enough);
        self.met.extend(exchange);
        self.folders.extend(heard.folders);
        self.search.others.extend(heard.clients);
        if self.index > 0 {
            self.search.next = go.stage;
        }
        for index in go.lost {
            self.lost.entry(index).or_insert(self.before);
        }
        exchange.map(|met| go.start + -met.offset)
    }

    /// What shard 0 called it, at random.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// This clock against shard 0's, at each meeting so far.
    pub(crate) fn exchanges(&self) -> &[ClockExchange] {
        &self.met
    }

    /// Where the shards' results lie as far as this one knows, in their order: shard 0 knows of all that met once load began.
    pub(crate) fn folders(&self) -> Vec<&str> {
        self.folders.values().map(String::as_str).collect()
    }

    /// Whether this shard is alone because shard 0 was lost.
    pub(crate) fn lacks_first(&self) -> bool {
        matches!(self.part, Part::Other(None))
    }

    /// How many were there to the end.
    pub(crate) fn remaining(&self) -> usize {
        (self.count as usize).saturating_sub(self.lost.len())
    }

    /// What there is to say against cells in which shards were lost; `cells` are their ids, in order.
    pub(crate) fn doubts(&self, cells: &[String]) -> Vec<TrustReason> {
        let reason = |(&shard, after): (&u32, &Place)| {
            let since = usize::try_from(after.cell.saturating_sub(1)).unwrap_or(usize::MAX);
            let mut without = cells.iter().skip(since).cloned();
            let count = self.count;
            let (what, next) = if shard == 0 && self.index > 0 {
                (
                    format!(
                        "shard 0 of {count}, the coordinator, was lost: from this cell on, the shards did not start together"
                    ),
                    "check the output of shard 0",
                )
            } else {
                (
                    format!(
                        "shard {shard} of {count} was lost: from this cell on, its part of the load is missing"
                    ),
                    "check the output of that shard, and measure again",
                )
            };
            TrustReason {
                next: Some(next.to_owned()),
                cell: without.next(),
                also_in: without.collect(),
                ..TrustReason::new("shard_lost", TrustVerdict::Doubtful, what)
            }
        };
        self.lost.iter().map(reason).collect()
    }
}

impl Other {
    /// Answer it until it is ready for this place or a later one. Where it is behind it is let go on: what it waits for has been left out here.
    async fn until(
        &mut self,
        place: Place,
        clock: &dyn Now,
        pooled: &Pooled,
    ) -> Result<Ready, LinkError> {
        loop {
            if let Some(ready) = &self.ready {
                if ready.at >= place {
                    return Ok(ready.clone());
                }
                let go = Go {
                    start: clock.now(),
                    ..Go::default()
                };
                self.ready = None;
                self.link.send(&Message::Go(go)).await?;
            }
            match self.link.receive().await? {
                Message::Ping { sent } => {
                    let came = clock.now();
                    let left = clock.now();
                    let pong = Message::Pong { sent, came, left };
                    self.link.send(&pong).await?;
                }
                Message::Ready(ready) => self.ready = Some(ready),
                Message::Ended { cell, ended } => {
                    let enough = pooled.add(cell, ended);
                    self.link.send(&Message::Enough { enough }).await?;
                }
                _ => return Err(LinkError::Nonsense),
            }
        }
    }
}

/// A stage as the others read it: numbers may lose their last digit on the way.
fn as_heard(stage: &NextStage) -> Option<NextStage> {
    serde_json::from_str(&serde_json::to_string(stage).ok()?).ok()
}

/// What comes of a meeting.
#[derive(Default)]
struct Heard {
    go: Go,
    /// This clock against shard 0's; absent where that was lost.
    exchange: Option<ClockExchange>,
    folders: Vec<(u32, String)>,
    /// What the clients say that are ready for this place.
    clients: Vec<ClientRecord>,
}

/// Shard 0: wait until the others are ready, and tell those who are there when to begin. Who is not there in time is lost, and is not in `others` any more.
async fn call_together(
    others: &mut BTreeMap<u32, Other>,
    place: Place,
    (clock, pooled, stage): (&dyn Now, &Pooled, Option<NextStage>),
) -> Heard {
    let waits = others.iter_mut().map(async |(index, other)| {
        let ready = timeout(PATIENCE, other.until(place, clock, pooled)).await;
        (*index, ready.ok().and_then(Result::ok))
    });
    let (mut bound, mut lost, mut folders) = (Nanos::ZERO, Vec::new(), Vec::new());
    let mut clients = Vec::new();
    for (index, ready) in join_all(waits).await {
        if let Some(ready) = ready {
            bound = bound.max(ready.bound);
            let client = ready.client.filter(|_| ready.at == place);
            clients.extend(client.map(|client| *client));
            folders.extend(ready.folder.map(|at| (index, at)));
        } else {
            lost.push(index);
        }
    }
    others.retain(|index, _| !lost.contains(index));
    let now = clock.now();
    let go = Go {
        start: now + LEAD + Nanos::new(bound.get().saturating_mul(4)).min(MOST_LEAD),
        lost,
        enough: pooled.decide(),
        stage,
    };
    let message = Message::Go(go.clone());
    for other in others.values_mut() {
        if other.ready.take_if(|ready| ready.at == place).is_some() {
            // who does not hear it is missed at the next one
            let _gone = other.link.send(&message).await;
        }
    }
    let exchange = ClockExchange {
        at: now,
        offset: Nanos::ZERO,
        bound: Nanos::ZERO,
    };
    Heard {
        go,
        exchange: Some(exchange),
        folders,
        clients,
    }
}

/// Another shard: compare clocks with shard 0, tell it that this one is ready, and wait for its word.
async fn ask(link: &mut Link, ready: Ready, clock: &dyn Now) -> Result<Heard, LinkError> {
    let mut stamps = Vec::with_capacity(EXCHANGES);
    for _ in 0..EXCHANGES {
        link.send(&Message::Ping { sent: clock.now() }).await?;
        let (sent, came, left) = loop {
            match link.receive().await? {
                Message::Pong { sent, came, left } => break (sent, came, left),
                // the answer to the last word of a cell that was not waited for
                Message::Enough { .. } => {}
                _ => return Err(LinkError::Nonsense),
            }
        };
        let back = clock.now();
        stamps.push(FourStamps {
            sent,
            came,
            left,
            back,
        });
    }
    let exchange = link::best(stamps.into_iter()).ok_or(LinkError::Nonsense)?;
    let bound = exchange.bound;
    link.send(&Message::Ready(Ready { bound, ..ready })).await?;
    match link.receive().await? {
        Message::Go(go) => Ok(Heard {
            go,
            exchange: Some(exchange),
            ..Heard::default()
        }),
        _ => Err(LinkError::Nonsense),
    }
}

/// Another shard: tell shard 0 of the requests that have ended since, and hear whether all shards' are enough.
async fn keep_telling(link: &mut Link, pooled: &Pooled, offset: Nanos) -> Result<(), LinkError> {
    loop {
        sleep(pooled::EVERY).await;
        link.send(&pooled.message(offset)).await?;
        match link.receive().await? {
            Message::Enough { enough } => pooled.heard(enough),
            _ => return Err(LinkError::Nonsense),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/meet.rs"]
mod tests;
