//! The transformer over its API.

use crate::common::{get, post};
use bench_engine::{EngineConfig, Outcome, Server};

fn tiny() -> Server {
    Server::start(EngineConfig::profile("tiny").unwrap()).unwrap()
}

#[test]
fn a_chat_with_the_tiny_transformer_streams_the_tokens_that_were_asked_for() {
    let server = tiny();
    let body = r#"{"messages":[{"role":"user","content":"hello there"}],"max_tokens":8,"stream":true,
        "stream_options":{"include_usage":true}}"#;
    let raw = post(&server, "/v1/chat/completions", "", body);
    let events = raw.events();
    assert_eq!(
        events.last().unwrap()["usage"]["completion_tokens"],
        8,
        "{}",
        raw.text()
    );
    let entry = &server.shutdown()[0];
    assert_eq!((entry.outcome, entry.due_ns.len()), (Outcome::Completed, 8));
}

#[test]
fn the_likeliest_tokens_are_the_same_alone_and_beside_others() {
    let server = tiny();
    let ask = |prompt: &str| {
        let body = format!(r#"{{"prompt":"{prompt}","max_tokens":12,"temperature":0}}"#);
        let answer: serde_json::Value =
            serde_json::from_slice(&post(&server, "/v1/completions", "", &body).body).unwrap();
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let prompts: Vec<String> = (1..6)
        .map(|n| "some words to read ".repeat(n * 3))
        .collect();
    let alone: Vec<String> = prompts.iter().map(|prompt| ask(prompt)).collect();
    let together: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = prompts
            .iter()
            .map(|prompt| scope.spawn(|| ask(prompt)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = tiny();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x";
    let stream = crate::common::send(
        &server,
        head,
        r#"{"prompt":"a","max_tokens":4000,"stream":true}"#,
    );
    drop(stream);
    // The next request is answered although the first one asked for minutes of work.
    assert_eq!(
        post(
            &server,
            "/v1/completions",
            "",
            r#"{"prompt":"a","max_tokens":2}"#
        )
        .status(),
        200
    );
    loop {
        let page = String::from_utf8(get(&server, "/metrics").body).unwrap();
        if page.contains("vllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 0.0") {
            break;
        }
        std::thread::yield_now();
    }
}
