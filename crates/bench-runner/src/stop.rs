//! How a run is told to end: once to stop sending, twice to leave at once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

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
