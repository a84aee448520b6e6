//! Every fault does on the wire what its name says, and the ledger knows.

use std::io::{Read, Write};
use std::net::TcpStream;

use bench_engine::{EngineConfig, FaultKind, Outcome, PlannedFault, Server};

use crate::common::{Raw, chat, fast, get, post, receive, send};

const CHAT: &str = "/v1/chat/completions";

fn with(fault: &str) -> (Raw, bench_engine::Entry) {
    let server = Server::start(fast()).unwrap();
    let raw = post(&server, CHAT, fault, &chat(8));
    let entry = server.shutdown().remove(0);
    (raw, entry)
}

fn contents(raw: &Raw) -> usize {
    let text = |event: &serde_json::Value| {
        event["choices"][0]["delta"]["content"]
            .as_str()
            .is_some_and(|t| !t.is_empty())
    };
    raw.events().iter().filter(|event| text(event)).count()
}

#[test]
fn faults_before_the_head_leave_no_byte() {
    for (fault, reset) in [("reset-head", true), ("close-head", false)] {
        let (raw, entry) = with(fault);
        assert_eq!((raw.head.as_str(), raw.reset), ("", reset), "{fault}");
        assert_eq!(
            (entry.outcome, entry.status, entry.fault.as_deref()),
            (Outcome::Fault, None, Some(fault))
        );
    }
}

#[test]
fn faults_after_the_head_leave_the_head_alone() {
    for (fault, reset) in [("reset-headers", true), ("close-headers", false)] {
        let (raw, entry) = with(fault);
        assert_eq!((raw.status(), raw.body.len()), (200, 0), "{fault}");
        assert_eq!(raw.reset, reset, "{fault}");
        assert_eq!(entry.outcome, Outcome::Fault);
    }
}

#[test]
fn cuts_in_the_middle_come_after_so_many_content_events_and_the_ledger_has_as_many() {
    for fault in ["close-mid", "bad-chunk", "truncate", "error-in-stream"] {
        let (raw, entry) = with(&format!("{fault}:3"));
        assert_eq!(
            (contents(&raw), entry.due_ns.len(), entry.outcome),
            (3, 3, Outcome::Fault),
            "{fault}"
        );
        assert_eq!(
            raw.dechunked().1,
            matches!(fault, "truncate" | "error-in-stream"),
            "{fault}"
        );
    }
    let (raw, _) = with("error-in-stream:3");
    assert!(raw.events().last().unwrap()["error"]["message"].is_string());
    let (raw, entry) = with("reset-mid:3");
    assert!(raw.reset);
    assert_eq!(entry.due_ns.len(), 3);
}

#[test]
fn a_half_closed_connection_still_takes_what_the_client_sends() {
    let server = Server::start(fast()).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-fault: half-close:2");
    let mut stream = send(&server, &head, &chat(8));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(!all.ends_with(b"0\r\n\r\n"));
    stream.write_all(b"still here").unwrap();
    drop(stream);
}

#[test]
fn stalls_send_nothing_more_until_the_client_leaves() {
    for (fault, events) in [
        ("stall-head", None),
        ("stall-headers", Some(0)),
        ("stall-mid:2", Some(2)),
    ] {
        let server = Server::start(fast()).unwrap();
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-fault: {fault}");
        let mut stream = send(&server, &head, &chat(8));
        let mut got = Vec::new();
        let complete = |got: &[u8]| {
            let text = String::from_utf8_lossy(got).into_owned();
            events.is_none_or(|n| {
                text.contains("\r\n\r\n")
                    && text.matches("\"content\":\"").count() >= n + usize::from(n > 0)
            })
        };
        while !complete(&got) {
            let mut space = [0; 4096];
            let n = stream.read(&mut space).unwrap();
            assert!(n > 0, "{fault}: closed");
            got.extend_from_slice(&space[..n]);
        }
        stream.set_nonblocking(true).unwrap();
        let mut one = [0];
        assert_eq!(
            stream.read(&mut one).unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "{fault}"
        );
        drop(stream);
        while server.ledger().entries().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(server.shutdown()[0].outcome, Outcome::Fault, "{fault}");
    }
}

