//! `--precision`, and the stages of a search, over the requests of all shards: what each tells shard 0 while a cell is measured, and what shard 0 makes of it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench_insight::{Asked, EndedRequest, PooledStop};
use bench_schema::{CellRecord, ClientRecord, Nanos};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{Message, Place, Step};

/// How often shards tell of their requests: a cell ends about this much late.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// Requests in one message, so that it stays far below the longest that is taken.
const MOST_TOLD: usize = 4_096;
/// And about how many bytes, unless one request alone has more.
const MOST_BYTES: usize = 256 << 10;

/// Ended requests of this shard that shard 0 does not know of yet. The recorder puts them in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended(Arc<Mutex<Vec<EndedRequest>>>);

impl Ended {
    pub(crate) fn push(&self, request: EndedRequest) {
        self.0.lock().push(request);
    }
}

/// The stop rule of one cell, where all shards' requests decide. By default nothing does.
#[derive(Default)]
pub(super) struct Pooled {
    cell: u32,
    own: Option<Ended>,
    /// Shard 0's.
    rule: Option<RefCell<PooledStop>>,
    enough: Arc<AtomicBool>,
}

impl Pooled {
    /// Of this cell of all shards, by what is asked of it, as a shard of this index sees it; `enough` ends it.
    pub(super) fn of(
        (cell, asked): (&CellRecord, &Asked),
        (at, index): (usize, u32),
        enough: &Arc<AtomicBool>,
    ) -> Self {
        if cell.stop.precision.is_empty() && asked.search.is_none() {
            return Self::default();
        }
        Self {
            cell: Place::of(at, 0, Step::Measure).cell,
            own: Some(Ended::default()),
            rule: (index == 0).then(|| RefCell::new(PooledStop::new(cell, asked))),
            enough: Arc::clone(enough),
        }
    }

    /// The stage of a search as all shards measured it, at shard 0.
    pub(super) fn into_stage(
        self,
        clients: &[&ClientRecord],
        before: &[CellRecord],
    ) -> Option<CellRecord> {
        self.rule?.into_inner().into_stage(clients, before)
    }

    /// Where this shard's requests are to be put; nowhere where nothing is pooled.
    pub(super) fn own(&self) -> Option<Ended> {
        self.own.clone()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.own.is_some()
    }

    pub(super) fn has_untold(&self) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|own| !own.0.lock().is_empty())
    }

    /// What is to be told of next: some of the requests that are not known yet, or none, their ends moved onto shard 0's clock.
    pub(super) fn message(&self, offset: Nanos) -> Message {
        let mut ended = self.own.as_ref().map_or_else(Vec::new, |own| {
            let mut all = own.0.lock();
            let mut bytes = 0;
            let fit = all.iter().take(MOST_TOLD).take_while(|request| {
                let before = bytes;
                bytes += request.bytes();
                before == 0 || bytes <= MOST_BYTES
            });
            let fit = fit.count();
            all.drain(..fit).collect()
        });
        for request in &mut ended {
            request.shift(offset);
        }
        let cell = self.cell;
        Message::Ended { cell, ended }
    }

    /// Another shard's requests have come to shard 0: whether all are enough. Those of a cell that it has left behind count for nothing.
    pub(super) fn add(&self, cell: u32, ended: Vec<EndedRequest>) -> bool {
        let of_this = self.rule.as_ref().filter(|_| cell == self.cell);
        of_this.is_some_and(|rule| {
            rule.borrow_mut().add(ended);
            self.decide()
        })
    }

    /// Shard 0 looks at its own requests too.
    pub(super) fn decide(&self) -> bool {
        let Some((rule, own)) = self.rule.as_ref().zip(self.own.as_ref()) else {
            return false;
        };
        let mut rule = rule.borrow_mut();
        rule.add(std::mem::take(&mut *own.0.lock()));
        self.heard(rule.is_enough());
        rule.is_enough()
    }

    pub(super) async fn keep_deciding(&self) {
        loop {
            sleep(EVERY).await;
            self.decide();
        }
    }

    /// What shard 0 says of all requests.
    pub(super) fn heard(&self, enough: bool) {
        if enough {
            self.enough.store(true, Ordering::Relaxed);
        }
    }
}
