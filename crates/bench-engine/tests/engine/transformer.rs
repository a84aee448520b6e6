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

#[test]
fn a_model_folder_is_served_with_its_own_tokenizer() {
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llama");
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture.join(file), folder.path().join(file)).unwrap();
    }
    let words: serde_json::Map<String, serde_json::Value> = (0..97)
        .map(|id| (format!("w{id}"), serde_json::json!(id)))
        .collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let mut config = EngineConfig::profile("tiny-f32").unwrap();
    if let bench_engine::config::EngineKind::Transformer(transformer) = &mut config.engine {
        transformer.model_dir = Some(folder.path().to_owned());
    }
    let server = Server::start(config).unwrap();
    let expected: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture.join("expected.json")).unwrap()).unwrap();
    let logits = expected["logits_after_each_token"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_array()
        .unwrap();
    let likeliest = (0..97)
        .max_by(|a, b| {
            logits[*a]
                .as_f64()
                .unwrap()
                .total_cmp(&logits[*b].as_f64().unwrap())
        })
        .unwrap();
    let prompt: Vec<String> = expected["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| format!("w{t}"))
        .collect();
    let body = serde_json::json!({"prompt": prompt.join(" "), "max_tokens": 1, "temperature": 0, "ignore_eos": true});
    let raw = post(&server, "/v1/completions", "", &body.to_string());
    let answer: serde_json::Value = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(
        answer["choices"][0]["text"],
        format!("w{likeliest}"),
        "{answer}"
    );
    assert_eq!(answer["usage"]["prompt_tokens"], 16);
    // The model has 24 positions: a longer answer is refused, not computed wrongly.
    let long = serde_json::json!({"prompt": prompt.join(" "), "max_tokens": 9});
    assert_eq!(
        post(&server, "/v1/completions", "", &long.to_string()).status(),
        400
    );
}
