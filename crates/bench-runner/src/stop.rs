//! How a run is told to end: once to stop sending, twice to leave at once; and who may tell it: Ctrl-C, SIGTERM, SIGHUP, a key of the live screen, the deadline.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use bench_schema::{Nanos, RunRecord};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use crate::config::LimitSettings;
use crate::progress::Progress;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// Nobody asked for it.
    No,
    /// Send nothing more; let what is in flight finish.
    Draining,
    /// The grace is over: cut what is in flight.
    Cutting,
}

/// The run's end, shared by everyone who has to know.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    level: Arc<watch::Sender<Ending>>,
    reason: Arc<OnceLock<&'static str>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self {
            level: Arc::new(watch::Sender::new(Ending::No)),
            reason: Arc::default(),
        }
    }

    /// Go this far; never back.
    pub(crate) fn advance(&self, to: Ending) {
        self.level.send_if_modified(|level| {
            let further = *level < to;
            *level = to.max(*level);
            further
        });
    }

    /// Who ended the run; the first one counts.
    pub(crate) fn because(&self, who: &'static str) {
        self.reason.get_or_init(|| who);
    }

    /// Who ended the run, if someone did.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }

    /// Whether nothing more may be sent. Its lock is held to read or write a byte.
    pub(crate) fn is_draining(&self) -> bool {
        *self.level.borrow() >= Ending::Draining
    }

    /// Resolves when `ending` is reached.
    pub(crate) async fn reached(&self, ending: Ending) {
        let mut level = self.level.subscribe();
        // the sender lives as long as `self`, so waiting cannot fail
        let _sender_lives = level.wait_for(|&now| now >= ending).await;
    }
}

/// Who sends the signals that end a run, for people.
const NAMES: [&str; 4] = ["Ctrl-C", "SIGTERM", "SIGHUP", "q"];
/// The first of them: what it is called where the live screen takes it as a key.
pub(crate) const CTRL_C: &str = NAMES[0];
/// The last of them, the key alone.
pub(crate) const Q: &str = NAMES[3];

/// The signals of somebody who wants the program to end, from the moment at which this is made.
pub(crate) struct Signals {
    signals: Vec<(&'static str, Signal)>,
    /// Where the live screen says that such a key was pressed.
    keys: Option<mpsc::Receiver<&'static str>>,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let signals = NAMES.into_iter().zip(kinds);
        let signals = signals.filter_map(|(name, kind)| Some((name, signal(kind).ok()?)));
        Self {
            signals: signals.collect(),
            keys: None,
        }
    }

    /// These, and the keys of a screen.
    pub(crate) fn or_keys(mut self, keys: mpsc::Receiver<&'static str>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Who it is that comes next.
    pub(crate) async fn next(&mut self) -> &'static str {
        poll_fn(|context| {
            // a screen that is gone has no more keys
            let keys = self.keys.as_mut();
            let key = keys.map_or(Poll::Pending, |keys| keys.poll_recv(context));
            if let Poll::Ready(Some(name)) = key {
                return Poll::Ready(name);
            }
            let came = |(name, signal): &mut (&'static str, Signal)| {
                signal.poll_recv(context).is_ready().then_some(*name)
            };
            let mut signals = self.signals.iter_mut();
            signals.find_map(came).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Hears the signals of somebody who wants the program to end also between runs, and while a server is stopped, for as long as it lives.
pub(crate) struct Ears {
    heard: Arc<OnceLock<&'static str>>,
    /// Dropping it ends the thread.
    _open: oneshot::Sender<()>,
}

impl Ears {
    /// # Errors
    /// Where the thread cannot be started.
    pub(crate) fn open() -> io::Result<Self> {
        let (open, closed) = oneshot::channel();
        let heard = Arc::new(OnceLock::new());
        let into = Arc::clone(&heard);
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::listen()
        };
        let listen = move || {
            runtime.block_on(async {
                tokio::select! {
                    who = signals.next() => {
                        into.get_or_init(|| who);
                    }
                    _ = closed => {}
                }
            });
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen)?;
        Ok(Self { heard, _open: open })
    }

    /// Who wanted the program to end, if somebody did.
    pub(crate) fn heard(&self) -> Option<&'static str> {
        self.heard.get().copied()
    }
}

/// Why a run that `who` ended is not complete.
pub(crate) fn ended_by(who: &str) -> String {
    format!("ended by {who}")
}

/// Whether a signal ended this run; a deadline that was asked for is none.
pub(crate) fn was_interrupted(record: &RunRecord) -> bool {
    let reason = record.incomplete_reason.as_deref();
    NAMES.iter().any(|name| reason == Some(&ended_by(name)))
}

/// When `--deadline` is over, counted from when this is made: the whole run, from the first question to the server on.
pub(crate) struct Deadline(Option<(Duration, Pin<Box<Sleep>>)>);

impl Deadline {
    pub(crate) fn of(limits: &LimitSettings) -> Self {
        let after = limits.deadline.map(Nanos::to_duration);
        Self(after.map(|after| (after, Box::pin(sleep(after)))))
    }

    /// Resolves when it is over, with how long it was; never where there is none.
    pub(crate) async fn over(&mut self) -> Duration {
        match &mut self.0 {
            Some((after, over)) => {
                over.await;
                *after
            }
            None => pending().await,
        }
    }
}

/// Watch for the end as long as the returned set lives. The first signal stops sending and gives requests in flight their grace;
/// the second one, of whatever kind, cuts them.
pub(crate) fn watch_for_the_end(
    stop: &Stop,
    (mut signals, mut deadline, grace): (Signals, Deadline, Duration),
    progress: &Progress,
) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let at_end = stop.clone();
    watchers.spawn_local(async move {
        at_end.reached(Ending::Draining).await;
        sleep(grace).await;
        at_end.advance(Ending::Cutting);
    });
    let (signalled, progress) = (stop.clone(), progress.clone());
    watchers.spawn_local(async move {
        let name = signals.next().await;
        if !signalled.is_draining() {
            signalled.because(name);
            progress.note(&format!("{name}: no new requests; requests in flight may finish within {grace:?} (repeat to cancel them)"));
            signalled.advance(Ending::Draining);
            signals.next().await;
        }
        // whichever it is that comes second, also after a deadline
        signalled.advance(Ending::Cutting);
    });
    let stop = stop.clone();
    watchers.spawn_local(async move {
        deadline.over().await;
        stop.because("the deadline");
        stop.advance(Ending::Draining);
    });
    watchers
}

#[cfg(test)]
#[path = "../tests/unit/stop.rs"]
mod tests;
