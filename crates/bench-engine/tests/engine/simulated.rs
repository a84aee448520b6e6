//! The simulated engine over its API, seen by a client of plain sockets.

use crate::common::{chat, fast, get, post};
use bench_engine::{EngineConfig, Outcome, Server};

#[test]
fn a_chat_streams_a_role_with_its_first_token_then_tokens_then_usage_then_done() {
    let server = Server::start(fast()).unwrap();
    let raw = post(&server, "/v1/chat/completions", "", &chat(5));
    assert_eq!(raw.status(), 200, "{}", raw.head);
    assert!(raw.head.contains("text/event-stream"));
    let events = raw.events();
    assert_eq!(events.len(), 1 + 5 + 1, "{}", raw.text());
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(events[5]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[6]["usage"]["completion_tokens"], 5);
    assert_eq!(events[6]["usage"]["prompt_tokens"], 4 + 4 + 3);
    assert!(raw.text().ends_with("data: [DONE]\n\n"));
    assert!(raw.dechunked().1);
    let entries = server.shutdown();
    assert_eq!(
        (entries.len(), entries[0].outcome, entries[0].due_ns.len()),
        (1, Outcome::Completed, 5)
    );
}

#[test]
fn the_ledger_never_says_that_a_token_left_before_it_was_due_or_before_the_one_ahead_of_it() {
    let server = Server::start(fast()).unwrap();
    post(
        &server,
        "/v1/completions",
        "",
        r#"{"prompt":"a b c","max_tokens":50,"stream":true}"#,
    );
    let entry = &server.shutdown()[0];
    assert_eq!(entry.completion_tokens, 50);
    assert_eq!(entry.prompt_tokens, 3);
    for at in 0..entry.due_ns.len() {
        assert!(
            entry.due_ns[at] <= entry.before_ns[at] && entry.before_ns[at] <= entry.after_ns[at]
        );
        assert!(
            at == 0
                || (entry.after_ns[at - 1] <= entry.before_ns[at]
                    && entry.due_ns[at - 1] <= entry.due_ns[at])
        );
    }
    assert!(entry.head_ns <= entry.body_ns && Some(entry.body_ns) <= entry.scheduled_ns);
}

#[test]
fn due_times_follow_from_the_seed_and_do_not_drift_with_the_writing() {
    let gaps = |_| {
        let server = Server::start(fast()).unwrap();
        post(
            &server,
            "/v1/completions",
            "",
            r#"{"prompt":"a","max_tokens":20,"stream":true,"seed":7}"#,
        );
        let entry = server.shutdown().remove(0);
        entry
            .due_ns
            .windows(2)
            .map(|w| w[1] - w[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(gaps(0), gaps(1));
}

#[test]
fn an_answer_in_one_piece_has_all_tokens_and_its_text_counts_the_same_again() {
    let server = Server::start(fast()).unwrap();
    let raw = post(
        &server,
        "/v1/completions",
        "",
        r#"{"prompt":["a b","c"],"max_tokens":6,"n":2}"#,
    );
    let answer: serde_json::Value = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 4);
    assert_eq!(answer["usage"]["completion_tokens"], 24);
    let body = serde_json::json!({"prompt": answer["choices"][3]["text"]}).to_string();
    let tokens: serde_json::Value =
        serde_json::from_slice(&post(&server, "/tokenize", "", &body).body).unwrap();
    assert_eq!(tokens["count"], 6);
}

#[test]
fn more_sequences_than_places_wait_in_order() {
    let mut config = fast();
    config.engine = bench_engine::config::EngineKind::Fixed(bench_engine::config::Fixed {
        max_num_seqs: Some(1),
        ttft_ms: 3.0,
        itl_ms: 1.0,
        ..Default::default()
    });
    let server = Server::start(config).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                post(
                    &server,
                    "/v1/completions",
                    "",
                    r#"{"prompt":"a","max_tokens":5,"stream":true}"#,
                )
            });
        }
    });
    let mut entries = server.shutdown();
    entries.sort_by_key(|entry| entry.scheduled_ns);
    for pair in entries.windows(2) {
        assert!(
            pair[1].scheduled_ns.unwrap() >= *pair[0].due_ns.last().unwrap(),
            "two at a time"
        );
    }
}