#[test]
fn statuses_have_their_headers() {
    for (fault, status, header) in [
        ("status-429:7", 429, "retry-after: 7"),
        ("status-503:2", 503, "retry-after: 2"),
        ("status-500", 500, "content-length"),
        ("redirect", 307, "location: http://redirected.invalid"),
        ("html", 200, "text/html"),
        ("content-type", 200, "application/octet-stream"),
    ] {
        let (raw, entry) = with(fault);
        assert_eq!(raw.status(), status, "{fault}");
        assert!(raw.head.contains(header), "{fault}: {}", raw.head);
        assert_eq!(entry.status, Some(status));
    }
    assert_eq!(with("empty-200").0.body, b"");
    assert_eq!(with("empty-stream").0.text(), "data: [DONE]\n\n");
}

#[test]
fn lengths_are_wrong_by_what_was_asked() {
    for (fault, difference) in [("length-long:50", 50), ("length-short:20", -20)] {
        let (raw, _) = with(fault);
        let line = raw
            .head
            .lines()
            .find(|line| line.starts_with("content-length"))
            .unwrap();
        let announced: i64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(
            announced - i64::try_from(raw.body.len()).unwrap(),
            difference,
            "{fault}"
        );
    }
}

#[test]
fn sizes_are_what_was_asked() {
    let (raw, _) = with("giant-event:3000000");
    let text = raw.text();
    assert!(text.lines().any(|line| line.len() > 3_000_000));
    let first = raw.events()[1]["choices"][0]["delta"]["content"]
        .as_str()
        .unwrap()
        .len();
    assert_eq!(first, 3_000_000);
    let (raw, _) = with("endless-header:500000");
    assert_eq!(
        raw.head.len() + raw.body.len(),
        "HTTP/1.1 200 OK\r\nx-endless: ".len() + 500_000
    );
}

#[test]
fn an_endless_stream_ends_only_with_the_client() {
    let server = Server::start(EngineConfig::profile("instant").unwrap()).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-fault: endless");
    let mut stream = send(&server, &head, &chat(4));
    let mut got = 0;
    let mut space = vec![0; 65_536];
    while got < 3_000_000 {
        got += stream.read(&mut space).unwrap();
    }
    drop(stream);
    while server.ledger().entries().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(server.shutdown()[0].outcome, Outcome::ClientGone);
}

#[test]
fn legal_spellings_carry_the_same_answer() {
    for fault in [
        "crlf",
        "cr",
        "no-space",
        "bom",
        "fields",
        "multi-data",
        "split:5",
        "coalesce:3",
        "pings:2",
        "role-early:1",
    ] {
        let (raw, entry) = with(fault);
        let text = raw
            .text()
            .trim_start_matches('\u{feff}')
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let text = text
            .replace("data:{\n", "data:")
            .replace("data: {\ndata: ", "data: {");
        let events: Vec<serde_json::Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter_map(|data| serde_json::from_str(data.trim()).ok())
            .collect();
        assert_eq!(events.len(), 10, "{fault}: {text}");
        assert_eq!(events[9]["usage"]["completion_tokens"], 8, "{fault}");
        assert_eq!(entry.due_ns.len(), 8, "{fault}");
    }
    assert!(with("crlf").0.text().contains("\r\n\r\n"));
    assert!(with("no-space").0.text().contains("data:{"));
    assert!(with("bom").0.text().starts_with('\u{feff}'));
    assert_eq!(with("pings:2").0.text().matches(": ping\n\n").count(), 4);
}

#[test]
fn what_is_left_out_is_left_out() {
    assert!(!with("no-done").0.text().contains("[DONE]"));
    assert!(!with("no-usage").0.text().contains("usage"));
    assert!(!with("no-finish").0.text().contains("\"length\""));
    assert!(
        with("garbage-after-done")
            .0
            .text()
            .contains("[DONE]\n\ngarbage")
    );
    assert!(String::from_utf8(with("invalid-utf8").0.dechunked().0).is_err());
    let broken = with("invalid-json").0;
    assert_eq!((broken.events().len(), contents(&broken)), (9, 7));
}

