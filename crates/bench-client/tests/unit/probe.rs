//! What servers tell, each in its own words.

use super::*;

#[test]
fn token_counts_are_read_in_the_words_of_each_server() {
    let vllm = json!({"count": 3, "max_model_len": 2048, "tokens": [1, 2, 3]});
    let llama = json!({"tokens": [5, 6]});
    let tgi = json!([{"id": 9, "text": "a", "start": 0, "stop": 1}]);
    let counted = |body| tokens_in(&body).map(|found| (found.count, found.ids));
    assert_eq!(counted(vllm), Some((3, Some(vec![1, 2, 3]))));
    assert_eq!(counted(llama), Some((2, Some(vec![5, 6]))));
    assert_eq!(counted(tgi), Some((1, Some(vec![9]))));
    assert_eq!(counted(json!({"error": "no"})), None);
}

#[test]
fn a_server_is_known_by_its_header_or_the_owner_of_its_models() {
    assert_eq!(
        kind_of(Some("vllm"), Some("uvicorn")).as_deref(),
        Some("vllm")
    );
    assert_eq!(
        kind_of(Some("me"), Some("llama.cpp")).as_deref(),
        Some("llama.cpp")
    );
    assert_eq!(
        kind_of(Some("llamacpp"), None).as_deref(),
        Some("llama.cpp")
    );
    assert_eq!(kind_of(Some("library"), None), None);
    assert_eq!(kind_of(None, Some("nginx")), None);
}
