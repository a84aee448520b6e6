//! The latencies of one request, exactly as `docs/metrics.md` defines them.

use bench_schema::{Channel, Metric, Nanos, Outcome, RequestRecord, Stamp};

/// The instants and counts of one request that its latencies are made from: what is kept of a record once its events were
/// counted. About 150 bytes, so that a million requests fit in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// When the schedule wanted it to start.
    pub due: Stamp,
    /// When a worker took it up.
    pub dispatched: Option<Stamp>,
    /// When the last byte of the request was handed to the socket.
    pub sent: Option<Stamp>,
    /// Arrival of the first content event; absent where the answer was not streamed: its one event is its end.
    pub first: Option<Stamp>,
    /// Arrival of the second content event.
    pub second: Option<Stamp>,
    /// Arrival of the first event on the answer channel; kept only where the answer has other channels as well.
    pub first_answer: Option<Stamp>,
    /// Arrival of the last content event.
    pub last: Option<Stamp>,
    /// When the response was over.
    pub closed: Option<Stamp>,
    /// How much earlier the first event may have arrived; zero where its stamp is exact.
    pub first_bound: Nanos,
    /// How much earlier the second event may have arrived.
    pub second_bound: Nanos,
    /// How much earlier the last event may have arrived.
    pub last_bound: Nanos,
    /// Content events, `m`.
    pub events: u64,
    /// Output tokens, `n`; absent where unknown.
    pub tokens: Option<u64>,
    /// Of them those that were made before the first that was sent: reasoning that the server counts and does not send.
    pub hidden_tokens: u64,
    /// Prompt tokens; absent where unknown.
    pub input_tokens: Option<u64>,
    /// The server's own queue time, where the response tells it.
    pub queue: Option<Nanos>,
    /// Connection set-up (look-up, connect, TLS); absent on a reused connection.
    pub connect: Option<Nanos>,
    /// Whether the answer is whole.
    pub completed: bool,
}

/// Which of the values that the bounds of its stamps allow a latency takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Within {
    /// As stamped: each event at the latest instant it can have arrived.
    Stamped,
    /// The smallest value that the bounds allow.
    Least,
    /// The largest.
    Most,
}

/// An instant that may have been up to `bound` earlier.
#[derive(Clone, Copy)]
struct Bounded(Option<Stamp>, Nanos);

impl Bounded {
    fn exact(at: Option<Stamp>) -> Self {
        Self(at, Nanos::ZERO)
    }

    /// From here to `to`; no event arrives before the one it follows, so the least is not below zero.
    fn until(self, to: Self, within: Within) -> Option<f64> {
        let stamped = to.0? - self.0?;
        Some(match within {
            Within::Stamped => stamped.as_f64(),
            Within::Least => (stamped - to.1).or_zero().min(stamped).as_f64(),
            Within::Most => (stamped + self.1).as_f64(),
        })
    }
}

impl Instants {
    /// What a record's latencies are made from.
    pub fn of(record: &RequestRecord) -> Self {
        let (wire, events) = (&record.wire, &record.wire.events);
        let mut runs = events.runs();
        let one_channel = matches!(
            (runs.next(), runs.next()),
            (None | Some((_, Channel::Answer)), None)
        );
        Self {
            due: record.due,
            dispatched: record.dispatched,
            sent: wire.sent,
            first: events.first().filter(|_| wire.streamed),
            second: events.stamps().nth(1).filter(|_| wire.streamed),
            first_answer: if one_channel || !wire.streamed {
                None
            } else {
                events.first_on(Channel::Answer)
            },
            last: events.last(),
            closed: wire.closed,
            first_bound: events.bound(0),
            second_bound: events.bound(1),
            last_bound: events.bound(events.len().saturating_sub(1)),
            events: if wire.streamed {
                events.len() as u64
            } else {
                0
            },
            tokens: record.output_tokens,
            hidden_tokens: record.hidden_tokens().unwrap_or(0),
            input_tokens: record.input_tokens(),
            queue: wire.server.as_ref().and_then(|server| server.queue),
            connect: wire.connection.set_up(),
            completed: wire.outcome == Outcome::Completed,
        }
    }

