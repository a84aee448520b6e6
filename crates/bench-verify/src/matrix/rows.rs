//! The ways a run can go, and a selection that has every pair of them.

use std::collections::BTreeSet;
use std::fmt;

/// Levels of each factor, in the order of [`Row`]'s accessors.
const LEVELS: [usize; 8] = [2, 3, 2, 2, 4, 2, 2, 2];

/// How load is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// A number in flight.
    Closed,
    /// A rate.
    Open,
    /// Conversations, a number in flight.
    Sessions,
}

/// What requests travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// HTTP/1.1 over TCP.
    Http1,
    /// HTTP/2 over TCP, by prior knowledge.
    Http2,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/1.1 over a Unix socket.
    Unix,
}

/// One way a run can go: a level of each factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row([usize; LEVELS.len()]);

impl Row {
    /// Cells that follow each other, as repeats.
    pub(super) fn cells(self) -> usize {
        if self.0[0] == 0 { 1 } else { 3 }
    }

    /// How load is offered.
    pub(super) fn load(self) -> Load {
        [Load::Closed, Load::Open, Load::Sessions][self.0[1]]
    }

    /// Whether prompts are made with a tokenizer.
    pub(super) fn tokenizer(self) -> bool {
        self.0[2] == 1
    }

    /// Whether the run begins without warm-up.
    pub(super) fn cold(self) -> bool {
        self.0[3] == 1
    }

    /// What requests travel on.
    pub(super) fn transport(self) -> Transport {
        [
            Transport::Http1,
            Transport::Http2,
            Transport::Tls,
            Transport::Unix,
        ][self.0[4]]
    }

    pub(super) fn workers(self) -> usize {
        self.0[5] + 1
    }

    /// Servers that share the load.
    pub(super) fn urls(self) -> usize {
        self.0[6] + 1
    }

    pub(super) fn batching(self) -> bool {
        self.0[7] == 0
    }

    /// One closed cell, without a tokenizer, warm, over HTTP/1.1, one worker, one server.
    pub(super) fn plain() -> Self {
        Self([0; LEVELS.len()])
    }

    fn pairs(self) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        (0..LEVELS.len())
            .flat_map(move |a| (a + 1..LEVELS.len()).map(move |b| (a, self.0[a], b, self.0[b])))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.load() {
            Load::Closed => "closed",
            Load::Open => "open",
            Load::Sessions => "sessions",
        };
        let transport = match self.transport() {
            Transport::Http1 => "HTTP/1.1",
            Transport::Http2 => "HTTP/2",
            Transport::Tls => "TLS",
            Transport::Unix => "Unix",
        };
        write!(
            f,
            "{} × {load}, {}{}, {transport}, {} w, {} url{}",
            self.cells(),
            if self.tokenizer() { "tokenizer, " } else { "" },
            if self.cold() { "cold" } else { "warm" },
            self.workers(),
            self.urls(),
            if self.batching() { "" } else { ", no batching" },
        )
    }
}

/// Rows in which every level of every factor is there.
pub(super) fn each_level() -> Vec<Row> {
    cover(|row| row.0.into_iter().enumerate().collect())
}

/// Rows in which every level of every factor meets every level of every other.
pub(super) fn pairwise() -> Vec<Row> {
    cover(|row| row.pairs().collect())
}

/// Rows that have all features together: each next row is the one of the full product that has most which no row before it has,
/// the first of those that are equal.
fn cover<F: Ord>(features: impl Fn(&Row) -> Vec<F>) -> Vec<Row> {
    let all = product();
    let mut open: BTreeSet<F> = all.iter().flat_map(&features).collect();
    let mut rows = Vec::new();
    while !open.is_empty() {
        let new = |row: &Row| {
            features(row)
                .iter()
                .filter(|one| open.contains(one))
                .count()
        };
        // `max_by_key` takes the last of equals; reversed, that is the first.
        let Some(best) = all.iter().rev().copied().max_by_key(new) else {
            break;
        };
        for one in features(&best) {
            open.remove(&one);
        }
        rows.push(best);
    }
    rows
}

fn product() -> Vec<Row> {
    let count = LEVELS.iter().product();
    let row = |mut number: usize| {
        let mut levels = [0; LEVELS.len()];
        for (level, size) in levels.iter_mut().zip(LEVELS) {
            *level = number % size;
            number /= size;
        }
        Row(levels)
    };
    (0..count).map(row).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/matrix_rows.rs"]
mod tests;
