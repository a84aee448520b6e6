//! The nouns: what they mean, and that they are stored and read as the same.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use bench_schema::{
    ArrivalKind, Cause, Channel, Code, ConcurrencyRamp, Event, EventLog, Evidence, Experiment,
    Finding, GenerationRequest, GroupRecord, HardwareSummary, Known, Load, Metric, Nanos, PlanHash,
    Prompt, Sampling, Secret, Stamp, Unit, as_stored, is_hidden, no_formula, to_json,
};
use serde_json::{Value, json};

#[test]
fn a_difference_of_stamps_is_a_signed_duration() {
    assert_eq!(Stamp::new(5) - Stamp::new(8), Nanos::new(-3));
    assert_eq!(Stamp::new(5) + Nanos::new(3), Stamp::new(8));
}

#[test]
fn durations_are_shown_with_three_figures_and_a_unit() {
    let shown: Vec<String> = [950, 12_345, 1_240_000, 2_500_000_000]
        .into_iter()
        .map(|ns| Nanos::new(ns).to_string())
        .collect();
    assert_eq!(shown, ["950 ns", "12.3 µs", "1.24 ms", "2.50 s"]);
}

#[test]
fn seconds_round_to_the_nanosecond_and_saturate() {
    assert_eq!(Nanos::from_secs_f64(0.1), Nanos::new(100_000_000));
    assert_eq!(Nanos::from_secs_f64(f64::INFINITY), Nanos::MAX);
    assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
}

#[test]
fn every_metric_is_found_by_its_key_and_serialises_as_it() {
    for &metric in Metric::ALL {
        assert_eq!(metric.key().parse::<Metric>(), Ok(metric));
        assert_eq!(serde_json::to_value(metric).unwrap(), metric.key());
    }
}

#[test]
fn a_secret_is_redacted_in_every_text_form() {
    let secret = Secret::new("sk-123");
    assert_eq!(
        format!(
            "{secret} {secret:?} {}",
            serde_json::to_string(&secret).unwrap()
        ),
        "*** *** \"***\""
    );
    assert_eq!(secret.expose(), "sk-123");
}

#[test]
fn the_parts_of_a_load_are_the_whole_of_it() {
    let moving = |ramp: ConcurrencyRamp| Load::Closed {
        concurrency: ramp.peak(),
        think_time: None,
        ramp: Some(ramp),
    };
    let steps = |levels: &[u32]| ConcurrencyRamp::Steps {
        levels: levels.to_vec(),
    };
    let capped = Load::Open {
        rate_per_s: Some(20.0),
        arrival: ArrivalKind::Poisson,
        in_flight_cap: Some(10),
    };
    let line = ConcurrencyRamp::Line { from: 3, to: 9 };
    for whole in [
        Load::closed(7),
        moving(line.clone()),
        moving(steps(&[4, 32, 8])),
        capped.clone(),
    ] {
        let parts = (0..3).map(|index| whole.part(index, 3));
        let together = parts.reduce(|all, more| all.beside(&more));
        assert_eq!(together.as_ref(), Some(&whole));
        assert_eq!(whole.part(0, 1), whole);
        assert_eq!(whole.times(3).part(2, 3), whole);
    }
    assert_eq!(Load::closed(7).part(0, 3), Load::closed(3));
    assert_eq!(Load::closed(7).part(2, 3), Load::closed(2));
    let first = moving(steps(&[1, 2, 2, 2, 3, 3, 3]));
    assert_eq!(moving(line.clone()).part(0, 3), first);
    assert_eq!(moving(line).fewest_in_flight(), Some(3));
    assert_eq!(capped.fewest_in_flight(), Some(10));
}

fn hash(text: &str) -> PlanHash {
    format!("{text:0>64}").parse().unwrap()
}

#[test]
fn sums_carry_across_all_digits_and_wrap_around() {
    let mut sum = hash("ffffffffffffffffffffffffffffffff");
    sum += hash("1");
    assert_eq!(sum, hash("100000000000000000000000000000000"));
    let mut most: PlanHash = "f".repeat(64).parse().unwrap();
    most += hash("1");
    assert_eq!(most, PlanHash::default());
    most -= hash("1");
    assert_eq!(most, "f".repeat(64).parse().unwrap());
    sum -= hash("1");
    assert_eq!(sum, hash("ffffffffffffffffffffffffffffffff"));
}

