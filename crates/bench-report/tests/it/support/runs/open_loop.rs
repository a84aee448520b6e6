//! An open loop that breaks.

use std::collections::BTreeMap;

use bench_schema::*;

use super::super::cells::{cell, counts, ms, rates, seconds};
use super::empty;

/// An open loop in which things go wrong: late starts, failures, time-outs, doubtful numbers.
pub(crate) fn open_loop() -> RunRecord {
    let mut run = empty(
        Benchmark::Throughput,
        "Poisson arrivals at 2, 5 and 20 requests/s",
    );
    for (i, (rate, offered, e2e)) in [
        (2.0, 2.0, 18_500.0),
        (5.0, 4.98, 18_250.0),
        (20.0, 17.1, 31_000.0),
    ]
    .into_iter()
    .enumerate()
    {
        let n = (rate * 30.0) as u64;
        let from = 1.0 + 40.0 * i as f64;
        let load = Load::Open {
            rate_per_s: Some(rate),
            arrival: ArrivalKind::Poisson,
            in_flight_cap: Some(256),
        };
        let mut cell = cell(
            &format!("r{rate}-poisson"),
            &format!("{rate} requests/s"),
            load,
            (from, from + 30.0),
            n,
        );
        cell.plan.requested_rate_per_s = Some(rate);
        cell.plan.offered_rate_per_s = Some(offered);
        cell.metrics = BTreeMap::from([
            (Metric::Ttft, ms(n, 400.0 * rate, 900.0 * rate)),
            (Metric::TtftDue, ms(n, 420.0 * rate, 1100.0 * rate)),
            (Metric::E2e, ms(n, e2e, e2e * 1.4)),
            (Metric::E2eDue, ms(n, e2e * 1.02, e2e * 1.6)),
            (Metric::Icl, ms(n * 100, 80.0, 140.0)),
            (Metric::Lateness, ms(n, 0.03, 0.4)),
        ]);
        cell.windows.whole = Some(rates(
            Window {
                from: seconds(from),
                to: seconds(from + 30.0),
            },
            n,
            120.0,
        ));
        if rate > 10.0 {
            break_some(&mut cell);
        }
        run.cells.push(cell);
    }
    run.trust = Trust::from_reasons(vec![
        TrustReason { also_in: Vec::new(), code: "offered_rate".into(), verdict: TrustVerdict::Untrusted, message: "17.1 requests/s were sent where 20 were asked for (14.5 % less); use more worker threads".into(), next: None, cell: Some("r20-poisson".into()), measured: Some(17.1), threshold: Some(19.8) },
        TrustReason { also_in: Vec::new(), code: "warm_cache".into(), verdict: TrustVerdict::Doubtful, message: "41 % of prompt tokens came from the prefix cache".into(), next: None, cell: None, measured: Some(0.41), threshold: Some(0.05) },
    ]);
    run.complete = false;
    run.incomplete_reason = Some("stopped by Ctrl-C".into());
    run
}

fn break_some(cell: &mut CellRecord) {
    let planned = cell.counts.planned;
    cell.counts = Counts {
        completed: planned - 95,
        failed: 40,
        timed_out: 12,
        truncated: 3,
        cancelled: 10,
        unsent: 30,
        failures: vec![
            (Stage::Stream, FailureKind::Reset, 31),
            (Stage::Headers, FailureKind::Status, 9),
        ],
        timeouts: vec![(Stage::FirstToken, 12)],
        messages: vec![("connection reset by peer".into(), 31)],
        replaced_connections: 2,
        ..counts(planned)
    };
    for metric in [Metric::E2eDue, Metric::TtftDue] {
        if let Some(seen) = cell.metrics.get_mut(&metric) {
            seen.bounded_share = Some(0.2);
            seen.with_failures = Some(FailureView {
                n: planned,
                failed: 95,
                quantiles: vec![
                    (0.5, Some(seen.mean)),
                    (0.9, None),
                    (0.95, None),
                    (0.99, None),
                    (0.999, None),
                ],
            });
            seen.quantiles
                .iter_mut()
                .for_each(|q| q.at_least = Some(q.value * 0.97));
        }
    }
}
