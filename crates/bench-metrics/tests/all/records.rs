//! Records made by hand: a plain answer, and variations on it.

use bench_schema::{
    Channel, Event, EventLog, Exchange, FailureKind, Nanos, Outcome, PromptSize, RequestRecord,
    Stage, Stamp, TokenSource,
};

/// Milliseconds after the run's epoch.
pub(crate) fn at(ms: f64) -> Stamp {
    Stamp::EPOCH + Nanos::from_f64(ms * 1e6)
}

/// One exact event on the answer channel.
pub(crate) fn event(ms: f64) -> Event {
    Event {
        at: at(ms),
        lag: Some(Nanos::new(20_000)),
        bound: Nanos::ZERO,
        tokens: None,
        channel: Channel::Answer,
    }
}

/// An answer with events at these instants, one token each, sent at `sent`.
pub(crate) fn answer(id: u64, sent: f64, events_ms: &[f64]) -> RequestRecord {
    let mut events = EventLog::default();
    for &ms in events_ms {
        events.push(event(ms));
    }
    with_events(id, sent, events)
}

/// An answer with this log.
pub(crate) fn with_events(id: u64, sent: f64, events: EventLog) -> RequestRecord {
    let tokens = events.len() as u64;
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.connected = Some(at(sent));
    wire.sent = Some(at(sent));
    wire.headers = events.first();
    wire.closed = events.last().map(|last| last + Nanos::from_millis(1));
    wire.events = events;
    RequestRecord {
        due: at(sent),
        dispatched: Some(at(sent)),
        prompt: PromptSize {
            asked_tokens: Some(10),
            sent_tokens: Some(10),
            words: None,
        },
        asked_output_tokens: Some(tokens),
        output_tokens: Some(tokens),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id, "c", wire)
    }
}

/// An answer of `n` tokens: first after `ttft` ms, then every `gap` ms.
pub(crate) fn even(id: u64, sent: f64, ttft: f64, gap: f64, n: u32) -> RequestRecord {
    let events: Vec<f64> = (0..n).map(|i| sent + ttft + gap * f64::from(i)).collect();
    answer(id, sent, &events)
}

/// The same request, ended otherwise and without an answer.
pub(crate) fn ended(record: RequestRecord, outcome: Outcome) -> RequestRecord {
    let unsent = matches!(outcome, Outcome::Unsent { .. });
    let mut wire = Exchange::nothing(outcome);
    if !unsent {
        wire.sent = record.wire.sent;
        wire.closed = record.wire.closed;
    }
    RequestRecord {
        output_tokens: None,
        token_source: TokenSource::Unknown,
        wire,
        ..record
    }
}

/// A refused connection.
pub(crate) fn refused() -> Outcome {
    Outcome::Failed {
        stage: Stage::Connect,
        failure: FailureKind::Refused,
        message: "connection refused".to_owned(),
    }
}
