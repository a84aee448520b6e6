//! Requests hold no secret that is shown, and are made on any thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

fn generation() -> GenerationRequest {
    GenerationRequest {
        prompt: bench_schema::Prompt::Text("what is asked".into()),
        max_tokens: Some(1),
        min_tokens: None,
        ignore_eos: false,
        sampling: bench_schema::Sampling::default(),
        stream: true,
        extra_body: None,
    }
}

#[test]
fn what_is_asked_for_bounds_the_events_of_the_answer() {
    let protocol = crate::protocol_by_name("openai-chat").unwrap();
    let encoder = RequestEncoder::new(&Target::new("http://127.0.0.1:1", protocol, "m").unwrap());
    let most = |asked: GenerationRequest| {
        let prepared = encoder.as_ref().unwrap().prepare(&asked, "id").unwrap();
        prepared.max_events()
    };
    assert_eq!(most(generation()), 65_536);
    let merged = serde_json::json!({ "max_completion_tokens": 20_000 });
    let merged = GenerationRequest {
        extra_body: Some(Arc::new(merged.as_object().unwrap().clone())),
        ..generation()
    };
    assert_eq!(most(merged), 320_000);
}

#[test]
fn a_panic_that_shows_what_is_asked_of_whom_shows_no_key() {
    let protocol = crate::protocol_by_name("openai-chat").unwrap();
    let mut target = Target::new("http://127.0.0.1:1", protocol, "m").unwrap();
    target.api_key = Some(bench_schema::Secret::new("sk-a-key"));
    let name = HeaderName::from_static("x-token");
    target.headers = vec![(name, bench_schema::Secret::new("another-key"))];
    target.proxy = Some(Proxy::parse("http://user:pass-key@127.0.0.1:2").unwrap());
    let encoder = RequestEncoder::new(&target).unwrap();
    let prepared = encoder.prepare(&generation(), "id").unwrap();
    let endpoint = target.endpoints.first().unwrap();
    let route = Route::new(endpoint, "/v1/x", target.proxy.as_ref()).unwrap();
    let authorization = format!("{:?}", route.proxy_authorization);
    assert!(
        authorization.contains("Sensitive"),
        "it is there: {authorization}"
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        panic!("{target:?} {encoder:?} {prepared:?} {route:?}")
    }));
    let message = panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("127.0.0.1"), "{message}");
    for secret in ["-key", "dXNlcjpwYXNzLWtleQ"] {
        assert!(!message.contains(secret), "{message}");
    }
}

#[test]
fn requests_are_prepared_on_any_thread_and_an_id_that_no_header_can_hold_is_refused() {
    let protocol = crate::protocol_by_name("openai-chat").unwrap();
    let target = Target::new("http://127.0.0.1:1", protocol, "m").unwrap();
    let encoder = RequestEncoder::new(&target).unwrap();
    let prepare = |id: &'static str| {
        let encoder = encoder.clone();
        std::thread::spawn(move || encoder.prepare(&generation(), id))
            .join()
            .unwrap()
    };
    let prepared = prepare("c-1").unwrap();
    let text = String::from_utf8_lossy(prepared.body());
    assert!(
        text.contains("what is asked") && prepared.is_streaming(),
        "{text}"
    );
    let refused = prepare("a\nb").unwrap_err().to_string();
    assert!(refused.contains("x-request-id"), "{refused}");
}
