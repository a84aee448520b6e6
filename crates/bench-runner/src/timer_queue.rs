//! What a worker has promised to do later: one timer serves all of it.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bench_schema::Stamp;
use tokio::sync::{Notify, oneshot};

/// Instants that tasks of one worker wait for.
#[derive(Default)]
pub(crate) struct TimerQueue {
    waiting: RefCell<BinaryHeap<Reverse<Entry>>>,
    earlier: Notify,
}

struct Entry {
    at: Stamp,
    wake: oneshot::Sender<()>,
}

impl TimerQueue {
    /// Wait until `at` has come and the worker has rung.
    pub(crate) async fn wait_until(&self, at: Stamp) {
        let (wake, woken) = oneshot::channel();
        let is_earliest = self.next().is_none_or(|next| at < next);
        self.waiting.borrow_mut().push(Reverse(Entry { at, wake }));
        if is_earliest {
            self.earlier.notify_one();
        }
        // a worker that is gone has nothing to do later
        woken.await.ok();
    }

    /// The earliest of them.
    pub(crate) fn next(&self) -> Option<Stamp> {
        self.waiting.borrow().peek().map(|entry| entry.0.at)
    }

    /// Resolves when there is an earlier one than before.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }

    /// Wake everybody whose instant has come.
    pub(crate) fn ring(&self, now: Stamp) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.peek().is_some_and(|entry| entry.0.at <= now) {
            if let Some(Reverse(entry)) = waiting.pop() {
                // one that gave up waiting is not there any more
                entry.wake.send(()).ok();
            }
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
