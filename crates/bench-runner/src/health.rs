//! Whether going on is of any use: a cell in which nearly everything fails ends early, and a slot that is told to wait waits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bench_schema::{Exchange, FailureKind, Nanos, Outcome, Stamp};

use crate::redact::Secrets;

/// So many requests without one answer are enough to know.
const FIRST: u64 = 10;
/// So many are needed before half of them counts.
const FEWEST: u64 = 100;
/// After this long without an answer, more failures than requests under way are enough too: some of the first may hang until their time limit.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// Outcomes of a phase's requests as they come.
#[derive(Debug, Default)]
pub(crate) struct Health {
    keep_going: bool,
    secrets: Secrets,
    begun: AtomicU64,
    /// When the first one began, in nanoseconds.
    since: AtomicI64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Of those that began first.
    first_failed: AtomicU64,
    verdict: OnceLock<String>,
    /// How the first of those that failed did.
    how: OnceLock<String>,
    /// The kind of the failure that was one too many, and that of the first.
    last_kind: OnceLock<FailureKind>,
    first_kind: OnceLock<FailureKind>,
}

impl Health {
    /// Nothing has happened yet. With `keep_going` nothing ever ends it; what a server said is told without `secrets`.
    pub(crate) fn new(keep_going: bool, secrets: Secrets) -> Self {
        Self {
            keep_going,
            secrets,
            ..Self::default()
        }
    }

    /// A request goes out; whether it is one of the first. Refusals end before answers do, so that the first to end say nothing.
    pub(crate) fn begin(&self, now: Stamp) -> bool {
        let before = self.begun.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.since.store(now.get(), Ordering::Relaxed);
        }
        before < FIRST
    }

    /// Whether nothing was answered for so long that `failed` failures, more than there are requests under way, are enough.
    fn waited_in_vain(&self, failed: u64, now: Stamp) -> bool {
        let since = Stamp::new(self.since.load(Ordering::Relaxed));
        let under_way = self.begun.load(Ordering::Relaxed).saturating_sub(failed);
        failed >= FIRST && failed > under_way && now - since >= PATIENCE
    }

    /// One request is over. What the client did not send, or cancelled, says nothing of the server.
    pub(crate) fn note(&self, outcome: &Outcome, is_first: bool, now: Stamp) {
        match outcome {
            Outcome::Unsent { .. } | Outcome::Cancelled { .. } => return,
            Outcome::Completed => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => {}
        }
        let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let of_first = u64::from(is_first);
        let first_failed = self.first_failed.fetch_add(of_first, Ordering::Relaxed) + of_first;
        let answered = self.answered.load(Ordering::Relaxed);
        let all = failed + answered;
        let told = || {
            let mut how = match outcome {
                Outcome::Failed { message, .. } | Outcome::Truncated { message } => message,
                _ => outcome.name(),
            }
            .to_owned();
            self.secrets.hide(&mut how);
            how
        };
        self.how.get_or_init(told);
        let kind = match outcome {
            Outcome::Failed { failure, .. } => Some(*failure),
            _ => None,
        };
        if let Some(kind) = kind {
            self.first_kind.get_or_init(|| kind);
        }
        let in_vain = answered == 0 && (first_failed >= FIRST || self.waited_in_vain(failed, now));
        let hopeless = in_vain || (all >= FEWEST && 2 * failed > all);
        if hopeless && !self.keep_going {
            self.verdict.get_or_init(|| {
                if let Some(kind) = kind {
                    self.last_kind.get_or_init(|| kind);
                }
                let how = told();
                format!("{failed} of the first {all} requests failed, including warm-up ({how}); use --keep-going to continue anyway")
            });
        }
    }

    /// That requests failed and none was answered so far, with how the first of them did; for what ended otherwise.
    pub(crate) fn all_failed(&self) -> Option<String> {
        let (failed, answered) = (&self.failed, &self.answered);
        let how = self.how.get()?;
        let failed = failed.load(Ordering::Relaxed);
        (answered.load(Ordering::Relaxed) == 0)
            .then(|| format!("all {failed} requests failed, including warm-up ({how})"))
    }

    /// The kind of failure that ended it: that of the one too many, where there was one, else of the first. Absent where that one had no kind, as a time limit has none.
    pub(crate) fn ended_by(&self) -> Option<FailureKind> {
        let kind = match self.verdict.get() {
            Some(_) => &self.last_kind,
            None => &self.first_kind,
        };
        kind.get().copied()
    }

    /// Why nothing more is to be sent, if that is so.
    pub(crate) fn verdict(&self) -> Option<&str> {
        self.verdict.get().map(String::as_str)
    }
}

/// First pause of a slot whose server gives no time, and the longest.
const SHORTEST: Nanos = Nanos::from_millis(100);
const LONGEST: Nanos = Nanos::from_secs(5);
/// The longest that a server may ask for: a slot that sleeps for an hour measures nothing, and nobody is told.
const LONGEST_ASKED: Nanos = Nanos::from_secs(60);

/// Pauses of one slot of a closed loop.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    last: Option<Nanos>,
    failed: bool,
}

impl BackOff {
    /// How long to leave the server alone: as long as it asked for, else twice as long as the last time. A failure that asks for nothing
    /// may be one of a kind, so that the pauses begin with the second in a row.
    pub(crate) fn after(&mut self, hint: Option<BackOffHint>) -> Option<Nanos> {
        let (first, told) = match hint {
            None => {
                *self = Self::default();
                return None;
            }
            Some(BackOffHint::Overloaded(told)) => (false, told),
            Some(BackOffHint::Failed) => (!self.failed, None),
        };
        self.failed = true;
        if first {
            return None;
        }
        let own = self
            .last
            .map_or(SHORTEST, |last| (last + last).min(LONGEST));
        self.last = Some(own);
        Some(told.map_or(own, |told| told.min(LONGEST_ASKED)))
    }
}

/// What a request that failed says of the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackOffHint {
    /// The server has too much to do, or is not there. How long to leave it alone, if it said so.
    Overloaded(Option<Nanos>),
    /// It failed in another way, which may take no time at all: without a pause a slot would do nothing but fail.
    Failed,
}

impl BackOffHint {
    /// What an answer asks for.
    pub(crate) fn of(wire: &Exchange) -> Option<Self> {
        match &wire.outcome {
            _ if wire.asks_to_wait() => Some(Self::Overloaded(wire.retry_after)),
            Outcome::Failed { .. } | Outcome::Truncated { .. } => Some(Self::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/health.rs"]
mod tests;
