//! Whether going on is of any use: a cell in which nearly everything fails ends early, and a slot that is told to wait waits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_schema::{Exchange, Nanos, Outcome};

use crate::redact::Secrets;

/// So many requests without one answer are enough to know.
const FIRST: u64 = 10;
/// So many are needed before half of them counts.
const FEWEST: u64 = 100;

/// Outcomes of a phase's requests as they come.
#[derive(Debug, Default)]
pub(crate) struct Health {
    keep_going: bool,
    secrets: Secrets,
    begun: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Of those that began first.
    first_failed: AtomicU64,
    verdict: OnceLock<String>,
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
    pub(crate) fn begin(&self) -> bool {
        self.begun.fetch_add(1, Ordering::Relaxed) < FIRST
    }

    /// One request is over. What the client did not send, or cancelled, says nothing of the server.
    pub(crate) fn note(&self, outcome: &Outcome, is_first: bool) {
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
        let hopeless =
            (answered == 0 && first_failed >= FIRST) || (all >= FEWEST && 2 * failed > all);
        if hopeless && !self.keep_going {
            self.verdict.get_or_init(|| {
                let mut how = match outcome {
                    Outcome::Failed { message, .. } | Outcome::Truncated { message } => message,
                    _ => outcome.name(),
                }
                .to_owned();
                self.secrets.hide(&mut how);
                format!("of the first {all} requests that ended {failed} had failed ({how}); --keep-going goes on")
            });
        }
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
mod tests {
    use bench_schema::{FailureKind, Stage};

    use super::*;

    fn failed(failure: FailureKind, status: Option<u16>) -> Exchange {
        let mut wire = Exchange::nothing(Outcome::Failed {
            stage: Stage::Headers,
            failure,
            message: "no".to_owned(),
        });
        wire.status = status;
        wire
    }

    #[test]
    fn pauses_double_up_to_five_seconds_and_begin_anew_after_an_answer() {
        let mut slot = BackOff::default();
        let refused = failed(FailureKind::Refused, None);
        let pauses: Vec<_> = (0..8)
            .filter_map(|_| slot.after(BackOffHint::of(&refused)))
            .collect();
        let ms = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
        assert_eq!(pauses, ms.map(Nanos::from_millis));
        assert_eq!(
            slot.after(BackOffHint::of(&Exchange::nothing(Outcome::Completed))),
            None
        );
        assert_eq!(
            slot.after(BackOffHint::of(&refused)),
            Some(Nanos::from_millis(100))
        );
    }

    #[test]
    fn the_servers_own_time_counts_and_a_failure_that_is_not_the_first_in_a_row_makes_a_pause() {
        let mut slot = BackOff::default();
        let mut told = failed(FailureKind::Status, Some(429));
        told.retry_after = Some(Nanos::from_secs(7));
        assert_eq!(
            slot.after(BackOffHint::of(&told)),
            Some(Nanos::from_secs(7))
        );
        told.retry_after = Some(Nanos::from_secs(3600));
        assert_eq!(slot.after(BackOffHint::of(&told)), Some(LONGEST_ASKED));
        let broken = BackOffHint::of(&failed(FailureKind::Status, Some(500)));
        let answered = BackOffHint::of(&Exchange::nothing(Outcome::Completed));
        slot.after(answered);
        let pauses: Vec<_> = [broken, answered, broken, broken, broken]
            .into_iter()
            .map(|hint| slot.after(hint))
            .collect();
        let ms = |ms| Some(Nanos::from_millis(ms));
        assert_eq!(pauses, [None, None, None, ms(100), ms(200)]);
        assert!(
            slot.after(BackOffHint::of(&failed(FailureKind::Status, Some(503))))
                .is_some()
        );
    }

    fn after(outcomes: &[(u64, bool)], keep_going: bool) -> Option<String> {
        let health = Health::new(keep_going, Secrets::default());
        for &(count, answered) in outcomes {
            for _ in 0..count {
                let outcome = if answered {
                    Outcome::Completed
                } else {
                    failed(FailureKind::Status, Some(500)).outcome
                };
                health.note(&outcome, health.begin());
            }
        }
        health.verdict().map(str::to_owned)
    }

    #[test]
    fn a_cell_ends_when_its_first_requests_or_more_than_half_fail() {
        assert_eq!(after(&[(9, false)], false), None);
        assert!(
            after(&[(10, false)], false)
                .unwrap()
                .contains("of the first 10 requests that ended 10 had failed")
        );
        assert_eq!(after(&[(10, false)], true), None);
        assert_eq!(after(&[(1, true), (60, false)], false), None);
        assert_eq!(after(&[(50, true), (50, false)], false), None);
        assert!(after(&[(50, true), (51, false)], false).is_some());
    }

    #[test]
    fn refusals_that_end_before_the_answers_do_are_not_the_first_requests() {
        let health = Health::new(false, Secrets::default());
        let first: Vec<bool> = (0..9).map(|_| health.begin()).collect();
        let refused = failed(FailureKind::Status, Some(429)).outcome;
        // Four of nine are at work; the slots of the others ask again and again.
        for is_first in first.iter().skip(4) {
            health.note(&refused, *is_first);
        }
        for _ in 0..20 {
            health.note(&refused, health.begin());
        }
        assert_eq!(health.verdict(), None);
    }

    #[test]
    fn what_the_client_itself_did_not_send_or_cancelled_is_no_failure() {
        let health = Health::new(false, Secrets::default());
        let reason = String::new;
        for _ in 0..1000 {
            health.note(&Outcome::Unsent { reason: reason() }, false);
            health.note(&Outcome::Cancelled { reason: reason() }, health.begin());
        }
        assert_eq!(health.verdict(), None);
    }
}
