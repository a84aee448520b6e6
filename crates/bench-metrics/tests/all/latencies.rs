//! The definitions of `docs/metrics.md`, one by one.

use bench_metrics::{Instants, Within, gaps, latency, token_gaps};
use bench_schema::{Channel, Event, EventLog, Metric, Nanos, ServerTimings, Usage};

use crate::records::{answer, at, ended, even, event, refused, with_events};

/// Value in milliseconds, rounded to the nanosecond.
fn ms(record: &bench_schema::RequestRecord, metric: Metric) -> Option<f64> {
    latency(record, metric).map(|ns| ns.round() / 1e6)
}

fn log(events: impl IntoIterator<Item = Event>) -> EventLog {
    let mut log = EventLog::default();
    events.into_iter().for_each(|e| log.push(e));
    log
}

#[test]
fn every_latency_of_a_plain_answer_follows_its_formula() {
    // Due at 95, sent at 100; events at 130, 140, 160, 190; closed at 191.
    let mut record = answer(0, 100.0, &[130.0, 140.0, 160.0, 190.0]);
    record.due = at(95.0);
    record.dispatched = Some(at(99.0));
    for (metric, wanted) in [
        (Metric::Ttft, 30.0),
        (Metric::TtftDue, 35.0),
        (Metric::Ttst, 10.0),
        (Metric::E2e, 90.0),
        (Metric::E2eDue, 95.0),
        (Metric::Tpot, 20.0),
        (Metric::NormalisedLatency, 22.5),
        (Metric::Prefill, 30.0),
        (Metric::Decode, 60.0),
        (Metric::Tail, 1.0),
        (Metric::Lateness, 4.0),
    ] {
        assert_eq!(
            ms(&record, metric).map(f64::to_bits),
            Some(f64::to_bits(wanted)),
            "{metric}"
        );
    }
    assert_eq!(
        latency(&record, Metric::TokensPerSUser).map(f64::round),
        Some(50.0)
    );
    assert_eq!(latency(&record, Metric::TokensPerChunk), Some(1.0));
    assert_eq!(
        (
            latency(&record, Metric::Ttfa),
            latency(&record, Metric::Queue)
        ),
        (None, None)
    );
    let lengths: Vec<i64> = gaps(&record).map(|g| g.length.get() / 1_000_000).collect();
    assert_eq!(lengths, [10, 20, 30]);
}

#[test]
fn a_one_token_answer_has_no_gaps_and_no_tpot_but_an_end() {
    let record = even(0, 0.0, 30.0, 10.0, 1);
    for metric in [
        Metric::Ttst,
        Metric::Tpot,
        Metric::Itl,
        Metric::Icl,
        Metric::TokensPerSUser,
    ] {
        assert_eq!(latency(&record, metric), None, "{metric}");
    }
    assert_eq!(
        (ms(&record, Metric::E2e), ms(&record, Metric::Decode)),
        (Some(30.0), Some(0.0))
    );
    assert!(token_gaps(&record).is_empty());
}

#[test]
fn an_answer_without_tokens_has_no_latencies() {
    let record = ended(even(0, 0.0, 30.0, 10.0, 5), refused());
    for &metric in Metric::ALL {
        let known = matches!(metric, Metric::Lateness | Metric::InputTokens);
        assert_eq!(latency(&record, metric).is_some(), known, "{metric}");
    }
}

#[test]
fn a_chunk_is_not_a_token() {
    // Two events; the server says 8 tokens and the stream does not tell how many are in each.
    let mut record = answer(0, 0.0, &[10.0, 80.0]);
    record.output_tokens = Some(8);
    assert_eq!(ms(&record, Metric::Tpot), Some(10.0));
    assert_eq!(latency(&record, Metric::TokensPerChunk), Some(4.0));
    assert!(
        token_gaps(&record).is_empty(),
        "ITL is not reported; ICL is"
    );
    assert_eq!(gaps(&record).count(), 1);
}

#[test]
fn an_event_of_several_tokens_is_several_gaps() {
    let tokens = |ms: f64, k: u32| Event {
        tokens: Some(k),
        ..event(ms)
    };
    let mut record = with_events(
        0,
        0.0,
        log([
            tokens(10.0, 1),
            tokens(30.0, 2),
            tokens(40.0, 0),
            tokens(60.0, 3),
        ]),
    );
    record.output_tokens = Some(6);
    // 20 ms for two tokens; 10 ms without one, added to the 20 ms of the last three.
    assert_eq!(token_gaps(&record), [10e6, 10e6, 10e6, 10e6, 10e6]);
}

