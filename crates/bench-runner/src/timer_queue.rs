//! The instants that tasks of one worker wait for beside each other, on the worker's one timer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bench_schema::Stamp;
use tokio::sync::{Notify, oneshot};

#[derive(Default)]
pub(crate) struct TimerQueue {
    waiting: RefCell<BTreeMap<Stamp, Vec<oneshot::Sender<()>>>>,
    earlier: Notify,
}

impl TimerQueue {
    /// Wait until `at` has come and the worker has rung.
    pub(crate) async fn wait_until(&self, at: Stamp) {
        let (wake, woken) = oneshot::channel();
        let is_earliest = self.next().is_none_or(|next| at < next);
        self.waiting.borrow_mut().entry(at).or_default().push(wake);
        if is_earliest {
            self.earlier.notify_one();
        }
        // a worker that is gone has nothing to do later
        woken.await.ok();
    }

    pub(crate) fn next(&self) -> Option<Stamp> {
        let waiting = self.waiting.borrow();
        waiting.first_key_value().map(|(at, _)| *at)
    }

    /// Resolves when there is an earlier one than before.
    pub(crate) async fn changed(&self) {
        self.earlier.notified().await;
    }

    /// Wake everybody whose instant has come.
    pub(crate) fn ring(&self, now: Stamp) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= now) {
            for wake in first.remove() {
                // one that gave up waiting is not there any more
                wake.send(()).ok();
            }
        }
    }
}
