//! Where the time goes, told with the server's own queue time.

use bench_schema::{CellRecord, Load, Metric, PhaseShares};

use crate::signals::derived;

/// The shares of a cell's response time with the server's own queue time in them, where its queue histogram was read over the
/// cell's window; `None` where the cell's shares stand as they are.
///
/// Responses that carry their queue time know better, request by request. Otherwise the server's mean counts more than nothing
/// and more than the estimate from TTFT without load: what it says was waiting is taken off prefill, of which it was a part. Where first
/// tokens are kept back on their way (`held_back`), what is left until then is not the server's prefill.
///
/// `by_percentile` sets the server's own percentiles of its queue time beside those of E2E, where waiting is a part worth looking at and the
/// buckets of the server's histogram are fine enough to tell them; they are not of the same requests.
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
        // Something in between keeps first tokens back: its own times alone say how much of the whole they are.
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

/// The mean TTFT of the server's own account, where first tokens reach the client at more than twice that and at least 20 ms later.
pub(crate) fn held_back(cell: &CellRecord) -> Option<f64> {
    let (own, ours) = (
        derived(cell, "server_ttft_mean")?,
        cell.headline(Metric::Ttft)?,
    );
    (own > 0.0 && ours.mean > 2.0 * own && ours.mean - own > 2e7).then_some(own)
}

/// Below this share of E2E waiting is within the first bucket of most servers' histograms.
const NOTEWORTHY: f64 = 0.05;

/// A bucket that is wider than this share of E2E tells no percentile of what lies in it.
const COARSE: f64 = 0.1;

