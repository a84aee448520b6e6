//! The published conformance corpus (`fixtures/sse/`), and the property that makes it more than a list of examples: the
//! way a stream is cut into reads changes nothing but which read completes an event.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "corpus/run.rs"]
mod run;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::case::{Case, corpus};
use bench_client::Answer;
use bench_client::protocol::PROTOCOLS;
use bench_schema::Nanos;
use proptest::prelude::*;
use run::{BOUND, Decoded, decode, read_of};

/// A case in one piece: its bytes, and at which byte each event is complete.
struct Whole {
    case: Case,
    bytes: Vec<u8>,
    complete_at: Vec<usize>,
    decoded: Decoded,
}

static WHOLES: LazyLock<Vec<Whole>> = LazyLock::new(|| {
    let wholes = corpus().into_iter().map(|case| {
        let bytes = case.reads().concat();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let decoded = decode(&case, &single);
        let complete_at = decoded.answer.events.stamps().map(read_of).collect();
        Whole {
            case,
            bytes,
            complete_at,
            decoded,
        }
    });
    wholes.collect()
});

#[test]
fn every_case_gives_the_events_and_the_outcome_that_it_expects() {
    let mut wrong = Vec::new();
    let cases = corpus();
    for case in &cases {
        let reads = case.reads();
        let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
        if let Err(what) = run::check(case, &decode(case, &reads)) {
            wrong.push(format!("{}: {what}\n  {}", case.name, case.why));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_text_after_each_read_is_that_of_the_events_it_completed() {
    for case in corpus()
        .iter()
        .filter(|case| case.stream && case.reads().len() < 400)
    {
        let reads = case.reads();
        let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
        for upto in 0..reads.len().saturating_sub(1) {
            let so_far = run::decode_part(case, reads.get(..=upto).unwrap());
            let expected: Option<String> = case
                .expect
                .events
                .iter()
                .filter(|e| e.read <= upto)
                .map(|e| e.text.clone())
                .collect();
            if let Some(expected) = expected {
                assert_eq!(
                    so_far.text.unwrap(),
                    expected,
                    "{} after read {upto}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn the_corpus_covers_every_protocol_streamed_where_it_streams_and_not() {
    let cases = corpus();
    let covered = |protocol: &str, stream| {
        cases
            .iter()
            .any(|case| case.protocol == protocol && case.stream == stream)
    };
    for protocol in PROTOCOLS.into_iter().chain(["template"]) {
        assert!(
            covered(protocol, true) || protocol == "embeddings",
            "{protocol} streamed"
        );
        let vllm_backend = protocol == "triton-generate-vllm"; // the same answers as triton-generate
        assert!(
            covered(protocol, false) || vllm_backend,
            "{protocol} not streamed"
        );
    }
}

#[test]
fn case_names_are_file_names_and_unique() {
    let cases = corpus();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        assert_eq!(case.file, format!("{}.json", case.name));
        assert!(
            !case.why.is_empty() && !case.provenance.is_empty(),
            "{}",
            case.name
        );
    }
}

/// Cuts `bytes` at the given positions (taken modulo the length, in any order, repeated or not).
fn cut<'a>(bytes: &'a [u8], at: &[usize]) -> Vec<&'a [u8]> {
    let mut at: BTreeSet<usize> = at.iter().map(|cut| cut % bytes.len().max(1)).collect();
    at.remove(&0);
    at.insert(bytes.len());
    let mut from = 0;
    at.into_iter()
        .map(|to| bytes.get(std::mem::replace(&mut from, to)..to).unwrap())
        .collect()
}

fn case_and_cuts() -> impl Strategy<Value = (usize, Vec<usize>)> {
    let cuts = prop_oneof![
        prop::collection::vec(any::<usize>(), 0..4),
        prop::collection::vec(any::<usize>(), 4..60),
    ];
    (0..WHOLES.len(), cuts)
}

/// Everything but the reads that completed the events.
fn same_answer(now: &Answer, before: &Answer) -> Result<(), TestCaseError> {
    prop_assert_eq!(&now.outcome, &before.outcome);
    prop_assert_eq!(&now.usage, &before.usage);
    prop_assert_eq!(&now.finish_reason, &before.finish_reason);
    prop_assert_eq!(&now.server, &before.server);
    prop_assert_eq!(&now.text, &before.text);
    prop_assert_eq!(now.text_chars, before.text_chars);
    prop_assert_eq!(now.events.tokens(), before.events.tokens());
    prop_assert!(now.events.runs().eq(before.events.runs()));
    Ok(())
}

/// Each event is stamped by the read that holds the byte at which it is complete, exactly if only line ends follow it there.
fn stamped_by_their_reads(
    whole: &Whole,
    reads: &[&[u8]],
    now: &Answer,
) -> Result<(), TestCaseError> {
    let ends: Vec<usize> = reads
        .iter()
        .scan(0, |sum, read| {
            *sum += read.len();
            Some(*sum)
        })
        .collect();
    let completed: Vec<usize> = now.events.stamps().map(read_of).collect();
    prop_assert_eq!(completed.len(), whole.complete_at.len());
    for (event, (&byte, &read)) in whole.complete_at.iter().zip(&completed).enumerate() {
        prop_assert_eq!(read, ends.iter().position(|&end| byte < end).unwrap());
        let rest = whole.bytes.get(byte + 1..ends[read]).unwrap();
        let ends_the_read = rest.iter().all(|b| b"\r\n".contains(b));
        let bound = if ends_the_read { Nanos::ZERO } else { BOUND };
        prop_assert_eq!(now.events.bound(event), bound, "event {}", event);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_cut_gives_the_same_events_completed_by_the_reads_that_hold_their_last_byte(
        (index, at) in case_and_cuts(),
    ) {
        let whole = &WHOLES[index];
        let reads = cut(&whole.bytes, &at);
        let now = decode(&whole.case, &reads).answer;
        same_answer(&now, &whole.decoded.answer)?;
        stamped_by_their_reads(whole, &reads, &now)?;
    }

    #[test]
    fn bytes_of_one_read_may_come_in_pieces((index, at) in case_and_cuts(), pieces in 1..9_usize) {
        let whole = &WHOLES[index];
        let reads = cut(&whole.bytes, &at);
        let at_once = decode(&whole.case, &reads).answer;
        let in_pieces = run::decode_in_pieces(&whole.case, &reads, pieces).answer;
        prop_assert_eq!(at_once, in_pieces, "{}", whole.case.name);
    }
}
