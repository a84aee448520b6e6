//! What became of the planned requests.

use std::collections::BTreeMap;

use bench_schema::{Counts, FailureKind, Outcome, Phase, RequestRecord, Stage};

/// Messages kept at most, so that a server that numbers its errors cannot fill the memory.
const MESSAGES: usize = 64;
const REPORTED: usize = 10;

/// Counts requests as they end.
#[derive(Clone, Debug, Default)]
pub struct CountKeeper {
    counts: Counts,
    failures: BTreeMap<(Stage, FailureKind), u64>,
    timeouts: BTreeMap<Stage, u64>,
    messages: BTreeMap<String, u64>,
}

impl CountKeeper {
    /// Counts one request; warm-up apart.
    pub fn push(&mut self, record: &RequestRecord) {
        let counts = &mut self.counts;
        if record.phase == Phase::Warmup {
            counts.warmup += 1;
            return;
        }
        counts.planned += 1;
        counts.replaced_connections += u64::from(record.wire.connection.replaced);
        match &record.wire.outcome {
            Outcome::Completed => counts.completed += 1,
            Outcome::Failed {
                stage,
                failure,
                message,
            } => {
                counts.failed += 1;
                *self.failures.entry((*stage, *failure)).or_default() += 1;
                self.remember(message);
            }
            Outcome::TimedOut { stage } => {
                counts.timed_out += 1;
                *self.timeouts.entry(*stage).or_default() += 1;
            }
            Outcome::Truncated { message } => {
                counts.truncated += 1;
                self.remember(message);
            }
            Outcome::Cancelled { .. } => counts.cancelled += 1,
            Outcome::Unsent { .. } => counts.unsent += 1,
        }
    }

    fn remember(&mut self, message: &str) {
        if let Some(count) = self.messages.get_mut(message) {
            *count += 1;
        } else if self.messages.len() < MESSAGES {
            self.messages.insert(message.to_owned(), 1);
        }
    }

    /// The counts; they add up by construction.
    pub fn finish(&self) -> Counts {
        let mut messages: Vec<(String, u64)> =
            self.messages.iter().map(|(m, n)| (m.clone(), *n)).collect();
        messages.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        messages.truncate(REPORTED);
        Counts {
            failures: self
                .failures
                .iter()
                .map(|(&(stage, kind), &n)| (stage, kind, n))
                .collect(),
            timeouts: self
                .timeouts
                .iter()
                .map(|(&stage, &n)| (stage, n))
                .collect(),
            messages,
            ..self.counts.clone()
        }
    }
}
