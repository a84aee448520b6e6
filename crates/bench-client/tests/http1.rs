//! The client against real sockets: timing, reuse, failures, limits.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test says what is wrong by failing, and a table of cases is long"
)]

use std::time::Duration;

use crate::common::{
    Act, STREAM_HEAD, Scripted, ask, chunk, client, finish, run, target, text, token, whole_stream,
};
use bench_client::{CancelAfter, ConnectionPolicy, Endpoint};
use bench_schema::{FailureKind, Nanos, Outcome, Stage};

fn failure(outcome: &Outcome) -> (Stage, FailureKind, String) {
    match outcome {
        Outcome::Failed {
            stage,
            failure,
            message,
        } => (*stage, *failure, message.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_streamed_answer_becomes_events_with_kernel_stamps_in_order() {
    let server = Scripted::start(vec![vec![
        Act::Request,
        text(STREAM_HEAD),
        text(&token("a")),
        Act::Wait,
        text(&token("b")),
        Act::Wait,
        text(&finish()),
        Act::Linger,
    ]]);
    let client = client(target(&server.url));
    // The server goes on when what it wrote was read, so that the tokens are surely in different reads.
    let exchange = run(async {
        let words = async {
            server.word().await;
            server.word().await;
        };
        let (exchange, ()) = tokio::join!(ask(&client), words);
        drop(client);
        exchange
    });
    assert_eq!(exchange.outcome, Outcome::Completed, "{exchange:?}");
    assert_eq!((exchange.events.len(), exchange.status), (2, Some(200)));
    assert_eq!(exchange.finish_reason.as_deref(), Some("stop"));
    let (connected, sent) = (exchange.connected.unwrap(), exchange.sent.unwrap());
    let (headers, closed) = (exchange.headers.unwrap(), exchange.closed.unwrap());
    let stamps: Vec<_> = exchange.events.stamps().collect();
    assert!(connected <= sent && sent <= headers && headers <= stamps[0]);
    assert!(stamps[0] < stamps[1] && stamps[1] <= closed);
    assert!(exchange.reads >= 3 && exchange.response_bytes > 0 && exchange.request_bytes > 0);
    assert!(exchange.connection.connect.is_some() && !exchange.connection.reused);
    assert!(exchange.connection.tls.is_none() && exchange.connection.resolve.is_none());
    let request = server.requests.recv().unwrap();
    assert!(
        request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.to_lowercase().contains("x-request-id: r-1\r\n"));
    server.join();
}

/// On a busy machine a close may come so late that the server seems to have held the request: that is a failure.
fn came_late(outcome: &Outcome) -> bool {
    if *outcome == Outcome::Completed {
        return false;
    }
    let (stage, kind, message) = failure(outcome);
    assert!(
        matches!(kind, FailureKind::Closed | FailureKind::Reset),
        "{stage:?} {kind:?} {message}"
    );
    true
}

/// What a late close spoils is tried again.
fn in_one_of_some_tries(holds: impl Fn() -> bool) {
    assert!((0..20).any(|_| holds()), "every close was late");
}

#[test]
fn a_reused_connection_that_the_server_closed_is_replaced_counted_and_not_failed() {
    in_one_of_some_tries(|| {
        // As llama-server does it: keep-alive is announced, the connection closed after each streamed answer.
        let answer = || vec![Act::Request, text(&whole_stream(3)), Act::Close];
        let server = Scripted::start(vec![answer(), answer(), answer()]);
        let client = client(target(&server.url));
        let all = run(async {
            for _ in 0..3 {
                let exchange = ask(&client).await;
                if came_late(&exchange.outcome) {
                    return false;
                }
                assert!(!exchange.connection.reused && exchange.connection.replaced <= 1);
                assert_eq!(exchange.events.len(), 3);
            }
            true
        });
        if all {
            server.join();
        }
        all
    });
}

/// A server that closes without having read the second request: it did not take it.
#[test]
fn a_connection_closed_under_the_second_request_is_replaced_once() {
    let server = Scripted::start(vec![
        vec![Act::Request, text(&whole_stream(1)), Act::Wait, Act::Close],
        vec![Act::Request, text(&whole_stream(2)), Act::Linger],
    ]);
    let client = client(target(&server.url));
    let (first, second) = run(async {
        let first = ask(&client).await;
        let unread = server.word_after(Duration::ZERO);
        let second = tokio::join!(ask(&client), unread).0;
        drop(client);
        (first, second)
    });
    assert_eq!(first.connection.replaced, 0);
    assert_eq!(second.outcome, Outcome::Completed);
    assert_eq!(
        (second.connection.replaced, second.connection.reused),
        (1, false)
    );
    // it was sent before the new connection was opened, and its time runs from there
    let took = second.connection.connect.unwrap();
    assert!(second.headers.unwrap() - second.sent.unwrap() >= took);
    assert!(second.connected <= second.sent);
    server.join();
}

/// As above, with the next request read while the connection is being closed: nothing that such a server did shows that it keeps any.
#[test]
fn a_connection_that_is_closed_after_each_answer_is_replaced_though_the_request_was_read() {
    in_one_of_some_tries(|| {
        let closing = |tokens| {
            let answer = text(&whole_stream(tokens));
            vec![Act::Request, answer, Act::Request, Act::Close]
        };
        let last = vec![Act::Request, text(&whole_stream(1)), Act::Linger];
        let server = Scripted::start(vec![closing(3), closing(2), last]);
        let client = client(target(&server.url));
        let all = run(async {
            for replaced in [0, 1, 1] {
                let exchange = ask(&client).await;
                if came_late(&exchange.outcome) {
                    return false;
                }
                assert_eq!(exchange.connection.replaced, replaced);
            }
            drop(client);
            true
        });
        if all {
            server.join();
        }
        all
    });
}

/// A server may have worked on what it has read, however soon it hangs up: nobody may ask again in silence.
#[test]
fn a_request_that_the_server_read_before_it_hung_up_is_not_asked_again() {
    // a connection that only carried one answer may be closed after it, but is not reset
    let ends = [
        (2, Act::Close, FailureKind::Closed),
        (1, Act::Reset, FailureKind::Reset),
    ];
    for (answers, end, kind) in ends {
        let answer = || [Act::Request, text(&whole_stream(1))];
        let mut script: Vec<Act> = (0..answers).flat_map(|_| answer()).collect();
        script.extend([Act::Request, end]);
        let server = Scripted::start(vec![script]);
        let client = client(target(&server.url));
        let exchange = run(async {
            for _ in 0..answers {
                assert_eq!(ask(&client).await.outcome, Outcome::Completed);
            }
            ask(&client).await
        });
        let (stage, found, message) = failure(&exchange.outcome);
        assert_eq!((stage, found), (Stage::Headers, kind), "{message}");
        assert_eq!(exchange.connection.replaced, 0);
        assert!(exchange.connection.reused && exchange.sent.is_some());
        server.join();
    }
}

#[test]
fn a_request_that_the_server_held_before_it_closed_is_not_asked_again() {
    let server = Scripted::start(vec![vec![
        Act::Request,
        text(&whole_stream(1)),
        Act::Request,
        Act::Wait,
        Act::Close,
    ]]);
    let client = client(target(&server.url));
    let exchange = run(async {
        assert_eq!(ask(&client).await.outcome, Outcome::Completed);
        // longer than a close that was under way could take over a loopback
        let held = server.word_after(Duration::from_millis(50));
        tokio::join!(ask(&client), held).0
    });
    let (stage, kind, message) = failure(&exchange.outcome);
    assert_eq!(
        (stage, kind),
        (Stage::Headers, FailureKind::Closed),
        "{message}"
    );
    assert_eq!(exchange.connection.replaced, 0);
    assert!(exchange.sent.is_some());
    server.join();
}

#[test]
fn what_a_server_says_unasked_is_no_answer_to_the_next_request() {
    let unasked = "HTTP/1.1 500 Too Late\r\ncontent-length: 0\r\n\r\n";
    let server = Scripted::start(vec![
        vec![
            Act::Request,
            text(&whole_stream(1)),
            Act::Wait,
            text(unasked),
            Act::Wait,
            Act::Linger,
        ],
        vec![Act::Request, text(&whole_stream(2)), Act::Linger],
    ]);
    let client = client(target(&server.url));
    run(async {
        assert_eq!(ask(&client).await.outcome, Outcome::Completed);
        server.word().await;
        server.word().await;
        let exchange = ask(&client).await;
        assert_eq!((exchange.status, exchange.events.len()), (Some(200), 2));
        let connection = &exchange.connection;
        assert_eq!((connection.replaced, connection.reused), (1, false));
        drop(client);
    });
    server.join();
}

#[test]
fn a_new_connection_that_closes_without_an_answer_is_a_failure() {
    let server = Scripted::start(vec![vec![Act::Request, Act::Close]]);
    let client = client(target(&server.url));
    let exchange = run(async { ask(&client).await });
    let (stage, kind, message) = failure(&exchange.outcome);
    assert_eq!(
        (stage, kind),
        (Stage::Headers, FailureKind::Closed),
        "{message}"
    );
    assert!(exchange.sent.is_some() && exchange.events.is_empty());
}

#[test]
fn connections_are_reused_and_only_the_first_request_pays_for_one() {
    let server = Scripted::start(vec![vec![
        Act::Request,
        text(&whole_stream(1)),
        Act::Request,
        text(&whole_stream(2)),
        Act::Linger,
    ]]);
    let client = client(target(&server.url));
    run(async {
        let first = ask(&client).await;
        let second = ask(&client).await;
        assert_eq!(second.outcome, Outcome::Completed, "{second:?}");
        assert!(first.connection.connect.is_some() && !first.connection.reused);
        assert!(second.connection.connect.is_none() && second.connection.reused);
        drop(client);
    });
    server.join();
}

#[test]
fn one_connection_a_request_says_close_and_never_reuses() {
    let answer = || vec![Act::Request, text(&whole_stream(1)), Act::Linger];
    let server = Scripted::start(vec![answer(), answer()]);
    let mut aim = target(&server.url);
    aim.connections = ConnectionPolicy::PerRequest;
    let client = client(aim);
    run(async {
        for _ in 0..2 {
            let exchange = ask(&client).await;
            assert_eq!(exchange.outcome, Outcome::Completed);
            assert!(!exchange.connection.reused && exchange.connection.connect.is_some());
        }
    });
    assert!(
        server
            .requests
            .recv()
            .unwrap()
            .contains("connection: close")
    );
    server.join();
}

#[test]
fn a_connection_that_the_server_switched_to_another_protocol_carries_no_request_more() {
    let switched = "HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\n\r\n";
    let server = Scripted::start(vec![
        vec![Act::Request, text(switched), Act::Linger],
        vec![Act::Request, text(&whole_stream(1)), Act::Linger],
    ]);
    let client = client(target(&server.url));
    let (first, second) = run(async {
        let both = (ask(&client).await, ask(&client).await);
        drop(client);
        both
    });
    assert_eq!(first.status, Some(101));
    assert_eq!(second.outcome, Outcome::Completed);
    assert!(!second.connection.reused && second.connection.replaced == 0);
    server.join();
}

#[test]
fn connections_are_opened_at_the_servers_whose_turn_it_is() {
    let answer = || vec![Act::Request, text(&whole_stream(1)), Act::Linger];
    let (first, third) = (
        Scripted::start(vec![answer()]),
        Scripted::start(vec![answer()]),
    );
    let second = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    second.set_nonblocking(true).unwrap();
    let mut aim = target(&first.url);
    let unused = format!("http://{}", second.local_addr().unwrap());
    for url in [&unused, &third.url] {
        aim.endpoints.push(Endpoint::parse(url).unwrap());
    }
    let client = client(aim);
    run(async {
        client.begin_with(2);
        client.open(2).await;
        let all = [ask(&client).await, ask(&client).await];
        let went = all.iter().map(|exchange| exchange.connection.endpoint);
        assert_eq!(went.collect::<Vec<_>>(), [2, 0]);
        assert!(all.iter().all(|exchange| exchange.connection.beforehand));
        drop(client);
    });
    assert!(second.accept().is_err(), "nobody needs a connection there");
    first.join();
    third.join();
}

#[test]
fn a_server_that_is_not_there_is_left_to_the_request_that_needs_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = client(target(&url));
    run(async {
        client.open(3).await;
        let exchange = ask(&client).await;
        assert!(matches!(
            exchange.outcome,
            Outcome::Failed {
                stage: Stage::Connect,
                ..
            }
        ));
        drop(client);
    });
}

#[test]
fn interim_answers_without_an_end_do_not_outrun_the_limits_on_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // the request first: who speaks before he was asked speaks no HTTP
        std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
        // until the client has gone
        while std::io::Write::write_all(&mut stream, &interim).is_ok() {}
    });
    let mut aim = target(&url);
    aim.timeouts.whole = Nanos::from_millis(300);
    let client = client(aim);
    let exchange = run(async { ask(&client).await });
    assert!(
        matches!(exchange.outcome, Outcome::TimedOut { .. }),
        "{:?}",
        exchange.outcome
    );
    drop(client);
    server.join().unwrap();
}

