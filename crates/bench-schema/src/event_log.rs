//! The content events of one answer, as columns.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Stamp};

names! {
    /// Which part of an answer an event carried.
    Channel {
        Answer "answer" "Text meant for the user.";
        Reasoning "reasoning" "Thinking before it (`reasoning`, `reasoning_content`, `thinking`).";
        Tool "tool" "Arguments or name of a tool call.";
        Refusal "refusal" "A refusal.";
    }
}

/// One content event: the arrival of the segment that completed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kernel arrival, or read-return where the run's clock says so.
    pub at: Stamp,
    /// Read-return minus arrival: the client's own lag for this event. Absent where `at` is the read-return: then the lag is unknown.
    pub lag: Option<Nanos>,
    /// How much earlier than `at` the event may really have arrived; zero where the stamp is exact.
    pub bound: Nanos,
    /// Tokens in this event, where the stream tells.
    pub tokens: Option<u32>,
    /// What it carried.
    pub channel: Channel,
}

/// All content events of one answer, in order of arrival, stored as columns.
///
/// In JSON, `first` is the first arrival and `gaps` the differences that follow, so that a long answer costs about eight
/// characters a token. `bounds` and `channels` are sparse: most stamps are exact and most answers have one channel.
/// In memory an event costs 16 bytes (12 without token counts).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct EventLog {
    first: Option<Stamp>,
    /// The last arrival; redundant, and handy for readers of one line.
    last: Option<Stamp>,
    /// Nanoseconds between consecutive arrivals; one fewer than events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<u32>,
    /// Gaps that do not fit in 32 bits (over 4.29 s, or negative): index into `gaps` and true value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wide_gaps: Vec<(u32, Nanos)>,
    /// Client lag of each event in nanoseconds, saturating at 4.29 s; empty where it is not known of every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lags: Vec<u32>,
    /// Index and width of each stamp that is not exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bounds: Vec<(u32, Nanos)>,
    /// Tokens of each event; empty where the stream does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<u32>,
    /// Index at which a channel begins; empty means all `answer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    channels: Vec<(u32, Channel)>,
}

impl EventLog {
    /// Append one event. Token counts and lags are kept only if every event has one.
    pub fn push(&mut self, event: Event) {
        let index = u32::try_from(self.len()).unwrap_or(u32::MAX);
        if let Some(last) = self.last {
            let gap = event.at - last;
            if let Ok(narrow) = u32::try_from(gap.get()) {
                self.gaps.push(narrow);
            } else {
                self.wide_gaps.push((index.saturating_sub(1), gap));
                self.gaps.push(0);
            }
        } else {
            self.first = Some(event.at);
        }
        self.last = Some(event.at);
        push_if_all(&mut self.tokens, index, event.tokens);
        let lag = event.lag;
        let lag = lag.map(|lag| u32::try_from(lag.get().max(0)).unwrap_or(u32::MAX));
        push_if_all(&mut self.lags, index, lag);
        if event.bound > Nanos::ZERO {
            self.bounds.push((index, event.bound));
        }
        let current = self
            .channels
            .last()
            .map_or(Channel::Answer, |&(_, channel)| channel);
        if event.channel != current {
            self.channels.push((index, event.channel));
        }
    }

    /// Moves every arrival by the same amount, for a log that is put on another run's clock.
    pub fn shift(&mut self, by: Nanos) {
        self.first = self.first.map(|at| at + by);
        self.last = self.last.map(|at| at + by);
    }

    /// Number of content events, `m`.
    pub fn len(&self) -> usize {
        self.first.map_or(0, |_| self.gaps.len() + 1)
    }

    /// Whether the answer carried no content.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Arrival of the first content event, `c₁`.
    pub fn first(&self) -> Option<Stamp> {
        self.first
    }

    /// Arrival of the last content event, `c_m`.
    pub fn last(&self) -> Option<Stamp> {
        self.last
    }

    /// Whether its gaps lead from the first arrival to the last.
    pub(crate) fn ends_as_it_says(&self) -> bool {
        let ns = |at: Stamp| i128::from(at.get());
        let gaps: i128 = self.gaps().map(|gap| i128::from(gap.get())).sum();
        match (self.first, self.last) {
            (Some(first), Some(last)) => ns(first) + gaps == ns(last),
            (first, last) => first.is_none() && last.is_none() && self.gaps.is_empty(),
        }
    }

    /// Arrivals in order.
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> + '_ {
        let mut at = self.first;
        let mut gaps = self.gaps();
        std::iter::from_fn(move || {
            let now = at?;
            at = gaps.next().map(|gap| now + gap);
            Some(now)
        })
    }

    /// Gaps between consecutive arrivals (inter-chunk latencies), in order.
    pub fn gaps(&self) -> impl Iterator<Item = Nanos> + '_ {
        let mut wide = self.wide_gaps.iter().peekable();
        self.gaps.iter().enumerate().map(move |(i, &narrow)| {
            match wide.next_if(|&&(at, _)| usize::try_from(at) == Ok(i)) {
                Some(&(_, gap)) => gap,
                None => Nanos::new(i64::from(narrow)),
            }
        })
    }

    /// Client lag of each event, in order; none where it is not known.
    pub fn lags(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.lags.iter().map(|&lag| Nanos::new(i64::from(lag)))
    }

    /// Index and width of the stamps that are not exact, in order.
    pub fn bounds(&self) -> &[(u32, Nanos)] {
        &self.bounds
    }

    /// How much earlier than its stamp event `index` may have arrived.
    pub fn bound(&self, index: usize) -> Nanos {
        let Ok(index) = u32::try_from(index) else {
            return Nanos::ZERO;
        };
        self.bounds
            .binary_search_by_key(&index, |&(at, _)| at)
            .ok()
            .and_then(|i| self.bounds.get(i))
            .map_or(Nanos::ZERO, |b| b.1)
    }

    /// Tokens of each event, or `None` where the stream did not tell for every one.
    pub fn tokens(&self) -> Option<&[u32]> {
        (!self.tokens.is_empty() && self.tokens.len() == self.len())
            .then_some(self.tokens.as_slice())
    }

    /// Arrival of the first event on `channel`.
    pub fn first_on(&self, channel: Channel) -> Option<Stamp> {
        let index = self.runs().find(|&(_, c)| c == channel)?.0;
        self.stamps().nth(index)
    }

    /// Start index and channel of each run of events on one channel.
    pub fn runs(&self) -> impl Iterator<Item = (usize, Channel)> + '_ {
        let starts_marked = self.channels.first().is_some_and(|&(at, _)| at == 0);
        let implicit = (!self.is_empty() && !starts_marked).then_some((0, Channel::Answer));
        implicit.into_iter().chain(
            self.channels
                .iter()
                .map(|&(at, c)| (usize::try_from(at).unwrap_or(usize::MAX), c)),
        )
    }
}

/// Keep a column only where each event so far has a value.
fn push_if_all(column: &mut Vec<u32>, index: u32, value: Option<u32>) {
    match value {
        Some(value) if u32::try_from(column.len()) == Ok(index) => column.push(value),
        _ => column.clear(),
    }
}