#[test]
fn errors_have_the_status_and_shape_of_the_openai_api() {
    let mut config = fast();
    config.max_model_len = 20;
    let server = Server::start(config).unwrap();
    let cases = [
        (r#"{"model":"nope","prompt":"a"}"#, 404, "nope"),
        (r#"{"prompt":"a","max_tokens":30}"#, 400, "max_tokens=30"),
        (r#"{"prompt":"a","#, 400, "body"),
        (r#"{"prompt":""}"#, 400, "empty"),
        (r#"{"prompt":"a","max_tokens":0}"#, 400, "at least 1"),
    ];
    for (body, status, says) in cases {
        let raw = post(&server, "/v1/completions", "", body);
        let answer: serde_json::Value = serde_json::from_slice(&raw.body).unwrap();
        assert_eq!(
            (raw.status(), answer["error"]["code"].as_u64()),
            (status, Some(u64::from(status))),
            "{body}"
        );
        assert!(
            answer["error"]["message"].as_str().unwrap().contains(says),
            "{answer}"
        );
    }
    assert_eq!(get(&server, "/nowhere").status(), 404);
    assert!(
        server
            .shutdown()
            .iter()
            .all(|entry| entry.outcome == Outcome::Refused)
    );
}

#[test]
fn a_key_is_asked_for_where_one_is_set_and_only_there() {
    let server = Server::start(EngineConfig {
        api_key: Some("k".into()),
        ..fast()
    })
    .unwrap();
    assert_eq!(get(&server, "/v1/models").status(), 401);
    assert_eq!(get(&server, "/health").status(), 200);
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer k";
    assert_eq!(
        crate::common::receive(crate::common::send(&server, head, "")).status(),
        200
    );
}

#[test]
fn metrics_tell_the_limits_of_the_scheduler() {
    let page = |toml: &str| {
        let server = Server::start(EngineConfig::from_toml(toml).unwrap()).unwrap();
        String::from_utf8(get(&server, "/metrics").body).unwrap()
    };
    let told = "bench_engine:scheduler_config_info{";
    let page_of_seven = page(
        "engine = { kind = 'scheduler', scheduler = { max_num_seqs = 7, enable_chunked_prefill = false } }",
    );
    let line = page_of_seven.lines().find(|line| line.starts_with(told));
    let line = line.unwrap();
    assert!(line.contains("max_num_seqs=\"7\""), "{line}");
    assert!(line.contains("enable_chunked_prefill=\"false\""), "{line}");
    assert!(!page("engine = { kind = 'fixed' }").contains(told));
}

#[test]
fn metrics_count_what_was_generated() {
    let server = Server::start(fast()).unwrap();
    post(
        &server,
        "/v1/completions",
        "",
        r#"{"prompt":"a b","max_tokens":7,"stream":true}"#,
    );
    let page = String::from_utf8(get(&server, "/metrics").body).unwrap();
    for line in [
        "generation_tokens_total",
        "prompt_tokens_total",
        "inter_token_latency_seconds_count",
    ] {
        let value = page
            .lines()
            .find(|l| l.starts_with(&format!("vllm:{line}{{")))
            .unwrap();
        let expected = if line.starts_with("prompt") {
            "2"
        } else if line.starts_with("gen") {
            "7"
        } else {
            "6"
        };
        assert!(
            value.ends_with(&format!("}} {expected}"))
                || value.ends_with(&format!("}} {expected}.0")),
            "{value}"
        );
    }
}

#[test]
fn the_ledger_is_read_and_emptied_over_http() {
    let server = Server::start(fast()).unwrap();
    post(
        &server,
        "/v1/completions",
        "",
        r#"{"prompt":"a","max_tokens":3,"stream":true}"#,
    );
    let lines = String::from_utf8(get(&server, "/ledger").body).unwrap();
    let entry: bench_engine::Entry = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!(vec![entry], server.ledger().entries());
    let head = "DELETE /ledger HTTP/1.1\r\nhost: x\r\nconnection: close";
    assert_eq!(
        crate::common::receive(crate::common::send(&server, head, "")).status(),
        200
    );
    assert!(server.ledger().entries().is_empty());
}

#[test]
fn the_scheduler_queues_preempts_and_finds_prefixes_and_every_request_gets_its_tokens() {
    let mut config = EngineConfig::profile("small-cache").unwrap();
    if let bench_engine::config::EngineKind::Scheduler(simulation) = &mut config.engine {
        simulation.step_ms = 0.2;
        simulation.prefill_tokens_per_s = 1e6;
        simulation.scheduler.num_blocks = 20;
    }
    let server = Server::start(config).unwrap();
    let prompt = "word ".repeat(40);
    let body = format!(
        r#"{{"prompt":"{prompt}","max_tokens":60,"stream":true,"stream_options":{{"include_usage":true}}}}"#
    );
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let raw = post(&server, "/v1/completions", "", &body);
                assert_eq!(
                    raw.events().last().unwrap()["usage"]["completion_tokens"],
                    60,
                    "{}",
                    raw.text()
                );
            });
        }
    });
    let page = String::from_utf8(get(&server, "/metrics").body).unwrap();
    let value = |name: &str| -> f64 {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("vllm:{name}{{")))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("num_preemptions_total") > 0.0, "{page}");
    assert!(value("prefix_cache_hits_total") > 0.0);
    assert!(value("prefix_cache_hits_total") < value("prefix_cache_queries_total"));
    assert!(value("num_requests_running").abs() < 0.5 && value("num_requests_waiting").abs() < 0.5);
    assert!(value("kv_cache_usage_perc") < 1e-9);
}

#[test]
fn connections_are_told_with_the_requests_they_carried_and_0_where_nobody_used_them() {
    let server = Server::start(fast()).unwrap();
    let _unused = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    get(&server, "/health");
    let raw = get(&server, "/connections");
    let carried: Vec<u64> = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(carried, [0, 1, 1], "the last is the one that asks");
}
