//! What a server suffers over time, over its API.

use std::net::TcpStream;
use std::time::Duration;

use bench_engine::config::{EngineKind, Fixed, Limits, Simulation};
use bench_engine::{EngineConfig, Entry, Outcome, Server, clock};

use crate::common::{chat, get, post, receive, send};

const CHAT: &str = "/v1/chat/completions";

fn config(engine: EngineKind, text: &str) -> EngineConfig {
    EngineConfig {
        engine,
        ..toml::from_str(text).unwrap()
    }
}

/// Tokens every 10 ms, exactly.
fn fixed() -> EngineKind {
    EngineKind::Fixed(Fixed {
        ttft_ms: 10.0,
        itl_ms: 10.0,
        jitter: 0.0,
        ..Fixed::default()
    })
}

fn scheduler() -> EngineKind {
    EngineKind::Scheduler(Simulation {
        scheduler: Limits::default(),
        step_ms: 10.0,
        step_ms_per_sequence: 0.0,
        step_us_per_context_token: 0.0,
        prefill_tokens_per_s: 1e9,
        jitter: 0.0,
    })
}

fn longest_gap_ms(entry: &Entry) -> u64 {
    let gaps = entry.due_ns.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(0) / 1_000_000
}

fn one(config: EngineConfig, tokens: u32) -> Entry {
    let server = Server::start(config).unwrap();
    post(&server, CHAT, "", &chat(tokens));
    server.shutdown().remove(0)
}

#[test]
fn all_sequences_stand_still_together_while_the_tokens_pause_in_both_simulated_engines() {
    for engine in [fixed(), scheduler()] {
        let pause = "[[pauses]]\nwhat = \"tokens\"\nafter_ms = 60\nfor_ms = 80\nevery_ms = 200";
        let server = Server::start(config(engine, pause)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| post(&server, CHAT, "", &chat(30)));
            }
        });
        for entry in server.shutdown() {
            let long = entry
                .due_ns
                .windows(2)
                .filter(|pair| pair[1] - pair[0] >= 85_000_000)
                .count();
            assert!((1..=3).contains(&long), "{:?}", entry.due_ns);
            assert!(
                longest_gap_ms(&entry) <= 91,
                "10 ms of work and 80 ms of pause"
            );
        }
    }
}

#[test]
fn a_step_changes_the_gaps_from_its_instant_on() {
    for engine in [fixed(), scheduler()] {
        let entry = one(
            config(engine, "[[slowdowns]]\nfactor = 3.0\nafter_ms = 100"),
            20,
        );
        // Instants count from the first connection, whenever this machine gets to its request.
        let change = entry.accepted_ns.unwrap() + 100_000_000;
        let mut slow = 0;
        for pair in entry.due_ns.windows(2) {
            let gap = (pair[1] - pair[0] + 500_000) / 1_000_000;
            if pair[0].abs_diff(change) > 1_000_000 {
                let expected = if pair[0] < change { 10 } else { 30 };
                assert_eq!(gap, expected, "{:?} from {change}", entry.due_ns);
            }
            slow += usize::from(gap == 30);
        }
        assert!(slow > 0, "{:?}", entry.due_ns);
    }
}

#[test]
fn the_first_requests_wait_longer_for_their_first_token() {
    for engine in [fixed(), scheduler()] {
        let cold = "[cold]\nrequests = 1\nfirst_token_ms = 70.0\nshape_ms = 20.0";
        let server = Server::start(config(engine, cold)).unwrap();
        for _ in 0..2 {
            post(&server, CHAT, "", &chat(3));
        }
        let waits: Vec<u64> = server
            .shutdown()
            .iter()
            .map(|entry| (entry.due_ns[0] - entry.scheduled_ns.unwrap() + 500_000) / 1_000_000)
            .collect();
        assert_eq!(
            waits,
            [100, 10],
            "10 ms, 70 for the request, 20 for the size"
        );
    }
}

#[test]
fn requests_beyond_the_rate_limit_are_429_and_told_when_to_come_again() {
    let limit = "[rate_limit]\nper_s = 0.001\nburst = 2\nretry_after_s = 7";
    let server = Server::start(config(fixed(), limit)).unwrap();
    let answers: Vec<_> = (0..4).map(|_| post(&server, CHAT, "", &chat(1))).collect();
    let statuses: Vec<u16> = answers.iter().map(crate::common::Raw::status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert!(
        answers[3].head.contains("retry-after: 7\r\n"),
        "{}",
        answers[3].head
    );
    let faults: Vec<_> = server
        .shutdown()
        .into_iter()
        .map(|entry| entry.fault)
        .collect();
    assert_eq!(faults[2].as_deref(), Some("status-429:7"));
    assert_eq!(faults[0], None);
}

#[test]
fn a_server_that_goes_cuts_its_streams_refuses_connections_and_comes_back_on_its_port() {
    for threads in [1, 2] {
        let mut config = config(fixed(), "[[outages]]\nafter_ms = 500\nfor_ms = 1500");
        config.io_threads = threads;
        let server = Server::start(config).unwrap();
        // The first connection starts the clock; two streams, one on each thread, are cut.
        let raw = std::thread::scope(|scope| {
            let both = [0, 1].map(|_| scope.spawn(|| post(&server, CHAT, "", &chat(1000))));
            both.map(|one| one.join().unwrap())
        });
        assert!(
            raw.iter()
                .all(|raw| raw.status() == 200 && !raw.dechunked().1)
        );
        let address = server.addr().unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let patience = clock::now_ns() + 20_000_000_000;
        while TcpStream::connect(address).is_err() {
            assert!(clock::now_ns() < patience, "it never came back");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(post(&server, CHAT, "", &chat(2)).status(), 200);
        let outcomes: Vec<Outcome> = server
            .shutdown()
            .iter()
            .map(|entry| entry.outcome)
            .collect();
        assert_eq!(outcomes, [Outcome::Open, Outcome::Open, Outcome::Completed]);
    }
}

#[test]
fn a_server_may_have_no_page_of_metrics() {
    let server = Server::start(config(fixed(), "metrics_page = false")).unwrap();
    assert_eq!(get(&server, "/metrics").status(), 404);
    assert_eq!(get(&server, "/health").status(), 200);
}

#[test]
fn answers_may_end_early_although_they_were_asked_not_to() {
    let end = "[end_of_text]\nmedian_tokens = 4.0\nspread = 0.0\nalways = true";
    let server = Server::start(config(fixed(), end)).unwrap();
    let body = r#"{"prompt":"a","max_tokens":50,"stream":true,"ignore_eos":true}"#;
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close";
    receive(send(&server, head, body));
    assert_eq!(server.shutdown()[0].completion_tokens, 4);
}

#[test]
fn usage_that_lies_is_the_wires_alone_and_the_ledger_has_the_truth() {
    let server = Server::start(config(fixed(), "")).unwrap();
    let raw = post(&server, CHAT, "usage-lies:50", &chat(8));
    assert_eq!(
        raw.events().last().unwrap()["usage"]["completion_tokens"],
        12
    );
    assert_eq!(server.shutdown()[0].completion_tokens, 8);
}
