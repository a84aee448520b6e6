use super::*;
use std::collections::HashSet;

#[test]
fn every_use_case_has_two_dozen_prompts_of_its_own() {
    let mut all = HashSet::new();
    for case in &USE_CASES {
        let prompts: Vec<&str> = case.prompts().collect();
        assert!(prompts.len() >= 24, "{}: {}", case.name, prompts.len());
        assert!(prompts.iter().all(|p| all.insert(*p) && p.len() > 10));
    }
    let weights: f64 = USE_CASES.iter().map(|case| case.weight).sum();
    assert!((weights - 1.0).abs() < 1e-12);
}

#[test]
fn the_latency_study_has_prompts_of_5_19_and_106_words() {
    for (name, words) in [("short", 5), ("medium", 19), ("long", 106)] {
        let prompts = study(name);
        assert!(prompts.len() >= 2);
        assert!(
            prompts
                .iter()
                .all(|p| p.split_whitespace().count() == words),
            "{name}"
        );
    }
    assert_eq!(study("gpt2").len(), 3);
    assert_eq!(study("gpt2").first(), Some(&"Hello, how are you?"));
}