fn by_percentile(cell: &CellRecord) -> Vec<(f64, f64, f64)> {
    let told = [
        (0.5, "server_queue_p50"),
        (0.95, "server_queue_p95"),
        (0.99, "server_queue_p99"),
    ];
    let beside = told.into_iter().filter_map(|(q, name)| {
        let e2e = cell.headline(Metric::E2e)?.quantile(q)?;
        let queue = cell.hardware.as_ref()?.derived.get(name)?;
        let bucket = queue.interval?;
        let fine = bucket.high - bucket.low <= COARSE * e2e;
        // No quantile of a part is beyond that of the whole, and waiting ends before the first token.
        let first = cell.headline(Metric::Ttft)?.quantile(q)?.min(e2e);
        let queue = queue.value.clamp(0.0, first.max(0.0));
        fine.then_some((q, queue, e2e - queue))
    });
    beside.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(source: &str, queue: f64, server: f64) -> CellRecord {
        let text = format!(
            r#"{{"id": "c", "label": "c", "factors": {{}}, "load": {{"kind": "closed", "concurrency": 16}}, "stop": {{}}, "repeats": 1,
            "plan": {{"hash": "", "requests": 0, "dataset": "mixed", "sized_by": "words"}}, "headline": "sent",
            "counts": {{"planned": 0, "completed": 0, "failed": 0, "timed_out": 0, "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0}},
            "windows": {{}}, "metrics": {{}}, "analysis": {{}}, "client": {{"workers": 0}},
            "phases": {{"queue": {queue}, "prefill": {}, "decode": 0.5, "queue_source": "{source}", "by_percentile": [[0.5, 0.0, 1e9]]}},
            "hardware": {{"resources": [], "derived": {{"server_queue_share": {{"value": {server}, "unit": "ratio"}}}}}}}}"#,
            0.5 - queue
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_the_server_says_was_waiting_is_taken_off_prefill() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        for (source, queue) in [("none", 0.0), ("estimate", 0.3)] {
            let shares = server_phases(&cell(source, queue, 0.45)).unwrap();
            assert!(
                near(shares.queue, 0.45) && near(shares.prefill, 0.05),
                "{shares:?}"
            );
            assert_eq!(shares.queue_source, "server_metrics");
            assert!(shares.by_percentile.is_empty());
        }
        // more than there is to wait in is the server's count of other requests
        let shares = server_phases(&cell("none", 0.0, 0.9)).unwrap();
        assert!(near(shares.queue, 0.5) && near(shares.prefill, 0.0));
    }

    #[test]
    fn a_proxy_that_keeps_answers_back_makes_no_queue() {
        // 3.2 ms of queue and 11 ms of prefill of answers that reach the client whole after 432 ms.
        let mut held = cell("none", 0.0, 0.0075);
        let e2e =
            r#"{"unit": "ns", "n": 80, "mean": 4.32e8, "min": 1.0, "max": 2e9, "quantiles": []}"#;
        for metric in [Metric::E2e, Metric::Ttft] {
            held.metrics
                .insert(metric, serde_json::from_str(e2e).unwrap());
        }
        let derived = &mut held.hardware.as_mut().unwrap().derived;
        for (name, value) in [
            ("server_queue_mean", 3.2e6),
            ("server_prefill_mean", 11e6),
            ("server_ttft_mean", 14.2e6),
        ] {
            let quantity = bench_schema::Quantity {
                value,
                unit: bench_schema::Unit::Ns,
                interval: None,
            };
            derived.insert(name.to_owned(), quantity);
        }
        let shares = server_phases(&held).unwrap();
        assert!((shares.queue - 3.2 / 432.0).abs() < 1e-9, "{shares:?}");
        assert_eq!(shares.first_phase(), "before the first token");
        assert_eq!(held_back(&held), Some(14.2e6));
    }

    #[test]
    fn its_percentiles_stand_beside_those_of_e2e() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let mut told = cell("none", 0.0, 0.45);
        let unit = bench_schema::Unit::Ns;
        let bucket = |low, high| bench_schema::Quantity {
            value: 10.47e9,
            unit,
            interval: Some(bench_schema::Interval {
                low,
                high,
                confidence: 0.95,
            }),
        };
        let of = |told: &mut CellRecord, quantity| {
            let derived = &mut told.hardware.as_mut().unwrap().derived;
            derived.insert("server_queue_p50".to_owned(), quantity);
        };
        of(&mut told, bucket(10e9, 11e9));
        let e2e = r#"{"unit": "ns", "n": 100, "mean": 1.2e10, "min": 1.0, "max": 2e10, "quantiles": [{"q": 0.5, "value": 1.225e10}]}"#;
        let ttft = e2e.replace("1.225e10", "1.06e10");
        told.metrics
            .insert(Metric::E2e, serde_json::from_str(e2e).unwrap());
        told.metrics
            .insert(Metric::Ttft, serde_json::from_str(&ttft).unwrap());
        let rows = server_phases(&told).unwrap().by_percentile;
        assert!(
            matches!(rows[..], [(q, queue, rest)] if near(q, 0.5) && near(queue, 10.47e9) && (rest - 1.78e9).abs() < 1.0),
            "{rows:?}"
        );
        // a queue is no longer than the first token took
        let ttft = ttft.replace("1.06e10", "9e9");
        told.metrics
            .insert(Metric::Ttft, serde_json::from_str(&ttft).unwrap());
        let rows = server_phases(&told).unwrap().by_percentile;
        assert!(
            matches!(rows[..], [(_, queue, rest)] if near(queue, 9e9) && (rest - 3.25e9).abs() < 1.0),
            "{rows:?}"
        );
        // the edges of a coarse bucket are no percentile
        of(&mut told, bucket(10e9, 20e9));
        assert!(server_phases(&told).unwrap().by_percentile.is_empty());
    }

    #[test]
    fn queue_and_prefill_share_what_passed_until_the_first_token() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        // where it tells its prefill time too, both share what passed until the first token
        let mut both = cell("none", 0.0, 0.45);
        let figures = &mut both.hardware.as_mut().unwrap().derived;
        for (name, value) in [("server_queue_mean", 870e6), ("server_prefill_mean", 130e6)] {
            let unit = bench_schema::Unit::Ns;
            let quantity = bench_schema::Quantity {
                value,
                unit,
                interval: None,
            };
            figures.insert(name.to_owned(), quantity);
        }
        let shares = server_phases(&both).unwrap();
        assert!(
            near(shares.queue, 0.435) && near(shares.prefill, 0.065),
            "{shares:?}"
        );
        assert_eq!(server_phases(&cell("response", 0.1, 0.45)), None);
        let mut silent = cell("none", 0.0, 0.45);
        silent.hardware = None;
        assert_eq!(server_phases(&silent), None);
    }
}
