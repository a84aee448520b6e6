//! A row of the table: what became of the requests that a fault struck.

use std::collections::BTreeSet;
use std::fmt;

use bench_schema::{FailureKind, Outcome, RequestRecord, Stage};

/// What was seen, in words that do not depend on the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// With its mark: `` `name` `` for a fault of the engine, `*name*` for one around it.
    pub(crate) fault: String,
    pub(crate) sent: String,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) outcome: String,
    pub(crate) stage: String,
    pub(crate) kept: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, sent, seen } = self;
        let Seen {
            outcome,
            stage,
            kept,
        } = seen;
        write!(f, "| {fault} | {sent} | {outcome} | {stage} | {kept} |")
    }
}

/// Of a request whose connection had ended.
pub(crate) const SENT_AGAIN: &str = ", sent again on a new connection";

impl Seen {
    /// Of one record. A reset may overtake bytes that were sent before it, and is then seen as a close: how much came before it is chance.
    pub(crate) fn of(record: &RequestRecord, reset: bool) -> Self {
        let events = record.wire.events.len();
        let chance = reset || outlives(&record.wire.outcome);
        let kept = match (&record.wire.outcome, events) {
            (Outcome::Completed, _) => {
                let tokens = record
                    .output_tokens
                    .map_or("?".to_owned(), |n| n.to_string());
                format!("{tokens} tokens in {events} events")
            }
            (_, 0) => "–".to_owned(),
            _ if chance => "the events that came before".to_owned(),
            (_, 1) => "1 event".to_owned(),
            _ => format!("{events} events"),
        };
        let kept = if record.wire.connection.replaced > 0 {
            kept + SENT_AGAIN
        } else {
            kept
        };
        let (outcome, stage) = words(&record.wire.outcome, reset);
        Self {
            outcome,
            stage,
            kept,
        }
    }
}

/// Whether the answer went on until the client had enough.
fn outlives(outcome: &Outcome) -> bool {
    *outcome
        == Outcome::TimedOut {
            stage: Stage::Whole,
        }
}

fn words(outcome: &Outcome, reset: bool) -> (String, String) {
    let none = || "–".to_owned();
    match outcome {
        Outcome::Failed {
            failure: FailureKind::Reset | FailureKind::Closed,
            stage,
            ..
        } if reset => ("failed: reset or closed".to_owned(), stage.to_string()),
        Outcome::Failed { failure, stage, .. } => (format!("failed: {failure}"), stage.to_string()),
        Outcome::TimedOut { stage } => ("timed out".to_owned(), stage.to_string()),
        other => (other.name().to_owned(), none()),
    }
}

/// What all struck requests have in common; several forms where they do not agree.
pub(crate) fn together(seen: &BTreeSet<Seen>) -> Seen {
    let join = |part: fn(&Seen) -> &String| {
        let parts: BTreeSet<&String> = seen.iter().map(part).collect();
        parts.into_iter().cloned().collect::<Vec<_>>().join(" or ")
    };
    Seen {
        outcome: join(|seen| &seen.outcome),
        stage: join(|seen| &seen.stage),
        kept: join(|seen| &seen.kept),
    }
}
