//! Where the time goes, told with the server's own queue time.

use bench_schema::{CellRecord, Known, Load, Metric, PhaseShares};

use crate::signals::derived;

/// The shares of a cell's response time with the server's own queue time in them, where its queue histogram was read over the
/// cell's window; `None` where the cell's shares stand as they are.
///
/// Responses that carry their queue time know better, request by request. Otherwise the server's mean counts more than nothing
/// and more than the estimate from TTFT without load: what it says was waiting is taken off prefill, of which it was a part. Where most of the
/// time passes before its scheduler has the request or on the way (`held_back`), what is left until the first token is not the server's prefill.
///
/// `by_percentile` sets the server's own percentiles of its queue time beside those of E2E, where waiting is a part worth looking at. Where the
/// buckets of its histogram are too coarse to tell them, they are TTFT less the server's mean prefill, within the bucket. They are not of the same
/// requests.
pub fn server_phases(cell: &CellRecord) -> Option<PhaseShares> {
    let shares = cell.phases.as_ref()?;
    let known = |name: &str| derived(cell, name).filter(|value| *value >= 0.0);
    let (mean, share) = (known("server_queue_mean"), known("server_queue_share")?);
    // What an open loop's client made requests wait is in `queue` already; an estimate there cannot be told from it.
    let (own, prefill) = match (shares.queue_source.as_str(), &cell.load) {
        ("none", _) => (shares.queue, shares.prefill),
        ("estimate", Load::Closed { .. }) => (0.0, shares.prefill + shares.queue),
        _ => return None,
    };
    let waited = match (mean, known("server_prefill_mean")) {
        // Most of the time passes where its scheduler does not count: its own times alone say how much of the whole they are.
        (Some(queue), _) if held_back(cell).is_some() => {
            let e2e = cell.headline(Metric::E2e)?.mean;
            (queue / e2e).min(prefill)
        }
        // Of what passed until the first token, the server tells both parts.
        (Some(queue), Some(rest)) if queue + rest > 0.0 => prefill * queue / (queue + rest),
        // Its share is of its own E2E, which begins where the client's waiting ended.
        _ => (share * (1.0 - own)).min(prefill),
    };
    Some(PhaseShares {
        queue: own + waited,
        prefill: prefill - waited,
        decode: shares.decode,
        queue_source: if held_back(cell).is_some() {
            "held_back"
        } else {
            "server_metrics"
        }
        .to_owned(),
        by_percentile: if share < NOTEWORTHY {
            Vec::new()
        } else {
            by_percentile(cell)
        },
    })
}

/// The mean time to the first token that the server accounts for, where the client's is more than twice that and at least 20 ms longer: its own TTFT, or what its
/// scheduler counts of it (queue and prefill), which does not begin before a front end has let the request through.
pub(crate) fn held_back(cell: &CellRecord) -> Option<(Known, f64)> {
    let ours = cell.headline(Metric::Ttft)?.mean;
    let told = |name: &str| derived(cell, name);
    let scheduled = told("server_queue_mean").zip(told("server_prefill_mean"));
    let counted = [
        (Known::ServerTtft, told("server_ttft_mean")),
        (
            Known::ScheduledTtft,
            scheduled.map(|(queue, prefill)| queue + prefill),
        ),
    ];
    let counted = counted
        .into_iter()
        .filter_map(|(figure, own)| Some((figure, own?)));
    let mut short = counted.filter(|(_, own)| *own > 0.0 && ours > 2.0 * own && ours - own > 2e7);
    short.next()
}

/// Below this share of E2E waiting is within the first bucket of most servers' histograms.
const NOTEWORTHY: f64 = 0.05;

/// A bucket that is wider than this share of E2E tells no percentile of what lies in it.
const COARSE: f64 = 0.1;

fn by_percentile(cell: &CellRecord) -> Vec<(f64, f64, f64)> {
    let told = [
        (0.5, "server_queue_p50"),
        (0.9, "server_queue_p90"),
        (0.95, "server_queue_p95"),
        (0.99, "server_queue_p99"),
    ];
    let beside = told.into_iter().filter_map(|(q, name)| {
        let e2e = cell.headline(Metric::E2e)?.quantile(q)?;
        let queue = cell.hardware.as_ref()?.derived.get(name)?;
        let bucket = queue.interval?;
        // No quantile of a part is beyond that of the whole, and waiting ends before the first token.
        let first = cell.headline(Metric::Ttft)?.quantile(q)?.min(e2e);
        let told = if bucket.high - bucket.low <= COARSE * e2e {
            queue.value
        } else if held_back(cell).is_none() {
            let rest = first - derived(cell, "server_prefill_mean")?;
            rest.max(bucket.low).min(bucket.high)
        } else {
            return None;
        };
        let queue = told.clamp(0.0, first.max(0.0));
        Some((q, queue, e2e - queue))
    });
    beside.collect()
}

#[cfg(test)]
#[path = "../tests/unit/server_phases.rs"]
mod tests;
