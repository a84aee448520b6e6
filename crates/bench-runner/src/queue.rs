//! Between the planner and the workers: requests that are ready, in order, never more than so many.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use bench_schema::{Nanos, PlanHash, Stamp};
use tokio::sync::Notify;

use crate::RunError;
use crate::open_record::Conversation;

/// Conversations that are ready. Its lock is only ever held to move one of them.
pub(crate) struct Queue {
    stock: Mutex<Stock>,
    depth: usize,
    arrived: Notify,
    filled: Notify,
    planner: Option<Thread>,
}

#[derive(Default)]
struct Stock {
    ready: VecDeque<Conversation>,
    /// Nothing more will come; the first to see an error has it.
    over: bool,
    error: Option<RunError>,
    handed_out: u64,
    hash: PlanHash,
}

/// What there is to take.
pub(crate) enum Next<T> {
    /// This.
    Ready(T),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    Over,
}

impl Queue {
    /// Room for `depth` conversations; `planner` is woken when there is room again.
    pub(crate) fn new(depth: usize, planner: Option<Thread>) -> Self {
        Self {
            stock: Mutex::default(),
            depth: depth.max(1),
            arrived: Notify::new(),
            filled: Notify::new(),
            planner,
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        // nothing is half done while it is held
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the planner may put one more here.
    pub(crate) fn has_room(&self) -> bool {
        let stock = self.stock();
        !stock.over && stock.ready.len() < self.depth
    }

    /// One more is ready.
    pub(crate) fn push(&self, conversation: Conversation) {
        let full = {
            let mut stock = self.stock();
            stock.ready.push_back(conversation);
            stock.ready.len() >= self.depth
        };
        self.arrived.notify_one();
        if full {
            self.filled.notify_one();
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self, error: Option<RunError>) {
        {
            let mut stock = self.stock();
            stock.over = true;
            stock.error = stock.error.take().or(error);
        }
        self.arrived.notify_waiters();
        self.arrived.notify_one();
        self.filled.notify_one();
    }

    /// Nobody takes any more: what is here was never handed out.
    pub(crate) fn close(&self) {
        let left = {
            let mut stock = self.stock();
            stock.over = true;
            std::mem::take(&mut stock.ready)
        };
        drop(left);
        self.wake_planner();
    }

    /// Whether nothing more is put here.
    pub(crate) fn is_over(&self) -> bool {
        self.stock().over
    }

    /// Wait until it is full, or holds all there is.
    pub(crate) async fn primed(&self) {
        loop {
            let filled = self.filled.notified();
            {
                let stock = self.stock();
                if stock.over || stock.ready.len() >= self.depth {
                    return;
                }
            }
            filled.await;
        }
    }

    /// Take one: from now on it counts as planned.
    pub(crate) fn take(&self, now: Stamp) -> Result<Next<Conversation>, RunError> {
        let (taken, left) = {
            let mut stock = self.stock();
            let Some(mut conversation) = stock.ready.pop_front() else {
                return nothing(&mut stock);
            };
            let (requests, hash) = conversation.hand_out(now);
            stock.handed_out += requests;
            stock.hash += hash;
            (conversation, stock.ready.len())
        };
        if left == self.depth / 2 {
            self.wake_planner();
        }
        Ok(Next::Ready(taken))
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Result<Next<Nanos>, RunError> {
        let mut stock = self.stock();
        match stock.ready.front() {
            Some(conversation) => Ok(Next::Ready(conversation.due)),
            None => nothing(&mut stock),
        }
    }

    /// Something has changed since this was called.
    pub(crate) fn change(&self) -> impl Future<Output = ()> {
        self.arrived.notified()
    }

    /// How many requests were taken, and the sum of their hashes.
    pub(crate) fn handed_out(&self) -> (u64, PlanHash) {
        let stock = self.stock();
        (stock.handed_out, stock.hash)
    }

    fn wake_planner(&self) {
        if let Some(planner) = &self.planner {
            planner.unpark();
        }
    }
}

fn nothing<T>(stock: &mut Stock) -> Result<Next<T>, RunError> {
    match (stock.over, stock.error.take()) {
        (_, Some(error)) => Err(error),
        (true, None) => Ok(Next::Over),
        (false, None) => Ok(Next::Later),
    }
}
