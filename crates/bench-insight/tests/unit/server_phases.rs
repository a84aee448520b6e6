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
    let e2e = r#"{"unit": "ns", "n": 80, "mean": 4.32e8, "min": 1.0, "max": 2e9, "quantiles": []}"#;
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
    assert_eq!(held_back(&held), Some((Known::ServerTtft, 14.2e6)));
    // where the server counts the time in its front end too, its scheduler's two parts do not share it
    let derived = &mut held.hardware.as_mut().unwrap().derived;
    derived.get_mut("server_ttft_mean").unwrap().value = 430e6;
    let shares = server_phases(&held).unwrap();
    assert!((shares.queue - 3.2 / 432.0).abs() < 1e-9, "{shares:?}");
    assert_eq!(shares.first_phase(), "before the first token");
    let of_scheduler = held_back(&held);
    assert!(
        of_scheduler.is_some_and(
            |(figure, own)| figure == Known::ScheduledTtft && (own - 14.2e6).abs() < 1.0
        ),
        "{of_scheduler:?}"
    );
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
    // but what passed until the first token, less the server's own prefill, is one: within the bucket
    let mean = bench_schema::Quantity {
        value: 130e6,
        unit,
        interval: None,
    };
    let derived = &mut told.hardware.as_mut().unwrap().derived;
    derived.insert("server_prefill_mean".to_owned(), mean);
    for (ttft, expected) in [(1.06e10, 1.047e10), (1.005e10, 1e10)] {
        let first = e2e.replace("1.225e10", &ttft.to_string());
        told.metrics
            .insert(Metric::Ttft, serde_json::from_str(&first).unwrap());
        let rows = server_phases(&told).unwrap().by_percentile;
        assert!(
            matches!(rows[..], [(_, queue, rest)] if near(queue, expected) && (queue + rest - 1.225e10).abs() < 1.0),
            "{rows:?}"
        );
    }
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
