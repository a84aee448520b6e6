//! Who may end a run early: Ctrl-C, SIGTERM, SIGHUP, the deadline.

use bench_schema::RunRecord;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::Run;
use crate::stop::Ending;

/// Who sends the signals that end a run, for people.
const NAMES: [&str; 3] = ["Ctrl-C", "SIGTERM", "SIGHUP"];

/// The signals of somebody who wants the program to end, from the moment at which this is made.
pub(super) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Signals {
    pub(super) fn listen() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    /// Who it is that comes next.
    pub(super) async fn next(&mut self) -> &'static str {
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
pub(super) fn ended_by(who: &str) -> String {
    format!("ended by {who}")
}

/// Whether a signal ended this run; a deadline that was asked for is none.
pub(crate) fn was_interrupted(record: &RunRecord) -> bool {
    let reason = record.incomplete_reason.as_deref();
    NAMES.iter().any(|name| reason == Some(&ended_by(name)))
}

impl Run<'_> {
    /// Watch for the end as long as the returned set lives. The first signal stops sending and gives requests in flight their grace;
    /// the second one, of whatever kind, cuts them.
    pub(super) fn watch_for_the_end(&self) -> JoinSet<()> {
        let mut watchers = JoinSet::new();
        let (stop, grace) = (self.stop.clone(), self.settings.limits.grace.to_duration());
        watchers.spawn_local(async move {
            stop.reached(Ending::Draining).await;
            tokio::time::sleep(grace).await;
            stop.advance(Ending::Cutting);
        });
        let (stop, progress) = (self.stop.clone(), self.progress.clone());
        let mut signals = Signals::listen();
        watchers.spawn_local(async move {
            let name = signals.next().await;
            if !stop.is_draining() {
                stop.because(name);
                progress.note(&format!("{name}: sending nothing more; requests in flight have {grace:?} (once more to cut them)"));
                stop.advance(Ending::Draining);
                signals.next().await;
            }
            // whichever it is that comes second, also after a deadline
            stop.advance(Ending::Cutting);
        });
        if let Some(deadline) = self.settings.limits.deadline {
            let stop = self.stop.clone();
            watchers.spawn_local(async move {
                tokio::time::sleep(deadline.to_duration()).await;
                stop.because("the deadline");
                stop.advance(Ending::Draining);
            });
        }
        watchers
    }
}