#[test]
fn text_and_digest_are_the_same_number_in_the_same_order() {
    let mut digest = [0; 32];
    digest[0] = 0xab;
    digest[31] = 0x01;
    let shown = PlanHash::of_digest(digest).to_string();
    assert_eq!(shown, format!("ab{}01", "0".repeat(60)));
    assert_eq!(
        shown.parse::<PlanHash>().unwrap(),
        PlanHash::of_digest(digest)
    );
    assert!("ab".parse::<PlanHash>().is_err());
}

fn event(at: i64) -> Event {
    Event {
        at: Stamp::new(at),
        lag: Some(Nanos::new(7)),
        bound: Nanos::ZERO,
        tokens: None,
        channel: Channel::Answer,
    }
}

#[test]
fn stamps_survive_storage_including_gaps_that_do_not_fit_and_steps_back() {
    let at = [10, 20, 6_000_000_020, 5_999_999_000, 5_999_999_000];
    let mut log = EventLog::default();
    for t in at {
        log.push(event(t));
    }
    let stored: EventLog = serde_json::from_str(&serde_json::to_string(&log).unwrap()).unwrap();
    assert_eq!(stored.stamps().map(Stamp::get).collect::<Vec<_>>(), at);
    assert_eq!(
        (stored.len(), stored.first(), stored.last()),
        (5, Some(Stamp::new(10)), Some(Stamp::new(5_999_999_000)))
    );
}

#[test]
fn token_counts_are_kept_only_if_every_event_has_one() {
    let mut all = EventLog::default();
    let mut some = EventLog::default();
    for i in 0..3 {
        all.push(Event {
            tokens: Some(2),
            ..event(i)
        });
        some.push(Event {
            tokens: (i != 1).then_some(2),
            ..event(i)
        });
    }
    assert_eq!(all.tokens(), Some([2, 2, 2].as_slice()));
    assert_eq!(some.tokens(), None);
}

#[test]
fn the_first_answer_event_after_reasoning_is_found() {
    let mut log = EventLog::default();
    log.push(Event {
        channel: Channel::Reasoning,
        ..event(1)
    });
    log.push(Event {
        channel: Channel::Reasoning,
        ..event(2)
    });
    log.push(event(5));
    assert_eq!(log.first_on(Channel::Answer), Some(Stamp::new(5)));
    assert_eq!(log.first_on(Channel::Tool), None);
    assert_eq!(
        log.runs().collect::<Vec<_>>(),
        [(0, Channel::Reasoning), (2, Channel::Answer)]
    );
}

#[test]
fn an_empty_log_has_no_first_and_no_last() {
    let log = EventLog::default();
    assert_eq!((log.first(), log.last(), log.len()), (None, None, 0));
    assert_eq!(serde_json::to_string(&log).unwrap(), "{}");
}

#[test]
fn a_finding_of_before_loads_with_its_sentence_and_its_numbers() {
    let old = r#"{"code": "tail_gap", "kind": "stability", "claim": "P95 is 3.0× the median", "severity": 0.5,
        "evidence": [{"name": "P95 of E2E", "value": 2544.0, "unit": "ms", "cell": "c"}, {"name": "P95 over P50", "value": 2.99}],
        "hypothesis": "lengths", "confirm": "one length", "actions": ["max_num_seqs: raise it"], "cells": ["c"]}"#;
    let finding: Finding = serde_json::from_str(old).unwrap();
    assert_eq!(finding.code, Code::Other("tail_gap".to_owned()));
    assert_eq!(finding.message.as_deref(), Some("P95 is 3.0× the median"));
    assert_eq!(finding.evidence[0].unit, Unit::Ns);
    assert!((finding.evidence[0].value - 2544e6).abs() < 1.0);
    assert_eq!(finding.evidence[1].unit, Unit::Count);
}