#[test]
fn content_comes_in_the_channel_that_was_asked_for() {
    let deltas = |fault: &str, key: &str| {
        with(fault)
            .0
            .events()
            .iter()
            .filter(|event| !event["choices"][0]["delta"][key].is_null())
            .count()
    };
    assert_eq!(deltas("reasoning-only", "reasoning_content"), 8);
    assert_eq!(
        (
            deltas("reasoning:3", "reasoning_content"),
            deltas("reasoning:3", "content")
        ),
        (3, 1 + 5)
    );
    assert_eq!(deltas("tool-call", "tool_calls"), 1 + 8);
    assert_eq!(deltas("refusal", "refusal"), 8);
    assert_eq!(deltas("bare-role", "content"), 8);
    let null = with("null-role").0.events();
    assert!(null[0]["choices"][0]["delta"].as_object().unwrap()["content"].is_null());
    assert_eq!(
        with("empty-first").0.events()[1]["choices"][0]["delta"]["content"],
        ""
    );
    assert!(with("split-utf8").0.text().contains('\u{8a9e}'));
    let apart = with("finish-apart").0.events();
    assert_eq!(
        (
            apart.len(),
            apart[8]["choices"][0]["finish_reason"].as_str()
        ),
        (11, None)
    );
    assert_eq!(apart[9]["choices"][0]["finish_reason"], "length");
}

#[test]
fn tokens_and_usage_share_events_as_asked() {
    let (raw, entry) = with("tokens-per-chunk:3");
    assert_eq!((entry.tokens, contents(&raw)), (vec![1, 3, 3, 1], 4));
    let running: Vec<u64> = with("continuous-usage")
        .0
        .events()
        .iter()
        .filter_map(|e| e["usage"]["completion_tokens"].as_u64())
        .collect();
    assert_eq!(running, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]);
    let last = with("usage-on-last").0.events();
    assert_eq!(
        (last.len(), last[8]["usage"]["completion_tokens"].as_u64()),
        (9, Some(8))
    );
}

#[test]
fn a_connection_is_closed_after_the_answer_without_a_word() {
    let server = Server::start(fast()).unwrap();
    let raw = receive(send(
        &server,
        &format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-fault: close-after"),
        &chat(3),
    ));
    assert!(raw.dechunked().1 && !raw.head.contains("connection: close"));
}

#[test]
fn planned_faults_strike_requests_and_connections_by_number() {
    let plan = |fault: &str, from, until| PlannedFault {
        fault: fault.parse().unwrap(),
        from,
        until,
        every: 1,
        share: 1.0,
    };
    let faults = vec![
        plan("reset-accept", 0, Some(1)),
        plan("status-500", 1, Some(2)),
        plan("close-accept", 3, Some(4)),
    ];
    let server = Server::start(EngineConfig { faults, ..fast() }).unwrap();
    let raw: Vec<Raw> = (0..4).map(|_| {
        let mut stream = TcpStream::connect(server.addr().unwrap()).unwrap();
        let body = chat(2);
        // The server may have closed already.
        write!(stream, "POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok();
        receive(stream)
    }).collect();
    assert_eq!(
        raw.iter().map(Raw::status).collect::<Vec<_>>(),
        [0, 200, 500, 0]
    );
}

#[test]
fn connections_are_refused_where_that_is_the_plan() {
    let server = Server::start(EngineConfig {
        refuse: true,
        ..fast()
    })
    .unwrap();
    let error = TcpStream::connect(server.addr().unwrap()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn an_unknown_fault_is_a_bad_request_that_names_it() {
    let server = Server::start(fast()).unwrap();
    let raw = post(&server, CHAT, "explode", &chat(2));
    assert_eq!(raw.status(), 400);
    assert!(String::from_utf8_lossy(&raw.body).contains("explode"));
    assert_eq!(get(&server, "/health").status(), 200);
}

#[test]
fn every_fault_is_in_the_documentation_with_its_default() {
    let page = include_str!("../../../../docs/engine.md");
    for kind in FaultKind::ALL {
        let argument = kind
            .default_argument()
            .map(|n| format!(":{n}"))
            .unwrap_or_default();
        let row = format!("| `{}{argument}` | {} |", kind.name(), kind.summary());
        assert!(page.contains(&row), "docs/engine.md lacks: {row}");
    }
}
