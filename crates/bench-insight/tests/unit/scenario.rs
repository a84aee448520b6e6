use super::*;

fn scenario(slo: &str) -> ScenarioSet {
    ScenarioSet {
        scenarios: vec![Scenario {
            name: "chatbot".to_owned(),
            description: String::new(),
            use_cases: vec!["short-qa".to_owned()],
            slos: vec![slo.to_owned()],
        }],
    }
}

#[test]
fn an_objective_is_read_with_its_quantile_and_unit() {
    let slos = scenario("p90:e2e=2s").slos().unwrap();
    assert_eq!(slos.len(), 1);
    assert!((slos[0].q - 0.9).abs() < 1e-12 && (slos[0].limit - 2e9).abs() < 1e-3);
    assert_eq!(slos[0].use_case.as_deref(), Some("short-qa"));
    assert!((scenario("ttft=200ms").slos().unwrap()[0].q - 0.95).abs() < 1e-12);
}

#[test]
fn a_wrong_objective_names_the_scenario_the_text_and_the_way_out() {
    for (slo, hint) in [
        ("e2e", "p95:e2e=1.5s"),
        ("e2e=2", "write us, ms or s"),
        ("px:e2e=2s", "p99.9"),
        ("speed=2s", "known are"),
    ] {
        let problem = scenario(slo).check().unwrap_err().to_string();
        assert!(
            problem.contains("chatbot") && problem.contains(hint),
            "{problem}"
        );
    }
}
