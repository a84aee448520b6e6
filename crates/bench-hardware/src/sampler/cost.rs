//! What a source costs, measured with the thread's own CPU clock.

use std::collections::BTreeMap;

use bench_schema::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// What one source cost from start to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCost {
    /// `host`, `client`, `server_process`, `gpu`, `server_metrics`, `dcgm`, `prometheus`.
    pub source: String,
    /// The thread it shares with others, or has for itself.
    pub worker: String,
    /// CPU time spent in reading (for scrapes: fetching, parsing and mapping).
    pub cpu: Nanos,
    /// Times it was asked.
    pub ticks: u64,
    /// Ticks that passed while the thread was still busy.
    pub missed_ticks: u64,
    /// Readings handed on.
    pub readings: u64,
    /// Readings dropped because the queue to the sink was full.
    pub dropped: u64,
    /// What it found out about the server.
    pub facts: BTreeMap<String, String>,
    /// The longest time one tick took on the run's clock, waiting included.
    pub longest: Nanos,
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos::from_secs(time.tv_sec) + Nanos::new(time.tv_nsec)
}
