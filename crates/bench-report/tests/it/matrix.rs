//! What the settings of a server came to.

use bench_insight::ServerMatrix;
use bench_report::matrix;
use serde_json::json;

fn two_settings() -> ServerMatrix {
    let doubt =
        |message: &str| json!({"code": "few_samples", "verdict": "doubtful", "message": message});
    let worse = json!({"relative": -0.2, "verdict": "worse", "interval": {"low": -0.25, "high": -0.15, "confidence": 0.95}});
    let value = json!({
        "figure": "output tokens/s", "unit": "tokens_per_s", "direction": "higher", "alpha": 0.05, "best": 0,
        "settings": [
            {"values": {"slots": "8"}, "runs": 2, "value": 100.0, "trust": "doubtful", "reasons": [doubt("of six")]},
            {"values": {"slots": "1"}, "runs": 2, "trust": "trusted", "why": "the budget was spent"},
            {"values": {"slots": "2"}, "runs": 2, "value": 80.0, "trust": "doubtful", "reasons": [doubt("of four")], "against_best": worse},
        ],
        "effects": [{"parameter": "slots", "from": "8", "to": "2", "pairs": 2, "change": worse}],
    });
    serde_json::from_value(value).unwrap()
}

/// Each value stands below its heading.
#[test]
fn tables_of_settings_and_effects_have_the_verdict_before_its_interval() {
    let shown = matrix::markdown(&two_settings());
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let verdicts: Vec<&str> = rows
        .iter()
        .zip(rows.iter().skip(2))
        .filter_map(|(head, row)| Some(row[head.iter().position(|h| *h == "verdict")?]))
        .collect();
    let worse = rows.iter().filter(|row| row.contains(&"worse")).count();
    assert_eq!((verdicts.len(), worse), (2, 2), "{shown}");
    let effect = rows
        .iter()
        .position(|row| row.contains(&"parameter"))
        .unwrap();
    let at = rows[effect]
        .iter()
        .position(|head| *head == "verdict")
        .unwrap();
    assert_eq!(rows[effect + 2][at], "worse", "{shown}");
}

#[test]
fn a_setting_without_a_figure_says_why() {
    let shown = matrix::terminal(&two_settings());
    assert!(
        shown.contains("slots=1 has no result: the budget was spent"),
        "{shown}"
    );
}

#[test]
fn marks_have_their_reasons_below_each_kind_once() {
    let shown = matrix::terminal(&two_settings());
    let told: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("few_samples"))
        .collect();
    assert_eq!(told.len(), 1, "{shown}");
    assert!(told[0].contains("doubtful, 2 of 3 settings"), "{shown}");
}
