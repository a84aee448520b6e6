//! Bytes that wait until their event, line or body is whole, within the limits on each and on all of them together.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sse::SseError;

/// What the unfinished events and bodies of all requests may take together, in bytes. Clones share it.
///
/// The first 64 KiB of each are free, so that a few giant ones do not fail the ordinary ones beside them.
#[derive(Clone, Debug)]
pub struct HeldBytes {
    left: Arc<AtomicUsize>,
    limit: usize,
}

impl HeldBytes {
    /// Room for `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(limit)),
            limit,
        }
    }

    fn take(&self, bytes: usize) -> Result<(), SseError> {
        let less = |left: usize| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let limit = self.limit;
        taken.map_or(Err(SseError::TooMuchHeld { limit }), |_| Ok(()))
    }
}

impl Default for HeldBytes {
    /// 256 MiB.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

/// Bytes of one kept event, line or body that cost nothing of [`HeldBytes`].
const FREE: usize = 64 << 10;

/// The bytes so far of one event, line or body.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    limit: usize,
    all: HeldBytes,
    /// Taken of `all`.
    taken: usize,
}

impl Held {
    /// Nothing yet; it may become `limit` bytes.
    pub(crate) fn new(limit: usize, all: &HeldBytes) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            all: all.clone(),
            taken: 0,
        }
    }

    /// Whether `more` bytes fit within the limit on this one.
    pub(crate) fn check(&self, more: usize) -> Result<(), SseError> {
        if self.bytes.len() + more > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    pub(crate) fn extend(&mut self, more: &[u8]) -> Result<(), SseError> {
        self.check(more.len())?;
        let (len, room) = (self.bytes.len() + more.len(), self.bytes.capacity());
        if len > room {
            // Twice as much, so that the time stays linear, but never more than may come.
            let room = len.max(room.saturating_mul(2).min(self.limit));
            let cost = room.saturating_sub(FREE);
            self.all.take(cost - self.taken)?;
            self.taken = cost;
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Forgets the bytes; what was taken of the room for all is given back.
    pub(crate) fn clear(&mut self) {
        if self.taken > 0 {
            self.bytes = Vec::new();
            self.give_back();
        }
        self.bytes.clear();
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.all.left.fetch_add(taken, Ordering::Relaxed);
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}