#[test]
fn clients_that_share_a_load_begin_with_different_endpoints() {
    let answer = || vec![Act::Request, text(&whole_stream(1)), Act::Linger];
    let servers = [(); 2].map(|()| Scripted::start(vec![answer()]));
    let urls = servers.each_ref().map(|server| server.url.as_str());
    let mut aim = target(urls[0]);
    aim.endpoints.extend(target(urls[1]).endpoints);
    let client = client(aim);
    client.begin_with(3);
    run(async {
        assert_eq!(ask(&client).await.connection.endpoint, 1);
        assert_eq!(ask(&client).await.connection.endpoint, 0);
        drop(client);
    });
    for server in servers {
        server.join();
    }
}

#[test]
fn nobody_listening_is_refused_with_the_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = client(target(&url));
    let exchange = run(async { ask(&client).await });
    let (stage, kind, message) = failure(&exchange.outcome);
    assert_eq!((stage, kind), (Stage::Connect, FailureKind::Refused));
    assert!(message.contains(&url), "{message}");
    assert_eq!((exchange.connected, exchange.sent), (None, None));
}

#[test]
fn a_name_without_an_address_is_a_dns_failure() {
    let client = client(target("http://no-such-host.invalid:1"));
    let exchange = run(async { ask(&client).await });
    let (stage, kind, _) = failure(&exchange.outcome);
    assert_eq!((stage, kind), (Stage::Resolve, FailureKind::Dns));
}

