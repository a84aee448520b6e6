use bench_schema::{Outcome, Usage};

use super::*;

#[test]
fn what_is_merged_into_the_body_is_what_is_asked_for() {
    let asked = |more: &str| {
        let extra_body: Option<Map<String, Value>> = serde_json::from_str(more).ok();
        asked_tokens(&GenerationRequest {
            prompt: Prompt::Text("one".into()),
            max_tokens: Some(4),
            min_tokens: None,
            ignore_eos: true,
            sampling: bench_schema::Sampling::default(),
            stream: true,
            extra_body: extra_body.map(Arc::new),
        })
    };
    assert_eq!(asked(""), Some(4));
    assert_eq!(asked(r#"{"seed": 7}"#), Some(4));
    assert_eq!(asked(r#"{"max_tokens": 2}"#), Some(2));
    assert_eq!(asked(r#"{"options": {"num_predict": 9}}"#), Some(9));
}

#[test]
fn a_server_is_not_believed_beyond_what_was_asked_for_and_what_it_sent() {
    let told = |tokens, asked| {
        let mut wire = Exchange::nothing(Outcome::Completed);
        wire.usage = Some(Usage {
            completion_tokens: Some(tokens),
            ..Usage::default()
        });
        output_tokens(&wire, asked).0
    };
    assert_eq!(told(1_000_000_000_000_000, Some(8)), Some(8));
    assert_eq!(told(7, Some(8)), Some(7));
    assert_eq!(told(16, None), Some(16));
}
