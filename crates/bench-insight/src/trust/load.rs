//! The load: was what was asked for also what was offered, and did the server settle under it.

use bench_schema::{ArrivalKind, CellRecord, Load, Metric, TrustReason, TrustVerdict};

use super::{crossed, graded, reason};
use crate::facts::TrustFacts;
use crate::text;
use crate::view;

pub(super) fn lateness(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let Load::Open { rate_per_s, .. } = cell.load else {
        return None;
    };
    let gap = 1e9 / view::positive(rate_per_s)?;
    let p99 = view::quantile(cell, Metric::Lateness, 0.99)?;
    // Of 1 ms and 1 % of the gap the larger: below a millisecond no server can tell, and a slow schedule forgives more.
    let limit = (0.01 * gap).max(1e6);
    let lost = gap.max(1e7);
    let (verdict, limit) = graded(p99, limit, lost.max(limit))?;
    let message = format!(
        "requests left late: lateness p99 {}, limit {} at a mean gap of {}; more workers or a lower rate per client",
        text::time(p99),
        text::time(limit),
        text::time(gap),
    );
    Some(crossed("lateness", verdict, message, p99, limit))
}

/// How far a random schedule of `n` gaps may be from its nominal rate by chance alone: three standard errors.
fn chance(arrival: &ArrivalKind, n: u64) -> f64 {
    let cov = match arrival {
        ArrivalKind::Poisson => 1.0,
        ArrivalKind::Gamma { cov } => *cov,
        _ => 0.0,
    };
    3.0 * cov / (n.max(1) as f64).sqrt()
}

pub(super) fn offered_rate(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let Load::Open { arrival, .. } = &cell.load else {
        return None;
    };
    let asked = view::positive(cell.plan.requested_rate_per_s?)?;
    let offered = cell.plan.offered_rate_per_s.filter(|r| r.is_finite())?;
    let below = 1.0 - offered / asked;
    let slack = chance(arrival, cell.plan.requests);
    let (verdict, limit) = graded(below, 0.01 + slack, 0.10 + slack)?;
    let message = format!(
        "only {} of the {} requests/s asked for were offered ({} below, limit {}); more workers, a higher in-flight cap, or a lower rate",
        text::number(offered),
        text::number(asked),
        text::percent(below),
        text::percent(limit),
    );
    Some(crossed("offered_rate", verdict, message, below, limit))
}

pub(super) fn in_flight_cap(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let hits = cell.client.cap_hits;
    (hits > 0).then(|| {
        let message = format!(
            "{} of {} requests were not sent because the in-flight cap was reached; raise the cap, or read the cell as an overload",
            text::grouped(hits as f64),
            text::grouped(cell.counts.planned as f64),
        );
        crossed(
            "in_flight_cap",
            TrustVerdict::Doubtful,
            message,
            hits as f64,
            0.0,
        )
    })
}

pub(super) fn not_stationary(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let found = cell.windows.stationarity.as_ref()?;
    if found.stationary != Some(false) {
        return None;
    }
    let next = if cell.load.is_open() {
        "measure longer; where latency or the number in flight rises again, the server does not keep up with the rate"
    } else {
        "measure longer, or warm up more"
    };
    let message = format!(
        "the measured window is not steady ({}); {next}",
        found.reason.trim_end_matches('.')
    );
    Some(reason("not_stationary", TrustVerdict::Doubtful, message))
}