#[test]
fn tokens_of_events_that_come_to_more_than_the_answer_has_are_not_believed() {
    let record = |k: u32, n: u64| {
        let event = |ms: f64| Event {
            tokens: Some(k),
            ..event(ms)
        };
        let mut record = with_events(0, 0.0, log([event(10.0), event(20.0), event(30.0)]));
        record.output_tokens = Some(n);
        record
    };
    // each event one token by the answer's own count
    assert_eq!(token_gaps(&record(2, 3)), [10e6, 10e6]);
    assert_eq!(token_gaps(&record(2, 6)), [5e6; 4]);
    // neither is one: nobody knows; and no count costs memory
    assert!(token_gaps(&record(4_000_000_000, 5)).is_empty());
    assert!(token_gaps(&record(4_000_000_000, 12_000_000_000)).is_empty());
}

#[test]
fn unknown_token_counts_leave_only_what_events_tell() {
    let mut record = answer(0, 0.0, &[10.0, 20.0]);
    record.output_tokens = None;
    for metric in [
        Metric::Tpot,
        Metric::Itl,
        Metric::NormalisedLatency,
        Metric::TokensPerChunk,
        Metric::OutputTokens,
    ] {
        assert_eq!(latency(&record, metric), None, "{metric}");
    }
    assert_eq!(ms(&record, Metric::Icl), Some(10.0));
}

#[test]
fn the_first_answer_token_comes_after_the_reasoning() {
    let thinking = |ms: f64| Event {
        channel: Channel::Reasoning,
        ..event(ms)
    };
    let record = with_events(
        0,
        0.0,
        log([thinking(10.0), thinking(20.0), event(50.0), event(60.0)]),
    );
    assert_eq!(
        (ms(&record, Metric::Ttft), ms(&record, Metric::Ttfa)),
        (Some(10.0), Some(50.0))
    );
    let silent = with_events(0, 0.0, log([thinking(10.0)]));
    assert_eq!(latency(&silent, Metric::Ttfa), None);
}

#[test]
fn reasoning_that_was_not_sent_is_in_no_chunk() {
    let mut record = even(0, 0.0, 30.0, 10.0, 4);
    record.output_tokens = Some(16);
    assert_eq!(latency(&record, Metric::TokensPerChunk), Some(4.0));
    record.wire.usage = Some(Usage {
        reasoning_tokens: Some(12),
        ..Usage::default()
    });
    assert_eq!(latency(&record, Metric::TokensPerChunk), Some(1.0));
}

#[test]
fn the_server_s_queue_time_is_taken_off_the_prefill() {
    let mut record = even(0, 0.0, 30.0, 10.0, 3);
    record.wire.server = Some(ServerTimings {
        queue: Some(Nanos::from_millis(12)),
        ..ServerTimings::default()
    });
    assert_eq!(
        (ms(&record, Metric::Queue), ms(&record, Metric::Prefill)),
        (Some(12.0), Some(18.0))
    );
}

#[test]
fn connection_set_up_is_kept_apart_and_absent_on_a_reused_connection() {
    let mut record = even(0, 0.0, 30.0, 10.0, 3);
    assert_eq!(latency(&record, Metric::Connect), None);
    record.wire.connection.connect = Some(Nanos::from_millis(2));
    record.wire.connection.tls = Some(Nanos::from_millis(3));
    assert_eq!(
        (ms(&record, Metric::Connect), ms(&record, Metric::Ttft)),
        (Some(5.0), Some(30.0))
    );
}

#[test]
fn bounded_stamps_give_each_metric_the_least_and_the_most_that_it_can_be() {
    let bounded = |ms: f64, width: i64| Event {
        bound: Nanos::from_millis(width),
        ..event(ms)
    };
    let record = with_events(
        0,
        0.0,
        log([bounded(10.0, 4), event(20.0), bounded(30.0, 6)]),
    );
    let instants = Instants::of(&record);
    let ends = |m: Metric| {
        [Within::Least, Within::Stamped, Within::Most]
            .map(|end| instants.value_within(m, end).map(|ns| ns / 1e6))
    };
    assert_eq!(ends(Metric::Ttft), [Some(6.0), Some(10.0), Some(10.0)]);
    assert_eq!(ends(Metric::E2e), [Some(24.0), Some(30.0), Some(30.0)]);
    // (30 − 6 … 30 − 10 … 30 − 10 + 4) over two gaps
    assert_eq!(ends(Metric::Tpot), [Some(7.0), Some(10.0), Some(12.0)]);
    assert!(instants.is_bounded(Metric::Ttft) && !instants.is_bounded(Metric::Lateness));
    let gap_ends: Vec<[i64; 2]> = gaps(&record)
        .map(|g| [Within::Least, Within::Most].map(|end| g.within(end).get() / 1_000_000))
        .collect();
    assert_eq!(gap_ends, [[10, 14], [4, 10]]);
}

#[test]
fn every_metric_is_defined_in_the_documentation() {
    let page = include_str!("../../../../docs/metrics.md");
    for metric in Metric::ALL {
        assert!(
            page.contains(&format!("`{metric}`")),
            "docs/metrics.md does not define `{metric}`"
        );
    }
}
