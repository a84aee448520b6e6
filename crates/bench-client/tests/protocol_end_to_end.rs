//! Each protocol through the whole client: real sockets, real HTTP, a server that sends what the corpus holds.
//!
//! Where the reads end is the kernel's business here; `corpus.rs` holds stamps against reads.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::BTreeSet;

use crate::case::{Case, End, corpus};
use crate::common::{Act, Scripted, client, question, run, text};
use bench_client::protocol::{Framing, PROTOCOLS};
use bench_client::{Client, ConnectionPolicy, Target};
use bench_schema::{Exchange, GenerationRequest, Outcome};

/// What a server of this kind does for one request: each read of the case is an HTTP chunk in a write of its own.
fn script(case: &Case) -> Vec<Act> {
    let kind = match case.protocol().framing(case.stream) {
        Framing::Sse => "text/event-stream; charset=utf-8",
        Framing::Ndjson => "application/x-ndjson",
        Framing::Json => "application/json",
    };
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut acts = vec![Act::Request, text(&head)];
    for read in case.reads() {
        let size = format!("{:x}\r\n", read.len());
        acts.push(Act::Write([size.as_bytes(), &read, b"\r\n"].concat()));
    }
    acts.extend([text("0\r\n\r\n"), Act::Linger]);
    acts
}

fn client_for(case: &Case, url: &str) -> Client {
    let mut target = Target::new(url, case.protocol(), "m").unwrap();
    target.connections = ConnectionPolicy::PerRequest;
    target.keep_text = Some(usize::MAX);
    client(target)
}

/// What differs from what the case expects.
fn differences(case: &Case, found: &Exchange) -> Vec<String> {
    let expect = &case.expect;
    let (failure, stage) = match &found.outcome {
        Outcome::Failed { failure, stage, .. } => {
            (Some(failure.to_string()), Some(stage.to_string()))
        }
        _ => (None, None),
    };
    let texts: Option<String> = expect
        .events
        .iter()
        .map(|event| event.text.clone())
        .collect();
    let tokens: Option<Vec<u32>> = expect.events.iter().map(|event| event.tokens).collect();
    let channels: BTreeSet<_> = expect
        .events
        .iter()
        .map(|e| format!("{:?}", e.channel))
        .collect();
    let found_channels: BTreeSet<_> = found
        .events
        .runs()
        .map(|(_, channel)| format!("{channel:?}"))
        .collect();
    let found_tokens = found.events.tokens().map(<[u32]>::to_vec);
    let checks = [
        ("outcome", found.outcome.name() == expect.outcome.kind),
        ("failure", failure == expect.outcome.failure),
        ("stage", stage == expect.outcome.stage),
        ("events", found.events.len() == expect.events.len()),
        ("channels", channels == found_channels),
        (
            "tokens",
            found_tokens == tokens.filter(|tokens| !tokens.is_empty()),
        ),
        ("text", texts.is_none() || found.text == texts),
        ("usage", found.usage == expect.usage),
        ("finish reason", found.finish_reason == expect.finish_reason),
        ("server timings", found.server == expect.server),
        ("status", found.status == Some(200)),
    ];
    checks
        .iter()
        .filter(|(_, same)| !same)
        .map(|(what, _)| (*what).to_owned())
        .collect()
}

#[test]
fn every_case_of_the_corpus_arrives_through_the_whole_client_as_it_should() {
    let mut cases = corpus();
    // A reset discards what has not been read yet; and a MiB in a thousand writes adds nothing here.
    cases.retain(|case| case.end == End::Eof && case.reads().len() < 400);
    let server = Scripted::start(cases.iter().map(script).collect());
    let mut wrong = Vec::new();
    for case in &cases {
        let request = GenerationRequest {
            stream: case.stream,
            ..question()
        };
        let exchange = run(async {
            let client = client_for(case, &server.url);
            client.send(&request, "r-1").await
        });
        let different = differences(case, &exchange);
        if !different.is_empty() {
            wrong.push(format!("{}: {different:?} {exchange:?}", case.name));
        }
        let seen = server.requests.recv().unwrap();
        let path = case.protocol().path("m", case.stream).into_owned();
        assert!(
            seen.starts_with(&format!("POST {path} HTTP/1.1\r\n")),
            "{}: {seen}",
            case.name
        );
        let (_, body) = seen.split_once("\r\n\r\n").unwrap();
        let asked: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(asked.is_object(), "{}", case.name);
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    let driven: BTreeSet<&str> = cases.iter().map(|case| case.protocol.as_str()).collect();
    assert!(
        PROTOCOLS.iter().all(|protocol| driven.contains(protocol)),
        "{driven:?}"
    );
    server.join();
}