#[test]
fn an_error_status_keeps_the_beginning_of_its_page_and_the_connection() {
    let page = "{\"error\":{\"message\":\"too many requests\"}}";
    let refusal = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let server = Scripted::start(vec![vec![
        Act::Request,
        text(&refusal),
        Act::Request,
        text(&whole_stream(1)),
        Act::Linger,
    ]]);
    let client = client(target(&server.url));
    run(async {
        let exchange = ask(&client).await;
        let (stage, kind, message) = failure(&exchange.outcome);
        assert_eq!((stage, kind), (Stage::Headers, FailureKind::Status));
        assert!(
            message.contains("429") && message.contains("too many requests"),
            "{message}"
        );
        assert_eq!(exchange.status, Some(429));
        let next = ask(&client).await;
        assert!(next.outcome.is_completed() && next.connection.reused);
        drop(client);
    });
    server.join();
}

#[test]
fn an_error_page_without_an_end_ends_the_request_with_its_status() {
    let head = "HTTP/1.1 500 Internal Server Error\r\ntransfer-encoding: chunked\r\n\r\n";
    // One that never stops, and one that stalls after a few bytes.
    let pages = [
        chunk("out of memory ").repeat(20_000),
        chunk("out of memory "),
    ];
    for page in pages {
        let server = Scripted::start(vec![vec![
            Act::Request,
            text(head),
            text(&page),
            Act::Linger,
        ]]);
        let client = client(target(&server.url));
        let exchange = run(async { ask(&client).await });
        let (stage, kind, message) = failure(&exchange.outcome);
        assert_eq!(
            (stage, kind),
            (Stage::Headers, FailureKind::Status),
            "{message}"
        );
        assert!(
            message.contains("500") && message.contains("out of memory"),
            "{message}"
        );
        assert!(
            exchange.response_bytes < 200_000,
            "{}",
            exchange.response_bytes
        );
        drop(client);
        server.join();
    }
}