    /// The request's value of `metric` in the metric's unit; `None` where the request has none.
    ///
    /// Absent are: anything that needs a content event, of an answer without; TPOT and TTST of an answer with one; what
    /// needs token counts, where they are unknown. [`Metric::Icl`] and [`Metric::Itl`] are the request's means over its
    /// gaps (their distributions are over single gaps; see [`crate::token_gaps`]).
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.value_within(metric, Within::Stamped)
    }

    /// The value, or an end of what the bounds of the stamps allow: the truth lies between [`Within::Least`] and [`Within::Most`].
    pub fn value_within(&self, metric: Metric, within: Within) -> Option<f64> {
        let tokens = self.tokens.map(|n| n as f64);
        let (due, sent) = (Bounded::exact(Some(self.due)), Bounded::exact(self.sent));
        let (first, last) = self.ends();
        match metric {
            Metric::Ttft => sent.until(first, within),
            Metric::TtftDue => due.until(first, within),
            Metric::Ttfa => sent.until(Bounded::exact(self.first_answer), within),
            Metric::TtfaDue => due.until(Bounded::exact(self.first_answer), within),
            Metric::Ttst => first.until(Bounded(self.second, self.second_bound), within),
            Metric::E2e => sent.until(last, within),
            Metric::E2eDue => due.until(last, within),
            Metric::Icl => self
                .decode(within)
                .and_then(|d| over(d, self.events.checked_sub(1)?)),
            Metric::Itl | Metric::Tpot => self
                .decode(within)
                .and_then(|d| over(d, self.tokens?.checked_sub(self.hidden_tokens + 1)?)),
            Metric::NormalisedLatency => self
                .value_within(Metric::E2e, within)
                .and_then(|e2e| over(e2e, self.tokens?)),
            Metric::Queue => self.queue.map(Nanos::as_f64),
            Metric::Prefill => {
                let ttft = self.value_within(Metric::Ttft, within)?;
                Some((ttft - self.queue.map_or(0.0, Nanos::as_f64)).max(0.0))
            }
            Metric::Decode => self.decode(within),
            Metric::Tail => last.until(Bounded::exact(self.closed), within),
            Metric::Lateness => due.until(Bounded::exact(self.dispatched), within),
            Metric::Connect => self.connect.map(Nanos::as_f64),
            Metric::TokensPerSUser => self
                .value_within(Metric::Tpot, within.of_the_inverse())
                .filter(|tpot| *tpot > 0.0)
                .map(|tpot| 1e9 / tpot),
            Metric::InputTokens => self.input_tokens.map(|n| n as f64),
            Metric::OutputTokens => tokens,
            Metric::TokensPerChunk => {
                let sent = self.tokens?.checked_sub(self.hidden_tokens)?;
                over(sent as f64, self.events)
            }
        }
    }

    /// Whether the value of `metric` rests on a stamp that is not exact.
    pub fn is_bounded(&self, metric: Metric) -> bool {
        let [first, second, last] =
            [self.first_bound, self.second_bound, self.last_bound].map(|b| b > Nanos::ZERO);
        match metric {
            Metric::Ttft | Metric::TtftDue | Metric::Prefill => first,
            Metric::Ttst => first || second,
            Metric::E2e | Metric::E2eDue | Metric::NormalisedLatency | Metric::Tail => last,
            Metric::Icl | Metric::Itl | Metric::Tpot | Metric::Decode | Metric::TokensPerSUser => {
                first || last
            }
            _ => false,
        }
    }

    /// When it left the system: the response was over, or else its last event.
    pub fn ended(&self) -> Option<Stamp> {
        self.closed.or(self.last)
    }

    /// When the last of a whole answer came.
    pub(crate) fn answered(&self) -> Option<Stamp> {
        self.last.or(self.closed).filter(|_| self.completed)
    }

    fn ends(&self) -> (Bounded, Bounded) {
        (
            Bounded(self.first, self.first_bound),
            Bounded(self.last, self.last_bound),
        )
    }

    /// First to last content event: 0 for an answer of one event.
    fn decode(&self, within: Within) -> Option<f64> {
        let (first, last) = self.ends();
        let several = self.events > 1;
        first.until(last, if several { within } else { Within::Stamped })
    }
}

impl Within {
    /// The end of a time that gives this end of its inverse.
    fn of_the_inverse(self) -> Self {
        match self {
            Self::Stamped => Self::Stamped,
            Self::Least => Self::Most,
            Self::Most => Self::Least,
        }
    }
}

/// A quotient by a count; `None` for none.
fn over(value: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| value / count as f64)
}

/// The latest value of `metric` for one record; shorthand for [`Instants::of`] and [`Instants::value`].
pub fn latency(record: &RequestRecord, metric: Metric) -> Option<f64> {
    Instants::of(record).value(metric)
}
