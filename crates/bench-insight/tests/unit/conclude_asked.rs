use serde_json::json;

use super::*;

#[test]
fn typed_values_and_the_texts_of_schema_1_ask_the_same() {
    let typed = json!({
        "slo": ["e2e=200ms"], "target": ["failed<=1000"], "price_per_hour": 2.5, "ignore_eos": true,
        "scenario_set": {"scenario": [{"name": "chat", "slos": ["p90:ttft=1s"]}]},
    });
    let texts = json!({
        "slo": "e2e=200ms", "target": "failed<=1000", "price_per_hour": "2.5", "ignore_eos": "true", "scenarios": "gone.toml",
    });
    let (typed, texts) = (Asked::of(&typed).unwrap(), Asked::of(&texts).unwrap());
    assert_eq!(typed.all_slos().len(), 2);
    let alike = Asked {
        scenarios: ScenarioSet::default(),
        ..typed
    };
    assert_eq!(alike, texts);
    assert!(Asked::of(&json!({"slo": "fast"})).is_err());
}
