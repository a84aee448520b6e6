//! What a server suffers over time, as its configuration says: pauses, other speeds, cold starts, limits, outages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::clock::{from_ns_f64, now_ns};
use crate::config::{Cold, EngineConfig, Outage, Pause, PauseOf, RateLimit, Slowdown};

/// The conditions of one server, and when they began to count.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pauses: Vec<Pause>,
    slowdowns: Vec<Slowdown>,
    cold: Cold,
    outages: Vec<Outage>,
    limit: Option<Mutex<Bucket>>,
    /// When the first connection was accepted; 0 before.
    first_ns: AtomicU64,
    /// Sequences that were slow because they were among the first.
    cold_requests: AtomicU64,
    /// A bit for each size of batch that was run, by its logarithm.
    shapes: AtomicU64,
}

#[derive(Debug)]
struct Bucket {
    limit: RateLimit,
    level: f64,
    filled_ns: u64,
}

impl Conditions {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        let bucket = |limit: &RateLimit| {
            Mutex::new(Bucket {
                level: f64::from(limit.burst),
                limit: limit.clone(),
                filled_ns: now_ns(),
            })
        };
        Self {
            pauses: config
                .pauses
                .iter()
                .filter(|pause| pause.for_ms > 0)
                .cloned()
                .collect(),
            slowdowns: config.slowdowns.clone(),
            cold: config.cold.clone(),
            outages: config.outages.clone(),
            limit: config.rate_limit.as_ref().map(bucket),
            ..Self::default()
        }
    }

    /// A connection was accepted: from the first one on, instants count.
    pub(crate) fn connected(&self) {
        // Only the first one succeeds; the others find the time set.
        let _first = self
            .first_ns
            .compare_exchange(0, now_ns(), Relaxed, Relaxed);
    }

    /// When a pause that holds at `now` is over.
    pub(crate) fn paused_until(&self, what: PauseOf, now: u64) -> Option<u64> {
        let since = self.since_start(now)?;
        let over = |pause: &Pause| {
            let into = since.checked_sub(ms(pause.after_ms))?;
            let into = pause.every_ms.map_or(into, |every| into % ms(every).max(1));
            let left = ms(pause.for_ms)
                .checked_sub(into)
                .filter(|left| *left > 0)?;
            Some(now.saturating_add(left))
        };
        self.pauses
            .iter()
            .filter(|pause| pause.what == what)
            .filter_map(over)
            .max()
    }

    /// When work that is begun at `from` and takes `ns` at full speed is done.
    pub(crate) fn done(&self, from: u64, ns: f64) -> u64 {
        let mut at = from;
        let mut left = from_ns_f64(ns * self.factor(from));
        loop {
            if let Some(until) = self.paused_until(PauseOf::Tokens, at) {
                at = until;
                continue;
            }
            match self
                .next_pause(at)
                .filter(|start| *start < at.saturating_add(left))
            {
                Some(start) => {
                    left -= start - at;
                    at = start;
                }
                None => return at.saturating_add(left),
            }
        }
    }

    /// What is added to the time to first token of the next sequence, ns.
    pub(crate) fn cold_request_ns(&self) -> u64 {
        let is_cold =
            self.cold.requests > 0 && self.cold_requests.fetch_add(1, Relaxed) < self.cold.requests;
        if is_cold {
            from_ns_f64(self.cold.first_token_ms * 1e6)
        } else {
            0
        }
    }

    /// What is added because a batch of so many sequences is run, ns: something the first time only.
    pub(crate) fn cold_shape_ns(&self, sequences: usize) -> u64 {
        if self.cold.shape_ms <= 0.0 || sequences == 0 {
            return 0;
        }
        let bit = 1 << sequences.next_power_of_two().trailing_zeros();
        if self.shapes.fetch_or(bit, Relaxed) & bit == 0 {
            from_ns_f64(self.cold.shape_ms * 1e6)
        } else {
            0
        }
    }

    /// `Retry-After` of a request that the rate limit turns away at `now`, s.
    pub(crate) fn turned_away(&self, now: u64) -> Option<u64> {
        let mut bucket = self.limit.as_ref()?.lock();
        let passed = now.saturating_sub(bucket.filled_ns) as f64 / 1e9;
        bucket.filled_ns = bucket.filled_ns.max(now);
        bucket.level =
            (bucket.level + passed * bucket.limit.per_s).min(f64::from(bucket.limit.burst));
        if bucket.level >= 1.0 {
            bucket.level -= 1.0;
            return None;
        }
        let wait = ((1.0 - bucket.level) / bucket.limit.per_s).ceil().max(1.0);
        Some(
            bucket
                .limit
                .retry_after_s
                .unwrap_or_else(|| from_ns_f64(wait)),
        )
    }

    /// The outage that begins next, or goes on at `now`: its beginning, and its end unless it is for ever.
    pub(crate) fn next_outage(&self, now: u64) -> Option<(u64, Option<u64>)> {
        let first = self.first()?;
        let instants = |outage: &Outage| {
            let from = first.saturating_add(ms(outage.after_ms));
            (
                from,
                outage.for_ms.map(|length| from.saturating_add(ms(length))),
            )
        };
        self.outages
            .iter()
            .map(instants)
            .filter(|(_, until)| until.is_none_or(|until| until > now))
            .min()
    }

    /// What times are multiplied by at `now`.
    fn factor(&self, now: u64) -> f64 {
        let Some(since) = self.since_start(now) else {
            return 1.0;
        };
        let of = |slow: &Slowdown| {
            let into = since.checked_sub(ms(slow.after_ms))?;
            if slow.until_ms.is_some_and(|until| since >= ms(until)) {
                return None;
            }
            let share = match slow.over_ms {
                0 => 1.0,
                over => (into as f64 / ms(over) as f64).min(1.0),
            };
            Some(1.0 + (slow.factor - 1.0) * share)
        };
        self.slowdowns.iter().filter_map(of).product()
    }

    /// When the next pause of the tokens begins, after `at`.
    fn next_pause(&self, at: u64) -> Option<u64> {
        let first = self.first()?;
        let next = |pause: &Pause| {
            let start = first.saturating_add(ms(pause.after_ms));
            if at < start {
                return Some(start);
            }
            let every = ms(pause.every_ms?).max(1);
            Some(start + ((at - start) / every + 1) * every)
        };
        self.pauses
            .iter()
            .filter(|pause| pause.what == PauseOf::Tokens)
            .filter_map(next)
            .min()
    }

    fn first(&self) -> Option<u64> {
        Some(self.first_ns.load(Relaxed)).filter(|first| *first > 0)
    }

    fn since_start(&self, now: u64) -> Option<u64> {
        now.checked_sub(self.first()?)
    }
}

fn ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

#[cfg(test)]
#[path = "../tests/unit/conditions.rs"]
mod tests;