#[test]
fn redirects_html_pages_and_compressed_bodies_are_named_for_what_they_are() {
    for (head, kind, word) in [
        (
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: /v2\r\ncontent-length: 0\r\n\r\n",
            FailureKind::Status,
            "redirects are not followed",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 6\r\n\r\n<html>",
            FailureKind::ContentType,
            "HTML page",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx",
            FailureKind::ContentType,
            "compressed",
        ),
        (
            "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
            FailureKind::Http,
            "does not respond in HTTP",
        ),
        (
            "\x15\x03\x01\x00\x02\x02\x46",
            FailureKind::Http,
            "https://",
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n", FailureKind::Http, "SSH-2.0"),
    ] {
        let server = Scripted::start(vec![vec![Act::Request, text(head), Act::Close]]);
        let client = client(target(&server.url));
        let exchange = run(async { ask(&client).await });
        let (_, got, message) = failure(&exchange.outcome);
        assert_eq!(got, kind, "{head:?}: {message}");
        assert!(message.contains(word), "{head:?}: {message}");
    }
}

#[test]
fn a_head_beyond_the_limit_is_too_large() {
    let field = format!("x-y: {}\r\n", "y".repeat(200));
    let aim_head = format!("HTTP/1.1 200 OK\r\n{}", field.repeat(90));
    let server = Scripted::start(vec![vec![Act::Request, text(&aim_head), Act::Linger]]);
    let mut aim = target(&server.url);
    aim.limits.head_bytes = 8192;
    let client = client(aim);
    let exchange = run(async {
        let exchange = ask(&client).await;
        drop(client);
        exchange
    });
    assert_eq!(failure(&exchange.outcome).1, FailureKind::TooLarge);
}

#[test]
fn a_reset_in_the_stream_keeps_the_tokens_that_came() {
    let server = Scripted::start(vec![vec![
        Act::Request,
        text(&format!("{STREAM_HEAD}{}", token("a"))),
        Act::Wait,
        Act::Reset,
    ]]);
    let client = client(target(&server.url));
    let exchange = run(async { tokio::join!(ask(&client), server.word()).0 });
    let (stage, kind, message) = failure(&exchange.outcome);
    assert_eq!(
        (stage, kind),
        (Stage::Stream, FailureKind::Reset),
        "{message}"
    );
    assert_eq!(exchange.events.len(), 1);
}

#[test]
fn a_transfer_cut_off_in_a_chunk_is_closed_early() {
    let cut = format!("{STREAM_HEAD}{}40\r\ndata: {{\"cho", token("a"));
    let server = Scripted::start(vec![vec![Act::Request, text(&cut), Act::Close]]);
    let client = client(target(&server.url));
    let exchange = run(async { ask(&client).await });
    let (stage, kind, message) = failure(&exchange.outcome);
    assert_eq!(
        (stage, kind),
        (Stage::Stream, FailureKind::Closed),
        "{message}"
    );
    assert_eq!(exchange.events.len(), 1);
}

#[test]
fn every_limit_ends_a_silent_server_with_its_own_stage() {
    let cases: [(Vec<Act>, Stage, usize); 4] = [
        (vec![Act::Request, Act::Linger], Stage::Headers, 0),
        (
            vec![Act::Request, text(STREAM_HEAD), Act::Linger],
            Stage::FirstToken,
            0,
        ),
        (
            vec![
                Act::Request,
                text(&format!("{STREAM_HEAD}{}", token("a"))),
                Act::Linger,
            ],
            Stage::Stream,
            1,
        ),
        (
            vec![
                Act::Request,
                text(&format!(
                    "{STREAM_HEAD}{}{}",
                    token("a"),
                    chunk("data: [DONE]\n\n")
                )),
                Act::Linger,
            ],
            Stage::Tail,
            1,
        ),
    ];
    for (script, stage, events) in cases {
        // On a busy machine the server may be later than a short limit, which is then rightly an earlier stage: give it more.
        let exchange = [20, 100, 500, 5_000]
            .into_iter()
            .map(|ms| limited(script.clone(), Nanos::from_millis(ms)))
            .find(|exchange| exchange.outcome == Outcome::TimedOut { stage });
        let exchange = exchange.expect("no limit ended it in its stage");
        assert_eq!(exchange.events.len(), events);
        assert!(exchange.closed.is_some());
    }
}

fn limited(script: Vec<Act>, limit: Nanos) -> bench_schema::Exchange {
    let server = Scripted::start(vec![script]);
    let mut aim = target(&server.url);
    aim.timeouts.first_token = Some(limit);
    aim.timeouts.between_tokens = Some(limit);
    let client = client(aim);
    let exchange = run(async {
        let exchange = ask(&client).await;
        drop(client);
        exchange
    });
    server.join();
    exchange
}

#[test]
fn the_limit_on_the_whole_request_ends_a_server_that_never_pauses() {
    // More than the client can read before the limit, without an end.
    let endless = vec![text(STREAM_HEAD)]
        .into_iter()
        .chain((0..200_000).map(|_| text(&chunk(": ping\n\n"))));
    let script: Vec<Act> = std::iter::once(Act::Request)
        .chain(endless)
        .chain([Act::Linger])
        .collect();
    let server = Scripted::start(vec![script]);
    let mut aim = target(&server.url);
    aim.timeouts.whole = Nanos::from_millis(50);
    let client = client(aim);
    let exchange = run(async {
        let exchange = ask(&client).await;
        drop(client);
        exchange
    });
    assert_eq!(
        exchange.outcome,
        Outcome::TimedOut {
            stage: Stage::Whole
        }
    );
    server.join();
}

#[test]
fn a_request_is_cancelled_after_so_many_events_or_so_much_time() {
    for cancel in [
        CancelAfter::Events(2),
        CancelAfter::Time(Nanos::from_millis(30)),
    ] {
        let server = Scripted::start(vec![vec![
            Act::Request,
            text(&format!("{STREAM_HEAD}{}{}", token("a"), token("b"))),
            Act::Linger,
        ]]);
        let mut aim = target(&server.url);
        aim.cancel_after = Some(cancel);
        let client = client(aim);
        let exchange = run(async { ask(&client).await });
        assert!(
            matches!(exchange.outcome, Outcome::Cancelled { .. }),
            "{exchange:?}"
        );
        if matches!(cancel, CancelAfter::Events(_)) {
            assert_eq!(exchange.events.len(), 2);
        }
        // The connection of a cancelled request is closed, which is what tells the server.
        server.join();
    }
}

#[test]
fn endpoints_take_turns() {
    let answer = || {
        vec![vec![
            Act::Request,
            text(&whole_stream(1)),
            Act::Request,
            text(&whole_stream(1)),
            Act::Linger,
        ]]
    };
    let (one, two) = (Scripted::start(answer()), Scripted::start(answer()));
    let mut aim = target(&one.url);
    aim.endpoints.push(Endpoint::parse(&two.url).unwrap());
    let client = client(aim);
    run(async {
        let mut turns = Vec::new();
        for _ in 0..4 {
            let exchange = ask(&client).await;
            assert!(exchange.outcome.is_completed());
            turns.push(exchange.connection.endpoint);
        }
        assert_eq!(turns, [0, 1, 0, 1]);
        drop(client);
    });
    one.join();
    two.join();
}
