//! What the system lets one process have: each stream is an open file.

use bench_schema::Load;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;
use crate::{Cell, RunError};

/// Files that are open beside the streams: journals, runtimes, timers, the sampler's.
const BESIDE: u64 = 64;

/// Raise the limit on open files as far as the system allows. Where even that is too low for the streams of a cell, say so now: requests that fail
/// because of it would be taken for the server's.
pub(super) fn make_room_for(cells: &[Cell], settings: &Settings) -> Result<(), RunError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // a refusal leaves what there was
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let shares_connections = settings.target.http2;
    let streams = cells.iter().filter_map(streams).max().unwrap_or(0);
    match short(streams, allowed) {
        Some(problem) if !shares_connections && !settings.limits.keep_going => {
            Err(RunError::Client(problem))
        }
        _ => Ok(()),
    }
}

/// The most streams that a cell has at once, where it says so.
fn streams(cell: &Cell) -> Option<u64> {
    match &cell.load {
        Load::Closed { concurrency, .. } => Some(u64::from(*concurrency)),
        Load::Open { in_flight_cap, .. } => in_flight_cap.map(u64::from),
    }
}

fn short(streams: u64, allowed: Option<u64>) -> Option<String> {
    let (needed, allowed) = (streams + BESIDE, allowed?);
    (needed > allowed).then(|| {
        format!(
            "{streams} streams need about {needed} open files, and the system allows this process {allowed}\n  \
             help: raise the hard limit (ulimit -Hn), or ask for fewer streams; --keep-going measures all the same"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_do_not_fit_are_named_before_they_fail() {
        assert_eq!(short(900, Some(1024)), None);
        assert_eq!(short(1_000_000, None), None);
        let problem = short(256, Some(64)).unwrap();
        assert!(
            problem.contains("256 streams") && problem.contains("64") && problem.contains("320")
        );
    }
}
