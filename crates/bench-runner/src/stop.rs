//! How a run is told to end: once to stop sending, twice to leave at once; and who may tell it: Ctrl-C, SIGTERM, SIGHUP, the deadline.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use bench_schema::RunRecord;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

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
    level: Arc<AtomicU8>,
    reason: Arc<OnceLock<&'static str>>,
    changes: Arc<watch::Sender<Ending>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        let (changes, _nobody_yet) = watch::channel(Ending::No);
        Self {
            level: Arc::new(AtomicU8::new(0)),
            reason: Arc::default(),
            changes: Arc::new(changes),
        }
    }

    /// Go this far; never back.
    pub(crate) fn advance(&self, to: Ending) {
        let code = match to {
            Ending::No => 0,
            Ending::Draining => 1,
            Ending::Cutting => 2,
        };
        if self.level.fetch_max(code, Ordering::SeqCst) < code {
            self.changes.send_replace(to);
        }
    }

    /// Who ended the run; the first one counts.
    pub(crate) fn because(&self, who: &'static str) {
        self.reason.get_or_init(|| who);
    }

    /// Who ended the run, if someone did.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }

    /// Whether nothing more may be sent. One relaxed load: cheap enough for each request.
    pub(crate) fn is_draining(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Resolves when `ending` is reached.
    pub(crate) async fn reached(&self, ending: Ending) {
        let mut changes = self.changes.subscribe();
        // the sender lives as long as `self`, so waiting cannot fail
        let _sender_lives = changes.wait_for(|&now| now >= ending).await;
    }
}

/// Who sends the signals that end a run, for people.
const NAMES: [&str; 3] = ["Ctrl-C", "SIGTERM", "SIGHUP"];

/// The signals of somebody who wants the program to end, from the moment at which this is made.
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    /// Who it is that comes next.
    pub(crate) async fn next(&mut self) -> &'static str {
        async fn came(signals: &mut Option<Signal>) {
            match signals {
                Some(signals) => drop(signals.recv().await),
                None => std::future::pending().await,
            }
        }
        let [interrupt, terminate, hangup] = NAMES;
        tokio::select! {
            () = came(&mut self.interrupt) => interrupt,
            () = came(&mut self.terminate) => terminate,
            () = came(&mut self.hangup) => hangup,
        }
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

/// Watch for the end as long as the returned set lives. The first signal stops sending and gives requests in flight their grace;
/// the second one, of whatever kind, cuts them.
pub(crate) fn watch_for_the_end(
    stop: &Stop,
    limits: &LimitSettings,
    progress: &Progress,
) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let (at_end, grace) = (stop.clone(), limits.grace.to_duration());
    watchers.spawn_local(async move {
        at_end.reached(Ending::Draining).await;
        tokio::time::sleep(grace).await;
        at_end.advance(Ending::Cutting);
    });
    let (signalled, progress) = (stop.clone(), progress.clone());
    let mut signals = Signals::listen();
    watchers.spawn_local(async move {
        let name = signals.next().await;
        if !signalled.is_draining() {
            signalled.because(name);
            progress.note(&format!("{name}: sending nothing more; requests in flight have {grace:?} (once more to cut them)"));
            signalled.advance(Ending::Draining);
            signals.next().await;
        }
        // whichever it is that comes second, also after a deadline
        signalled.advance(Ending::Cutting);
    });
    if let Some(deadline) = limits.deadline {
        let stop = stop.clone();
        watchers.spawn_local(async move {
            tokio::time::sleep(deadline.to_duration()).await;
            stop.because("the deadline");
            stop.advance(Ending::Draining);
        });
    }
    watchers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_ending_only_goes_forward_and_is_seen_by_late_comers() {
        let stop = Stop::new();
        assert!(!stop.is_draining());
        stop.advance(Ending::Cutting);
        stop.advance(Ending::Draining);
        assert!(stop.is_draining());
        stop.reached(Ending::Cutting).await;
    }
}
