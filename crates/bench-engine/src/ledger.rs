//! What the server knows: when each event was due and when the socket took it.
//!
//! All stamps are `CLOCK_MONOTONIC` nanoseconds (see [`crate::clock`]); `realtime_offset_ns` turns them into Unix time.

use std::collections::VecDeque;
use std::io::Write as _;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The truth about one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The request's `x-request-id`, or `engine-N` with the number of the request.
    pub id: String,
    /// Number of the request, in the order of heads read, from 0.
    pub number: u64,
    /// Number of the connection it came on, in the order of accepting, from 0.
    pub connection: u64,
    /// How many requests this connection had carried before.
    pub reused: u64,
    /// When that connection was accepted.
    pub accepted_ns: Option<u64>,
    /// `1.1`, `1.0` or `2`.
    pub http: String,
    /// Path of the request line, without the query.
    pub path: String,
    /// Whether the answer was a stream.
    pub stream: bool,
    /// Status that was sent; absent when the connection was cut before a status line.
    pub status: Option<u16>,
    /// `CLOCK_REALTIME − CLOCK_MONOTONIC` when the head was read, ns.
    pub realtime_offset_ns: i64,
    /// When the read that completed the request's head returned.
    pub head_ns: u64,
    /// When the read that completed the request's body returned.
    pub body_ns: u64,
    /// When the engine took it up, after queueing.
    pub scheduled_ns: Option<u64>,
    /// When the response head was accepted by the socket.
    pub headers_ns: Option<u64>,
    /// For each content event: when the engine wanted it written.
    pub due_ns: Vec<u64>,
    /// For each content event: just before the write call that carried it.
    pub before_ns: Vec<u64>,
    /// For each content event: when the socket had accepted its last byte.
    pub after_ns: Vec<u64>,
    /// For each content event: how many tokens it carries.
    pub tokens: Vec<u32>,
    /// For each content event: bytes handed to the socket, HTTP framing included.
    pub bytes: Vec<u32>,
    /// For each content event: which choice it belongs to. Left out when all belong to choice 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choice: Vec<u32>,
    /// When the closing events (usage, `[DONE]`, last chunk) were accepted by the socket; for an answer in one piece,
    /// when its last byte was.
    pub end_ns: Option<u64>,
    /// Tokens of the prompt, all prompts of a list together.
    pub prompt_tokens: u64,
    /// How many of them came from the prefix cache.
    pub cached_tokens: u64,
    /// Tokens generated, all choices together.
    pub completion_tokens: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The faults that were played, as given, joined with `;`.
    pub fault: Option<String>,
}

/// How the engine's side of a request ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Not over yet, or the server was stopped under it.
    #[default]
    Open,
    /// The whole answer was accepted by the socket.
    Completed,
    /// The answer was an error by intent: wrong key, wrong model, bad body, too long.
    Refused,
    /// A planned fault ended it, or changed what was sent.
    Fault,
    /// The client closed or reset the connection first.
    ClientGone,
}

impl Entry {
    pub(crate) fn event(&mut self, due: u64, before: u64, after: u64) {
        self.due_ns.push(due);
        self.before_ns.push(before);
        self.after_ns.push(after);
    }
}

/// The entries of finished requests, in the order they ended.
#[derive(Debug)]
pub struct Ledger {
    kept: Mutex<Entries>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Entries {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Ledger {
    /// Keeps the last `capacity` entries; older ones are counted and dropped. 0 keeps none.
    pub fn new(capacity: usize) -> Self {
        Self {
            kept: Mutex::default(),
            capacity,
        }
    }

    /// A copy of what is kept, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.kept.lock().entries.iter().cloned().collect()
    }

    /// Takes what is kept and leaves the ledger empty.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.kept.lock()).entries.into()
    }

    /// How many entries were dropped because the ledger was full, since it was last emptied.
    pub fn dropped(&self) -> u64 {
        self.kept.lock().dropped
    }

    /// One JSON object a line, oldest first, as `GET /ledger` answers.
    pub fn to_json_lines(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.kept.lock().entries {
            // Writing plain data to memory cannot fail.
            if serde_json::to_writer(&mut out, entry).is_ok() {
                out.write_all(b"\n").ok();
            }
        }
        out
    }

    pub(crate) fn push(&self, entry: Entry) {
        let mut kept = self.kept.lock();
        if self.capacity == 0 {
            return;
        }
        if kept.entries.len() >= self.capacity {
            kept.entries.pop_front();
            kept.dropped += 1;
        }
        kept.entries.push_back(entry);
    }
}