#[test]
fn a_finding_is_written_and_read_the_same() {
    let mut finding = Finding::new(Cause::Overload, 0.4);
    finding.evidence.push(Evidence::new(
        Known::ServedRate.into(),
        3.0,
        Unit::RequestsPerS,
    ));
    finding.refute = Some(Experiment::LowerRate);
    let text = serde_json::to_string(&finding).unwrap();
    assert!(text.contains(r#""code":"overload""#), "{text}");
    assert!(text.contains(r#""figure":"served_rate""#), "{text}");
    assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
}

#[test]
fn series_are_stored_by_source_and_those_of_older_files_are_read() {
    let old = json!({"resources": [
        {"series": {"source": "host", "name": "cpu_busy_s_total"}, "unit": "count", "n": 3, "mean": 1.5, "min": 1.0, "peak": 2.0, "increase": 4.5},
        {"series": {"source": "host", "name": "memory_total_bytes"}, "unit": "bytes", "n": 1, "mean": 8.0, "min": 8.0, "peak": 8.0},
        {"series": {"source": "gpu", "instance": "0", "name": "power_w"}, "unit": "watts", "n": 2, "mean": 70.0, "min": 60.0, "peak": 80.0},
    ], "derived": {"running_peak": {"value": 3.0, "unit": "count"}}});
    let read: HardwareSummary = serde_json::from_value(old).unwrap();
    let stored = serde_json::to_value(&read).unwrap();
    assert_eq!(
        stored,
        json!({"resources": [
            {"source": "host", "series": {
                "cpu_busy_s_total": {"n": 3, "mean": 1.5, "min": 1.0, "peak": 2.0, "increase": 4.5},
                "memory_total_bytes": {"unit": "bytes", "n": 1, "mean": 8.0},
            }},
            {"source": "gpu", "instance": "0", "series": {"power_w": {"unit": "watts", "n": 2, "mean": 70.0, "min": 60.0, "peak": 80.0}}},
        ], "derived": {"running_peak": {"value": 3.0}}})
    );
    let again: HardwareSummary = serde_json::from_value(stored).unwrap();
    assert_eq!(again, read);
}

#[test]
fn a_metric_that_is_another_one_to_the_last_figure_is_stored_once() {
    let one = json!({"unit": "ns", "n": 1, "mean": 5.0, "min": 5.0, "max": 5.0, "quantiles": [{"q": 0.5, "value": 5.0}]});
    let mut other = one.clone();
    other["mean"] = json!(6.0);
    let group = |prefill: &Value| {
        json!({"by": "turn", "name": "0", "counts": {"planned": 1, "completed": 1, "failed": 0, "timed_out": 0,
        "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0, "retried": 0, "backed_off": 0, "replaced_connections": 0},
        "metrics": {"ttft": one, "icl": one, "itl": one, "prefill": prefill}})
    };
    for (prefill, icl) in [(&other, "itl"), (&json!("ttft"), "itl")] {
        let read: GroupRecord = serde_json::from_value(group(prefill)).unwrap();
        assert_eq!(read.metrics.len(), 4);
        assert_eq!(read.metrics[&Metric::Icl], read.metrics[&Metric::Itl]);
        let stored = serde_json::to_value(&read).unwrap();
        assert_eq!(stored["metrics"]["icl"], icl);
        assert_eq!(&stored["metrics"]["prefill"], prefill);
        assert_eq!(stored["metrics"]["itl"], one);
    }
}

#[test]
fn what_is_written_is_read_again_to_seven_figures_and_a_metric_is_one_line() {
    let metric = json!({"n": 3, "mean": 18_412_239.686_938_904, "cov": 0.222_745_857_360_392_7, "q": [0.5, 0.9]});
    let run = json!({
        "seed": u64::MAX, "none": {}, "empty": [], "text": "a,b\n", "small": 1.5e-12, "zero": 0.0, "large": 3_600_000_000_123.0,
        "cells": [{"id": "c8", "metrics": {"ttft": metric, "e2e": metric}}],
    });
    let text = to_json(&run).unwrap();
    let again: Value = serde_json::from_str(&text).unwrap();
    let read = &again["cells"][0]["metrics"]["ttft"];
    assert_eq!(read["mean"], json!(18_412_240));
    assert_eq!(read["cov"], json!(0.222_745_9));
    assert_eq!(again["zero"], json!(0));
    assert_eq!(again["large"], json!(3_600_000_000_123_i64));
    for stored in [
        18_412_239.686_938_904,
        0.222_745_857_360_392_7,
        1.5e-12,
        0.0,
    ] {
        let read: f64 = serde_json::from_str(&to_json(&stored).unwrap()).unwrap();
        assert_eq!(as_stored(stored).to_bits(), read.to_bits());
    }
    for key in ["seed", "none", "empty", "text", "small"] {
        assert_eq!(again[key], run[key], "{key}");
    }
    let lines: Vec<&str> = text.lines().collect();
    let metric = lines.iter().find(|line| line.contains("ttft")).unwrap();
    assert!(
        metric.starts_with("    \"ttft\":{") && metric.contains("\"q\":[0.5,0.9]"),
        "{text}"
    );
    assert!(
        lines.contains(&" \"none\":{},") && text.ends_with("\n}\n"),
        "{text}"
    );
    // and what was read is written in the same way
    assert_eq!(to_json(&again).unwrap(), text);
}

#[test]
fn marks_that_the_number_of_values_tells_are_not_stored() {
    let quantile = |q: f64| json!({"q": q, "value": 5.0});
    let distribution = json!({"unit": "ns", "n": 30, "mean": 5.0, "min": 5.0, "max": 5.0, "quantiles": [quantile(0.5), quantile(0.9)]});
    let mut group = json!({"by": "turn", "name": "0", "metrics": {"ttft": distribution}});
    group["counts"] = serde_json::to_value(bench_schema::Counts::default()).unwrap();
    let mut marked = group.clone();
    marked["metrics"]["ttft"]["quantiles"][1]["few_samples"] = json!(true);
    let read: GroupRecord = serde_json::from_value(group.clone()).unwrap();
    let quantiles = &read.metrics[&Metric::Ttft].quantiles;
    assert_eq!(
        quantiles
            .iter()
            .map(|at| at.few_samples)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(serde_json::from_value::<GroupRecord>(marked).unwrap(), read);
    assert_eq!(serde_json::to_value(&read).unwrap(), group);
}

#[test]
fn a_float_is_a_count_or_an_index_by_its_integer_part_within_what_there_is() {
    let of = [f64::NAN, -1.5, 0.9, 3.0, 9e15, 1e30].map(bench_schema::whole);
    assert_eq!(of, [0, 0, 0, 3, 9_000_000_000_000_000, u64::MAX]);
    assert_eq!(
        [-0.1, 7.9, f64::INFINITY].map(bench_schema::index),
        [0, 7, usize::MAX]
    );
}

/// What a server may call its model: a CSI of C1, DEL, right-to-left override, isolate, zero-width space, byte order mark, tag.
const HIDDEN: &str = "\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}é";

#[test]
fn hidden_characters_of_a_stored_text_are_escaped_and_read_back() {
    let stored = to_json(&[HIDDEN]).unwrap();
    assert!(
        !stored.trim_end().contains(|c| c != '\n' && is_hidden(c)),
        "{stored:?}"
    );
    assert!(
        stored.contains("\\u009b31m") && stored.contains("\\udb40\\udc41é"),
        "{stored}"
    );
    let [back] = serde_json::from_str::<[String; 1]>(&stored).unwrap();
    assert_eq!(back, HIDDEN);
}

#[test]
fn what_a_spreadsheet_takes_for_a_formula_gets_an_apostrophe() {
    for sign in ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\n', '\t', '\r'] {
        let text = format!("{sign}cmd");
        assert_eq!(no_formula(&text), format!("'{text}"));
    }
    assert_eq!(no_formula("a=b"), "a=b");
}

#[test]
fn what_is_merged_into_the_body_is_what_is_asked_for() {
    let asked = |more: &str| {
        let extra_body: Option<serde_json::Map<String, Value>> = serde_json::from_str(more).ok();
        GenerationRequest {
            prompt: Prompt::Text("one".into()),
            max_tokens: Some(4),
            min_tokens: None,
            ignore_eos: true,
            sampling: Sampling::default(),
            stream: true,
            extra_body: extra_body.map(std::sync::Arc::new),
        }
        .asked_tokens()
    };
    assert_eq!(asked(""), Some(4));
    assert_eq!(asked(r#"{"seed": 7}"#), Some(4));
    assert_eq!(asked(r#"{"max_tokens": 2}"#), Some(2));
    assert_eq!(asked(r#"{"options": {"num_predict": 9}}"#), Some(9));
}
