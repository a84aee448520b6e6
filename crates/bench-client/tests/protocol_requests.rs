//! What each protocol asks for, against a fixture each (`fixtures/protocols/requests/`), and what it says it cannot ask for.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by failing"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench_client::Protocol;
use bench_client::protocol::{
    Delta, PROTOCOLS, ProtocolError, ProtocolOptions, Template, UsageRequest, protocol_by_name,
    protocol_with_options,
};
use bench_schema::{GenerationRequest, Message, Prompt, Role, Sampling};
use serde::Deserialize;
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/protocols")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    protocol: String,
    plain: Asked,
    full: Asked,
    token_ids: TokenIds,
    extra_headers: Vec<(String, String)>,
    auth_header: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    path: String,
    body: Value,
    unsupported: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenIds {
    body_has: Option<Value>,
    unsupported: Vec<String>,
}

fn fixture(protocol: &str) -> Fixture {
    let path = fixtures().join("requests").join(format!("{protocol}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; each protocol has one", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn plain(prompt: Prompt) -> GenerationRequest {
    GenerationRequest {
        prompt,
        max_tokens: Some(8),
        min_tokens: None,
        ignore_eos: false,
        sampling: Sampling::default(),
        stream: true,
        extra_body: None,
    }
}

fn object(value: Value) -> Arc<serde_json::Map<String, Value>> {
    match value {
        Value::Object(members) => Arc::new(members),
        other => panic!("{other} is no object"),
    }
}

fn full() -> GenerationRequest {
    let turn = |role, content: &str| Message {
        role,
        content: content.into(),
    };
    GenerationRequest {
        prompt: Prompt::Messages(vec![
            turn(Role::System, "Be brief."),
            turn(Role::User, "Say \"hi\"."),
        ]),
        max_tokens: Some(8),
        min_tokens: Some(4),
        ignore_eos: true,
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(40),
            min_p: Some(0.05),
            frequency_penalty: Some(0.1),
            presence_penalty: Some(0.2),
            repetition_penalty: Some(1.1),
            seed: Some(7),
            stop: vec!["END".to_owned()],
        },
        stream: false,
        extra_body: Some(object(json!({"x": {"y": [1]}}))),
    }
}

fn body(protocol: &dyn Protocol, request: &GenerationRequest) -> Value {
    let bytes = protocol.body(request, "m");
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
}

#[test]
fn each_protocol_asks_as_its_fixture_says() {
    for name in PROTOCOLS {
        let (protocol, fixture) = (protocol_by_name(name).unwrap(), fixture(name));
        assert_eq!((protocol.name(), fixture.protocol.as_str()), (name, name));
        let requests = [plain(Prompt::Text("Say hi".into())), full()];
        for (request, asked) in requests.iter().zip([&fixture.plain, &fixture.full]) {
            assert_eq!(body(&*protocol, request), asked.body, "{name}");
            assert_eq!(protocol.path("m", request.stream), asked.path, "{name}");
            assert_eq!(protocol.unsupported(request), asked.unsupported, "{name}");
        }
        let ids = plain(Prompt::TokenIds(vec![1, 2, 3]));
        let known = fixture
            .plain
            .unsupported
            .iter()
            .chain(&fixture.token_ids.unsupported);
        assert!(protocol.unsupported(&ids).iter().eq(known), "{name}");
        for (key, value) in fixture
            .token_ids
            .body_has
            .iter()
            .flat_map(|v| v.as_object().unwrap())
        {
            assert_eq!(body(&*protocol, &ids).get(key), Some(value), "{name}");
        }
        let headers = protocol
            .extra_headers()
            .iter()
            .map(|&(k, v)| (k.to_owned(), v.to_owned()));
        assert!(headers.eq(fixture.extra_headers), "{name}");
        let (header, value) = protocol.auth_header("key");
        assert_eq!(header, fixture.auth_header, "{name}");
        assert!(value.ends_with("key"), "{name}");
    }
}

#[test]
fn what_a_request_leaves_open_is_not_said() {
    for name in PROTOCOLS {
        let request = GenerationRequest {
            max_tokens: None,
            ..plain(Prompt::Text("a".into()))
        };
        let text = body(&*protocol_by_name(name).unwrap(), &request).to_string();
        assert!(!text.contains("null"), "{name}: {text}");
        // Anthropic's API insists on a limit.
        assert!(
            !text.contains("max_") || name == "anthropic-messages",
            "{name}: {text}"
        );
    }
}

#[test]
fn extra_keys_win_over_everything_and_are_merged_into_objects() {
    let mut request = plain(Prompt::Text("a".into()));
    request.extra_body = Some(object(json!({
        "max_tokens": 99, "stream_options": {"include_usage": false, "more": 1}, "n": 2,
        "options": {"num_ctx": 4096, "num_predict": 1},
    })));
    let chat = body(&*protocol_by_name("openai-chat").unwrap(), &request);
    assert_eq!(chat["max_tokens"], 99);
    assert_eq!(
        chat["stream_options"],
        json!({"include_usage": false, "more": 1})
    );
    assert_eq!(chat["n"], 2);
    let ollama = body(&*protocol_by_name("ollama-chat").unwrap(), &request);
    assert_eq!(
        ollama["options"],
        json!({"num_ctx": 4096, "num_predict": 1})
    );
    request.extra_body = Some(object(json!({"stream_options": null})));
    let chat = body(&*protocol_by_name("openai-chat").unwrap(), &request);
    assert_eq!(chat["stream_options"], Value::Null);
}

#[test]
fn usage_and_the_name_of_the_limit_can_be_chosen() {
    let asked = |usage, max_completion_tokens| {
        let options = ProtocolOptions {
            usage,
            max_completion_tokens,
        };
        let protocol = protocol_with_options("openai-chat", &options).unwrap();
        body(&*protocol, &plain(Prompt::Text("a".into())))
    };
    let continuous = asked(UsageRequest::Continuous, true);
    let expected = json!({"include_usage": true, "continuous_usage_stats": true});
    assert_eq!(continuous["stream_options"], expected);
    assert_eq!(continuous["max_completion_tokens"], 8);
    assert_eq!(continuous.get("max_tokens"), None);
    assert_eq!(asked(UsageRequest::None, false).get("stream_options"), None);
}

#[test]
fn greedy_is_asked_of_tgi_by_not_sampling() {
    let mut request = plain(Prompt::Text("a".into()));
    request.sampling.temperature = Some(0.0);
    let tgi = body(&*protocol_by_name("tgi-generate").unwrap(), &request);
    assert_eq!(
        tgi["parameters"],
        json!({"details": true, "max_new_tokens": 8})
    );
}

#[test]
fn an_unknown_protocol_is_refused_with_the_ones_there_are() {
    let said = protocol_by_name("openai").unwrap_err().to_string();
    assert!(said.contains("`openai`"), "{said}");
    for name in PROTOCOLS {
        assert!(said.contains(name), "{said}");
    }
    let bare = protocol_by_name("template").unwrap_err();
    assert!(matches!(bare, ProtocolError::TemplateWithoutFile));
    let missing = protocol_by_name("template:/no/such/file").unwrap_err();
    assert!(missing.to_string().contains("/no/such/file"));
}

#[test]
fn a_template_fills_its_body_and_drops_what_is_left_open() {
    let path = fixtures().join("template-example.json");
    let template = protocol_by_name(&format!("template:{}", path.display())).unwrap();
    let mut request = plain(Prompt::Text("a {{model}} \"b\"".into()));
    request.sampling.seed = Some(7);
    request.extra_body = Some(object(json!({"n": 2})));
    let expected = json!({
        "model": "m", "prompt": "a {{model}} \"b\"", "max_tokens": 8, "seed": 7, "stream": true,
        "user": "bench for m", "n": 2,
    });
    assert_eq!(body(&*template, &request), expected);
    assert_eq!(template.path("m", true), "/v1/completions");
    assert_eq!(template.unsupported(&request), [""; 0]);
    let lacking = [
        "min_tokens",
        "ignore_eos",
        "top_p",
        "top_k",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "stop",
        "conversations",
    ];
    assert_eq!(template.unsupported(&full()), lacking);
}

#[test]
fn a_template_that_cannot_work_is_refused_when_it_is_read() {
    let refused = |edit: &dyn Fn(&mut Value)| {
        let text = std::fs::read_to_string(fixtures().join("template-example.json")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        edit(&mut config);
        match serde_json::from_value(config) {
            Ok(config) => Template::new(config).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    let pointer = refused(&|config| config["text"] = json!("choices.0.text"));
    assert!(
        pointer.contains("`choices.0.text`") && pointer.contains("`text`"),
        "{pointer}"
    );
    let placeholder = refused(&|config| config["body"]["x"] = json!(["{{promt}}"]));
    assert!(
        placeholder.contains("{{promt}}") && placeholder.contains("prompt,"),
        "{placeholder}"
    );
    assert!(refused(&|config| config["txt"] = json!("/a")).contains("txt"));
}

#[test]
fn timings_in_headers_are_read_where_a_server_sends_them() {
    let protocol = protocol_by_name("tgi-generate").unwrap();
    let mut delta = Delta::default();
    for (name, value) in [
        ("x-queue-time", "3"),
        ("x-total-time", "40"),
        ("x-request-id", "abc"),
    ] {
        protocol.header(name, value, &mut delta);
    }
    assert_eq!(delta.server().queue.unwrap().get(), 3_000_000);
    assert_eq!(delta.server().total.unwrap().get(), 40_000_000);
    let mut delta = Delta::default();
    protocol_by_name("openai-chat")
        .unwrap()
        .header("openai-processing-ms", "12", &mut delta);
    assert_eq!(delta.server().total.unwrap().get(), 12_000_000);
}
