//! The same generation behind every protocol.

use bench_engine::{Outcome, Server};
use serde_json::Value;

use crate::common::{Raw, fast, post};

fn ask(path: &str, body: &str) -> (Raw, bench_engine::Entry) {
    let server = Server::start(fast()).unwrap();
    let raw = post(&server, path, "", body);
    assert_eq!(raw.status(), 200, "{}", String::from_utf8_lossy(&raw.body));
    let entry = server.shutdown().remove(0);
    assert_eq!(
        (entry.outcome, entry.completion_tokens),
        (Outcome::Completed, 5),
        "{path}"
    );
    (raw, entry)
}

fn whole(path: &str, body: &str) -> Value {
    serde_json::from_slice(&ask(path, body).0.body).unwrap()
}

fn named(raw: &Raw) -> Vec<String> {
    raw.text()
        .lines()
        .filter_map(|line| line.strip_prefix("event: ").map(str::to_owned))
        .collect()
}

#[test]
fn responses_name_their_events_and_end_with_usage() {
    let (raw, entry) = ask(
        "/v1/responses",
        r#"{"input":"hello there","max_output_tokens":5,"stream":true}"#,
    );
    let names = named(&raw);
    assert_eq!(
        names
            .iter()
            .filter(|name| *name == "response.output_text.delta")
            .count(),
        5
    );
    assert_eq!(
        (names[0].as_str(), names.last().unwrap().as_str()),
        ("response.created", "response.incomplete")
    );
    let last = raw.events().pop().unwrap();
    assert_eq!(last["response"]["usage"]["output_tokens"], 5);
    let text: String = raw
        .events()
        .iter()
        .filter_map(|e| e["delta"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], text);
    assert_eq!(entry.due_ns.len(), 5);
    let answer = whole(
        "/v1/responses",
        r#"{"input":[{"role":"user","content":"hi"}],"max_output_tokens":5}"#,
    );
    assert_eq!(answer["usage"]["total_tokens"], 1 + 4 + 3 + 5);
}

#[test]
fn anthropic_messages_open_stream_and_stop() {
    let body = r#"{"model":"simulated","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let (raw, _) = ask("/v1/messages", body);
    let mut expected = vec!["message_start", "content_block_start", "ping"];
    expected.extend(["content_block_delta"; 5]);
    expected.extend(["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(named(&raw), expected);
    let events = raw.events();
    assert_eq!(events[9]["usage"]["output_tokens"], 5);
    assert_eq!(events[9]["delta"]["stop_reason"], "max_tokens");
    assert_eq!(
        whole("/v1/messages", &body.replace("true", "false"))["content"][0]["type"],
        "text"
    );
}

#[test]
fn tgi_gives_the_whole_text_with_its_last_token() {
    let body = r#"{"inputs":"hello there","parameters":{"max_new_tokens":5}}"#;
    let (raw, _) = ask("/generate_stream", body);
    let events = raw.events();
    assert_eq!(events.len(), 5);
    let text: String = events
        .iter()
        .map(|e| e["token"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events[4]["generated_text"], text);
    assert_eq!(
        (
            &events[3]["details"],
            events[4]["details"]["generated_tokens"].as_u64()
        ),
        (&Value::Null, Some(5))
    );
    assert_eq!(whole("/generate", body)["details"]["generated_tokens"], 5);
}

#[test]
fn sglang_repeats_all_text_in_every_event() {
    let body = r#"{"text":"hello there","sampling_params":{"max_new_tokens":5},"stream":true}"#;
    let (raw, _) = ask("/generate", body);
    let events = raw.events();
    assert_eq!(events.len(), 5);
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["meta_info"]["completion_tokens"], at + 1);
        assert_eq!(event["output_ids"].as_array().unwrap().len(), at + 1);
    }
    assert_eq!(events[4]["meta_info"]["finish_reason"]["type"], "length");
    assert!(raw.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(
        whole("/generate", &body.replace("true", "false"))["meta_info"]["completion_tokens"],
        5
    );
}

#[test]
fn llama_cpp_tells_its_own_times_which_are_the_ledgers() {
    let (raw, entry) = ask(
        "/completion",
        r#"{"prompt":"hello there","n_predict":5,"stream":true}"#,
    );
    let events = raw.events();
    assert_eq!(events.len(), 6);
    let timings = &events[5]["timings"];
    assert_eq!(
        (timings["predicted_n"].as_u64(), events[5]["stop"].as_bool()),
        (Some(5), Some(true))
    );
    let decode = (entry.due_ns[4] - entry.due_ns[0]) as f64 / 1e6;
    assert!((timings["predicted_ms"].as_f64().unwrap() - decode).abs() < 1e-6);
    assert!(!raw.text().contains("[DONE]"));
    assert_eq!(
        whole("/completion", r#"{"prompt":[1,2,3],"n_predict":5}"#)["tokens_evaluated"],
        3
    );
}

#[test]
fn ollama_writes_a_line_for_each_token_and_counts_in_the_last() {
    for (path, input) in [
        ("/api/generate", r#""prompt":"hi""#),
        (
            "/api/chat",
            r#""messages":[{"role":"user","content":"hi"}]"#,
        ),
    ] {
        let (raw, _) = ask(
            path,
            &format!(r#"{{"model":"simulated",{input},"options":{{"num_predict":5}}}}"#),
        );
        assert!(raw.head.contains("application/x-ndjson"));
        let lines: Vec<Value> = raw
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (
                lines.len(),
                lines[5]["done"].as_bool(),
                lines[5]["eval_count"].as_u64()
            ),
            (6, Some(true), Some(5))
        );
        assert!(lines[0]["created_at"].as_str().unwrap().starts_with("20"));
    }
}

#[test]
fn triton_gives_text_alone() {
    let (raw, _) = ask(
        "/v2/models/simulated/generate_stream",
        r#"{"text_input":"hi","parameters":{"max_tokens":5}}"#,
    );
    assert!(
        raw.events()
            .iter()
            .all(|event| event["text_output"].is_string())
    );
    assert_eq!(raw.events().len(), 5);
    assert!(
        whole(
            "/v2/models/simulated/generate",
            r#"{"text_input":"hi","max_tokens":5}"#
        )["text_output"]
            .is_string()
    );
}

#[test]
fn embeddings_have_one_vector_of_length_one_for_each_input() {
    let server = Server::start(fast()).unwrap();
    let raw = post(&server, "/v1/embeddings", "", r#"{"input":["a b","c"]}"#);
    let answer: Value = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    for data in answer["data"].as_array().unwrap() {
        let length: f64 = data["embedding"]
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_f64().unwrap().powi(2))
            .sum();
        assert!((length - 1.0).abs() < 1e-9);
    }
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
}
